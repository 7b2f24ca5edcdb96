"""Faulty cells as somebody would hand them to `--cell`, each with what is wrong and the claim that must be refuted.

`pytest --cell=tests/faults/backward.py:InputGateByItself` turns the gate red; `python -m tests.faults` prints which
claims each of them breaks.
"""

from __future__ import annotations

from tests.faults import (
    backward,
    backward_at,
    base,
    calls,
    equations,
    magnitudes,
    memory,
    peepholes,
    pulls,
    reported,
    sizes,
    states,
    through_time,
    weights,
)  # fmt: skip

MODULES = (
    weights, equations, states, calls, memory, backward, through_time, pulls, backward_at, sizes, magnitudes, reported,
    peepholes,
)  # fmt: skip

FAULTS = {
    name: cell
    for module in MODULES
    for name, cell in vars(module).items()
    if isinstance(cell, type) and "fault" in vars(cell) and cell.__module__ == module.__name__
}
"""Every faulty cell by its name."""

SOUND: dict[str, type] = {
    cell.__name__: cell
    for cell in (base.RNN, base.LSTM, base.GRU, base.HandRNN, base.HandLSTM, base.HandGRU, peepholes.Peepholes)
}
"""What the faults are planted in."""


def spec(cell: type) -> str:
    """What to hand to `--cell`."""
    return f"{cell.__module__}:{cell.__name__}"
