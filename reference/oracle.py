"""The oracle: every cell forward and backward in numpy, float64, written out by hand from the equations.

It shares no code with the cells under test and uses no automatic differentiation. Shapes: inputs (B, T, D), states
(B, H), outputs (B, T, H). Sources: N §2.a, §5, §7 (LSTM, variants, GRU), W «The Building Blocks» and «GRU», L §2, §3;
backward: the chain rule, gate by gate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from scipy.special import expit as sigmoid

from reference.weights import GATES, Array, Block, Weights, has_cell_state


@dataclass
class Tape:
    """A forward pass: `h` (B, T + 1, H) and, for LSTMs, `c` likewise, both with the initial state first."""

    weights: Weights
    x: Array
    h: Array
    c: Array | None
    steps: list[SimpleNamespace] = field(default_factory=list)

    @property
    def outputs(self) -> Array:
        """Hidden states of every step, (B, T, H)."""
        return self.h[:, 1:]

    def gate(self, name: str) -> Array:
        """The values of a gate or of the candidate at every step, (B, T, H)."""
        return np.stack([getattr(step, name) for step in self.steps], axis=1)


@dataclass
class Gradients:
    """Gradients of a scalar: of the inputs (B, T, D), of the initial state (B, H), and of every parameter by name."""

    x: Array
    h: Array
    c: Array | None
    parameters: dict[str, Array]


def forward(weights: Weights, x: Array, h: Array | None = None, c: Array | None = None) -> Tape:
    """Run a cell over inputs x (B, T, D) from the state h, c (B, H), zeros where omitted."""
    x = np.asarray(x, np.float64)
    batch, steps, _ = x.shape
    zeros = np.zeros((batch, weights.hidden_size))
    hs = [zeros if h is None else np.asarray(h, np.float64)]
    cs = [zeros if c is None else np.asarray(c, np.float64)]
    taken = []
    for t in range(steps):
        now = _FORWARD[weights.kind](weights, x[:, t], hs[-1], cs[-1])
        taken.append(now)
        hs.append(now.h)
        cs.append(getattr(now, "c", zeros))
    return Tape(weights, x, np.stack(hs, 1), np.stack(cs, 1) if has_cell_state(weights.kind) else None, taken)


def backward(tape: Tape, outputs: Array | None = None, h: Array | None = None, c: Array | None = None) -> Gradients:
    """Pull gradients back through a tape: those of the outputs (B, T, H) and of the last state h, c (B, H)."""
    weights, zeros = tape.weights, np.zeros_like(tape.h[:, 0])
    dh, dc = (zeros if h is None else h), (zeros if c is None else c)
    total = {name: np.zeros_like(p) for name, p in weights.parameters().items()}
    dx = np.zeros_like(tape.x)
    for t in reversed(range(len(tape.steps))):
        if outputs is not None:
            dh = dh + outputs[:, t]
        before = SimpleNamespace(x=tape.x[:, t], h=tape.h[:, t], c=None if tape.c is None else tape.c[:, t])
        pull = _BACKWARD[weights.kind](weights, before, tape.steps[t], dh, dc)
        dx[:, t], dh, dc = pull.x, pull.h, pull.c
        for name, value in pull.parameters.items():
            total[name] += value
    return Gradients(dx, dh, dc if has_cell_state(weights.kind) else None, total)


def jacobian(tape: Tape, of: str, wrt: str) -> Array:
    """∂ of_T / ∂ wrt_0, (H, H), for a tape of one sequence; `of` and `wrt` are "h" or "c"."""
    units = np.eye(tape.weights.hidden_size)
    copies = forward(
        tape.weights,
        np.repeat(tape.x, len(units), axis=0),
        np.repeat(tape.h[:, 0], len(units), axis=0),
        None if tape.c is None else np.repeat(tape.c[:, 0], len(units), axis=0),
    )
    gradient: Array = getattr(backward(copies, **{of: units}), wrt)
    return gradient


def _affine(block: Block, x: Array, h: Array) -> Array:
    return x @ block.W_x + h @ block.W_h + block.b


def _peep(block: Block, c: Array) -> Array | float:
    if block.P is None:
        return 0.0
    return c @ block.P if block.P.ndim == 2 else c * block.P


def _rnn(w: Weights, x: Array, h: Array, c: Array) -> SimpleNamespace:
    return SimpleNamespace(h=np.tanh(_affine(w["candidate"], x, h)))


def _lstm(w: Weights, x: Array, h: Array, c: Array) -> SimpleNamespace:
    f = sigmoid(_affine(w["forget"], x, h) + _peep(w["forget"], c))
    i = sigmoid(_affine(w["input"], x, h) + _peep(w["input"], c)) if "input" in w.blocks else 1 - f
    g = np.tanh(_affine(w["candidate"], x, h))
    c = f * c + i * g
    o = sigmoid(_affine(w["output"], x, h) + _peep(w["output"], c))
    return SimpleNamespace(forget=f, input=i, candidate=g, output=o, c=c, h=o * np.tanh(c))


def _gru(w: Weights, x: Array, h: Array, c: Array) -> SimpleNamespace:
    r, z = sigmoid(_affine(w["reset"], x, h)), sigmoid(_affine(w["update"], x, h))
    n_ = w["candidate"]
    if w.kind == "gru":
        n = np.tanh(x @ n_.W_x + n_.b_x + r * (h @ n_.W_h + n_.b_h))
    else:
        n = np.tanh(x @ n_.W_x + (r * h) @ n_.W_h + n_.b)
    return SimpleNamespace(reset=r, update=z, candidate=n, h=z * h + (1 - z) * n)


class _Pull:
    """Gradients of one step: what reaches the input and the state, and each block's share."""

    def __init__(self, weights: Weights, before: SimpleNamespace) -> None:
        self.weights, self.before = weights, before
        self.x, self.h, self.c = np.zeros_like(before.x), np.zeros_like(before.h), np.zeros_like(before.h)
        self.parameters: dict[str, Array] = {}

    def block(self, gate: str, da: Array, through: Array | None = None) -> Array:
        """Account for a gradient da (B, H) of a gate's pre-activation; returns what reaches its recurrent operand.

        `through` is the gradient of the recurrent part h W_h + b_h where that differs from da (the reset product).
        """
        w, dr = self.weights[gate], da if through is None else through
        self.x += da @ w.W_x.T
        self.parameters |= {
            f"{gate}.W_x": self.before.x.T @ da,
            f"{gate}.W_h": self.before.h.T @ dr,
            f"{gate}.b_x": da.sum(0),
            f"{gate}.b_h": dr.sum(0),
        }
        return dr @ w.W_h.T

    def peephole(self, gate: str, da: Array, c: Array) -> Array | float:
        """Account for the peephole of a gate onto the cell c; returns what reaches that cell."""
        w = self.weights[gate]
        if w.P is None:
            return 0.0
        self.parameters[f"{gate}.P"] = c.T @ da if w.P.ndim == 2 else (c * da).sum(0)
        return da @ w.P.T if w.P.ndim == 2 else da * w.P


def _rnn_back(w: Weights, before: SimpleNamespace, now: SimpleNamespace, dh: Array, dc: Array) -> _Pull:
    pull = _Pull(w, before)
    pull.h = pull.block("candidate", dh * (1 - now.h**2))
    return pull


def _lstm_back(w: Weights, before: SimpleNamespace, now: SimpleNamespace, dh: Array, dc: Array) -> _Pull:
    pull, f, i, g, o = _Pull(w, before), now.forget, now.input, now.candidate, now.output
    tanh_c = np.tanh(now.c)
    da_o = dh * tanh_c * o * (1 - o)
    dc = dc + dh * o * (1 - tanh_c**2) + pull.peephole("output", da_o, now.c)
    da_g = dc * i * (1 - g**2)
    pull.h = pull.block("output", da_o) + pull.block("candidate", da_g)
    pull.c = dc * f
    if "input" in w.blocks:
        da_f, da_i = dc * before.c * f * (1 - f), dc * g * i * (1 - i)
        pull.h += pull.block("input", da_i)
        pull.c += pull.peephole("input", da_i, before.c)
    else:
        da_f = dc * (before.c - g) * f * (1 - f)
    pull.h += pull.block("forget", da_f)
    pull.c += pull.peephole("forget", da_f, before.c)
    return pull


def _gru_back(w: Weights, before: SimpleNamespace, now: SimpleNamespace, dh: Array, dc: Array) -> _Pull:
    pull, r, z, n, h = _Pull(w, before), now.reset, now.update, now.candidate, before.h
    da_z = dh * (h - n) * z * (1 - z)
    da_n = dh * (1 - z) * (1 - n**2)
    pull.h = dh * z + pull.block("update", da_z)
    candidate = w["candidate"]
    if w.kind == "gru":
        pull.h += pull.block("candidate", da_n, through=da_n * r)
        dr = da_n * (h @ candidate.W_h + candidate.b_h)
    else:
        reaches = pull.block("candidate", da_n)
        pull.parameters["candidate.W_h"] = (r * h).T @ da_n
        pull.h += reaches * r
        dr = reaches * h
    pull.h += pull.block("reset", dr * r * (1 - r))
    return pull


_FORWARD = {kind: {"rnn": _rnn, "lstm": _lstm, "gru": _gru}[kind.split("-")[0]] for kind in GATES}
_BACKWARD = {kind: {"rnn": _rnn_back, "lstm": _lstm_back, "gru": _gru_back}[kind.split("-")[0]] for kind in GATES}
