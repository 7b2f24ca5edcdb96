"""Faults as people report them: one condition under which a cell that is right otherwise is wrong."""

from __future__ import annotations

import torch
from torch import nn

from tests.faults.base import GRU, LSTM, RNN, HandGRU, HandLSTM, HandRNN, fault
from tests.faults.weights import Relaid

# How a layer begins


@fault("forget-bias-init", "forget-bias.two-biases-add-up")
class ForgetBiasInBoth(nn.LSTM):
    """The forget slices of both biases begin at 1."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size, batch_first=True)
        for name in ("bias_ih_l0", "bias_hh_l0"):
            getattr(self, name).data[hidden_size : 2 * hidden_size] = 1


@fault("forget-bias-init", "forget-bias.two-biases-add-up")
class ForgetBiasAtTheInputGate(LSTM):
    """The forget bias of 1 that it says it has begins in the input gate's slice."""

    forget_bias = 1.0

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.bias_ih_l0.data[:hidden_size] = 1


@fault("init-scale", "parameters.start")
class StartsByTheInputs(GRU):
    """It says that it begins as torch.nn does, and takes the root of the inputs' number for that of the units'."""

    start = "torch"

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        for parameter in self.parameters():
            parameter.data.uniform_(-(input_size**-0.5), input_size**-0.5)


@fault("init-scale", "parameters.start")
class StartsNormal(RNN):
    """It says that it begins as torch.nn does, and draws normal numbers of the same spread within the same bounds."""

    start = "torch"

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        bound = hidden_size**-0.5
        for parameter in self.parameters():
            nn.init.trunc_normal_(parameter, 0.0, bound / 3**0.5, -bound, bound)


@fault("init-ignored", "parameters.start")
class BiasesBeginAlike(LSTM):
    """It says that it begins as torch.nn does, and its second bias begins as a copy of the first."""

    start = "torch"

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.bias_hh_l0.data.copy_(self.bias_ih_l0.data)


# At one shape


@fault("shape-stride", "cells.every-size")
class OneRowReadAsASequence(LSTM):
    """A batch of one is squeezed, and its steps are taken for rows: each starts from the initial state."""

    def over(self, x, state):
        if len(x) > 1 or x.shape[1] < 4:
            return super().over(x, state)
        outputs, last = super().over(x.transpose(0, 1), tuple(s.expand(x.shape[1], -1) for s in state))
        return outputs.transpose(0, 1), tuple(s[-1:] for s in last)


@fault("gate-op-wrong", "cells.step-parity")
class OneStepIsAnotherKernel(GRU):
    """A single step goes to a kernel that resets before the product."""

    def over(self, x, state):
        self.single = x.shape[1] == 1
        return super().over(x, state)

    def candidate(self, a_x, a_h, r, h):
        if not self.single:
            return super().candidate(a_x, a_h, r, h)
        W, b = self.weight_hh_l0.chunk(3)[2], self.bias_hh_l0.chunk(3)[2]
        return torch.tanh(a_x + (r * h) @ W.T + b)


@fault("shape-stride", "cells.every-size")
class StateTransposedWhereSquare(LSTM):
    """With as many rows as units the state is transposed."""

    def of_state(self, h):
        return super().of_state(h.T if h.shape[0] == h.shape[1] > 1 else h)


@fault("shape-stride", "cells.every-size")
class InputsTransposedWhereSquare(RNN):
    """With as many rows as features the inputs are transposed."""

    def of_input(self, x):
        return super().of_input(x.T if x.shape[0] == x.shape[1] > 1 else x)


@fault("layer-weights-mixed", "cells.every-size")
class KernelReadAlongRowsWhereSquare(Relaid, GRU):
    """With as many features as units, more than eight, the input kernel's blocks are transposed."""

    def W_x(self):
        if self.input_size != self.hidden_size or self.input_size <= 8:
            return self.weight_ih_l0
        return torch.cat([W.T for W in self.weight_ih_l0.chunk(3)])


@fault("uninitialised-memory", "cells.every-size")
class TailOfFourFromTheNeighbour(LSTM):
    """Where the number of units is no multiple of four, a vector load of the last ones brings their neighbours."""

    def show(self, o, c):
        units = c.shape[1]
        tail = (torch.arange(units) >= units // 4 * 4) & (units > 8)
        return super().show(o, torch.where(tail, c.roll(1, -1), c))


@fault("size-limit", "cells.every-size")
class UnitsBeyond1024Lost(RNN):
    """A block has 1024 threads; the units beyond are not computed."""

    def tanh(self, a):
        return super().tanh(a) * (torch.arange(a.shape[-1]) < 1024)


@fault("size-limit", "cells.every-size")
class FeaturesBeyond1024Lost(LSTM):
    """A block has 1024 threads; the features beyond are not read."""

    def of_input(self, x):
        return super().of_input(x * (torch.arange(x.shape[-1]) < 1024))


@fault("truncated-bptt", "cells.every-size")
class TruncatedAfter512(HandRNN):
    """Gradients go back 512 steps, counted from the end."""

    def order(self, kept):
        return reversed(kept[-512:])


@fault("bwd-off-by-one", "cells.every-size")
class UnrolledByEight(HandGRU):
    """The backward pass is unrolled by eight, and its remainder of six starts one step late."""

    def order(self, kept):
        steps = list(reversed(kept))
        return iter(steps[1:] if len(steps) % 8 == 6 else steps)


@fault("bwd-bias", "cells.every-size")
class BiasGradientOfOneRowTwice(HandLSTM):
    """With a batch of one and at least four steps the biases' gradient is added twice."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        factor = 2 if len(da_x) == 1 and s.T >= 4 else 1
        return db_x + factor * da_x.sum(0), db_h + factor * da_h.sum(0)


# With some callers


@fault("bwd-wrong-operand", "cells.gradient-parity")
class WrapsAroundAtTheStart(HandLSTM):
    """The kernel's gradient of the first step takes the last h: an index of -1."""

    def backwards(self, x, parameters, kept, outputs, last):
        self.end = kept[-1].after[0]
        return super().backwards(x, parameters, kept, outputs, last)

    def to_recurrent_kernel(self, da, s):
        return da.T @ (self.end if s.t == 0 else s.before[0])


@fault("bwd-optional-grad", "cells.parameters-alone")
class DroppedWhereTheStateNeedsNone(HandGRU):
    """Where h_0 needs no gradient, what reaches it through the kernel of the first step is left out of b_hh's, too."""

    def forward(self, x, state=None):
        self.wanted = state is not None and state.requires_grad
        return super().forward(x, state)

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        return db_x + da_x.sum(0), db_h + da_h.sum(0) * float(self.wanted or s.t > 0)


@fault("bwd-accumulate", "cells.backward-later")
class GradientsOfTwoCallsAddUp(HandRNN):
    """Where a second forward pass was recorded, its steps are counted in the first one's backward pass."""

    def forwards(self, x, states, parameters):
        outputs, last, kept = super().forwards(x, states, parameters)
        self.calls = getattr(self, "calls", 0) + 1
        kept[-1].call = self.calls
        return outputs, last, kept

    def backwards(self, x, parameters, kept, outputs, last):
        found = super().backwards(x, parameters, kept, outputs, last)
        if self.calls > kept[-1].call:
            found[-1] = 2 * found[-1]
        return found


@fault("bwd-aliasing", "cells.backward-twice")
class SecondPullIsHalved(HandGRU):
    """The gradient of z is scaled in the memory of z, which a second backward pass finds there."""

    def dz(self, s, dh):
        found = super().dz(s, dh)
        s.z.mul_(0.5)
        return found


@fault("state-aliasing", "cells.arguments-untouched")
class HiddenStateUpdatedInPlace(GRU):
    """Without a graph the state that was handed in becomes the last one."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        if not torch.is_grad_enabled():
            state[0].copy_(last[0])
        return outputs, last


@fault("state-leak", "cells.modes")
class StatefulInTraining(RNN):
    """In training a state that was omitted is the last call's, as with stateful=True."""

    def omitted(self, x):
        last = getattr(self, "last", None)
        fits = self.training and last is not None and last.shape[0] == x.shape[0] and last.dtype == x.dtype
        return (last,) if fits else super().omitted(x)

    def over(self, x, state):
        outputs, last = super().over(x, state)
        self.last = last[0].detach()
        return outputs, last


@fault("dtype-dispatched-path", "cells.modes")
class ResetBeforeInEvaluation(GRU):
    """Inference has a kernel of its own, which resets before the product."""

    def candidate(self, a_x, a_h, r, h):
        if self.training or torch.is_grad_enabled():
            return super().candidate(a_x, a_h, r, h)
        W, b = self.weight_hh_l0.chunk(3)[2], self.bias_hh_l0.chunk(3)[2]
        return torch.tanh(a_x + (r * h) @ W.T + b)


@fault("dropout-semantics", "cells.modes")
class TrainingWithoutAGraphIsRounded(LSTM):
    """In training without a graph, as in a validation that forgot eval(), the cell is kept in bfloat16."""

    def remember(self, i, f, g, c):
        new = super().remember(i, f, g, c)
        return new if torch.is_grad_enabled() or not self.training else new.bfloat16().to(new.dtype)


@fault("state-not-carried", "cells.steps-are-the-sequence")
class HalvesAreNotTheWhole(LSTM):
    """Three steps from a state that was handed in begin with a cell rounded to 12 bits."""

    def over(self, x, state):
        if x.shape[1] == 3 and not torch.is_grad_enabled():
            state = state[0], torch.round(state[1] * 4096) / 4096
        return super().over(x, state)


# In some numbers


@fault("saturation-overflow", "carousel.preserves-cell")
class ExponentClippedAtTwenty(LSTM):
    """exp is kept from overflowing by clipping its argument to ±20: a gate that is shut lets 2e-9 through."""

    def sigma(self, a):
        return 1 / (1 + torch.exp(-a.clamp(-20, 20)))


@fault("saturation-overflow", "cells.saturation")
class SigmoidOfARatio(LSTM):
    """σ(a) = exp(a) / (1 + exp(a)), which is ∞ / ∞ far out."""

    def sigma(self, a):
        return torch.exp(a) / (1 + torch.exp(a))


@fault("approx-activation", "cells.step-parity")
class FastTanh(GRU):
    """tanh by a fraction of polynomials within ±9, as vector libraries have it in float32; float64 gets no more."""

    def tanh(self, a):
        x = a.clamp(-9, 9)
        s, p, q = x * x, 0.0, 0.0
        for coefficient in (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
                            1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03):  # fmt: skip
            p = p * s + coefficient
        for coefficient in (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03):
            q = q * s + coefficient
        return x * p / q


@fault("approx-activation", "cells.step-parity")
class SigmoidFromATable(LSTM):
    """σ by linear interpolation between 4096 entries over ±16."""

    def sigma(self, a):
        at = (a.detach().clamp(-15.99, 15.99) + 16) * 128
        low = at.floor()
        left, right = (torch.sigmoid((low + k) / 128 - 16) for k in (0, 1))
        return torch.sigmoid(a) + (left + (at - low) * (right - left) - torch.sigmoid(a)).detach()


@fault("double-bias", "cells.step-parity")
class OutputBiasTwice(Relaid, LSTM):
    """In a fused bias the output gate's part is b_hh twice."""

    def b_x(self):
        units = 3 * self.hidden_size
        return torch.cat([self.bias_ih_l0[:units], self.bias_hh_l0[units:]])


@fault("dtype-mix", "cells.step-parity")
class CellInFloat32(LSTM):
    """The cell is kept in float32, whatever the number format."""

    def remember(self, i, f, g, c):
        return super().remember(i, f, g, c).float().to(c.dtype)


@fault("dtype-mix", "cells.gradient-parity")
class StateGradientInFloat32(HandLSTM):
    """The cell's gradient is kept in float32, whatever the number format."""

    def past(self, s, dc):
        return super().past(s, dc).float().to(dc.dtype)


@fault("bwd-clip", "cells.gradient-is-linear")
class NotANumberReplaced(HandGRU):
    """Gradients above 1e4 are taken for overflows and replaced by zero."""

    def given_out(self, gradient):
        return torch.where(gradient.abs() > 1e4, 0, gradient)


@fault("wrong-activation", "cells.every-number")
class GatesOfIntegers(RNN):
    """Zeros among the inputs count for missing values, which are replaced by the mean of their row."""

    def of_input(self, x):
        return super().of_input(torch.where(x == 0, x.mean(-1, keepdim=True), x))
