"""Whatever ends a run, its report is never greener than what was seen: crashes, -x, internal errors, broken modules."""

import pytest
from mini import PASSES, Project, outcomes, verdicts

DIES = """
@pytest.mark.claim("toy.dies")
@pytest.mark.parametrize("how", ["exit", "kill"])
def test_dies(how, evidence):
    evidence.equal("x", 1.0, 1.0)
    os._exit(9) if how == "exit" else os.kill(os.getpid(), 9)
"""

FAILS = """
@pytest.mark.claim("toy.fails")
def test_fails(evidence):
    evidence.equal("x", 1.0, 2.0)
"""

EITHER_WAY = pytest.mark.parametrize("workers", ["0", "2"])


def test_a_dead_worker_leaves_a_crashed_check_and_a_missing_claim(project: Project) -> None:
    project.passing("dies", "holds")
    project.module("dies", DIES)
    result = project.run("-n", "2")
    report = project.report()
    assert result.ret == report["exit_status"] == 1
    assert verdicts(report) == {"toy.dies": "missing", "toy.holds": "upheld"}
    assert outcomes(report) == {"test_dies[exit]": "crashed", "test_dies[kill]": "crashed", "test_holds": "passed"}
    assert not report["complete"]
    assert [event["outcome"] for event in project.journal() if event["event"] == "check"].count("crashed") == 2
    assert all(project.page().count(f"test_dies[{how}]") >= 2 for how in ("exit", "kill")), "no row of pytest-html's"
    result.stdout.fnmatch_lines(["1 of 2 claims is missing: toy.dies.", "*toy.dies: missing, expected upheld"])


def test_a_worker_that_dies_too_often_leaves_the_rest_missing(project: Project) -> None:
    project.catalogue(dies={}, holds={})
    project.module("dies", DIES.replace('["exit", "kill"]', "range(8)") + PASSES.format(claim="toy.holds", name="z"))
    result = project.run("-n", "1")
    report = project.report()
    assert result.ret not in (0, 4)
    assert verdicts(report) == {"toy.dies": "missing", "toy.holds": "missing"}
    assert set(outcomes(report).values()) == {"crashed", "missing"}
    assert not report["complete"]


@pytest.mark.parametrize(("workers", "status", "ended"), [("0", 1, "stopped early"), ("2", 2, "interrupted")])
def test_stopping_at_the_first_failure_leaves_the_rest_missing(
    project: Project, workers: str, status: int, ended: str
) -> None:
    project.catalogue(fails={}, rest={})
    project.module("all", FAILS + PASSES.format(claim="toy.rest", name="rest").replace(
        "def test_rest(", '@pytest.mark.parametrize("k", range(40))\ndef test_rest(k, '
    ))  # fmt: skip
    result = project.run("-x", "-n", workers)
    report = project.report()
    assert result.ret == report["exit_status"] == status
    assert (report["ended"], report["complete"]) == (ended, False)
    assert verdicts(report) == {"toy.fails": "refuted", "toy.rest": "missing"}
    assert "missing" in outcomes(report).values()
    assert ended in project.page()


@EITHER_WAY
def test_an_internal_error_is_no_pass(project: Project, workers: str) -> None:
    project.passing("holds", "other")
    hook = """
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    if item.name == "test_other" and call.when == "call":
        raise RuntimeError("a plugin breaks")
"""
    project.write("conftest.py", (project.path / "conftest.py").read_text(encoding="utf-8") + hook)
    result = project.run("-n", workers)
    report = project.report()
    assert result.ret == report["exit_status"] == pytest.ExitCode.INTERNAL_ERROR
    assert (report["ended"], report["complete"]) == ("internal error", False)
    assert verdicts(report)["toy.other"] == "missing"
    assert "internal error" in project.page()


def test_a_check_that_leaves_the_whole_run_leaves_the_rest_missing(project: Project) -> None:
    project.catalogue(leaves={}, rest={})
    leaves = PASSES.format(claim="toy.leaves", name="leaves").replace(
        "evidence.equal", "pytest.exit('enough', returncode=0) #"
    )
    project.module("all", leaves + PASSES.format(claim="toy.rest", name="rest"))
    for workers in ("0", "1"):
        result = project.run("-n", workers)
        report = project.report()
        assert result.ret == report["exit_status"] != 0
        assert set(verdicts(report).values()) == {"missing"}
        assert not report["complete"]


@EITHER_WAY
def test_a_module_that_cannot_be_imported_leaves_its_claims_missing(project: Project, workers: str) -> None:
    project.passing("broken", "holds")
    project.module("broken", "import no_such_module\n" + PASSES.format(claim="toy.broken", name="broken"))
    result = project.run("-n", workers)
    report = project.report()
    assert result.ret == report["exit_status"] != 0
    assert verdicts(report)["toy.broken"] == "missing"
    assert not report["complete"]
    assert "toy.broken" in result.stdout.str().partition("= claims =")[2]


@EITHER_WAY
def test_so_it_is_when_only_that_module_was_asked_for(project: Project, workers: str) -> None:
    project.passing("broken", "holds", "third")
    assert project.run("-n", "0").ret == 0
    project.module("broken", "import no_such_module\n" + PASSES.format(claim="toy.broken", name="broken"))
    result = project.run("-n", workers, "claims/test_broken.py")
    report = project.report()
    assert result.ret == report["exit_status"] != 0, "the report is that of the run before"
    assert verdicts(report) == {"toy.broken": "missing"}
    assert report["not_asked"] == ["toy.holds", "toy.third"]


def test_an_error_after_the_measurement_takes_the_verdict_back(project: Project) -> None:
    project.passing("holds")
    project.module(
        "holds",
        """
@pytest.fixture
def resource():
    yield
    raise OSError("cannot let go")

@pytest.mark.claim("toy.holds")
def test_holds(resource, evidence):
    evidence.equal("x", 1.0, 1.0)
""",
    )
    assert project.run("-n", "0").ret == 1
    [claim] = project.report()["claims"]
    assert (claim["verdict"], claim["because"]) == ("missing", "OSError: cannot let go")
    [check] = claim["checks"]
    assert (check["outcome"], check["figures"][0]["holds"]) == ("error", True)
