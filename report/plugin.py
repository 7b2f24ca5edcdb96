"""The pytest side of the report: collects the records of all workers and writes journal, JSON and page.

Only the process that the person called writes. Before the first check runs, the files already say that everything is
missing; so whatever ends the run, what lies in the report folder is never greener than what was seen.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from platform import platform, python_version
from typing import Any

import pytest

from report import journal, page, sentence, verdicts
from report.pytest_html import DOCUMENT

CARRIED = ("subject", "dtype", "figures", "curves", "statistics")
Diagnose = Callable[[], dict[str, Any] | None]
SNAPSHOT_EVERY = 10.0
"""Seconds between two rewritings of the unfinished report."""


class ClaimReport:
    """The records of one run.

    Args:
        config: pytest's, of the process that was called.
        catalogue: what claims there are (`claims`, `chapters`, `figures`, `not_checkable`) and which test verifies
            which (`tests`, `claim_of`).
        diagnose: says, where a verdict is unexpected, what explains it, as `diagnosis` in `schema.json`.
    """

    def __init__(self, config: pytest.Config, catalogue: Any, diagnose: Diagnose | None = None) -> None:
        self.config, self.catalogue, self.diagnose = config, catalogue, diagnose
        self.diagnosis: dict[str, Any] | None = None
        self.records: dict[str, dict[str, Any]] = {}
        self.crashed: set[str] = set()
        self.began_at: dict[str, float] = {}
        self.uncollected: set[str] = set()
        self.broken = False
        self.page_follows = False
        self.ended = "running"
        self.began, self.started = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
        self.snapshot = 0.0
        self.journal: journal.Journal | None = None
        self.document: dict[str, Any] | None = None
        cell = config.getoption("cell")
        self.cell = cell.rpartition(":")[2] if cell else None
        self.folder = Path(config.getoption("report_dir"))
        self.stem = journal.stem(config.getoption("device"), self.cell)
        self.fingerprint = _fingerprint(config)
        if config.option.htmlpath is None:
            config.option.htmlpath = str(self.path("html"))
            config.option.self_contained_html = True

    def path(self, suffix: str) -> Path:
        """The report's file of a kind: html, json or jsonl."""
        return self.folder / f"{self.stem}.{suffix}"

    # What is to come

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # none in the process that leaves the checks to workers
            self.expect(item.nodeid for item in session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Whatever a module that cannot be collected claims is missing; which of it was asked for cannot be known."""
        if report.failed:
            self.uncollected |= {c for test, c in self.catalogue.tests.items() if test.startswith(report.nodeid)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        if not self.records:
            self.expect(ids)

    def expect(self, tests: Iterable[str]) -> None:
        """Note every check that was collected as missing, and put that on disk."""
        for test in tests:
            if claim := self.catalogue.claim_of(test):
                subject, dtype = _subject_of(test)
                self.records[test] = verdicts.record(test, claim, subject=subject, dtype=dtype)
        if self.records:
            self.open()

    def open(self) -> journal.Journal:
        """Begin the journal, and put on disk that everything is missing."""
        self.journal = journal.Journal(self.path("jsonl"))
        self.journal.append(
            {"event": "collected", "started": self.started, "command": _command(), "checks": list(self.records)}
        )
        self.put_on_disk()
        return self.journal

    # What arrives

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        self.crashed.add(crashitem)
        report.when = "teardown"  # pytest-html shows a test only when it has seen its teardown
        report.evidence = {  # type: ignore[attr-defined]
            "claim": self.catalogue.claim_of(crashitem),
            "message": self._how_it_ended(crashitem),
        }

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.began_at[nodeid] = time.monotonic()

    def _how_it_ended(self, test: str) -> str | None:
        """What somebody's own cell did to the process of a check."""
        if self.cell is None:
            return None
        took = time.monotonic() - self.began_at.get(test, time.monotonic())
        hung = took > self.config.getoption("cell_timeout")
        return f"{self.cell} hung for {took:.0f} s and was ended" if hung else f"{self.cell} ended its process"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known = self.records.get(report.nodeid)
        if known is None or (report.when != "call" and report.passed):
            return
        evidence = getattr(report, "evidence", {})
        known["outcome"] = "crashed" if report.nodeid in self.crashed else _outcome(report, evidence)
        known["seconds"] = round(known["seconds"] + report.duration, 3)
        known["message"] = _message(report, evidence)
        known |= {key: evidence[key] for key in CARRIED if evidence.get(key)}
        assert self.journal is not None
        self.journal.append({"event": "check", **known})
        if time.monotonic() - self.snapshot > SNAPSHOT_EVERY:
            self.put_on_disk()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.fingerprint |= getattr(node, "workeroutput", {}).get("fingerprint", {})

    # The end

    def pytest_keyboard_interrupt(self) -> None:
        """Say so at once: xdist now waits for its workers, and whoever cancels a job may not wait as long."""
        if self.records:
            self.ended = "interrupted"
            self.put_on_disk(pytest.ExitCode.INTERRUPTED)

    def pytest_internalerror(self) -> None:
        """Note that one happened, be it in a worker, which xdist does not show in its exit status."""
        self.broken = True

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.USAGE_ERROR or not (self.records or self.uncollected):
            _withdraw(self.config, session, exitstatus)
            return
        log = self.journal or self.open()
        status = int(pytest.ExitCode.INTERNAL_ERROR if self.broken else exitstatus)
        words = {0: "finished", 1: "finished", 2: "interrupted", 3: "internal error"}
        self.ended = words.get(status, "stopped early")
        if status in (0, 1) and any(r["outcome"] == "missing" for r in self.records.values()):
            self.ended = "stopped early"
        # pytest-html is about to write the whole page; until it has, the one on disk says that the run is not finished.
        self.page_follows = self.config.option.htmlpath == str(self.path("html"))
        self.document = self.put_on_disk(status)
        if self.diagnose and self.ended != "interrupted" and self.document["totals"]["unexpected"]:
            self.page_follows = False
            self.put_on_disk(status)
            with suppress(KeyboardInterrupt):  # the report is on disk; whoever waits no longer does without
                self.diagnosis = self.diagnose()
        if self.diagnosis:
            self.document = self.put_on_disk(status)
        self.config.stash[DOCUMENT] = self.document
        session.exitstatus = self.document["exit_status"]
        log.append({"event": "ended", "ended": self.ended, "exit_status": self.document["exit_status"]})
        log.close()

    def put_on_disk(self, status: int | None = None) -> dict[str, Any]:
        """Write JSON and page as things stand; while the run goes on, the page comes without figures."""
        self.snapshot = time.monotonic()
        document = verdicts.document(
            self.catalogue.claims,
            self.records.values(),
            asked={record["claim"] for record in self.records.values()} | self.uncollected | self._broken_off(),
            run={
                "device": self.config.getoption("device"),
                "cell": self.cell,
                "partial": self.is_partial(),
                "ended": self.ended,
                "exit_status": status,
                "started": self.started,
                "seconds": round(time.monotonic() - self.began, 1),
                "command": _command(),
                "fingerprint": self.fingerprint,
                "shard": self.shard(),
                "picked": self.is_partial(whole_claims=True),
            },
            chapters=self.catalogue.chapters,
            figures=self.catalogue.figures,
            not_checkable=self.catalogue.not_checkable,
            diagnosis=self.diagnosis,
        )
        journal.write(self.path("json"), journal.dumps(document))
        if not self.page_follows:
            journal.write(self.path("html"), page.standalone(document))
        return document

    def shard(self) -> dict[str, Any] | None:
        """Which part of a run that pytest-split has split this is."""
        splits, group = (getattr(self.config.option, name, None) for name in ("splits", "group"))
        return {"splits": splits, "groups": [group]} if splits and group else None

    def is_partial(self, *, whole_claims: bool = False) -> bool:
        """Whether the call asked for less than every claim; or left out more than -m does, which takes claims whole."""
        option, by = self.config.option, ("keyword", "lf", "stepwise", "deselect", "ignore", "ignore_glob", "splits")
        narrowed = any(getattr(option, name, None) for name in (by if whole_claims else (*by, "markexpr")))
        return narrowed or not _covers(self.config, self.config.rootpath / "claims")

    def _broken_off(self) -> set[str]:
        """Claims whose modules could not be collected in a run that asked for all: they are missing, not unasked."""
        return set() if self.is_partial() else set(self.catalogue.claims)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if (document := self.document) is None:
            return
        terminalreporter.section("claims")
        terminalreporter.write_line(page.verdict_sentence(document))
        for line in sentence.diagnosis(document):
            terminalreporter.write_line(line)
        told = {message for message, _ in sentence.failures(document)}
        for claim in [claim for claim in document["claims"] if claim["unexpected"]][:5]:
            terminalreporter.write_line(f"  {claim['id']}: {claim['verdict']}, expected {claim['expected']}")
            if advice := sentence.of_entry(claim):
                terminalreporter.write_line(f"    {advice}")
            miss = next((check for check in claim["checks"] if check["outcome"] not in ("passed", "xfailed")), None)
            if miss and miss["message"] and miss["message"] not in told:
                told.add(miss["message"])
                where = " ".join(part for part in (miss["subject"], miss["dtype"]) if part)
                terminalreporter.write_line(f"    {where or miss['test']}: {miss['message'].splitlines()[0]}")
        for chapter in document["chapters"]:
            of_chapter = [claim for claim in document["claims"] if claim["chapter"] == chapter["id"]]
            if of_chapter:
                as_expected = sum(not claim["unexpected"] for claim in of_chapter)
                absent = sum(claim["verdict"] == "not-applicable" for claim in of_chapter)
                aside = f", {absent} of them not applicable" if absent else ""
                counted = f"{as_expected} of {len(of_chapter)} as expected{aside}"
                terminalreporter.write_line(f"  {chapter['title']}: {counted}")
        terminalreporter.write_line(f"report: {self.path('html')}")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("carousel")
    group.addoption("--report-dir", default="reports", metavar="DIR", help="where reports go (default: reports)")


def begin(config: pytest.Config, catalogue: Any, diagnose: Diagnose | None = None) -> None:
    """Report on this run, if it is one of claims and this is the process that was called."""
    asked = _overlaps(config, config.rootpath / "claims")
    if hasattr(config, "workerinput") or config.option.collectonly or not asked:
        return
    config.pluginmanager.register(ClaimReport(config, catalogue, diagnose), "claim-report")
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(*_: Any) -> None:
    """A runner that cancels a job sends SIGTERM: end as after Ctrl-C, with a report."""
    raise KeyboardInterrupt


def _arguments(config: pytest.Config) -> list[Path]:
    return [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]


def _overlaps(config: pytest.Config, claims: Path) -> bool:
    return any(claims.is_relative_to(path) or path.is_relative_to(claims) for path in _arguments(config))


def _covers(config: pytest.Config, claims: Path) -> bool:
    whole = all("::" not in argument for argument in config.args)
    return whole and any(claims.is_relative_to(path) for path in _arguments(config))


def _withdraw(config: pytest.Config, session: pytest.Session, exitstatus: int) -> None:
    """Nothing was collected: leave earlier reports as they are; a call that matches no claim is a wrong call."""
    for plugin in [p for p in config.pluginmanager.get_plugins() if hasattr(p, "_generate_report")]:
        plugin._generate_report = lambda *_, **__: None  # pytest-html's turn to finish still comes
        config.pluginmanager.unregister(plugin)
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        print("\nERROR: the call matches no claim; see the ids in fixtures/claims.toml", file=sys.stderr)
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


def _outcome(report: pytest.TestReport, evidence: dict[str, Any]) -> str:
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    if report.passed:
        return "xpassed" if hasattr(report, "wasxfail") else "passed"
    if report.when == "call" and evidence.get("judged"):
        # A strict xfail that passes is reported as a failure without an exception.
        return "failed" if evidence.get("message") else "xpassed"
    return "error"


def _message(report: pytest.TestReport, evidence: dict[str, Any]) -> str | None:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    if evidence.get("message"):
        return str(evidence["message"])
    return None if report.passed else str(report.longrepr).strip() or None


def _subject_of(test: str) -> tuple[str | None, str | None]:
    """Subject and number format of a check that has not reported, read off its id."""
    parameters = test.partition("[")[2].rstrip("]")
    for dtype in ("float32", "float64"):
        subject, found, _ = parameters.partition(f"-{dtype}")
        if found:
            return subject, dtype
    return None, None


def _command() -> str:
    return shlex.join(["pytest", *sys.argv[1:]])


def _fingerprint(config: pytest.Config) -> dict[str, Any]:
    """What can be said without importing torch; a worker adds what its torch and its device say."""
    return {
        "python": python_version(),
        **{name: metadata.version(name) for name in ("torch", "numpy", "scipy")},
        "platform": platform(),
        "device_name": None,
        "threads": None,
        "workers": len(config.option.tx) if getattr(config.option, "tx", None) else 0,
        "tf32": None,
        "deterministic": None,
        "commit": _commit(config.rootpath),
    }


def _commit(root: Path) -> str | None:
    """The commit of the checkout, with «+» where it was changed since; None outside of git."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"],
            cwd=root, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()
