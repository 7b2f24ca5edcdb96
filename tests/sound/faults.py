"""Numerical faults with a dial: how small may an error be before the suite lets it pass?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from planted.gru import BrokenGRU
from planted.lstm import BrokenLSTM, rounded
from torch import Tensor

from fixtures.subjects import Net, ReferenceNet, Subject, step_through
from reference import cells
from reference.weights import Weights, has_cell_state
from sound.run import Margin, sweep

KINDS: dict[str, type[cells.Cell]] = {"rnn": cells.RNN, "lstm": BrokenLSTM, "gru": BrokenGRU}
SMALL = (3, 5, 4, 7)
"""Batch, steps, features and units of most claims."""


class StateRounded(ReferenceNet):
    """Between the steps the state is kept in fewer digits."""

    keep: Callable[[Tensor], Tensor]

    def __call__(self, x: Any, state: Any) -> Any:
        if state is None:
            zeros = x.new_zeros(x.shape[0], self.cell.candidate.W_h.shape[0])
            state = (zeros, zeros) if has_cell_state(self.cell.kind) else (zeros,)

        def step(x_t: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            found = self.cell.step(x_t, *s)  # type: ignore[attr-defined]
            return tuple(type(self).keep(f) for f in (found if isinstance(found, tuple) else (found,)))

        return step_through(step, x, state)


class InHalf(StateRounded):
    keep = staticmethod(lambda s: s + (s.half().to(s.dtype) - s).detach())  # type: ignore[assignment]


class InBfloat16(StateRounded):
    keep = staticmethod(lambda s: s + (s.bfloat16().to(s.dtype) - s).detach())  # type: ignore[assignment]


class FiveDecimals(StateRounded):
    keep = staticmethod(lambda s: s + (torch.round(s, decimals=5) - s).detach())  # type: ignore[assignment]


class TenBits(cells.Gate):
    """Products of operands with 10 bits after the point, as TF32 takes them."""

    def __call__(self, x: Tensor, h: Tensor) -> Tensor:
        return rounded(x) @ rounded(self.W_x) + rounded(h) @ rounded(self.W_h) + self.b


class OneKernelTenBits(cells.Gate):
    """The recurrent product alone, and of its operands the state alone."""

    def __call__(self, x: Tensor, h: Tensor) -> Tensor:
        return self.of_input(x) + rounded(h) @ self.W_h


def _in_state(net: type[StateRounded]) -> Callable[[str], Subject]:
    def build(kind: str) -> Subject:
        def made(weights: Weights, dtype: torch.dtype, device: str) -> Net:
            return net(KINDS[kind](weights, dtype, device))

        return Subject(f"{net.__name__}.{kind}", kind, made)

    return build


def _in_gate(gate: type[cells.Gate], name: str = "") -> Callable[[str], Subject]:
    def build(kind: str) -> Subject:
        def made(weights: Weights, dtype: torch.dtype, device: str) -> Net:
            cell = KINDS[kind](weights, dtype, device)
            for own, value in vars(cell).items():
                if isinstance(value, cells.Gate) and (not name or own == name):
                    value.__class__ = gate
            return ReferenceNet(cell)

        return Subject(f"{gate.__name__}.{kind}", kind, made)

    return build


def sloppy_sigmoid(size: float) -> Callable[[str], Subject]:
    """σ misses by up to `size`, most where it is steep, nowhere at 0 and 1 (as by a table or a short polynomial)."""

    def off(a: Tensor) -> Tensor:
        s = torch.sigmoid(a)
        return s + size * 4 * s * (1 - s) * torch.sin(3 * a.detach())

    class LSTM(BrokenLSTM):
        def sigma(self, a: Tensor) -> Tensor:
            return off(a)

    class GRU(BrokenGRU):
        def update_gate(self, x: Tensor, h: Tensor) -> Tensor:
            return off(self.update(x, h))

        def reset_gate(self, x: Tensor, h: Tensor) -> Tensor:
            return off(self.reset(x, h))

    def build(kind: str) -> Subject:
        of: type[cells.Cell] = LSTM if kind == "lstm" else GRU
        return Subject(f"σ off by {size:g}.{kind}", kind, lambda w, dtype, device: ReferenceNet(of(w, dtype, device)))

    return build


def one_gate_off(kind: str, gate: str, size: float) -> Subject:
    """One gate's value, or the candidate's, is too small by this share of it."""

    class LSTM(BrokenLSTM):
        def gates(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
            f, i, o = super().gates(x, h, c)
            by = {name: 1 - size if name == gate else 1 for name in ("forget", "input", "output")}
            return f * by["forget"], i * by["input"], o * by["output"]

        def written(self, x: Tensor, h: Tensor) -> Tensor:
            return super().written(x, h) * (1 - size if gate == "candidate" else 1)

    class GRU(BrokenGRU):
        def update_gate(self, x: Tensor, h: Tensor) -> Tensor:
            return super().update_gate(x, h) * (1 - size if gate == "update" else 1)

        def reset_gate(self, x: Tensor, h: Tensor) -> Tensor:
            return super().reset_gate(x, h) * (1 - size if gate == "reset" else 1)

        def written(self, x: Tensor, h: Tensor, r: Tensor) -> Tensor:
            return super().written(x, h, r) * (1 - size if gate == "candidate" else 1)

    class RNN(cells.RNN):
        def step(self, x: Tensor, h: Tensor) -> Tensor:
            return super().step(x, h) * (1 - size)

    of: dict[str, type[cells.Cell]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
    name = f"{kind}'s {gate} gate" if gate != "candidate" else f"{kind}'s candidate"
    return Subject(name, kind, lambda weights, dtype, device: ReferenceNet(of[kind](weights, dtype, device)))


GATES_OF = {
    "rnn": ("candidate",),
    "lstm": ("forget", "input", "candidate", "output"),
    "gru": ("reset", "update", "candidate"),
}

NUMERICAL: dict[str, Subject] = {
    made.name: made
    for make, kinds in (
        (_in_state(InHalf), KINDS),
        (_in_state(InBfloat16), KINDS),
        (_in_state(FiveDecimals), KINDS),
        (_in_gate(TenBits), KINDS),
        (_in_gate(OneKernelTenBits), ("rnn", "lstm")),
        (sloppy_sigmoid(2e-3), ("lstm", "gru")),
    )
    for made in map(make, kinds)
}
"""Faults of precision that real cells have, as subjects by name."""


def seen(fault: Subject, draw: int) -> dict[str, Margin]:
    """The error of a faulty cell that uses up the most of its tolerance, by number format, at the claims' usual sizes.

    Parity at one shape, of a step, of a sequence and of gradients; every claim about the cell comes on top.
    """
    said = sweep(fault, draw, SMALL)
    return {dtype: said.worst(dtype) for dtype in ("float32", "float64")}


__all__ = ["GATES_OF", "NUMERICAL", "SMALL", "one_gate_off", "seen", "sloppy_sigmoid"]
