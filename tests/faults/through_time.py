"""Faults of what a gradient does from step to step: cut, truncated, or late."""

from __future__ import annotations

import torch

from tests.faults.base import GRU, LSTM, RNN, HandGRU, HandLSTM, HandRNN, fault


@fault("bwd-recurrent-dropped", "cells.gradient-parity")
class NothingThroughTheKernel(HandLSTM):
    """No gradient goes back through the recurrent kernel: the highway alone is left."""

    def through_kernel(self, da, W_h, s):
        return torch.zeros_like(s.before[0])


@fault("bwd-recurrent-dropped", "cells.gradient-parity")
class OneGateThroughTheKernel(HandLSTM):
    """The output gate's gradient does not go back through the recurrent kernel."""

    def through_kernel(self, da, W_h, s):
        return (da * (torch.arange(da.shape[1]) < 3 * self.hidden_size)) @ W_h


@fault("truncated-bptt", "cells.gradient-parity")
class TruncatedAfterFour(HandLSTM):
    """Gradients go back four steps, counted from the end."""

    def order(self, kept):
        return reversed(kept[-4:])


@fault("truncated-bptt", "cells.every-size")
class TruncatedAfterHundred(HandGRU):
    """Gradients go back a hundred steps, counted from the end."""

    def order(self, kept):
        return reversed(kept[-100:])


@fault("truncated-bptt", "cells.every-size")
class CutEveryThirtyTwo(LSTM):
    """The state is cut out of the graph after every 32 steps."""

    every = 32

    def over(self, x, state):
        outputs = []
        for part in x.split(self.every, 1) if x.shape[1] else [x]:
            shown, state = super().over(part, tuple(s.detach() for s in state) if outputs else state)
            outputs.append(shown)
        return torch.cat(outputs, 1), state


@fault("bwd-bias", "cells.gradient-parity", "the gradient of b_hh of the last step alone")
class RecurrentBiasOfTheLastStep(RNN):
    """Only the last step's share of the gradient of b_hh is returned."""

    def over(self, x, state):
        self.left = x.shape[1]
        return super().over(x, state)

    def of_state(self, h):
        self.left -= 1
        return (h @ self.weight_hh_l0.T + (self.bias_hh_l0.detach() if self.left else self.bias_hh_l0),)


@fault("detached-path", "cells.gradient-parity", "no gradient of the candidate through W_hh")
class HiddenDetachedInTheCandidate(GRU):
    """The candidate's recurrent product takes a state that is cut out of the graph."""

    def of_state(self, h):
        r, z, _ = super().of_state(h)
        return r, z, super().of_state(h.detach())[2]


@fault("detached-path", "cells.gradient-parity")
class HiddenStateDetached(LSTM):
    """The hidden state is cut out of the graph between steps."""

    def step(self, x, *state):
        return super().step(x, state[0].detach(), state[1])


@fault("detached-path", "cells.gradient-parity")
class CellDetached(LSTM):
    """The cell is cut out of the graph between steps."""

    def remember(self, i, f, g, c):
        return f * c.detach() + i * g


@fault("detached-path", "cells.gradient-parity")
class InitialStateDetached(GRU):
    """The state that is handed in is cut out of the graph."""

    def unpacked(self, x, state):
        return tuple(s.detach() for s in super().unpacked(x, state))


@fault("detached-path", "cells.gradient-parity")
class ResetGateDetached(GRU):
    """No gradient reaches the reset gate."""

    def candidate(self, a_x, a_h, r, h):
        return super().candidate(a_x, a_h, r.detach(), h)


@fault("bwd-time-order", "cells.gradient-parity")
class FromTheFirstStepOn(HandLSTM):
    """Gradients are pulled from the first step to the last."""

    def order(self, kept):
        return iter(kept)


@fault("bwd-time-order", "cells.gradient-parity")
class UpstreamReversed(HandRNN):
    """The outputs' gradients are taken in reversed order."""

    def arriving(self, outputs, t):
        return outputs[:, outputs.shape[1] - 1 - t]


@fault("bwd-multistep", "cells.gradient-parity")
class FirstStepSkipped(HandGRU):
    """The first step is left out of a sequence of several."""

    def order(self, kept):
        return reversed(kept[1:] if len(kept) > 1 else kept)


@fault("bwd-multistep", "cells.gradient-parity")
class InitialStateDropped(HandLSTM):
    """The first step's part of the recurrent kernel's gradient is left out, as if h[0] were zero."""

    def to_recurrent_kernel(self, da, s):
        return super().to_recurrent_kernel(da, s) * float(s.t > 0)


@fault("bwd-multistep", "cells.gradient-parity")
class ForgetGateOfTheFirstStepDropped(HandLSTM):
    """df of the first step is zero, as if C[0] were."""

    def df(self, s, dc):
        return super().df(s, dc) * float(s.t > 0)


@fault("truncated-sequence", "cells.gradient-parity")
class LastOutputAlone(HandRNN):
    """Of the outputs' gradients only the last one counts."""

    def arriving(self, outputs, t):
        return outputs[:, t] * float(t == outputs.shape[1] - 1)


@fault("truncated-bptt", "cells.every-number")
class WindowOf64(LSTM):
    """No gradient goes back more than 64 steps: the initial state is cut off where the sequence is longer."""

    def over(self, x, state):
        return super().over(x, tuple(s.detach() for s in state) if x.shape[1] > 64 else state)


@fault("truncated-bptt", "cells.every-size", "h and c detached every 200 steps")
class CutEvery200(CutEveryThirtyTwo):
    """The state is cut out of the graph after every 200 steps."""

    every = 200


@fault("truncated-bptt", "cells.every-size")
class TruncatedAfter256(HandRNN):
    """Gradients go back 256 steps, counted from the end."""

    def order(self, kept):
        return reversed(kept[-256:])
