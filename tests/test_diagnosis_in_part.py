"""The diagnosis of conventions that hold in part: at one gate, in one array, without a state, in outputs alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fixtures import own_cell
from fixtures.conventions import rounded
from fixtures.diagnosis import diagnose
from tests.faults.base import GRU, LSTM, RNN, HandRNN
from tests.faults.weights import Relaid, reordered


class HardForgetGate(LSTM):
    def gates(self, x, h, c):
        i, _, g, o = super().gates(x, h, c)
        return i, (0.2 * self.pre_activations(x, h)[1] + 0.5).clamp(0, 1), g, o


class OneBiasAtTheUpdateGate(GRU):
    def of_state(self, h):
        r, z, n = super().of_state(h)
        return r, z - self.bias_hh_l0.chunk(3)[1], n


class PreActivationsClipped(LSTM):
    def pre_activations(self, x, h):
        return [a.clamp(-4, 4) for a in super().pre_activations(x, h)]


class BeginsWithOnes(LSTM):
    def omitted(self, x):
        return tuple(s + 1 for s in super().omitted(x))


class LastStateOfTheFirstRow(GRU):
    def over(self, x, state):
        outputs, (h,) = super().over(x, state)
        return outputs, (h[:1].expand_as(h),)


class StoredSquashedWithoutABias(LSTM):
    def of_state(self, h):
        return (h @ self.weight_hh_l0.T).chunk(4, -1)

    def remember(self, i, f, g, c):
        return torch.tanh(super().remember(i, f, g, c))

    def show(self, o, c):
        return o * c


class InputKernelReorderedBiasTwice(Relaid, GRU):
    def W_x(self):
        return reordered(self.weight_ih_l0, 1, 0, 2)

    def b_x(self):
        return 2 * self.bias_ih_l0


def lower(a, form):
    return a + (torch.from_numpy(rounded(a.detach().numpy(), form)).to(a.dtype) - a).detach()


class PreActivationsInHalf(LSTM):
    def pre_activations(self, x, h):
        return [lower(a, "float16") for a in super().pre_activations(x, h)]


class OutputsInBfloat16(GRU):
    def over(self, x, state):
        outputs, last = super().over(x, state)
        return lower(outputs, "bfloat16"), last


class RecurrentOperandsInTF32(RNN):
    def of_state(self, h):
        return (lower(h, "TF32") @ lower(self.weight_hh_l0, "TF32").T + self.bias_hh_l0,)


class CellIgnoredForgetBiasAdded(LSTM):
    def unpacked(self, x, state):
        h, c = super().unpacked(x, state)
        return h, 0 * c

    def pre_activations(self, x, h):
        i, f, g, o = super().pre_activations(x, h)
        return [i, f + 1, g, o]


class HalfPassedOn(HandRNN):
    def through_kernel(self, da, W_h, s):
        return 0.5 * super().through_kernel(da, W_h, s)


class InFloat32Alone:
    """Constants of float32, and no float64 asked for."""

    kind, dtypes = "gru", ("float32",)

    def __init__(self, input_size, hidden_size):
        self.units = hidden_size

    def load(self, weights, dtype):
        self.own = {gate: [np.asarray(a, dtype) for a in block.values()] for gate, block in weights.items()}

    def run(self, x, h, c):
        h, outputs = np.zeros((len(x), self.units), x.dtype) if h is None else h, []
        for t in range(x.shape[1]):
            of_x, of_h = ({g: (x[:, t], h)[k] @ own[k] + own[2 + k] for g, own in self.own.items()} for k in (0, 1))
            r, z = (np.clip((of_x[g] + of_h[g]) * np.float32(0.2) + np.float32(0.5), 0, 1) for g in ("reset", "update"))
            h = z * np.tanh(of_x["candidate"] + r * of_h["candidate"]) + (1 - z) * h
            outputs.append(h)
        return np.stack(outputs, 1), h, None


class LeakyReLU(RNN):
    def tanh(self, a):
        return torch.nn.functional.leaky_relu(a)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (HardForgetGate, ["keras' hard sigmoid", "for σ in its forget gate alone"]),
        (OneBiasAtTheUpdateGate, ["b_hh ignored at its update"]),
        (PreActivationsClipped, ["its pre-activations clipped to ±4"]),
        (BeginsWithOnes, ["1 for every number of the state where it is omitted"]),
        (LastStateOfTheFirstRow, ["the last state of the first row for all rows"]),
        (StoredSquashedWithoutABias, ["b_hh ignored", "the cell stored as tanh C, h = o tanh C"]),
        (InputKernelReorderedBiasTwice, ["b_ih added twice", "the blocks of its W_x alone in the order z, r, n"]),
        (PreActivationsInHalf, ["its pre-activations rounded to float16"]),
        (OutputsInBfloat16, ["its outputs rounded to bfloat16, not its state"]),
        (RecurrentOperandsInTF32, ["its recurrent product rounded to TF32"]),
        (CellIgnoredForgetBiasAdded, ["the initial c ignored and 1 added to the forget gate's pre-activation, to"]),
        (HalfPassedOn, ["0.5 times the gradient of what is passed on to h at every step"]),
        (LeakyReLU, ["a leaky ReLU of slope 0.01 for the tanh of its candidate"]),
        (InFloat32Alone, ["z writing", "keras' hard sigmoid"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_differs_in_part_is_named(cell, words):
    found = diagnose(own_cell.subject(cell.__name__, cell))
    assert all(word in found["sentence"] for word in words), found["sentence"]
    assert found["explains"] < 1e-3


class SoundInFloat32Alone(InFloat32Alone):
    """Computes in float32 whatever it is given, and says so."""

    kind = "rnn"

    def run(self, x, h, c):
        [(W_x, W_h, b_x, b_h)] = self.own.values()
        h, outputs = np.zeros((len(x), self.units)) if h is None else h, []
        for t in range(x.shape[1]):
            h = np.tanh(np.float32(x[:, t]) @ np.float32(W_x) + b_x + np.float32(h) @ np.float32(W_h) + b_h)
            outputs.append(np.float32(h))
        return np.stack(outputs, 1), outputs[-1], None


def test_a_cell_is_asked_in_its_own_number_formats_alone():
    assert diagnose(own_cell.subject("SoundInFloat32Alone", SoundInFloat32Alone)) is None
