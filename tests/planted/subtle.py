"""Faults that few calls show: memory that is used again, noise, and gradients far out or asked for in part."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from planted.lstm import BrokenLSTM
from planted.plant import BrokenNet, plant


@plant
class OutputBufferReused(BrokenNet):
    """Outputs of one shape are always written into the same memory."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        if torch.is_grad_enabled():
            return outputs, last
        buffers = self.__dict__.setdefault("buffers", {})
        return buffers.setdefault(outputs.shape, torch.empty_like(outputs)).copy_(outputs), last


@plant
class NaiveTanhOfTheCell(BrokenLSTM):
    """The cell is squashed by two exponentials, which overflow for a large cell."""

    def show(self, o, c):
        return o * (c.exp() - (-c).exp()) / (c.exp() + (-c).exp())


@plant
class NotANumberFarOut(BrokenLSTM):
    """The candidate chooses between a naive tanh and ±1, so that its gradient is 0 · ∞ far out."""

    def written(self, x, h):
        a = self.candidate(x, h)
        naive = (a.exp() - (-a).exp()) / (a.exp() + (-a).exp())
        return torch.where(a.abs() < 20, naive, a.sign())


class _Backward(torch.autograd.Function):
    """The identity on the way forward; `pull` says what becomes of the gradient."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, pull: Any) -> Tensor:
        ctx.pull = pull
        return a.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return ctx.pull(upstream), None


def noisy(gradient: Tensor) -> Tensor:
    """A sum in an order that differs from call to call."""
    return gradient * (1 + torch.finfo(gradient.dtype).eps * torch.randint_like(gradient, -1, 2))


@plant
class NoisyInputGradient(BrokenNet):
    """The last bits of the inputs' gradient differ from call to call."""

    def __call__(self, x, state):
        return super().__call__(_Backward.apply(x, noisy), state)


@plant
class NoisyStateGradient(BrokenNet):
    """The last bits of the initial state's gradient differ from call to call."""

    def __call__(self, x, state):
        return super().__call__(x, state and tuple(_Backward.apply(s, noisy) for s in state))


@plant
class NoisyCell(BrokenNet):
    """The last bits of the last cell differ from call to call."""

    def __call__(self, x, state):
        outputs, (h, c) = super().__call__(x, state)
        return outputs, (h, noisy(c))


@plant
class UpstreamOverwritten(BrokenNet):
    """The backward pass writes into the gradient that it is given."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        return _Backward.apply(outputs, lambda upstream: upstream.mul_(2).div(2)), last


@plant
class NoParameterGradientWithoutInputs(BrokenNet):
    """Where the inputs need no gradient, the parameters get none."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        return outputs if x.requires_grad else outputs.detach(), last


@plant
class GradientBeyond65536Lost(BrokenNet):
    """Of all the batch's steps only the first 65,536 pull a gradient back."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        rows = torch.arange(outputs.shape[0] * outputs.shape[1]).reshape(*outputs.shape[:2], 1)
        return torch.where(rows < 65536, outputs, outputs.detach()), last
