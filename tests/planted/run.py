"""Run the real claims over one planted fault, in this process, and read the claim report."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fixtures import catalogue
from fixtures.plugin import SUBJECTS
from fixtures.subjects import Subject

ROOT = Path(__file__).parents[2]


@cache
def the_catalogue() -> catalogue.Catalogue:
    """The claims as they are expected on a CPU, and their tests."""
    return catalogue.load(ROOT)


@dataclass(frozen=True)
class Judged:
    """What a run said about a claim."""

    expected: str
    verdict: str
    checks: list[dict[str, Any]]

    @property
    def turned(self) -> bool:
        """Whether a measurement turned the expected verdict into its opposite; an error, a crash or a skip does not."""
        return {self.expected, self.verdict} == {"upheld", "refuted"}

    def __str__(self) -> str:
        said = {f"{check['outcome']}: {(check['message'] or '').partition(chr(10))[0]}" for check in self.checks}
        return f"{self.verdict}, expected {self.expected}; " + "; ".join(sorted(said))


class _Instead:
    """A plugin that puts one subject in the place of the built-in ones."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[SUBJECTS] = (self.subject,)


def verdicts(subject: Subject, claims: Iterable[str]) -> dict[str, Judged]:
    """What each of these claims says when `subject` stands in for the built-in subjects."""
    asked = set(claims)
    tests = [str(ROOT / test) for test, claim in the_catalogue().tests.items() if claim in asked]
    handler = signal.getsignal(signal.SIGTERM)
    with tempfile.TemporaryDirectory() as folder:
        options = ["-c", str(ROOT / "pytest.ini"), "-q", "-n0", "--report-dir", folder]
        # The second is worth a third of a second: it collects garbage, which is the calling pytest's business.
        options += ["-p", "no:cacheprovider", "-p", "no:unraisableexception"]
        try:
            pytest.main([*options, *tests], plugins=[_Instead(subject)])
        finally:
            signal.signal(signal.SIGTERM, handler)
        document = json.loads((Path(folder) / "claims-cpu.json").read_text(encoding="utf-8"))
    return {c["id"]: Judged(c["expected"], c["verdict"], c["checks"]) for c in document["claims"]}
