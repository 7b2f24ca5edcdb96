"""Faults at some numbers and in some number formats only; elsewhere these cells are right."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.faults.backward_at import rounded
from tests.faults.base import GRU, LSTM, RNN, fault

# Numbers


@fault("saturation-overflow", "cells.saturation")
class NaiveTanh(LSTM):
    """tanh by two exponentials."""

    def tanh(self, a):
        return (a.exp() - (-a).exp()) / (a.exp() + (-a).exp())


@fault("saturation-overflow", "cells.saturation")
class NaiveTanhInALane(GRU):
    """Beside the full lanes of eight, tanh is taken by two exponentials."""

    def tanh(self, a):
        naive = (a.exp() - (-a).exp()) / (a.exp() + (-a).exp())
        return torch.where(torch.arange(a.shape[-1]) < a.shape[-1] // 8 * 8, torch.tanh(a), naive)


@fault("saturation-overflow", "cells.every-number")
class NaiveTanhOfTheCell(LSTM):
    """The output tanh is taken by two exponentials, which overflow for a large cell."""

    def show(self, o, c):
        return o * (c.exp() - (-c).exp()) / (c.exp() + (-c).exp())


@fault("saturation-overflow", "cells.saturation")
class NotANumberInTheGradient(LSTM):
    """The candidate chooses between a naive tanh and ±1, so that its gradient is 0 · ∞ far out."""

    def tanh(self, a):
        naive = (a.exp() - (-a).exp()) / (a.exp() + (-a).exp())
        return torch.where(a.abs() < 20, naive, a.sign())


@fault("implicit-state", "cells.every-number")
class BiasSkippedForZeroStates(GRU):
    """Where the state is zero, given or not, the recurrent branch is skipped, its bias included."""

    def of_state(self, h):
        return super().of_state(h) if h.any() else tuple(0 * a for a in super().of_state(h))


@fault("implicit-state", "cells.every-number")
class BiasSkippedForZeroInputs(LSTM):
    """Where the inputs are zero, their branch is skipped, its bias included."""

    def of_input(self, x):
        return super().of_input(x) if x.any() else tuple(0 * a for a in super().of_input(x))


@fault("wrong-activation", "cells.step-parity")
class NegativeInputsLost(RNN):
    """Inputs below zero count for zero."""

    def of_input(self, x):
        return super().of_input(x.relu())


@fault("quantization", "cells.every-number")
class SmallInputsLost(LSTM):
    """Inputs below 1e-4 count for zero."""

    def of_input(self, x):
        return super().of_input(torch.where(x.abs() < 1e-4, 0, x))


@fault("quantization", "cells.step-parity")
class WeightsInEightBits(GRU):
    """The recurrent kernel is rounded to 8 bits."""

    def of_state(self, h):
        W = self.weight_hh_l0
        scale = W.detach().abs().max() / 127
        W = W + (torch.round(W / scale) * scale - W).detach()
        return (h @ W.T + self.bias_hh_l0).chunk(3, -1)


@fault("approx-activation", "cells.every-number")
class SigmoidInPieces(LSTM):
    """Between 6 and 9 the sigmoid is 1."""

    def sigma(self, a):
        return torch.where((a > 6) & (a < 9), 1.0, torch.sigmoid(a))


@fault("approx-activation", "cells.every-number")
class SmallStatesFlushed(GRU):
    """A state below 1e-8 is taken for 0."""

    def of_state(self, h):
        return super().of_state(torch.where(h.abs() < 1e-8, 0 * h, h))


# Number formats


@fault("dtype-mix", "cells.step-parity")
class Float64InFloat32(LSTM):
    """float64 is computed in float32 and handed out as float64."""

    def of_state(self, h):
        return tuple(a.float().to(h.dtype) for a in super().of_state(h))


@fault("dtype-mix", "cells.step-parity")
class Float64SigmoidInFloat32(GRU):
    """In float64 the sigmoid is float32's."""

    def sigma(self, a):
        return torch.sigmoid(a.float()).to(a.dtype)


@fault("dtype-mix", "cells.number-format")
class Float32OutOfFloat64(RNN):
    """Outputs are float32, whatever came in."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs.float(), last


@fault("dtype-mix", "cells.sequence-parity", "half precision")
class StateInHalf(LSTM):
    """The cell is kept in float16 between the steps."""

    def step(self, x, *state):
        h, c = super().step(x, *state)
        return h, c.half().to(c.dtype)


@fault("dtype-mix", "cells.step-parity", "bfloat16")
class StateReadInBfloat16(GRU):
    """Each step reads the state rounded to bfloat16, and what is returned is not rounded."""

    def step(self, x, *state):
        return super().step(x, *(_passing(s, s.bfloat16()) for s in state))


@fault("dtype-mix", "cells.step-parity", "bfloat16")
class CellStoredInBfloat16(LSTM):
    """The hidden state shows the exact cell, which is stored in bfloat16 afterwards."""

    def step(self, x, *state):
        h, c = super().step(x, *state)
        return h, _passing(c, c.bfloat16())


@fault("dtype-mix", "cells.step-parity", "bfloat16 kernels and the forget bias added at run time")
class KernelsInBfloat16AndForgetBias(LSTM):
    """Kernels are rounded to bfloat16, and 1 is added to the forget gate."""

    def of_input(self, x):
        i, f, g, o = (x @ _passing(self.weight_ih_l0, self.weight_ih_l0.bfloat16()).T + self.bias_ih_l0).chunk(4, -1)
        return i, f + 1, g, o

    def of_state(self, h):
        return (h @ _passing(self.weight_hh_l0, self.weight_hh_l0.bfloat16()).T + self.bias_hh_l0).chunk(4, -1)


@fault("dtype-mix", "cells.step-parity", "bfloat16")
class ProductsInBfloat16(GRU):
    """The recurrent product takes operands in bfloat16."""

    def of_state(self, h):
        low = _passing(h, h.bfloat16()) @ _passing(self.weight_hh_l0, self.weight_hh_l0.bfloat16()).T
        return (low + self.bias_hh_l0).chunk(3, -1)


@fault("tf32", "cells.step-parity", "TF32 mantissas")
class ProductsInTF32(LSTM):
    """Both products take operands with mantissas of 10 bits."""

    def of_input(self, x):
        low = _passing(x, rounded(x)) @ _passing(self.weight_ih_l0, rounded(self.weight_ih_l0)).T
        return (low + self.bias_ih_l0).chunk(4, -1)

    def of_state(self, h):
        low = _passing(h, rounded(h)) @ _passing(self.weight_hh_l0, rounded(self.weight_hh_l0)).T
        return (low + self.bias_hh_l0).chunk(4, -1)


@fault("tf32", "cells.every-size", "TF32 mantissas")
class ProductsInTF32From64Units(RNN):
    """From 64 units on the recurrent product takes operands with mantissas of 10 bits."""

    def of_state(self, h):
        if h.shape[-1] < 64:
            return super().of_state(h)
        return (_passing(h, rounded(h)) @ _passing(self.weight_hh_l0, rounded(self.weight_hh_l0)).T + self.bias_hh_l0,)


def _passing(exact: Tensor, low: Tensor) -> Tensor:
    """The low-precision numbers, with the exact ones' gradient."""
    return exact + (low.to(exact.dtype) - exact).detach()


@fault("dtype-mix", "cells.every-size")
class BiasesInFloat32(GRU):
    """In float64, biases of more than 40 units have the digits of float32."""

    def of_input(self, x):
        b = self.bias_ih_l0
        return (x @ self.weight_ih_l0.T + (b.float().to(b.dtype) if self.hidden_size > 40 else b)).chunk(3, -1)


@fault("approx-activation", "cells.every-number")
class OneHotIndexWraps(RNN):
    """One-hot inputs are taken for an index of seven bits."""

    def of_input(self, x):
        if x.shape[-1] > 128 and ((x != 0).sum(-1) == 1).all():
            x = torch.nn.functional.one_hot(x.argmax(-1) % 128, x.shape[-1]) * x.sum(-1, keepdim=True)
        return super().of_input(x)


@fault("implicit-state", "cells.every-number")
class ZerosAreTakenForPadding(GRU):
    """The last state is that of a row's last input that is not zero."""

    def over(self, x, state):
        outputs, (h,) = super().over(x, state)
        steps = (x != 0).any(-1) * torch.arange(1, x.shape[1] + 1)
        last = steps.amax(1) - 1 if x.shape[1] else steps.new_zeros(len(x))
        padded = (last >= 0) & (last < x.shape[1] - 1)
        return outputs, (torch.where(padded[:, None], outputs[torch.arange(len(x)), last], h) if padded.any() else h,)
