"""Faults of the backward pass; every forward value is right."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from planted.lstm import BrokenLSTM
from planted.plant import BrokenNet, plant
from reference import cells


@plant
class HiddenStateDetached(BrokenLSTM):
    """The hidden state is cut out of the graph, so the highway alone is left."""

    def step(self, x, h, c):
        return super().step(x, h.detach(), c)


@plant
class CellDetached(BrokenLSTM):
    """The cell is cut out of the graph."""

    def remember(self, f, i, g, c):
        return f * c.detach() + i * g


@plant
class TruncatedBackward(BrokenNet):
    """Backpropagation ends every four steps."""

    def __call__(self, x, state):
        outputs, steps = [], x.shape[1]
        for t in range(0, steps, 4):
            state = tuple(s.detach() for s in state) if t and state else state
            shown, state = super().__call__(x[:, t : t + 4], state)
            outputs.append(shown)
        return torch.cat(outputs, 1), state


@plant
class GradientOverTheBatchSize(BrokenNet):
    """The backward pass takes the mean over the batch, as if the loss had not taken it."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        mean = 1 / len(x)
        return _scaled(outputs, mean), tuple(_scaled(s, mean) for s in last)


def _scaled(tensor: Tensor, factor: float) -> Tensor:
    """The same numbers, with another gradient."""
    return factor * tensor + (1 - factor) * tensor.detach()


@plant
class CellGradientTwice(BrokenNet):
    """From the second step on the cell's gradient is accumulated twice, and the hidden state's is lost."""

    def __call__(self, x, state):
        h, c = state
        outputs = []
        for t in range(x.shape[1]):
            h, c = self.cell.step(x[:, t], h.detach(), c + (c - c.detach()) if t else c)
            outputs.append(h)
        return torch.stack(outputs, 1), (h, c)


class _Tanh(torch.autograd.Function):
    """tanh whose derivative is taken at its own value, 1 - tanh²(y)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        y = torch.tanh(a)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return upstream * (1 - torch.tanh(y) ** 2)


@plant
class TanhTwiceInTheDerivative(BrokenLSTM):
    """The candidate's derivative is taken at its value, not at its pre-activation."""

    def written(self, x, h):
        return _Tanh.apply(self.candidate(x, h))


@plant
class TanhTwiceInTheRNNsDerivative(cells.RNN):
    """The state's derivative is taken at its value, not at its pre-activation."""

    def step(self, x, h):
        return _Tanh.apply(self.candidate(x, h))


class _Spent(torch.autograd.Function):
    """tanh whose backward pass overwrites what the forward pass kept."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        ctx.kept = torch.tanh(a).detach()
        return ctx.kept.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        derivative = ctx.kept.square_().neg_().add_(1)
        return upstream * derivative


@plant
class SavedStateOverwritten(BrokenLSTM):
    """A second backward pass finds the derivatives of the first where the activations stood."""

    def written(self, x, h):
        return _Spent.apply(self.candidate(x, h))


class _DenseGradient(torch.autograd.Function):
    """The identity, whose backward pass reads a strided gradient as if it were contiguous."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        return as_if_contiguous(upstream)


def as_if_contiguous(a: Tensor) -> Tensor:
    """What a kernel reads that counts on from a tensor's first element, around the end of its memory."""
    memory = a.as_strided((a.untyped_storage().nbytes() // a.element_size() - a.storage_offset(),), (1,))
    return memory.repeat(-(-a.numel() // len(memory)))[: a.numel()].reshape(a.shape)


@plant
class GradientStridesIgnored(BrokenNet):
    """Upstream gradients of the outputs are read as if they were contiguous."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        return _DenseGradient.apply(outputs), last


@plant
class BiasGradientDropped(BrokenNet):
    """The forget gate's bias gets no gradient."""

    def canonical(self, gradients):
        return super().canonical(gradients | {"forget.b": 0 * gradients["forget.b"]})


@plant
class BiasGradientDoubled(BrokenNet):
    """The output gate's bias gets its gradient twice."""

    def canonical(self, gradients):
        return super().canonical(gradients | {"output.b": 2 * gradients["output.b"]})


@plant
class GradientsPileUp(BrokenNet):
    """Gradients of one call are added to those of the calls before."""

    def canonical(self, gradients):
        before = getattr(self, "before", {})
        self.before = {name: gradient + before.get(name, 0) for name, gradient in gradients.items()}
        return super().canonical(self.before)


class _LateState(torch.autograd.Function):
    """h W whose kernel gradient uses the new state in the place of the old one."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, W: Tensor, late: Tensor) -> Tensor:
        ctx.save_for_backward(W, late)
        return h @ W

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        W, late = ctx.saved_tensors
        return upstream @ W.T, late.T @ upstream, None


@plant
class KernelGradientOneStepLate(cells.RNN):
    """The gradient of the recurrent kernel is taken with h_t where h_{t-1} belongs."""

    def step(self, x, h):
        n = self.candidate
        late = torch.tanh(n(x, h)).detach()
        return torch.tanh(x @ n.W_x + n.b + _LateState.apply(h, n.W_h, late))
