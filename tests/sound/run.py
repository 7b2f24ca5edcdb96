"""Run what the suite says of sound cells: its claims under other probes, its parity at other sizes.

What a claim says depends on its probes where it takes the fixtures `draw` or `draws`; the other claims' probes are the
documents' own. So a run with another draw asks those that take one, with the seeds of `seeds.toml` moved.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from fixtures import settings
from fixtures.devices import DTYPES
from fixtures.evidence import ClaimFailed, Evidence
from fixtures.judging import EVIDENCE
from fixtures.plugin import CATALOGUE, SUBJECTS
from fixtures.settings import Draw, Tolerance
from fixtures.subjects import Subject
from reference import oracle

ROOT = Path(__file__).parents[2]
COST = "claims/test_cost.py"
"""The claims about cost name their own subjects."""


@dataclass(frozen=True)
class Alarm:
    """What a claim held against a sound cell."""

    claim: str
    subject: str
    dtype: str
    draw: int
    message: str

    def __str__(self) -> str:
        return f"{self.claim}: {self.subject} {self.dtype}, draw {self.draw}: {self.message}"


@dataclass(frozen=True, order=True)
class Margin:
    """How much of a tolerance an error used up."""

    used: float
    claim: str
    figure: str
    subject: str
    dtype: str
    draw: int

    def __str__(self) -> str:
        where = f"{self.claim}: {self.figure}: {self.subject}, draw {self.draw}"
        return f"{self.used:.3f} of the tolerance in {self.dtype}: {where}"


@dataclass
class Said:
    """What came of a run: its alarms, the rounding errors measured, the number of checks that measured."""

    alarms: list[Alarm] = field(default_factory=list)
    margins: list[Margin] = field(default_factory=list)
    checks: int = 0

    def add(self, other: Said) -> None:
        self.alarms += other.alarms
        self.margins += other.margins
        self.checks += other.checks

    def worst(self, dtype: str) -> Margin:
        """The error that used up the most of its tolerance."""
        return max(m for m in self.margins if m.dtype == dtype)


class RoundingNoted(Evidence):
    """Evidence that remembers which of its figures are errors held against a tolerance."""

    def __init__(self) -> None:
        super().__init__()
        self.rounding: set[str] = set()

    def close(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.rounding.add(name)
        super().close(name, *args, **kwargs)

    def close_gradient(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.rounding.add(name)
        super().close_gradient(name, *args, **kwargs)

    def used(self) -> Iterator[tuple[str, float]]:
        """Every such figure, and how much of its tolerance it used up."""
        for figure in self.figures:
            if figure["name"] in self.rounding and float(figure["allowed"]) > 0:
                yield figure["name"], float(figure["measured"]) / float(figure["allowed"])


class _Asked:
    """A plugin: these subjects in the place of the built-in ones, and the checks that take a draw."""

    def __init__(self, subjects: Sequence[Subject], draw: int) -> None:
        self.subjects, self.draw, self.said = tuple(subjects), draw, Said()
        self._expected: dict[str, str] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[SUBJECTS] = self.subjects

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        claims = config.stash[CATALOGUE]
        if self.draw:
            items[:] = [item for item in items if {"draw", "draws"} & set(item.fixturenames)]  # type: ignore[attr-defined]
        self._expected = {name: claim["expected"] for name, claim in claims.claims.items()}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "call" or report.failed:
            self._note(report, item.stash.get(EVIDENCE, RoundingNoted()))
        return report

    def _note(self, report: pytest.TestReport, evidence: Any) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            return
        told: dict[str, Any] = report.evidence  # type: ignore[attr-defined]
        subject, dtype, claim = str(told["subject"]), str(told["dtype"]), told["claim"]
        self.said.checks += 1
        # The figures of a statement that is refuted are meant to miss; somebody's own cell may keep it all the same.
        if self._expected[claim] == "upheld":
            noted = evidence.used()
            self.said.margins += [Margin(used, claim, name, subject, dtype, self.draw) for name, used in noted]
        if report.failed and "[XPASS(strict)]" not in str(report.longrepr):
            message = (told["message"] or str(report.longrepr)).partition("\n")[0]
            self.said.alarms.append(Alarm(claim, subject, dtype, self.draw, message))


def run(subjects: Iterable[Subject], draw: int = 0, threads: int = 1, tests: Sequence[str] = ("claims",)) -> Said:
    """What the claims say of these subjects, in both number formats, with the draw-th other set of probes.

    Draw 0 is the gate's own, and asks every claim but those that train or name their own subjects; the others ask the
    claims that take a draw. Every process of the gate computes with one thread unless it is told otherwise.
    """
    asked = _Asked(list(subjects), draw)
    handler = signal.getsignal(signal.SIGTERM)
    seeds = settings.table("seeds")
    moved = {
        "probes": seeds["probes"] | {"seed": seeds["probes"]["seed"] + 1000 * draw},
        "draws": seeds["draws"] | {"first": seeds["draws"]["first"] + 1000 * draw},
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(seeds, moved),
        mock.patch("fixtures.judging.Evidence", RoundingNoted),
        mock.patch.dict(os.environ, OMP_NUM_THREADS=str(threads)),
    ):
        options = ["-c", str(ROOT / "pytest.ini"), "-qq", "-n0", "--report-dir", folder, "-m", "not training"]
        options += ["--tb=no", "--no-header", "--no-summary", "--capture=no", f"--ignore={ROOT / COST}"]
        options += ["-p", "no:cacheprovider", "-p", "no:unraisableexception", "--assert=plain"]
        try:
            status = pytest.main([*options, *(str(ROOT / test) for test in tests)], plugins=[asked])
        finally:
            signal.signal(signal.SIGTERM, handler)
    assert status in (0, 1), f"pytest ended with status {status}"
    return asked.said


Shape = tuple[int, int, int, int]
"""Batch, steps, features, units."""

CORNERS: tuple[Shape, ...] = ((1, 1, 1, 1), (200, 2, 200, 200), (1, 3, 200, 200), (200, 5, 1, 1), (2, 20, 1, 200))


def shapes(draw: int, count: int = 1) -> list[Shape]:
    """So many shapes, each size between 1 and 200, the small ones as frequent as the large; sequences of up to 20."""
    random = np.random.default_rng(draw)
    most = (200, 20, 200, 200)
    return [tuple(int(n ** random.uniform()) for n in most) for _ in range(count)]  # type: ignore[misc]


def sweep(subject: Subject, draw: int, shape: Shape, scale: float = 1.0) -> Said:
    """What the suite says of a subject in both number formats at one shape: parity, forward and backward, and by rows.

    The limits are the suite's own; `scale` is that of the inputs.
    """
    said = Said()
    for dtype in DTYPES:
        cell, evidence = replace(subject, dtype=dtype), RoundingNoted()
        parity(cell, Draw(draw), shape, scale, evidence)
        at = "B {} T {} D {} H {}".format(*shape)
        said.checks += 1
        said.margins += [Margin(used, f"sizes: {at}", name, cell.name, dtype, draw) for name, used in evidence.used()]
        try:
            evidence.verify()
        except ClaimFailed as miss:
            said.alarms.append(Alarm(f"sizes: {at}", cell.name, dtype, draw, str(miss)))
    return said


def parity(cell: Subject, draw: Draw, shape: Shape, scale: float, evidence: Evidence) -> None:
    batch, steps, features, units = shape
    tolerance = Tolerance()
    weights, x = draw.weights(cell.kind, features, units), draw.inputs(batch, steps, features, scale)
    h, c = draw.start(cell, batch, units)
    loaded, tape = cell(weights), oracle.forward(weights, x, h, c)
    within, slope = tolerance.state(cell, weights, steps), tolerance.gradient(cell, weights, steps)

    step = loaded.run(x[:, :1], h, c)
    evidence.close("h_1", step.h, tape.h[:, 1], tolerance.state(cell, weights, 1))
    whole = loaded.run(x, h, c)
    evidence.close("h_t", whole.outputs, tape.outputs, within)
    row = loaded.run(x[-1:], h[-1:], None if c is None else c[-1:])
    evidence.close("h_t of the last row alone", row.outputs, whole.outputs[-1:], within)
    rest = loaded.run(x[:, 1:], step.h, step.c) if steps > 1 else step
    evidence.close("h_T after the first step alone", rest.h, whole.h, within)
    if tape.c is not None:
        evidence.close("C_1", step.c, tape.c[:, 1], tolerance.state(cell, weights, 1))  # type: ignore[arg-type]
        evidence.close("C_T", whole.c, tape.c[:, -1], within)  # type: ignore[arg-type]

    pull = {"outputs": draw.upstream(batch, steps, units), "h": draw.upstream(batch, units)}
    if c is not None:
        pull["c"] = draw.upstream(batch, units)
    found, truth = loaded.gradients(x, h, c, pull)[0], oracle.backward(tape, **pull)
    # A sum over B rows errs like √B, and a cell of one unit has too few sums for one of them not to cancel.
    terms = np.sqrt(batch) * max(np.abs(truth.x).max(), np.abs(truth.h).max())
    largest = max(terms, *(np.abs(gradient).max() for gradient in truth.parameters.values()))
    for name in ("x", "h") if c is None else ("x", "h", "c"):
        evidence.close_gradient(f"∂L/∂{name}", getattr(found, name), getattr(truth, name), slope, largest)
    for name, gradient in truth.parameters.items():
        evidence.close_gradient(f"∂L/∂{name}", found.parameters[name], gradient, slope, largest)
