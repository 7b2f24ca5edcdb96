"""Faults in the plain RNN."""

from __future__ import annotations

import math
from typing import Any

import torch

from planted.plant import plant
from reference import cells
from reference.weights import Weights


@plant
class NoTanh(cells.RNN):
    """The state is not squashed."""

    def step(self, x, h):
        return self.candidate(x, h)


@plant
class RecurrenceByAConstant(cells.RNN):
    """Each unit keeps six tenths of itself, and no unit sees another."""

    def step(self, x, h):
        return 0.6 * h + 0.4 * super().step(x, torch.zeros_like(h))


@plant
class RecurrenceLeftOut(cells.RNN):
    """Each state is made of its input alone."""

    def step(self, x, h):
        return super().step(x, torch.zeros_like(h))


@plant
class InputLeftOut(cells.RNN):
    """Each state is made of the one before alone."""

    def step(self, x, h):
        return super().step(torch.zeros_like(x), h)


@plant
class ZoneoutLeftOn(cells.RNN):
    """Each state is mostly the one before, as under zoneout."""

    def step(self, x, h):
        return 0.99 * h + 0.01 * super().step(x, h)


@plant
class CoarseScale(cells.RNN):
    """The recurrent kernel is scaled to a power of two, as in fixed-point kernels, so its size jumps."""

    def __init__(self, weights: Weights, dtype: torch.dtype, device: str) -> None:
        size = float(abs(weights["candidate"].W_h).max()) or 1.0
        super().__init__(weights.change(W_h=lambda W: W / size * 2.0 ** round(math.log2(size))), dtype, device)


class _LessonStep(torch.autograd.Function):
    """tanh(a + h W), pulled back by the lesson's factor Wᵀ diag(1 - tanh² h)."""

    @staticmethod
    def forward(ctx: Any, a, h, W):
        ctx.save_for_backward(h, W)
        return torch.tanh(a + h @ W)

    @staticmethod
    def backward(ctx: Any, upstream):
        h, W = ctx.saved_tensors
        return None, (upstream @ W) * (1 - torch.tanh(h) ** 2), None


@plant
class LessonsBackward(cells.RNN):
    """The backward pass is the lesson's product: the derivative at the state before, the kernel not transposed."""

    def step(self, x, h):
        n = self.candidate
        return _LessonStep.apply(x @ n.W_x + n.b, h, n.W_h)
