"""Faults of the backward pass at some sizes, numbers and number formats only."""

from __future__ import annotations

import torch

from tests.faults.base import RNN, HandGRU, HandLSTM, HandRNN, fault


def rounded(a):
    """A tensor with a mantissa of 10 bits after the point."""
    mantissa, exponent = torch.frexp(a)
    return torch.ldexp(torch.round(mantissa * 2**11) / 2**11, exponent)


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


@fault("size-limit", "cells.every-size")
class GradientOf128UnitsExactly(HandGRU):
    """With 128 units, and no other number of them, the last unit's update gate gets no gradient."""

    def dz(self, s, dh):
        lost = (torch.arange(dh.shape[1]) == 127) & (dh.shape[1] == 128)
        return super().dz(s, dh) * ~lost


@fault("nondeterminism", "cells.repeatable")
class NoisyKernelGradient(RNN):
    """The last bits of the recurrent kernel's gradient differ from call to call."""

    def of_state(self, h):
        noise = torch.finfo(h.dtype).eps * torch.randint_like(self.weight_hh_l0, -1, 2)
        W = self.weight_hh_l0 * (1 + noise) + (self.weight_hh_l0 - self.weight_hh_l0 * (1 + noise)).detach()
        return ((h @ W.T + self.bias_hh_l0),)
