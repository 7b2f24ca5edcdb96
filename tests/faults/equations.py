"""Faults in the equations; conventions among them."""

from __future__ import annotations

import torch
from torch import nn

from tests.faults.base import GRU, LSTM, RNN, fault
from tests.faults.weights import OnnxOrder, Relaid, UpdateFirst

# Equations


@fault("clip", "cells.step-parity", "0.999999 times the cell that is kept")
class CellLeaksAMillionth(LSTM):
    """A millionth of the cell is lost at each step."""

    def remember(self, i, f, g, c):
        return super().remember(i, f, g, (1 - 1e-6) * c)


@fault("output-tanh-missing", "cells.step-parity", "output tanh missing")
class NoOutputTanh(LSTM):
    """h = o C."""

    def show(self, o, c):
        return o * c


@fault("coupled-gates", "cells.step-parity", "input gate coupled to the forget gate, i = 1 - f")
class CoupledGates(LSTM):
    """i = 1 - f."""

    def remember(self, i, f, g, c):
        return f * c + (1 - f) * g


@fault("coupled-gates", "cells.step-parity")
class CoupledTheOtherWay(LSTM):
    """f = 1 - i."""

    def remember(self, i, f, g, c):
        return (1 - i) * c + i * g


@fault("stale-cell", "cells.step-parity")
class StaleCellShown(LSTM):
    """The hidden state shows the cell of the step before."""

    def step(self, x, *state):
        h, c = state
        i, f, g, o = self.gates(x, h, c)
        return self.show(o, c), self.remember(i, f, g, c)


@fault("gate-op-wrong", "cells.step-parity")
class GatesAdded(LSTM):
    """C = f + C i g."""

    def remember(self, i, f, g, c):
        return f + c * i * g


@fault("cell-substituted", "cells.step-parity", "no forget gate (the cell of 1997)")
class NoForgetGate(LSTM):
    """C = C + i g."""

    def remember(self, i, f, g, c):
        return c + i * g


@fault("cell-substituted", "cells.step-parity")
class PlainRNNInside(LSTM):
    """A cell called LSTM that is a tanh RNN."""

    def step(self, x, *state):
        g = torch.tanh(self.pre_activations(x, state[0])[2])
        return g, g


@fault("wrong-activation", "cells.step-parity", "hard sigmoid a / 6 + 1/2")
class HardSigmoidSixth(LSTM):
    """Gates are piecewise linear, 0 and 1 beyond ±3."""

    def sigma(self, a):
        return torch.clamp(a / 6 + 0.5, 0, 1)


@fault("wrong-activation", "cells.step-parity", "hard sigmoid a / 5 + 1/2 (Keras 2)")
class HardSigmoidFifth(GRU):
    """Gates are piecewise linear, 0 and 1 beyond ±2.5."""

    def sigma(self, a):
        return torch.clamp(a / 5 + 0.5, 0, 1)


@fault("wrong-activation", "cells.step-parity", "ReLU in the place of tanh")
class ReLUForTanh(RNN):
    """The state is a ReLU."""

    def tanh(self, a):
        return torch.relu(a)


@fault("wrong-activation", "cells.step-parity")
class SigmoidForTheCandidate(LSTM):
    """The candidate is squashed by σ."""

    def tanh(self, a):
        return torch.sigmoid(a)


@fault("approx-activation", "cells.step-parity", "approximate sigmoid")
class RationalSigmoid(LSTM):
    """σ(a) ≈ (1 + a / (1 + |a|)) / 2."""

    def sigma(self, a):
        return (1 + a / (1 + a.abs())) / 2


@fault("approx-activation", "cells.step-parity")
class PadeTanh(GRU):
    """tanh by a continued fraction, clipped: off by up to 3e-3."""

    def tanh(self, a):
        a = a.clamp(-4.97, 4.97)
        s = a * a
        return a * (135135 + s * (17325 + s * (378 + s))) / (135135 + s * (62370 + s * (3150 + s * 28))) * (1 + 1e-4)


@fault("approx-activation", "cells.step-parity")
class SigmoidOffByTenThousandth(LSTM):
    """The output gate is off by 1e-4 of its value."""

    def show(self, o, c):
        return super().show(o * (1 + 1e-4), c)


@fault("approx-activation", "cells.step-parity")
class CandidateOffByHundredThousandth(GRU):
    """The candidate is off by 1e-5 of its value."""

    def candidate(self, a_x, a_h, r, h):
        return super().candidate(a_x, a_h, r, h) * (1 + 1e-5)


@fault("approx-activation", "cells.step-parity")
class NineDigitsOnly(LSTM):
    """An epsilon of 1e-9 is added to the cell, which only float64 can show."""

    def remember(self, i, f, g, c):
        return super().remember(i, f, g, c) + 1e-9


@fault("clip", "cells.every-number", "cell clipped")
class CellClippedAtTen(LSTM):
    """The cell is clipped to [-10, 10]."""

    def remember(self, i, f, g, c):
        return super().remember(i, f, g, c).clamp(-10, 10)


@fault("clip", "cells.every-number", "state clipped")
class StateClippedAtOne(RNN):
    """The state that is handed in is clipped to [-1, 1]."""

    def unpacked(self, x, state):
        return tuple(s.clamp(-1, 1) for s in super().unpacked(x, state))


@fault("clip", "cells.every-number")
class InputsClippedAtTen(GRU):
    """Inputs are clipped to [-10, 10]."""

    def of_input(self, x):
        return super().of_input(x.clamp(-10, 10))


@fault("clip", "cells.every-number")
class WeightsClippedAtFour(Relaid, LSTM):
    """Weights are clipped to [-4, 4], as by a quantised kernel."""

    def W_x(self):
        return self.weight_ih_l0.clamp(-4, 4)


@fault("stale-state", "cells.sequence-parity")
class GatesSeeTheStateBefore(LSTM):
    """From the second step on the output gate sees the hidden state of the step before the last."""

    def over(self, x, state):
        self.older = state[0]
        return super().over(x, state)

    def gates(self, x, h, c):
        i, f, g, _ = super().gates(x, h, c)
        o = torch.sigmoid(self.pre_activations(x, self.older)[3])
        self.older = h
        return i, f, g, o


@fault("peephole-placement", "cells.step-parity", "peepholes")
class GatesPeep(LSTM):
    """The forget and the input gate see a tenth of their unit's cell."""

    def gates(self, x, h, c):
        a_i, a_f, a_g, a_o = self.pre_activations(x, h)
        return torch.sigmoid(a_i + 0.1 * c), torch.sigmoid(a_f + 0.1 * c), torch.tanh(a_g), torch.sigmoid(a_o)


# The GRU's conventions


@fault("z-convention", "cells.step-parity", "update gate writes: h = (1 - z) h + z n")
class UpdateWrites(GRU):
    """z writes."""

    def blend(self, z, n, h):
        return (1 - z) * h + z * n


@fault("z-convention", "cells.steps-are-the-sequence")
class UpdateWritesInSingleSteps(GRU):
    """z writes in a call of one step."""

    def over(self, x, state):
        self.single = x.shape[1] == 1
        return super().over(x, state)

    def blend(self, z, n, h):
        return (1 - z) * h + z * n if self.single else super().blend(z, n, h)


@fault("reset-placement", "cells.step-parity", "reset before the recurrent product")
class ResetBefore(GRU):
    """r multiplies h before the recurrent product; b_h stays outside."""

    def candidate(self, a_x, a_h, r, h):
        W, b = self.weight_hh_l0.chunk(3)[2], self.bias_hh_l0.chunk(3)[2]
        return torch.tanh(a_x + (r * h) @ W.T + b)


@fault("reset-missing", "cells.step-parity", "reset gate missing")
class ResetIgnored(GRU):
    """The candidate sees the whole state."""

    def candidate(self, a_x, a_h, r, h):
        return torch.tanh(a_x + a_h)


@fault("reset-index", "cells.step-parity")
class ResetOfTheNeighbour(GRU):
    """Each unit is reset by its neighbour's gate."""

    def candidate(self, a_x, a_h, r, h):
        return super().candidate(a_x, a_h, r.roll(1, -1), h)


@fault("reset-placement", "cells.step-parity", "reset before the recurrent product; update gate writes")
class ResetBeforeAndUpdateWrites(ResetBefore):
    """r multiplies h before the recurrent product, and z writes: two conventions at once."""

    def blend(self, z, n, h):
        return (1 - z) * h + z * n


@fault("gate-order", "cells.step-parity", "gate order update, reset, candidate; update gate writes")
class UpdateFirstAndWrites(UpdateFirst):
    """Blocks are read as z, r, n, and z writes: two conventions at once."""

    def blend(self, z, n, h):
        return (1 - z) * h + z * n


@fault("gate-order", "cells.step-parity", "gate order input, output, forget, candidate (ONNX); output tanh missing")
class OnnxOrderWithoutTanh(OnnxOrder):
    """Blocks are read as i, o, f, g, and the output tanh is missing: two at once."""

    def show(self, o, c):
        return o * c


# The forget bias


@fault("forget-bias-placement", "cells.step-parity", "forget bias of 1 added at run time")
class ForgetBiasAtRunTime(LSTM):
    """1 is added to the forget gate's pre-activation."""

    def pre_activations(self, x, h):
        a_i, a_f, a_g, a_o = super().pre_activations(x, h)
        return [a_i, a_f + 1, a_g, a_o]


@fault("forget-bias-placement", "cells.sequence-parity")
class ForgetBiasAfterTheFirstStep(LSTM):
    """1 is added to the forget gate's pre-activation from the second step on."""

    def over(self, x, state):
        self.t = 0
        return super().over(x, state)

    def pre_activations(self, x, h):
        a_i, a_f, a_g, a_o = super().pre_activations(x, h)
        self.t += 1
        return [a_i, a_f + float(self.t > 1), a_g, a_o]


@fault("forget-bias-init", "cells.new-weights")
class ForgetBiasWrittenAtTheFirstCall(LSTM):
    """The first call sets the forget gate's input bias to 1."""

    def forward(self, x, state=None):
        if not hasattr(self, "begun"):
            self.begun = True
            self.bias_ih_l0.data[self.hidden_size : 2 * self.hidden_size] = 1
        return super().forward(x, state)


@fault("init-ignored", "cells.step-parity")
class WeightsReadAtConstruction(nn.LSTM):
    """What is computed with are copies made at construction; loading weights changes nothing."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size, batch_first=True)
        self.copies = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, x, state=None):
        return self.copies(x, state)


@fault("param-count", "parameters.formula")
class ThirdBias(LSTM):
    """A bias of zeros is learnt beside the two."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.bias_l0 = nn.Parameter(torch.zeros(4 * hidden_size))

    def of_input(self, x):
        shares = super().of_input(x)
        return tuple(a + b for a, b in zip(shares, self.bias_l0.chunk(4), strict=True))
