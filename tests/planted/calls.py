"""Faults around a sound cell: how it takes its inputs and states, and what it keeps between calls."""

from __future__ import annotations

import torch

from fixtures.subjects import ReferenceNet
from planted.backward import as_if_contiguous
from planted.plant import BrokenNet, plant
from reference import cells


@plant
class StridesIgnored(BrokenNet):
    """Inputs and states are read as if they were contiguous."""

    def __call__(self, x, state):
        return super().__call__(as_if_contiguous(x), state and tuple(as_if_contiguous(s) for s in state))


@plant
class BatchAndTimeExchanged(BrokenNet):
    """The memory of the outputs is laid out time first and read batch first."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        return outputs.transpose(0, 1).reshape(outputs.shape), last


@plant
class Beyond65536Lost(BrokenNet):
    """Of all the batch's steps only the first 65,536 are written."""

    of = cells.GRU

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        units = outputs.shape[2]
        lost = torch.arange(outputs.numel(), device=x.device).reshape(outputs.shape) >= 65536 * units
        return outputs.masked_fill(lost, 0), last


@plant
class RowsMixed(BrokenNet):
    """A hundredth of each row's state is the batch's mean."""

    def __call__(self, x, state):
        mixed = state and tuple(0.99 * s + 0.01 * s.mean(0, keepdim=True) for s in state)
        return super().__call__(x, mixed)


@plant
class StateNotCarried(BrokenNet):
    """Every step starts from the initial state."""

    def __call__(self, x, state):
        runs = [super(StateNotCarried, self).__call__(x[:, t : t + 1], state) for t in range(x.shape[1])]
        return torch.cat([outputs for outputs, _ in runs], 1), runs[-1][1]


@plant
class InitialStateIgnored(BrokenNet):
    """The state that is handed in is not used."""

    def __call__(self, x, state):
        return super().__call__(x, None)


@plant
class InitialCellIgnored(BrokenNet):
    """Of the state that is handed in only h is used."""

    def __call__(self, x, state):
        return super().__call__(x, state and (state[0], torch.zeros_like(state[1])))


@plant
class OmittedStateIsTheLastOne(BrokenNet):
    """Without a state the net goes on where its last call ended."""

    def __call__(self, x, state):
        fits = getattr(self, "last", None) and self.last[0].shape[0] == x.shape[0]
        outputs, last = super().__call__(x, self.last if state is None and fits else state)
        self.last = tuple(s.detach() for s in last)
        return outputs, last


@plant
class RecurrentBiasSkippedAtFirst(BrokenNet):
    """Without a state the first step leaves out the recurrent branch, its bias included."""

    def __init__(self, weights, dtype, device):
        super().__init__(weights, dtype, device)
        self.first = ReferenceNet(self.of(weights.change(b_h=lambda b: 0 * b), dtype, device))

    def __call__(self, x, state):
        if state is not None or not x.shape[1]:
            return super().__call__(x, state)
        shown, state = self.first(x[:, :1], None)
        outputs, last = super().__call__(x[:, 1:], state)
        return torch.cat([shown, outputs], 1), last


@plant
class StateLeaks(BrokenNet):
    """A thousandth of the last call's state is added to the state that is handed in."""

    def __call__(self, x, state):
        fits = state and getattr(self, "last", None) and self.last[0].shape == state[0].shape
        leaked = tuple(s + 1e-3 * old for s, old in zip(state, self.last, strict=True)) if fits else state
        outputs, last = super().__call__(x, leaked)
        self.last = tuple(s.detach() for s in last)
        return outputs, last


@plant
class InstancesShareOneCell(BrokenNet):
    """Cells of one shape are cached, and a second instance overwrites the weights of the first."""

    def __init__(self, weights, dtype, device):
        super().__init__(weights, dtype, device)
        type(self).latest = self.cell

    def __call__(self, x, state):
        return ReferenceNet(self.latest)(x, state)


@plant
class StateChangedInPlace(BrokenNet):
    """The last state is written into the one that was handed in."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state and tuple(s.clone() for s in state))
        if state:
            state[0].data.copy_(last[0].detach())
        return outputs, last


@plant
class ParametersChangedInPlace(BrokenNet):
    """Each call scales the recurrent kernel of the forget gate."""

    def __call__(self, x, state):
        self.parameters["forget.W_h"].data.mul_(1.001)
        return super().__call__(x, state)


@plant
class OneStepCallsDiffer(BrokenNet):
    """A call of one step has its update gate write where it should keep."""

    of = cells.GRU

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        if x.shape[1] == 1 and state:
            (h,), n = state, self.cell
            z = torch.sigmoid(n.update(x[:, 0], h))
            written = (last[0] - z * h) / (1 - z)
            last = ((1 - z) * h + z * written,)
            outputs = last[0][:, None]
        return outputs, last


@plant
class WideNumbers(BrokenNet):
    """Everything comes out in float64."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        return outputs.double(), tuple(s.double() for s in last)


@plant
class RoundedOnce(BrokenNet):
    """float32 is computed in float64 and rounded once, at the end."""

    def __init__(self, weights, dtype, device):
        super().__init__(weights, torch.float64, device)

    def __call__(self, x, state):
        outputs, last = super().__call__(x.double(), state and tuple(s.double() for s in state))
        return outputs.to(x.dtype), tuple(s.to(x.dtype) for s in last)


@plant
class EmptySequenceResets(BrokenNet):
    """A sequence of no steps returns a state of zeros."""

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        return outputs, last if x.shape[1] else tuple(torch.zeros_like(s) for s in last)


@plant
class TrainingDiffers(BrokenNet):
    """In training the outputs are scaled, as by a dropout that was left on."""

    def train(self, mode):
        self.training = mode

    def __call__(self, x, state):
        outputs, last = super().__call__(x, state)
        return outputs * 1.1 if self.training else outputs, last
