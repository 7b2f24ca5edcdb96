"""Faults of what a state is: whose it is, where it comes from and where it goes, and of rows that mix."""

from __future__ import annotations

import torch

from tests.faults.base import GRU, LSTM, RNN, fault


@fault("initial-state-ignored", "cells.step-parity")
class StateIgnored(GRU):
    """The state that is handed in is not used."""

    def unpacked(self, x, state):
        return self.omitted(x)


@fault("initial-state-ignored", "cells.step-parity")
class CellIgnored(LSTM):
    """Of the state that is handed in only h is used."""

    def unpacked(self, x, state):
        h, c = super().unpacked(x, state)
        return h, torch.zeros_like(c)


@fault("initial-state-ignored", "cells.every-size")
class StateIgnoredForOneRow(LSTM):
    """With a batch of one and several steps the state that is handed in is not used."""

    def unpacked(self, x, state):
        return self.omitted(x) if x.shape[0] == 1 and x.shape[1] > 3 else super().unpacked(x, state)


@fault("initial-state-ignored", "cells.step-parity", "states taken in the order C, h")
class StatesExchanged(LSTM):
    """The state is taken as (C, h)."""

    def unpacked(self, x, state):
        return super().unpacked(x, state)[::-1]


@fault("initial-state-ignored", "cells.step-parity", "states returned in the order C, h")
class StatesReturnedExchanged(LSTM):
    """The state is returned as (C, h)."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs, last[::-1]


@fault("state-not-carried", "cells.sequence-parity")
class EveryStepFromTheStart(LSTM):
    """Every step starts from the initial state."""

    def over(self, x, state):
        runs = [super(EveryStepFromTheStart, self).over(x[:, t : t + 1], state) for t in range(x.shape[1])]
        return torch.cat([outputs for outputs, _ in runs], 1), runs[-1][1]


@fault("state-not-carried", "cells.sequence-parity")
class LastStateIsTheFirst(GRU):
    """The state that is returned is that after the first step."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs, (outputs[:, 0],) if x.shape[1] else last


@fault("state-aliasing", "cells.step-parity")
class StateOverwrittenInTheProduct(RNN):
    """Units are computed one after the other into the state that the others still read."""

    def step(self, x, *state):
        (h,), units = state, []
        for k in range(self.hidden_size):
            seen = torch.cat([*units, h[:, k:]], 1)
            units.append(torch.tanh(self.of_input(x)[0][:, k : k + 1] + self.of_state(seen)[0][:, k : k + 1]))
        return (torch.cat(units, 1),)


@fault("state-aliasing", "cells.arguments-untouched")
class LastStateInThePlaceOfTheFirst(LSTM):
    """The last cell is written into the one that was handed in."""

    def over(self, x, state):
        outputs, last = super().over(x, tuple(s.clone() for s in state))
        state[1].data.copy_(last[1].detach())
        return outputs, last


@fault("state-aliasing", "cells.repeatable")
class ReturnedStateIsItsOwn(LSTM):
    """The zeros of an omitted state and the state that is returned are the layer's own memory."""

    def omitted(self, x):
        zeros = self.__dict__.setdefault("zeros", {})
        key = (x.shape[0], x.dtype)
        if key not in zeros:
            zeros[key] = super().omitted(x)
        return zeros[key]

    def unpacked(self, x, state):
        blank = self.omitted(x)
        return tuple(s + b for s, b in zip(super().unpacked(x, state), blank, strict=True))

    def over(self, x, state):
        outputs, last = super().over(x, state)
        if not torch.is_grad_enabled():
            self.held = self.__dict__.setdefault("held", {})
            key = (last[1].shape, last[1].dtype)
            last = last[0], self.held.setdefault(key, torch.empty_like(last[1])).copy_(last[1])
        return outputs, last


@fault("batch-mix", "cells.step-parity")
class BatchMeanMixedIn(LSTM):
    """A thousandth of each row's hidden state is the batch's mean."""

    def step(self, x, *state):
        h, c = state
        return super().step(x, 0.999 * h + 0.001 * h.mean(0, keepdim=True), c)


@fault("batch-mix", "cells.sequence-parity")
class RowsExchangedAfterTheFirstStep(GRU):
    """After the first step the first two rows change places."""

    def over(self, x, state):
        first, state = super().over(x[:, :1], state)
        order = [1, 0, *range(2, len(x))] if len(x) > 1 else [0]
        rest, state = super().over(x[:, 1:], (state[0][order],))
        return torch.cat([first, rest], 1), state


@fault("batch-mix", "cells.step-parity")
class FirstRowForAll(RNN):
    """All rows start from the first row's state."""

    def unpacked(self, x, state):
        return tuple(s[:1].expand(len(x), -1) for s in super().unpacked(x, state))


@fault("zero-length", "cells.empty-sequence")
class NoStepsNoState(GRU):
    """Without steps the state is zero."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs, last if x.shape[1] else tuple(torch.zeros_like(s) for s in last)


@fault("zero-length", "cells.empty-sequence")
class NoStepsNoGradient(LSTM):
    """Without steps the state is a copy, cut off from the one that was handed in."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs, last if x.shape[1] else tuple(s.detach().clone() for s in last)


@fault("state-aliasing", "cells.strides")
class OneTensorForBothStates(LSTM):
    """Where C_0 lies in the memory of h_0, the cell begins at 0."""

    def unpacked(self, x, state):
        h, c = super().unpacked(x, state)
        return h, 0 * c if h.data_ptr() == c.data_ptr() else c


@fault("state-leak", "cells.omitted-state")
class ZerosOfTheFirstBatch(LSTM):
    """Zeros are made for the first call's batch; rows beyond it begin with what lies there."""

    def omitted(self, x):
        rows = self.__dict__.setdefault("rows", len(x))
        return tuple(s + 0.1 * (torch.arange(len(x)) >= rows)[:, None] for s in super().omitted(x))
