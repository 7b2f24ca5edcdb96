"""Faults in the LSTM's variants, and a GRU that is one of them."""

from __future__ import annotations

import torch

from planted.plant import BrokenNet, plant
from reference import cells
from reference.weights import Weights


@plant
class PeepholesIgnored(cells.PeepholeLSTM):
    """The peepholes are loaded and not used."""

    def step(self, x, h, c):
        return cells.LSTM.step(self, x, h, c)


@plant
class OutputPeepsAtTheOldCell(cells.DiagonalPeepholeLSTM):
    """The output gate sees the cell of the step before."""

    def step(self, x, h, c):
        f = torch.sigmoid(self.forget(x, h) + self.forget.peep(c))
        i = torch.sigmoid(self.input(x, h) + self.input.peep(c))
        o = torch.sigmoid(self.output(x, h) + self.output.peep(c))
        c = f * c + i * torch.tanh(self.candidate(x, h))
        return o * torch.tanh(c), c


@plant
class PeepholeAfterTheSigmoid(cells.DiagonalPeepholeLSTM):
    """The cell's share is added to the forget gate after its sigmoid."""

    def step(self, x, h, c):
        f = torch.sigmoid(self.forget(x, h)) + self.forget.peep(c)
        i = torch.sigmoid(self.input(x, h) + self.input.peep(c))
        c = f * c + i * torch.tanh(self.candidate(x, h))
        o = torch.sigmoid(self.output(x, h) + self.output.peep(c))
        return o * torch.tanh(c), c


@plant
class PeepholesExchanged(cells.PeepholeLSTM):
    """Forget and output gate have each other's peephole."""

    def __init__(self, weights: Weights, dtype: torch.dtype, device: str) -> None:
        f, o = weights["forget"], weights["output"]
        changed = weights.change("forget", P=lambda P: o.P).change("output", P=lambda P: f.P)
        super().__init__(changed, dtype, device)


@plant
class GatesNotCoupled(cells.CoupledLSTM):
    """The coupled LSTM writes in full, whatever it forgets."""

    def step(self, x, h, c):
        f, o = torch.sigmoid(self.forget(x, h)), torch.sigmoid(self.output(x, h))
        c = f * c + torch.tanh(self.candidate(x, h))
        return o * torch.tanh(c), c


@plant
class StateTransposed(BrokenNet):
    """The last state comes out with units before batch."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        return outputs, tuple(s.T for s in last)


@plant
class GRUFromCoupledLSTM(BrokenNet):
    """A GRU made of a coupled LSTM: it carries a cell from step to step, shows its tanh and has no reset."""

    of = cells.GRU

    def __call__(self, x, state):
        (h,), gru = state, self.cell
        c, outputs = h, []
        for t in range(x.shape[1]):
            z = torch.sigmoid(gru.update(x[:, t], h))
            c = z * c + (1 - z) * torch.tanh(gru.candidate(x[:, t], h) + gru.candidate.b_h)
            h = torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs, 1), (h,)
