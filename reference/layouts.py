"""Layouts: how the documents and PyTorch store a cell's parameters, as data, and one pair of functions for all of them.

Sources: N §2.a-b, §7.a-b; W «Create Arbitrary Weights», «GRU»; L §2, §3; docstrings of torch.nn.LSTM, GRU, RNN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from reference.weights import GATES, Array, Block, Weights


@dataclass(frozen=True)
class Layout:
    """Where each number of a cell stands.

    `x` and `h` name the input and the recurrent kernel; where they are equal, one array holds [h, x] side by side.
    A name with {} exists once per gate (`letters` fills it); without, the gates' blocks are stacked in `order`.
    """

    name: str
    kind: str
    order: tuple[str, ...]
    x: str
    h: str
    biases: tuple[str, ...] = ()
    """None, one (the sum) or two (b_x, then b_h)."""
    letters: tuple[str, ...] = ()
    columns: bool = False
    """Column vectors, W @ x: kernels are stored transposed."""
    writes: bool = False
    """The update gate writes, h = (1 - z) h + z n: its block is stored negated."""
    inner_bias: str | None = None
    """The candidate's bias inside the reset product, where it has an array of its own."""

    def letter(self, gate: str) -> str:
        return self.letters[self.order.index(gate)] if self.letters else ""


def store(weights: Weights, layout: Layout) -> dict[str, Array]:
    """The arrays of a layout that hold these weights.

    Raises:
        ValueError: the layout has no place for a bias that is not zero.
    """
    per_gate: dict[str, dict[str, Array]] = {}
    for gate in layout.order:
        block, sign = weights[gate], -1.0 if layout.writes and gate == "update" else 1.0
        W_x, W_h, b_x, b_h = sign * block.W_x, sign * block.W_h, sign * block.b_x, sign * block.b_h
        if layout.columns:
            W_x, W_h = W_x.T, W_h.T
        if layout.x == layout.h:
            per_gate[gate] = {layout.x: np.concatenate([W_h, W_x], axis=1 if layout.columns else 0)}
        else:
            per_gate[gate] = {layout.x: W_x, layout.h: W_h}
        per_gate[gate] |= _store_biases(layout, gate, b_x, b_h)
    arrays: dict[str, Array] = {}
    for name in per_gate[layout.order[0]]:
        if "{}" in name:
            arrays |= {name.format(layout.letter(gate)): per_gate[gate][name] for gate in layout.order}
        else:
            arrays[name] = np.concatenate([per_gate[gate][name] for gate in layout.order], axis=_stacking(layout, name))
    if layout.inner_bias:
        arrays[layout.inner_bias] = weights["candidate"].b_h
    return arrays


def _store_biases(layout: Layout, gate: str, b_x: Array, b_h: Array) -> dict[str, Array]:
    if layout.inner_bias and gate == "candidate":
        return {layout.biases[0]: b_x}
    match len(layout.biases):
        case 2:
            return dict(zip(layout.biases, (b_x, b_h), strict=True))
        case 1:
            if layout.kind == "gru" and gate == "candidate" and np.any(b_h):
                raise ValueError(f"{layout.name} has one bias per gate and no place for b_h inside the reset product")
            return {layout.biases[0]: b_x + b_h}
    if np.any(b_x + b_h):
        raise ValueError(f"{layout.name} has no biases, and that of the {gate} is not zero")
    return {}


def _stacking(layout: Layout, name: str) -> int:
    return 0 if layout.columns or name in layout.biases else 1


def read(arrays: Mapping[str, NDArray[np.floating]], layout: Layout) -> Weights:
    """The canonical weights that a layout's arrays hold, in float64."""
    taken = {name: np.asarray(array, np.float64) for name, array in arrays.items()}

    @cache
    def stacked(name: str) -> list[Array]:
        return np.split(taken[name], len(layout.order), axis=_stacking(layout, name))

    def of(name: str, gate: str) -> Array:
        if "{}" in name:
            return taken[name.format(layout.letter(gate))]
        return stacked(name)[layout.order.index(gate)]

    blocks = {}
    for gate in GATES[layout.kind]:
        sign = -1.0 if layout.writes and gate == "update" else 1.0
        kernel_x, kernel_h = of(layout.x, gate), of(layout.h, gate)
        if layout.columns:
            kernel_x, kernel_h = kernel_x.T, kernel_h.T
        if layout.x == layout.h:
            hidden = kernel_x.shape[1]
            kernel_h, kernel_x = kernel_x[:hidden], kernel_x[hidden:]
        zero = np.zeros(kernel_h.shape[1])
        b_x, b_h = (*(of(name, gate) for name in layout.biases), zero, zero)[:2]
        if layout.inner_bias and gate == "candidate":
            b_h = taken[layout.inner_bias]
        blocks[gate] = Block(sign * kernel_x, sign * kernel_h, sign * b_x, sign * b_h)
    return Weights(layout.kind, blocks)


def _torch(kind: str, *order: str) -> Layout:
    two = ("bias_ih", "bias_hh")
    return Layout(f"PyTorch {kind.upper()}", kind, order, "weight_ih", "weight_hh", two, columns=True)


TORCH = {
    "rnn": _torch("rnn", "candidate"),
    "lstm": _torch("lstm", "input", "forget", "candidate", "output"),
    "gru": _torch("gru", "reset", "update", "candidate"),
}
"""torch.nn: blocks stacked along the first axis, i f g o and r z n, two biases each; the update gate keeps."""

N_LSTM = Layout(
    "N's LSTM", "lstm", ("forget", "input", "candidate", "output"), "W{}", "W{}", ("b{}",), ("f", "i", "C", "o"), True
)
N_DECK_GRU = Layout(
    "N's GRU as the deck draws it", "gru-deck", ("update", "reset", "candidate"), "W{}", "W{}", ("b{}",),
    ("z", "r", "n"), columns=True, writes=True,
)  # fmt: skip
N_TORCH_GRU = Layout(
    "N's GRU in PyTorch's convention", "gru", ("update", "reset", "candidate"), "W{}", "W{}", ("b{}",), ("z", "r", "n"),
    columns=True, inner_bias="bnh",
)  # fmt: skip
W_LSTM = Layout(
    "W's LSTM", "lstm", ("forget", "input", "candidate", "output"), "W_x{}", "W_h{}", letters=("f", "i", "c", "o")
)
W_GRU = Layout("W's GRU", "gru", ("reset", "update", "candidate"), "W_x{}", "W_h{}", letters=("r", "u", "h"))
L_LSTM = Layout(
    "L's LSTM", "lstm", ("forget", "input", "candidate", "output"), "W_x{}", "W_h{}", ("b_{}",), ("f", "i", "c", "o")
)
L_GRU = Layout(
    "L's GRU", "gru-reset-before", ("reset", "update", "candidate"), "W_x{}", "W_h{}", ("b_{}",), ("r", "z", "h")
)

LAYOUTS = {
    layout.name: layout for layout in (*TORCH.values(), N_LSTM, N_DECK_GRU, N_TORCH_GRU, W_LSTM, W_GRU, L_LSTM, L_GRU)
}
