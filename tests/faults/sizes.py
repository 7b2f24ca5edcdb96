"""Faults at some sizes only; elsewhere these cells are right."""

from __future__ import annotations

import torch

from tests.faults.base import GRU, LSTM, RNN, fault


@fault("size-limit", "cells.step-parity")
class UnitsBeyond128Lost(LSTM):
    """Units beyond the 128th write nothing."""

    def remember(self, i, f, g, c):
        return super().remember(i, f, g * (torch.arange(g.shape[-1]) < 128), c)


@fault("size-limit", "cells.every-size")
class From256UnitsInHalf(GRU):
    """From 256 units on the candidate is computed in float16."""

    def candidate(self, a_x, a_h, r, h):
        n = super().candidate(a_x, a_h, r, h)
        return n.half().to(n.dtype) if n.shape[-1] >= 256 else n


@fault("size-limit", "cells.every-size")
class MultiplesOf32OffByOne(LSTM):
    """With a multiple of 32 units the last one of each 32 takes its neighbour's gate."""

    def remember(self, i, f, g, c):
        if g.shape[-1] % 32 == 0:
            last = torch.arange(g.shape[-1]) % 32 == 31
            f = torch.where(last, f.roll(1, -1), f)
        return super().remember(i, f, g, c)


@fault("size-limit", "cells.every-size")
class TailOfSixteenLost(LSTM):
    """Above sixteen units, those beyond the last full sixteen have no output gate."""

    def show(self, o, c):
        units = c.shape[-1]
        return super().show(torch.where(torch.arange(units) < (units // 16 * 16 if units > 16 else units), o, 1), c)


@fault("size-limit", "cells.every-size")
class OddUnitsLost(GRU):
    """With an odd number of units above eight the last one keeps its state."""

    def blend(self, z, n, h):
        units = n.shape[-1]
        odd = units % 2 == 1 and units > 8
        return super().blend(torch.where((torch.arange(units) == units - 1) & odd, 1.0, z), n, h)


@fault("size-limit", "cells.every-size")
class LastOfSixtyFourStepsRepeats(GRU):
    """Where the steps are a multiple of 64, the last one reads the input before it."""

    def over(self, x, state):
        steps = x.shape[1]
        return super().over(torch.cat([x[:, :-1], x[:, -2:-1]], 1) if steps and steps % 64 == 0 else x, state)


@fault("size-limit", "cells.sequence-parity")
class CellLostAfter1024Steps(LSTM):
    """After 1024 steps the cell begins anew."""

    def over(self, x, state):
        outputs, last = super().over(x[:, :1024], state)
        if x.shape[1] <= 1024:
            return outputs, last
        more, last = super().over(x[:, 1024:], (last[0], torch.zeros_like(last[1])))
        return torch.cat([outputs, more], 1), last


@fault("stale-state", "cells.every-number")
class RestsOnceAtRest(GRU):
    """Once a step moves the state by less than 10⁻⁷, the steps that are left repeat it."""

    def over(self, x, state):
        h, outputs = state[0], []
        for x_t in x.unbind(1):
            at_rest = len(outputs) > 1 and float((outputs[-1] - outputs[-2]).abs().max()) < 1e-7
            h = h if at_rest else self.step(x_t, h)[0]
            outputs.append(h)
        return torch.stack(outputs, 1) if outputs else x.new_zeros(len(x), 0, self.hidden_size), (h,)


@fault("clip", "cells.every-number")
class InputsInTheRangeOfHalf(LSTM):
    """Inputs are clipped to ±65504."""

    def of_input(self, x):
        return super().of_input(x.clamp(-65504, 65504))


@fault("memory-corruption", "cells.every-size")
class ThreadsShareOneSum(GRU):
    """With several threads the recurrent bias is not added."""

    def of_state(self, h):
        biases = self.bias_hh_l0 if torch.get_num_threads() == 1 else 0 * self.bias_hh_l0
        return (h @ self.weight_hh_l0.T + biases).chunk(3, -1)


@fault("size-limit", "cells.every-size")
class RowsBeyond64Lost(LSTM):
    """Rows of the batch beyond the 64th have no input."""

    def step(self, x, *state):
        return super().step(x * (torch.arange(len(x)) < 64)[:, None], *state)


@fault("size-limit", "cells.every-size")
class RowsBeyond1024Lost(RNN):
    """Rows of the batch beyond the 1024th have no input."""

    def step(self, x, *state):
        return super().step(x * (torch.arange(len(x)) < 1024)[:, None], *state)


@fault("size-limit", "cells.sequence-parity")
class Beyond65536Lost(GRU):
    """Of all rows and steps the first 65,536 are written."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        at = torch.arange(outputs.shape[0] * outputs.shape[1]).reshape(*outputs.shape[:2], 1)
        return outputs * (at < 65536), last


@fault("size-limit", "cells.every-size")
class StepsBeyond100Lost(LSTM):
    """From the hundredth step on the state stays as it is."""

    def over(self, x, state):
        outputs, last = super().over(x[:, :100], state)
        rest = last[0][:, None].expand(-1, max(0, x.shape[1] - 100), -1)
        return torch.cat([outputs, rest], 1), last


@fault("size-limit", "cells.every-size")
class FeaturesBeyond128Lost(RNN):
    """Of the features the first 128 are read."""

    def of_input(self, x):
        return super().of_input(x * (torch.arange(x.shape[-1]) < 128))


@fault("size-limit", "cells.every-size")
class OneFeatureSquared(GRU):
    """A single feature is squared."""

    def of_input(self, x):
        return super().of_input(x * x if x.shape[-1] == 1 else x)


@fault("shape-stride", "cells.step-parity")
class OneUnitSqueezed(LSTM):
    """A single unit has no recurrence."""

    def of_state(self, h):
        return super().of_state(0 * h if h.shape[-1] == 1 else h)


@fault("shape-stride", "cells.step-parity")
class OneRowSqueezed(RNN):
    """The state of a batch of one comes back without its batch."""

    def forward(self, x, state=None):
        outputs, h = super().forward(x, state)
        return outputs, h[:, 0] if h.shape[1] == 1 else h


@fault("memory-corruption", "cells.every-size")
class LastRowOfABlock(LSTM):
    """With a multiple of 16 rows the last one gets the first one's forget gate."""

    def remember(self, i, f, g, c):
        if len(f) % 16 == 0:
            f = torch.cat([f[:-1], f[:1]])
        return super().remember(i, f, g, c)


@fault("device-nan", "cells.every-size")
class NotANumberAtLargeSizes(GRU):
    """With at least 64 rows and 128 units the last number is NaN."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        if len(x) >= 64 and self.hidden_size >= 128:
            outputs = outputs.clone()
            outputs[-1, -1, -1] = torch.nan
        return outputs, last


@fault("missing-check", "cells.every-size")
class KernelTransposedWhereSquare(RNN):
    """Where it has as many inputs as units, and four of each, the input kernel is transposed."""

    def of_input(self, x):
        square = self.input_size == self.hidden_size == 4
        return (x @ (self.weight_ih_l0 if square else self.weight_ih_l0.T) + self.bias_ih_l0,)


@fault("size-limit", "cells.every-size")
class RowsBeyond65535Lost(GRU):
    """Rows of the batch beyond the 65,535th, the largest grid of a GPU, have no input."""

    def step(self, x, *state):
        return super().step(x * (torch.arange(len(x)) < 65535)[:, None], *state)


@fault("weight-transpose", "cells.every-size")
class StackedKernelTransposedWhereSquare(GRU):
    """Where D = 3 H, the kernel of all gates is square, and is taken for its transpose."""

    def of_input(self, x):
        W = self.weight_ih_l0
        return (x @ (W if W.shape[0] == W.shape[1] and W.shape[0] > 3 else W.T) + self.bias_ih_l0).chunk(3, -1)


@fault("shape-stride", "cells.every-size")
class TimeForBatchWhereEqual(RNN):
    """Where there are as many rows as steps, and more than eight, they are exchanged."""

    def over(self, x, state):
        return super().over(x.transpose(0, 1) if len(x) == x.shape[1] > 8 else x, state)


@fault("size-limit", "cells.every-size")
class ThreeStepsLeftOverRepeat(LSTM):
    """Steps are taken four at a time; of three left over after that, the last two read the first one's input."""

    def over(self, x, state):
        if x.shape[1] > 4 and x.shape[1] % 4 == 3:
            x = torch.cat([x[:, :-2], x[:, -3:-2], x[:, -3:-2]], 1)
        return super().over(x, state)


@fault("implicit-state", "cells.omitted-state")
class WideStateNotZero(GRU):
    """Where it is omitted, the state of more than 32 units begins with the 33rd at 1."""

    def omitted(self, x):
        (h,) = super().omitted(x)
        return (h + (torch.arange(h.shape[-1]) == 32),)


@fault("size-limit", "cells.every-size")
class WindowOfFeatures(LSTM):
    """From 24 to 31 features the last one is left out."""

    def of_input(self, x):
        lost = 24 <= x.shape[-1] <= 31
        return super().of_input(torch.cat([x[:, :-1], 0 * x[:, -1:]], -1) if lost else x)


@fault("size-limit", "cells.every-size")
class PairLeftOverBeyond64(LSTM):
    """With more than 64 units, and two left over after fours, the last two forget without their recurrent bias."""

    def of_state(self, h):
        H, b = self.hidden_size, self.bias_hh_l0
        lost = (H > 64 and H % 4 == 2) * ((torch.arange(4 * H) >= 2 * H - 2) & (torch.arange(4 * H) < 2 * H))
        return (h @ self.weight_hh_l0.T + b * ~lost.bool()).chunk(4, -1)


@fault("weight-transpose", "cells.every-size")
class KernelTurnedForOneRow(RNN):
    """Where D = H, one row's steps beyond the eighth multiply by the input kernel as it lies."""

    def over(self, x, state):
        W = self.weight_ih_l0
        if x.shape[0] == 1 and x.shape[1] > 8 and W.shape[0] == W.shape[1]:
            turned, rest = x[:, 8:] @ W, []
            outputs, state = super().over(x[:, :8], state)
            for t in range(turned.shape[1]):
                state = (torch.tanh(turned[:, t] + self.bias_ih_l0 + self.of_state(state[0])[0]),)
                rest.append(state[0])
            return torch.cat([outputs, torch.stack(rest, 1)], 1), state
        return super().over(x, state)


@fault("size-limit", "cells.every-size")
class OffsetOfTwentyBits(GRU):
    """Where the gates of all rows are more than 2^20 numbers, the last row has the first one's."""

    def of_input(self, x):
        parts = super().of_input(x)
        beyond = x.shape[0] * 3 * self.hidden_size > 2**20
        return tuple(torch.cat([a[:-1], a[:1]]) for a in parts) if beyond else parts
