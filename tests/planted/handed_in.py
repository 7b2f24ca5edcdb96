"""Faulty cells of `tests.faults` that turn claims about how a cell is called."""

from __future__ import annotations

from fixtures import own_cell
from planted.plant import plant_as
from tests.faults import FAULTS, spec

TURNING = """
    RowsBeyond64Lost TruncatedAfterHundred StateClippedAtOne SmallInputsLost GradientsClippedAtTen
    SmallGradientsFlushed WorkspaceOfTheLastCall KernelTransposedOnce EvaluationWithAGraph OtherPathWhereXAsks
    """

for _name in TURNING.split():
    _subject = own_cell.load(spec(FAULTS[_name]))
    plant_as(_name, _subject.kind, _subject.build)
