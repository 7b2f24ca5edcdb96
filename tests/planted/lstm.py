"""Faults in the LSTM's equations."""

from __future__ import annotations

import torch
from torch import Tensor

from planted.plant import plant
from reference import cells


class BrokenLSTM(cells.LSTM):
    """The LSTM, in parts that a fault can override one by one."""

    def sigma(self, a: Tensor) -> Tensor:
        return torch.sigmoid(a)

    def gates(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.sigma(self.forget(x, h)), self.sigma(self.input(x, h)), self.sigma(self.output(x, h))

    def written(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.candidate(x, h))

    def remember(self, f: Tensor, i: Tensor, g: Tensor, c: Tensor) -> Tensor:
        return f * c + i * g

    def show(self, o: Tensor, c: Tensor) -> Tensor:
        return o * torch.tanh(c)

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        f, i, o = self.gates(x, h, c)
        c = self.remember(f, i, self.written(x, h), c)
        return self.show(o, c), c


@plant
class NoOutputTanh(BrokenLSTM):
    """The cell is shown as it is: h = o C."""

    def show(self, o, c):
        return o * c


@plant
class HardSigmoid(BrokenLSTM):
    """Piecewise linear gates, exactly 0 and 1 beyond ±3, as some embedded kernels have them."""

    def sigma(self, a):
        return torch.clamp(a / 6 + 0.5, 0, 1)


@plant
class ClippedGates(BrokenLSTM):
    """Gates are kept a millionth away from 0 and 1."""

    def sigma(self, a):
        return torch.sigmoid(a).clamp(1e-6, 1 - 1e-6)


@plant
class OvershootingSigmoid(BrokenLSTM):
    """An approximate sigmoid that misses by up to 1e-3 and leaves [0, 1]."""

    def sigma(self, a):
        return 1.002 * torch.sigmoid(a) - 0.001


@plant
class NaiveExponentials(BrokenLSTM):
    """A tanh from two exponentials, which overflow far out."""

    def written(self, x, h):
        a = self.candidate(x, h)
        return (a.exp() - (-a).exp()) / (a.exp() + (-a).exp())


@plant
class LeakyForgetGate(BrokenLSTM):
    """A thousandth of the cell is lost at every step."""

    def remember(self, f, i, g, c):
        return 0.999 * f * c + i * g


@plant
class ForgetGateStuckOpen(BrokenLSTM):
    """Nothing is ever forgotten, as in the cell of 1997."""

    def remember(self, f, i, g, c):
        return c + i * g


@plant
class CoupledInputGate(BrokenLSTM):
    """The input gate of a plain LSTM is 1 - f."""

    def remember(self, f, i, g, c):
        return f * c + (1 - f) * g


@plant
class NoInputGate(BrokenLSTM):
    """Everything is written."""

    def remember(self, f, i, g, c):
        return f * c + g


@plant
class ClippedCell(BrokenLSTM):
    """The cell state is clipped to [-50, 50]."""

    def remember(self, f, i, g, c):
        return (f * c + i * g).clamp(-50, 50)


@plant
class TanhOnTheHighway(BrokenLSTM):
    """The new cell is squashed before it is carried on."""

    def remember(self, f, i, g, c):
        return torch.tanh(f * c + i * g)


@plant
class CellOneUnitOff(BrokenLSTM):
    """Each unit keeps its neighbour's cell: an index is off by one."""

    def remember(self, f, i, g, c):
        return f * c.roll(1, -1) + i * g


@plant
class StaleCellShown(BrokenLSTM):
    """The hidden state shows the cell of the step before."""

    def step(self, x, h, c):
        f, i, o = self.gates(x, h, c)
        return self.show(o, c), self.remember(f, i, self.written(x, h), c)


@plant
class ForgetBiasTwice(BrokenLSTM):
    """The step adds a forget bias of 1 to the one that was loaded."""

    def gates(self, x, h, c):
        _, i, o = super().gates(x, h, c)
        return self.sigma(self.forget(x, h) + 1.0), i, o


@plant
class GatesBlindToState(BrokenLSTM):
    """The gates see the input alone."""

    def gates(self, x, h, c):
        return super().gates(x, torch.zeros_like(h), c)


@plant
class GatesPeep(BrokenLSTM):
    """The forget and the input gate of a plain LSTM see the cell."""

    def gates(self, x, h, c):
        peeped = 0.1 * c.roll(1, -1)
        _, _, o = super().gates(x, h, c)
        return self.sigma(self.forget(x, h) + peeped), self.sigma(self.input(x, h) + peeped), o


@plant
class ForgetGateFromBiasAlone(BrokenLSTM):
    """The forget gate is a constant: the kernels' share is left out."""

    def gates(self, x, h, c):
        _, i, o = super().gates(x, h, c)
        return self.sigma(self.forget.b).expand_as(i), i, o


@plant
class OneForgetGateForAll(BrokenLSTM):
    """All units share the mean of their forget gates."""

    def gates(self, x, h, c):
        f, i, o = super().gates(x, h, c)
        return f.mean(-1, keepdim=True).expand_as(f), i, o


@plant
class UnitsBeyond128Lost(BrokenLSTM):
    """Only the first 128 units are computed."""

    def written(self, x, h):
        g = super().written(x, h)
        return torch.cat([g[..., :128], torch.zeros_like(g[..., 128:])], -1)


@plant
class TenBitMantissa(BrokenLSTM):
    """Products take operands of 10 bits after the point, as TF32 does."""

    def gates(self, x, h, c):
        return super().gates(rounded(x), rounded(h), c)

    def written(self, x, h):
        return super().written(rounded(x), rounded(h))


def rounded(a: Tensor) -> Tensor:
    """A tensor with a mantissa of 10 bits; gradients pass."""
    mantissa, exponent = torch.frexp(a.detach())
    return a + (torch.ldexp(torch.round(mantissa * 2**11) / 2**11, exponent) - a).detach()


@plant
class CellInHalf(BrokenLSTM):
    """The cell is kept in float16 between the steps."""

    def remember(self, f, i, g, c):
        return super().remember(f, i, g, c).half().to(c.dtype)
