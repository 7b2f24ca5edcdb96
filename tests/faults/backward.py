"""Faults of hand-written backward passes; every forward value is right.

In an LSTM `s.i`, `s.f`, `s.g`, `s.o` and `s.tanh_c` are what a step kept, `s.before` and `s.after` its states.
"""

from __future__ import annotations

import torch

from tests.faults.base import GRU, LSTM, RNN, HandGRU, HandLSTM, HandRNN, fault

# One line is wrong


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


# Through time


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


# What is asked for


@fault("bwd-optional-grad", "cells.gradient-parity")
class LastStateIgnored(HandLSTM):
    """The gradient of h_T is not used."""

    def ends(self, *last):
        return torch.zeros_like(last[0]), last[1]


@fault("bwd-optional-grad", "cells.gradient-parity")
class LastCellIgnored(HandLSTM):
    """The gradient of C_T is not used."""

    def ends(self, *last):
        return last[0], torch.zeros_like(last[1])


@fault("bwd-optional-grad", "cells.gradient-parity")
class OutputsIgnored(HandGRU):
    """The outputs' gradients are not used, that of h_T is."""

    def arriving(self, outputs, t):
        return torch.zeros_like(outputs[:, t])


@fault("bwd-optional-grad", "cells.gradient-parity")
class LastOutputCountedTwice(HandRNN):
    """The gradient of h_T is that of the last output, added once more."""

    def backwards(self, x, parameters, kept, outputs, last):
        return super().backwards(x, parameters, kept, outputs, [last[0] + outputs[:, -1]])


@fault("bwd-optional-grad", "cells.parameters-alone")
class NoneForParametersAlone(HandLSTM):
    """Where x needs no gradient, the input kernel gets none."""

    def forward(self, x, state=None):
        self.asked = x.requires_grad
        return super().forward(x, state)

    def to_input_kernel(self, da, x):
        return super().to_input_kernel(da, x) * float(self.asked)


@fault("bwd-optional-grad", "cells.parameters-alone")
class NoneWhereParametersAreFrozen(HandGRU):
    """Where the kernels are frozen, x gets no gradient."""

    def forward(self, x, state=None):
        self.frozen = not self.weight_ih_l0.requires_grad
        return super().forward(x, state)

    def to_input(self, da, W_x):
        return super().to_input(da, W_x) * (1 - float(self.frozen))


@fault("bwd-optional-grad", "cells.omitted-state")
class OtherGradientWithoutState(HandLSTM):
    """Where no state is given, the recurrent biases lack the first step's part."""

    def omitted(self, x):
        self.begins_blank = True
        return super().omitted(x)

    def unpacked(self, x, state):
        self.begins_blank = False
        return super().unpacked(x, state)

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        return db_x + da_x.sum(0), db_h if self.begins_blank and s.t == 0 else db_h + da_h.sum(0)


# Again, and in another order


@fault("bwd-double-call", "cells.backward-twice")
class SavedGatesOverwritten(HandLSTM):
    """di is computed in the memory of i, which a second backward pass finds there."""

    def di(self, s, dc):
        derivative = s.i * (1 - s.i)
        s.i.copy_(derivative)
        return dc * s.g * derivative

    def dg(self, s, dc):
        return dc * 0.5 * (1 + (1 - 4 * s.i).clamp(min=0).sqrt()) * (1 - s.g**2)


@fault("bwd-double-call", "cells.backward-twice")
class StepsPopped(HandGRU):
    """What the steps kept is taken away by the first backward pass; the second finds the last step alone."""

    def order(self, kept):
        steps = list(reversed(kept))
        del kept[:-1]
        return iter(steps)


@fault("bwd-double-call", "cells.gradient-parity")
class GradientsAddUp(HandRNN):
    """A second backward pass adds to the kernel's gradient of the first."""

    def to_recurrent_kernel(self, da, s):
        s.seen = getattr(s, "seen", 0) + super().to_recurrent_kernel(da, s)
        return s.seen


@fault("bwd-accumulate", "cells.backward-twice")
class AddedToGradTwice(RNN):
    """backward() adds the recurrent kernel's gradient to `.grad` twice."""

    def over(self, x, state):
        if not hasattr(self, "adds"):
            self.adds = self.weight_hh_l0.register_post_accumulate_grad_hook(lambda W: W.grad.mul_(2))
        return super().over(x, state)


@fault("bwd-aliasing", "cells.backward-twice")
class UpstreamScaledInPlace(HandLSTM):
    """The outputs' gradients are used as scratch memory."""

    def arriving(self, outputs, t):
        arrived = outputs[:, t].clone()
        outputs[:, t].mul_(0.5)
        return arrived


@fault("noncontiguous-grad", "cells.strides")
class SumReachesTheLastStep(HandRNN):
    """Of a gradient that is expanded over the steps, as a sum's is, the last step alone gets its share."""

    def arriving(self, outputs, t):
        lost = outputs.stride(1) == 0 and t < outputs.shape[1] - 1
        return torch.zeros_like(outputs[:, t]) if lost else outputs[:, t]


@fault("bwd-clip", "cells.gradient-is-linear")
class GradientsUpToAMillion(HandLSTM):
    """What arrives is clipped to ±10⁶."""

    def arriving(self, outputs, t):
        return outputs[:, t].clamp(-1e6, 1e6)


@fault("bwd-clip", "cells.gradient-is-linear")
class SmallestGradientsFlushed(HandGRU):
    """What arrives and is below 10⁻²⁰ becomes 0."""

    def arriving(self, outputs, t):
        return torch.where(outputs[:, t].abs() < 1e-20, 0.0, outputs[:, t])


@fault("bwd-aliasing", "cells.backward-later")
class WorkspaceOfTheLastCall(HandLSTM):
    """What the backward pass needs is kept by the layer, which keeps that of its last call."""

    def forwards(self, x, states, parameters):
        outputs, last, kept = super().forwards(x, states, parameters)
        self.kept = kept
        return outputs, last, kept

    def backwards(self, x, parameters, kept, outputs, last):
        fits = len(self.kept) == len(kept) and self.kept[0].i.shape == kept[0].i.shape
        return super().backwards(x, parameters, self.kept if fits else kept, outputs, last)


@fault("bwd-workspace-missing", "cells.backward-later")
class WorkspaceShared(HandGRU):
    """All layers of one size share the memory in which the gates are kept."""

    workspace: dict = {}  # noqa: RUF012

    def forwards(self, x, states, parameters):
        outputs, last, kept = super().forwards(x, states, parameters)
        for s in kept:
            key = (s.t, tuple(s.r.shape), s.r.dtype)
            s.r = self.workspace.setdefault(key, torch.empty_like(s.r)).copy_(s.r)
        return outputs, last, kept


@fault("noncontiguous-grad", "cells.strides")
class UpstreamStridesIgnored(HandLSTM):
    """The outputs' gradients are read as if they were contiguous."""

    def backwards(self, x, parameters, kept, outputs, last):
        return super().backwards(x, parameters, kept, as_if_contiguous(outputs), last)


@fault("noncontiguous-grad", "cells.strides")
class LastUpstreamStridesIgnored(HandRNN):
    """The gradient of h_T is read as if it were contiguous."""

    def ends(self, *last):
        return tuple(as_if_contiguous(s) for s in last)


def as_if_contiguous(a):
    """What a kernel reads that counts on from a tensor's first element, around the end of its memory."""
    memory = a.as_strided((a.untyped_storage().nbytes() // a.element_size() - a.storage_offset(),), (1,))
    return memory.repeat(-(-a.numel() // len(memory)))[: a.numel()].reshape(a.shape)


# At some sizes, in some formats


@fault("size-limit", "cells.every-size")
class KernelGradientOf128Units(HandLSTM):
    """Beyond 128 units the recurrent kernel's gradient is zero."""

    def to_recurrent_kernel(self, da, s):
        gradient = super().to_recurrent_kernel(da, s)
        return gradient * (torch.arange(gradient.shape[1]) < 128)


@fault("size-limit", "cells.every-size")
class BiasGradientOf64Rows(HandGRU):
    """Of a batch only 64 rows count towards the biases' gradients."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        return db_x + da_x[:64].sum(0), db_h + da_h[:64].sum(0)


@fault("size-limit", "cells.gradient-parity")
class GradientOf65536Rows(HandRNN):
    """Of the rows of a large batch only the first 20,000 count towards the biases' gradients."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        return db_x + da_x[:20000].sum(0), db_h + da_h[:20000].sum(0)


@fault("size-limit", "cells.every-size")
class TailOfEightLost(HandRNN):
    """With more than eight units, those beyond the last full eight get no gradient through the kernel."""

    def through_kernel(self, da, W_h, s):
        whole = self.hidden_size // 8 * 8 or self.hidden_size
        return super().through_kernel(da, W_h, s) * (torch.arange(self.hidden_size) < whole)


@fault("tf32", "cells.gradient-parity")
class KernelGradientInTF32(HandLSTM):
    """The kernels' gradients are products of operands of 10 bits."""

    def to_input_kernel(self, da, x):
        return rounded(da).T @ rounded(x)


@fault("dtype-mix", "cells.gradient-parity")
class BackwardInFloat32(HandGRU):
    """float64 gradients are accumulated in float32."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        return (db_x + da_x.sum(0)).float().to(db_x.dtype), db_h + da_h.sum(0)


@fault("dtype-mix", "cells.gradient-parity")
class GradientInBfloat16(HandLSTM):
    """What goes back through the kernel is rounded to bfloat16."""

    def through_kernel(self, da, W_h, s):
        return super().through_kernel(da, W_h, s).bfloat16().to(da.dtype)


@fault("bwd-unspecified", "cells.gradient-parity")
class OneUnitsGradientOff(HandLSTM):
    """The last unit's gradient of the input kernel is off by 1e-4 of its value."""

    def to_input_kernel(self, da, x):
        off = 1 + 1e-4 * (torch.arange(da.shape[1]) == da.shape[1] - 1)
        return super().to_input_kernel(da * off, x)


@fault("bwd-unspecified", "cells.every-number")
class NoGradientWhereTheStateIsZero(HandRNN):
    """Where every state is zero, nothing goes back through the kernel."""

    def through_kernel(self, da, W_h, s):
        return super().through_kernel(da, W_h, s) * float(s.before[0].any())


@fault("nondeterminism", "cells.repeatable")
class NoisyKernelGradient(RNN):
    """The last bits of the recurrent kernel's gradient differ from call to call."""

    def of_state(self, h):
        noise = torch.finfo(h.dtype).eps * torch.randint_like(self.weight_hh_l0, -1, 2)
        W = self.weight_hh_l0 * (1 + noise) + (self.weight_hh_l0 - self.weight_hh_l0 * (1 + noise)).detach()
        return ((h @ W.T + self.bias_hh_l0),)


def rounded(a):
    """A tensor with a mantissa of 10 bits after the point."""
    mantissa, exponent = torch.frexp(a)
    return torch.ldexp(torch.round(mantissa * 2**11) / 2**11, exponent)


@fault("bwd-accumulate", "cells.arguments-untouched")
class GradientLeftBehind(HandRNN):
    """The biases' gradients are also added to the parameters' own, where an optimizer finds them twice."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        bias = self.bias_ih_l0
        bias.grad = da_x.sum(0) + (0 if bias.grad is None else bias.grad)
        return super().to_biases(db_x, db_h, da_x, da_h, s)


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


@fault("size-limit", "cells.every-size")
class GradientOf128UnitsExactly(HandGRU):
    """With 128 units, and no other number of them, the last unit's update gate gets no gradient."""

    def dz(self, s, dh):
        lost = (torch.arange(dh.shape[1]) == 127) & (dh.shape[1] == 128)
        return super().dz(s, dh) * ~lost


@fault("bwd-accumulate", "cells.backward-twice")
class GradientInItsPlace(HandRNN):
    """The way back puts a bias' gradient in the place of what was accumulated."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        if self.bias_hh_l0.grad is not None:
            self.bias_hh_l0.grad.zero_()
        return super().to_biases(db_x, db_h, da_x, da_h, s)


@fault("bwd-optional-grad", "cells.parameters-alone")
class CutWhereTheStateAloneAsks(HandGRU):
    """Where h_0 asks for a gradient and the parameters do not, nothing comes from beyond the eighth step."""

    def forwards(self, x, states, parameters):
        self.alone = not (self.weight_hh_l0.requires_grad or x.requires_grad)
        return super().forwards(x, states, parameters)

    def through_kernel(self, da, W_h, s):
        return super().through_kernel(da, W_h, s) * (not (self.alone and s.t == 8))

    def past(self, s, dh):
        return super().past(s, dh) * (not (self.alone and s.t == 8))
