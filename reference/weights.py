"""Canonical weights: the parameters of a recurrent cell, free of any framework's layout.

Row vectors throughout: a gate's pre-activation is `x @ W_x + h @ W_h + b_x + b_h`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

GATES = {
    "rnn": ("candidate",),
    "lstm": ("forget", "input", "candidate", "output"),
    "lstm-peephole": ("forget", "input", "candidate", "output"),
    "lstm-peephole-diagonal": ("forget", "input", "candidate", "output"),
    "lstm-coupled": ("forget", "candidate", "output"),
    "gru": ("reset", "update", "candidate"),
    "gru-reset-before": ("reset", "update", "candidate"),
    "gru-deck": ("reset", "update", "candidate"),
}
"""The weight blocks of each kind of cell, in the order in which its equations are usually written.

`gru` applies the reset gate to `h W_h + b_h`, after the recurrent product (PyTorch, cuDNN, W);
`gru-reset-before` applies it to `h`, before the product (L, Cho et al. 2014), and so does `gru-deck` (N's deck), which
writes where the others keep: the same function, rounded otherwise. In canonical weights the update gate of every GRU
*keeps*: `h = z * h + (1 - z) * n`.
"""

PEEPHOLES = {"lstm-peephole": ("forget", "input", "output"), "lstm-peephole-diagonal": ("forget", "input", "output")}
"""The gates of each kind that look at the cell state, through P of shape (H, H), or (H,) where it is diagonal."""


def has_cell_state(kind: str) -> bool:
    """Whether cells of this kind carry a cell state c beside the hidden state h."""
    return kind.startswith("lstm")


@dataclass(frozen=True)
class Block:
    """One gate's parameters: W_x (D, H), W_h (H, H), b_x (H,), b_h (H,), and P (H, H) or (H,) where it has a peephole.

    The two biases act through their sum, but for the candidate of `gru`, whose b_h lies inside the reset product.
    """

    W_x: Array
    W_h: Array
    b_x: Array
    b_h: Array
    P: Array | None = None

    @property
    def b(self) -> Array:
        """The sum of the two biases, shape (H,)."""
        return self.b_x + self.b_h

    def parameters(self) -> dict[str, Array]:
        """The arrays that this block has, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}


@dataclass(frozen=True)
class Weights:
    """The parameters of one cell: a block for each gate in `GATES[kind]`."""

    kind: str
    blocks: dict[str, Block]

    def __getitem__(self, gate: str) -> Block:
        return self.blocks[gate]

    @property
    def input_size(self) -> int:
        """D, the number of features of an input."""
        return int(self.blocks["candidate"].W_x.shape[0])

    @property
    def hidden_size(self) -> int:
        """H, the number of units."""
        return int(self.blocks["candidate"].W_h.shape[0])

    def parameters(self) -> dict[str, Array]:
        """Every array by name, such as `forget.W_x`."""
        return {f"{gate}.{name}": p for gate, block in self.blocks.items() for name, p in block.parameters().items()}

    def change(self, *gates: str, **how: Callable[[Array], Array]) -> Weights:
        """A copy with the named parameters mapped, in the given gates or in all: `change("input", W_h=np.negative)`."""
        blocks = dict(self.blocks)
        for gate in gates or blocks:
            old = blocks[gate]
            blocks[gate] = replace(old, **{name: f(getattr(old, name)) for name, f in how.items()})
        return replace(self, blocks=blocks)

    def pin(self, **pre_activations: float | Array) -> Weights:
        """A copy in which a constant is added to the named gates' pre-activations: `pin(forget=40, input=-40)`."""
        weights = self
        for gate, value in pre_activations.items():
            weights = weights.change(gate, b_x=partial(np.add, value))
        return weights

    def without_recurrence(self, *gates: str) -> Weights:
        """A copy in which the given gates (or all) see the input alone: W_h = 0 and P = 0."""
        weights = self.change(*gates, W_h=np.zeros_like)
        with_peephole = [g for g in gates or self.blocks if self.blocks[g].P is not None]
        return weights.change(*with_peephole, P=np.zeros_like) if with_peephole else weights

    def frozen_along(self, h: Array, c: Array | None = None) -> Weights:
        """Weights under which every gate takes the value that it has at one of these states h (T, H), and c (T, H).

        They have T more inputs: the t-th brings to the gates, as a constant, what they saw of the t-th state. No
        derivative then reaches the state through a gate, and the highway alone is left. (The reset gate's product is
        left out: what the candidate is does not matter to the highway.)
        """
        blocks = {}
        for gate, block in self.blocks.items():
            seen = h @ block.W_h
            if block.P is not None and c is not None:
                seen = seen + (c @ block.P if block.P.ndim == 2 else c * block.P)
            blocks[gate] = replace(block, W_x=np.concatenate([block.W_x, seen]))
        return replace(self, blocks=blocks).without_recurrence()

    def frozen_at(self, h: Array, *open_: str) -> Weights:
        """Weights under which every gate but the open ones sees the one state h (H,), as a constant in its bias b_h.

        In a step from that state all gates take their values, and a derivative reaches the state through the open ones
        alone, and along the highway. (Not for GRUs with the reset before the product: their candidate sees r * h.)
        """
        assert self.kind not in ("gru-reset-before", "gru-deck"), "the candidate sees another state than the gates"
        weights = self
        for gate in self.blocks.keys() - set(open_):
            seen = h @ self.blocks[gate].W_h
            weights = weights.change(gate, W_h=np.zeros_like, b_h=partial(np.add, seen))
        return weights
