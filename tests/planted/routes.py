"""Faults in what a gradient passes on its way back: routes left out, kernels not transposed, factors out of order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fixtures.settings import Draw
from planted.gru import BrokenGRU
from planted.plant import BrokenNet, plant, plant_in
from reference import cells, paths

_lstm, _gru = paths.lstm, paths.gru


def without(graph, node, operand):
    """A graph in which a kind of node has lost an operand."""
    edges = {
        at: {to: J for to, J in operands.items() if (at[0], to[0]) != (node, operand)}
        for at, operands in graph.edges.items()
    }
    return replace(graph, edges=edges)


@plant_in(paths, "lstm")
def output_gate_route_forgotten(tape):
    """The route that leaves h_t through the output gate is forgotten."""
    return without(_lstm(tape), "h", "o")


@plant_in(paths, "gru", under=cells.GRU)
def reset_gate_route_forgotten(tape):
    """The route that leaves the candidate through the reset gate is forgotten."""
    return without(_gru(tape), "h̃", "r")


@plant_in(Draw, "upstream", under=cells.GRU)
def upstream_of_a_sum(draw, *shape):
    """Gradients that reach the outputs are ones, as of a loss that sums them."""
    return np.ones(shape)


class _Untransposed(torch.autograd.Function):
    """tanh(a + h W), pulled back by W where Wᵀ belongs."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, h: Tensor, W: Tensor) -> Tensor:
        y = torch.tanh(a + h @ W)
        ctx.save_for_backward(y, W)
        return y

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        y, W = ctx.saved_tensors
        arrived = upstream * (1 - y**2)
        return arrived, arrived @ W, None


@plant
class KernelNotTransposed(cells.RNN):
    """The backward pass multiplies by the recurrent kernel as it is."""

    def step(self, x, h):
        n = self.candidate
        return _Untransposed.apply(x @ n.W_x + n.b, h, n.W_h)


@plant
class BlankAfterTheFirst(BrokenNet):
    """A blank input comes between the first and the second, as where a start symbol is padded on the wrong side."""

    def __call__(self, x, state):
        blank = torch.zeros_like(x[:, :1])
        outputs, last = super().__call__(torch.cat([x[:, :1], blank, x[:, 1:]], 1), state)
        return torch.cat([outputs[:, :1], outputs[:, 2:]], 1), last


class _KernelFirst(torch.autograd.Function):
    """σ(a + h W), pulled back by δ ⊙ u ⊙ ((1 - u) Wᵀ)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, h: Tensor, W: Tensor) -> Tensor:
        u = torch.sigmoid(a + h @ W)
        ctx.save_for_backward(u, W)
        return u

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        u, W = ctx.saved_tensors
        return upstream * u * (1 - u), upstream * u * ((1 - u) @ W.T), None


@plant
class UpdateGateKernelFirst(BrokenGRU):
    """The update gate's backward pass is the article's formula with its matrix products taken first."""

    def update_gate(self, x, h):
        return _KernelFirst.apply(x @ self.update.W_x + self.update.b, h, self.update.W_h)


class _Scaled(torch.autograd.Function):
    """The first argument; the second gets the gradient that arrives, scaled unit by unit."""

    @staticmethod
    def forward(ctx: Any, new: Tensor, h: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(scale)
        return new.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        (scale,) = ctx.saved_tensors
        return upstream, upstream * scale, None


@plant
class ResetGateByBrackets(BrokenGRU):
    """The reset gate's backward pass multiplies what arrives by the article's bracket, [A_t] W_hrᵀ, as a row."""

    def step(self, x, h):
        r, z = self.reset_gate(x, h.detach()), self.update_gate(x, h)
        n = self.written(x, h, r)
        product = h @ self.candidate.W_h + self.candidate.b_h
        bracket = (1 - z) * (1 - n**2) * product * r * (1 - r)
        return _Scaled.apply(self.blend(z, h, n, r), h, (bracket @ self.reset.W_h.T).detach())


@plant
class TorchsHardSigmoid(BrokenGRU):
    """PyTorch's GRU with piecewise linear gates, exactly 0 and 1 beyond ±3."""

    def update_gate(self, x, h):
        return torch.clamp(self.update(x, h) / 6 + 0.5, 0, 1)

    def reset_gate(self, x, h):
        return torch.clamp(self.reset(x, h) / 6 + 0.5, 0, 1)
