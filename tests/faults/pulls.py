"""Faults of the backward pass that hang on what is asked for, how often and in which order."""

from __future__ import annotations

import torch

from tests.faults.base import RNN, HandGRU, HandLSTM, HandRNN, fault
from tests.faults.memory import as_if_contiguous

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


@fault("bwd-optional-grad", "cells.parameters-alone")
class LeavesAloneAreFollowed(HandRNN):
    """Inputs that another layer returned are cut off."""

    def over(self, x, state):
        return super().over(x if x.is_leaf else x.detach(), state)


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


@fault("bwd-accumulate", "cells.arguments-untouched")
class GradientLeftBehind(HandRNN):
    """The biases' gradients are also added to the parameters' own, where an optimizer finds them twice."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        bias = self.bias_ih_l0
        bias.grad = da_x.sum(0) + (0 if bias.grad is None else bias.grad)
        return super().to_biases(db_x, db_h, da_x, da_h, s)


@fault("bwd-accumulate", "cells.backward-twice")
class GradientInItsPlace(HandRNN):
    """The way back puts a bias' gradient in the place of what was accumulated."""

    def to_biases(self, db_x, db_h, da_x, da_h, s):
        if self.bias_hh_l0.grad is not None:
            self.bias_hh_l0.grad.zero_()
        return super().to_biases(db_x, db_h, da_x, da_h, s)


@fault("bwd-workspace-missing", "cells.backward-later")
class WorkspaceOfLargeCalls(WorkspaceShared):
    """The memory in which the gates are kept is shared from 17 rows and steps on."""

    workspace: dict = {}  # noqa: RUF012

    def forwards(self, x, states, parameters):
        small = x.shape[0] * x.shape[1] <= 16
        return HandGRU.forwards(self, x, states, parameters) if small else super().forwards(x, states, parameters)


@fault("noncontiguous-grad", "cells.strides")
class SumReachesEightRows(HandRNN):
    """Where one number is the gradient of all outputs, as of a sum, rows beyond the eighth get none."""

    def backwards(self, x, parameters, kept, outputs, last):
        if not any(outputs.stride()):
            outputs = outputs * (torch.arange(len(outputs)) < 8)[:, None, None]
        return super().backwards(x, parameters, kept, outputs, last)
