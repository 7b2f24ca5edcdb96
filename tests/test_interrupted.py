"""A run that is stopped from outside says so, and lists what it did not get to."""

import os
import signal
from collections.abc import Callable
from subprocess import Popen

import pytest
from mini import PATIENCE, WAITS, Project, outcomes, until, verdicts

ORDER = ["test_a_first", "test_waits", "test_z_last"]


def interrupt(process: "Popen[bytes]") -> None:
    """Ctrl-C: the terminal sends SIGINT to every process of the group."""
    os.killpg(process.pid, signal.SIGINT)


def terminate(process: "Popen[bytes]") -> None:
    """A runner cancels its job: SIGTERM to the process that it started."""
    process.terminate()


@pytest.fixture
def waiting(project: Project) -> Project:
    """A project whose second check hangs."""
    project.passing("a_first", "waits", "z_last")
    project.module("waits", WAITS)
    return project


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("stop", [interrupt, terminate])
def test_an_interrupted_run_lists_what_is_missing(
    waiting: Project, stop: "Callable[[Popen[bytes]], None]", workers: str
) -> None:
    with waiting.started("-n", workers) as process:
        until(lambda: any(event.get("outcome") == "passed" for event in waiting.journal()))
        stop(process)
        until(lambda: waiting.report()["ended"] != "running")
        (waiting.path / "go").touch()
        assert process.wait(PATIENCE) == pytest.ExitCode.INTERRUPTED
    report = waiting.report()
    assert (report["ended"], report["exit_status"], report["complete"]) == ("interrupted", 2, False)
    assert verdicts(report) == {"toy.a_first": "upheld", "toy.waits": "missing", "toy.z_last": "missing"}
    assert outcomes(report) == dict(zip(ORDER, ["passed", "missing", "missing"], strict=True))
    assert "interrupted" in waiting.page()
    assert waiting.journal()[-1] == {"event": "ended", "ended": "interrupted", "exit_status": 2}
    said = (waiting.path / "output").read_text(encoding="utf-8")
    assert "The run was interrupted: 2 of 3 claims are missing: toy.waits, toy.z_last." in said


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_killed_run_leaves_a_report_that_says_it_is_still_running(waiting: Project, workers: str) -> None:
    with waiting.started("-n", workers) as process:
        until(lambda: any(event.get("outcome") == "passed" for event in waiting.journal()))
        process.kill()
        process.wait(PATIENCE)
    report = waiting.report()
    assert (report["ended"], report["exit_status"], report["complete"]) == ("running", None, False)
    assert set(verdicts(report)) == {"toy.a_first", "toy.waits", "toy.z_last"}
    assert verdicts(report)["toy.waits"] == verdicts(report)["toy.z_last"] == "missing"
    assert "Not finished" in waiting.page()
    collected, first = waiting.journal()
    assert [test.partition("::")[2] for test in collected["checks"]] == ORDER
    assert (first["test"], first["outcome"]) == ("claims/test_a_first.py::test_a_first", "passed")
