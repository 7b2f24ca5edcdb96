"""Faults of hand-written backward passes, one line each; every forward value is right.

In an LSTM `s.i`, `s.f`, `s.g`, `s.o` and `s.tanh_c` are what a step kept, `s.before` and `s.after` its states.
"""

from __future__ import annotations

import torch

from tests.faults.base import HandGRU, HandLSTM, HandRNN, fault


@fault("bwd-wrong-operand", "cells.gradient-parity")
class InputGateByItself(HandLSTM):
    """di uses i in the place of g."""

    def di(self, s, dc):
        return dc * s.i * s.i * (1 - s.i)


@fault("bwd-wrong-operand", "cells.gradient-parity")
class ForgetGateByTheNewCell(HandLSTM):
    """df uses C[t] in the place of C[t-1]."""

    def df(self, s, dc):
        return dc * s.after[1] * s.f * (1 - s.f)


@fault("bwd-wrong-operand", "cells.gradient-parity")
class OutputGateByTheCell(HandLSTM):
    """do uses C in the place of tanh C."""

    def do(self, s, dh):
        return dh * s.after[1] * s.o * (1 - s.o)


@fault("bwd-wrong-operand", "cells.gradient-parity")
class UpdateGateWithTheOtherSign(HandGRU):
    """dz takes n - h in the place of h - n."""

    def dz(self, s, dh):
        return -super().dz(s, dh)


@fault("bwd-wrong-operand", "cells.gradient-parity")
class ResetGateWithoutItsBias(HandGRU):
    """dr leaves out the bias inside the reset product."""

    def dr(self, s, dn):
        return dn * (s.h_n - self.bias_hh_l0.chunk(3)[2]) * s.r * (1 - s.r)


@fault("bwd-wrong-operand", "cells.gradient-parity")
class KernelTransposedOnTheWayBack(HandRNN):
    """The state's gradient goes back through the kernel as it went forward."""

    def through_kernel(self, da, W_h, s):
        return da @ W_h.T


@fault("bwd-wrong-operand", "cells.gradient-parity")
class KernelOneStepLate(HandLSTM):
    """dU is taken with h[t] in the place of h[t-1]."""

    def to_recurrent_kernel(self, da, s):
        return da.T @ s.after[0]


@fault("bwd-off-by-one", "cells.gradient-parity")
class UpstreamOneStepLate(HandGRU):
    """Each step takes the gradient of the output before its own."""

    def arriving(self, outputs, t):
        return outputs[:, max(t - 1, 0)]


@fault("bwd-wrong-derivative", "cells.gradient-parity")
class TanhOfTanh(HandRNN):
    """1 - tanh²(y) of a y that is a tanh already."""

    def of_tanh(self, dh, s):
        return dh * (1 - torch.tanh(s.after[0]) ** 2)


@fault("bwd-wrong-derivative", "cells.gradient-parity")
class CandidateDerivativeNotSquared(HandLSTM):
    """dg uses 1 - |g|."""

    def dg(self, s, dc):
        return dc * s.i * (1 - s.g.abs())


@fault("bwd-wrong-derivative", "cells.gradient-parity")
class CellDerivativeOfTheSigmoid(HandLSTM):
    """The derivative of the output tanh is that of σ."""

    def dc(self, s, dh, dc):
        return dc + dh * s.o * s.tanh_c * (1 - s.tanh_c)


@fault("bwd-wrong-derivative", "cells.gradient-parity")
class StraightThroughGates(HandGRU):
    """dz leaves out z (1 - z)."""

    def dz(self, s, dh):
        return dh * (s.before[0] - s.n)


@fault("bwd-preactivation-cache", "cells.gradient-parity")
class PreActivationCached(HandLSTM):
    """The forget gate was saved before its sigmoid."""

    def df(self, s, dc):
        a = torch.logit(s.f)
        return dc * s.before[1] * a * (1 - a)


@fault("bwd-dc-overwrite", "cells.gradient-parity")
class CellGradientOverwritten(HandLSTM):
    """What reaches the cell by the hidden state takes the place of what comes along the highway."""

    def dc(self, s, dh, dc):
        return dh * s.o * (1 - s.tanh_c**2) + (dc if s.t == s.T - 1 else 0)


@fault("bwd-accumulate", "cells.gradient-parity")
class CellGradientTwice(HandLSTM):
    """The highway's gradient is accumulated twice after the last step."""

    def past(self, s, dc):
        return (1 if s.t else 2) * dc * s.f


@fault("bwd-accumulate", "cells.gradient-parity")
class KernelGradientOfTheFirstStep(HandRNN):
    """The recurrent kernel's gradient is assigned at every step, where it should be added."""

    def to_recurrent_kernel(self, da, s):
        return super().to_recurrent_kernel(da, s) * float(s.t == 0)


@fault("bwd-bias", "cells.gradient-parity")
class BiasGradientZero(HandLSTM):
    """The recurrent bias gets no gradient."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        return db_x + da_x.sum(0), db_h


@fault("bwd-bias", "cells.gradient-parity")
class BiasGradientDoubled(HandGRU):
    """The input bias gets its gradient twice."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        return db_x + 2 * da_x.sum(0), db_h + da_h.sum(0)


@fault("bwd-bias", "cells.gradient-parity")
class BiasGradientOfTheLastStep(HandLSTM):
    """The biases' gradients are those of the last step alone."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        last = float(s.t == s.T - 1)
        return db_x + last * da_x.sum(0), db_h + last * da_h.sum(0)


@fault("bwd-bias", "cells.gradient-parity")
class InnerBiasGradientLikeTheOuter(HandGRU):
    """The recurrent bias gets the input bias's gradient, the reset gate left out."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        return db_x + da_x.sum(0), db_h + da_x.sum(0)


@fault("bwd-bias", "cells.gradient-parity")
class BiasGradientOfTheFirstRow(HandRNN):
    """The biases' gradients are those of the batch's first row, times the batch."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        return db_x + len(da_x) * da_x[0], db_h + len(da_h) * da_h[0]


@fault("bwd-layout", "cells.gradient-parity")
class GateGradientsInAnotherOrder(HandLSTM):
    """The gradients of the biases stand in the order f, i, g, o."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        i, f, g, o = da_x.sum(0).chunk(4)
        return db_x + torch.cat([f, i, g, o]), db_h + da_h.sum(0)


@fault("bwd-clip", "cells.gradient-is-linear")
class GradientsClippedAtTen(HandLSTM):
    """Every gradient is clipped to [-10, 10]."""

    def given_out(self, gradient):
        return gradient.clamp(-10, 10)


@fault("bwd-clip", "cells.gradient-parity")
class CellGradientClippedAtOne(HandLSTM):
    """What reaches the cell is clipped to [-1, 1] at every step, as by Graves."""

    def past(self, s, dc):
        return super().past(s, dc).clamp(-1, 1)


@fault("bwd-clip", "cells.gradient-is-linear")
class SmallGradientsFlushed(HandGRU):
    """Gradients below 1e-7 become zero."""

    def given_out(self, gradient):
        return torch.where(gradient.abs() < 1e-7, 0, gradient)


@fault("bwd-clip", "cells.gradient-is-linear")
class GradientNormClipped(HandRNN):
    """Gradients with a norm above 100 are scaled down to it."""

    def given_out(self, gradient):
        return gradient * (100 / gradient.norm().clamp(min=100))
