"""Planted faults: broken cells as subjects, and the real claims run over them.

Each fault is a class of its own: a cell with one wrong equation, or a net that calls a sound cell wrongly. `PLANTED`
has them as subjects by name, and `verdicts(subject, claims)` says what the claims make of one. (Cells as somebody would
hand them to `--cell` are in `tests.faults`.)
"""

from __future__ import annotations

from planted import (
    backward,
    beginnings,
    bptt,
    calls,
    costs,
    counts,
    gru,
    hand_worked,
    handed_in,
    loading,
    lstm,
    residual,
    rnn,
    routes,
    subtle,
    trained,
    variants,
)
from planted.plant import PATCHES, PLANTED
from planted.run import Judged, verdicts

__all__ = [
    "PATCHES",
    "PLANTED",
    "Judged",
    "backward",
    "beginnings",
    "bptt",
    "calls",
    "costs",
    "counts",
    "gru",
    "hand_worked",
    "handed_in",
    "loading",
    "lstm",
    "residual",
    "rnn",
    "routes",
    "subtle",
    "trained",
    "variants",
    "verdicts",
]
