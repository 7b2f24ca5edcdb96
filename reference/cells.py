"""The reference cells: each recurrent net as its equations, in torch, on any device.

Shapes: x (..., B, D), states (..., B, H). Sources: N §2.a (LSTM), §5 (peepholes, coupled gates), §7 (GRU), L §2, §3.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, sigmoid, tanh

from reference.weights import Weights


class Gate:
    """One gate's affine map: `gate(x, h)` is x W_x + h W_h + b."""

    def __init__(self, W_x: Tensor, W_h: Tensor, b: Tensor, b_h: Tensor | None = None, P: Tensor | None = None) -> None:
        self.W_x, self.W_h, self.b = W_x, W_h, b
        self.b_h, self.P = b_h, P

    def __call__(self, x: Tensor, h: Tensor) -> Tensor:
        return self.of_input(x) + h @ self.W_h

    def of_input(self, x: Tensor) -> Tensor:
        """The input's share, x W_x + b: it waits for no state, so a whole sequence can have it at once."""
        return x @ self.W_x + self.b

    @property
    def inner_bias(self) -> Tensor:
        """The candidate's second bias b_h (H,), where the reset gate multiplies h W_h + b_h."""
        assert self.b_h is not None, "this gate has one bias"
        return self.b_h

    def peep(self, c: Tensor) -> Tensor:
        """What the gate sees of the cell state: c P with a full matrix P (H, H), c * P with a diagonal one (H,)."""
        assert self.P is not None, "this gate has no peephole"
        return c @ self.P if self.P.ndim == 2 else c * self.P


class Cell:
    """A recurrent cell with canonical weights as leaf tensors on a device, one bias per gate.

    `parameters` maps names such as `forget.W_x` to them. The candidate of the GRU with the reset after the product
    has a second bias, `candidate.b_h`, inside the reset product.

    Args:
        weights: what to load; their kind must be `kind`.
        dtype: torch.float32 or torch.float64.
        device: where the parameters live.
    """

    kind: ClassVar[str]

    def __init__(self, weights: Weights, dtype: torch.dtype, device: str | torch.device = "cpu") -> None:
        self.parameters: dict[str, Tensor] = {}
        for gate, block in weights.blocks.items():
            inner = self.kind == "gru" and gate == "candidate"
            arrays = {"W_x": block.W_x, "W_h": block.W_h, "b": block.b_x if inner else block.b}
            if inner:
                arrays["b_h"] = block.b_h
            if block.P is not None:
                arrays["P"] = block.P
            own = {name: torch.tensor(a, dtype=dtype, device=device, requires_grad=True) for name, a in arrays.items()}
            self.parameters |= {f"{gate}.{name}": p for name, p in own.items()}
            setattr(self, gate, Gate(**own))

    forget: Gate
    input: Gate
    candidate: Gate
    output: Gate
    reset: Gate
    update: Gate


class RNN(Cell):
    """The plain tanh RNN (N takeaways table)."""

    kind = "rnn"

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        return tanh(self.candidate(x, h))


class LSTM(Cell):
    """The LSTM with forget, input and output gates (N §2, W, L §2)."""

    kind = "lstm"

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        f = sigmoid(self.forget(x, h))
        i = sigmoid(self.input(x, h))
        g = tanh(self.candidate(x, h))
        o = sigmoid(self.output(x, h))
        c = f * c + i * g
        return o * tanh(c), c


class PeepholeLSTM(Cell):
    """The LSTM whose gates see the cell: f and i the old one, o the new one (N §5, Gers & Schmidhuber 2000)."""

    kind = "lstm-peephole"

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        f = sigmoid(self.forget(x, h) + self.forget.peep(c))
        i = sigmoid(self.input(x, h) + self.input.peep(c))
        g = tanh(self.candidate(x, h))
        c = f * c + i * g
        o = sigmoid(self.output(x, h) + self.output.peep(c))
        return o * tanh(c), c


class DiagonalPeepholeLSTM(PeepholeLSTM):
    """The peephole LSTM with one weight per unit and gate (ONNX, TensorFlow)."""

    kind = "lstm-peephole-diagonal"


class CoupledLSTM(Cell):
    """The LSTM that writes where it forgets, i = 1 - f (N §5)."""

    kind = "lstm-coupled"

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        f = sigmoid(self.forget(x, h))
        g = tanh(self.candidate(x, h))
        o = sigmoid(self.output(x, h))
        c = f * c + (1 - f) * g
        return o * tanh(c), c


class GRU(Cell):
    """The GRU with the reset after the recurrent product (PyTorch, cuDNN, W): z keeps."""

    kind = "gru"

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        n_ = self.candidate
        r = sigmoid(self.reset(x, h))
        z = sigmoid(self.update(x, h))
        n = tanh(n_.of_input(x) + r * (h @ n_.W_h + n_.inner_bias))
        return z * h + (1 - z) * n


class ResetBeforeGRU(Cell):
    """The GRU with the reset before the recurrent product (L §3): z keeps."""

    kind = "gru-reset-before"

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        r = sigmoid(self.reset(x, h))
        z = sigmoid(self.update(x, h))
        n = tanh(self.candidate(x, r * h))
        return z * h + (1 - z) * n


class DeckGRU(Cell):
    """The GRU as N's deck draws it (N §7): the reset before the product, and z *writes*.

    Canonical weights keep, so the update gate takes them negated: σ(-a) = 1 - σ(a).
    """

    kind = "gru-deck"

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        r = sigmoid(self.reset(x, h))
        z = sigmoid(-self.update(x, h))
        n = tanh(self.candidate(x, r * h))
        return (1 - z) * h + z * n


CELLS: tuple[type[Cell], ...] = (
    RNN, LSTM, PeepholeLSTM, DiagonalPeepholeLSTM, CoupledLSTM, GRU, ResetBeforeGRU, DeckGRU,
)  # fmt: skip
