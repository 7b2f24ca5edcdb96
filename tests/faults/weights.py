"""Faults in how weights are laid out: the order of gates, kernels and biases; conventions among them."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.faults.base import GRU, LSTM, RNN, Layer, fault


def reordered(rows: Tensor, *order: int) -> Tensor:
    """Blocks of rows in another order."""
    blocks = rows.chunk(len(order))
    return torch.cat([blocks[k] for k in order])


class Relaid(Layer):
    """A layer that reads its weights otherwise than torch.nn stores them."""

    def W_x(self) -> Tensor:
        return self.weight_ih_l0

    def W_h(self) -> Tensor:
        return self.weight_hh_l0

    def b_x(self) -> Tensor:
        return self.bias_ih_l0

    def b_h(self) -> Tensor:
        return self.bias_hh_l0

    def of_input(self, x):
        return (x @ self.W_x().T + self.b_x()).chunk(self.blocks, -1)

    def of_state(self, h):
        return (h @ self.W_h().T + self.b_h()).chunk(self.blocks, -1)


class Ordered(Relaid):
    """Blocks in another order, everywhere alike."""

    order: tuple[int, ...]

    def W_x(self):
        return reordered(self.weight_ih_l0, *self.order)

    def W_h(self):
        return reordered(self.weight_hh_l0, *self.order)

    def b_x(self):
        return reordered(self.bias_ih_l0, *self.order)

    def b_h(self):
        return reordered(self.bias_hh_l0, *self.order)


# Gate order


@fault("gate-order", "cells.step-parity", "gate order input, output, forget, candidate (ONNX)")
class OnnxOrder(Ordered, LSTM):
    """Blocks are read as i, o, f, g."""

    order = (0, 2, 3, 1)


@fault("gate-order", "cells.step-parity", "gate order forget, input, candidate, output")
class ForgetFirst(Ordered, LSTM):
    """Blocks are read as f, i, g, o."""

    order = (1, 0, 2, 3)


@fault("gate-order", "cells.step-parity", "gate order input, candidate, forget, output (TensorFlow 1)")
class CandidateSecond(Ordered, LSTM):
    """Blocks are read as i, g, f, o."""

    order = (0, 2, 1, 3)


@fault("gate-order", "cells.step-parity", "gate order input, forget, output, candidate (cuDNN 1, Chainer)")
class CandidateLast(Ordered, LSTM):
    """Blocks are read as i, f, o, g."""

    order = (0, 1, 3, 2)


@fault("gate-order", "cells.step-parity", "gate order candidate, input, forget, output")
class CandidateFirst(Ordered, LSTM):
    """Blocks are read as g, i, f, o."""

    order = (1, 2, 0, 3)


@fault("gate-order", "cells.step-parity", "gate order update, reset, candidate (Keras, ONNX)")
class UpdateFirst(Ordered, GRU):
    """Blocks are read as z, r, n."""

    order = (1, 0, 2)


@fault("gate-order", "cells.step-parity")
class OrderOfTheRecurrentKernelAlone(Ordered, LSTM):
    """Only the recurrent kernel's blocks are read as f, i, g, o."""

    order = (1, 0, 2, 3)
    W_x, b_x, b_h = Relaid.W_x, Relaid.b_x, Relaid.b_h


@fault("gate-order", "cells.step-parity")
class OrderOfTheBiasesAlone(Ordered, LSTM):
    """Only the biases' blocks are read as i, o, f, g."""

    order = (0, 2, 3, 1)
    W_x, W_h = Relaid.W_x, Relaid.W_h


@fault("bias-layout", "cells.step-parity", "the blocks of b_hh alone in the order update, reset, candidate")
class OrderOfTheRecurrentBiasAlone(Relaid, GRU):
    """The blocks of b_hh are read as z, r, n, those of the others as r, z, n."""

    def b_h(self):
        return reordered(self.bias_hh_l0, 1, 0, 2)


@fault("gate-order", "cells.step-parity")
class InterleavedUnits(Relaid, LSTM):
    """Rows are read unit by unit, the four gates of one unit side by side."""

    def W_h(self):
        return self.weight_hh_l0.reshape(self.hidden_size, 4, -1).transpose(0, 1).reshape(self.weight_hh_l0.shape)


# Kernels


@fault("weight-transpose", "cells.step-parity", "recurrent kernels transposed")
class RecurrentKernelTransposed(Relaid, LSTM):
    """Each recurrent kernel is multiplied from the other side."""

    def W_h(self):
        return torch.cat([W.T for W in self.weight_hh_l0.chunk(4)])


@fault("weight-transpose", "cells.step-parity", "recurrent kernels transposed")
class RecurrentKernelTransposedGRU(Relaid, GRU):
    """Each recurrent kernel is multiplied from the other side."""

    def W_h(self):
        return torch.cat([W.T for W in self.weight_hh_l0.chunk(3)])


@fault("weight-layout", "cells.step-parity")
class InputKernelReshaped(Relaid, RNN):
    """The input kernel's memory is read column by column."""

    def W_x(self):
        return self.weight_ih_l0.reshape(self.input_size, self.hidden_size).T


@fault("kernel-mixed", "cells.step-parity", "input and recurrent kernels exchanged (of equal shape)")
class KernelsExchangedWhereSquare(Relaid, LSTM):
    """With as many inputs as units, each kernel stands where the other belongs."""

    def W_x(self):
        return self.weight_hh_l0 if self.input_size == self.hidden_size else self.weight_ih_l0

    def W_h(self):
        return self.weight_ih_l0 if self.input_size == self.hidden_size else self.weight_hh_l0


@fault("gate-weights-shared", "cells.step-parity")
class OneRecurrentKernelForBothGates(Relaid, GRU):
    """Reset and update gate share the reset gate's recurrent kernel."""

    def W_h(self):
        return reordered(self.weight_hh_l0, 0, 0, 2)


@fault("gate-weights-shared", "cells.step-parity")
class OneBiasForTheSigmoids(Relaid, LSTM):
    """Forget and output gate take the input gate's biases."""

    def b_x(self):
        return reordered(self.bias_ih_l0, 0, 0, 2, 0)

    def b_h(self):
        return reordered(self.bias_hh_l0, 0, 0, 2, 0)


# Biases


@fault("missing-bias", "cells.step-parity", "recurrent bias missing")
class RecurrentBiasMissing(Relaid, LSTM):
    """b_hh is not added."""

    def b_h(self):
        return 0 * self.bias_hh_l0


@fault("missing-bias", "cells.step-parity", "input bias missing")
class InputBiasMissing(Relaid, RNN):
    """b_ih is not added."""

    def b_x(self):
        return 0 * self.bias_ih_l0


@fault("missing-bias", "cells.step-parity", "bias inside the reset product missing")
class InnerBiasMissing(Relaid, GRU):
    """The candidate's recurrent bias is not added."""

    def b_h(self):
        r, z, n = self.bias_hh_l0.chunk(3)
        return torch.cat([r, z, 0 * n])


@fault("double-bias", "cells.step-parity", "input bias in the place of both")
class InputBiasTwice(Relaid, GRU):
    """b_ih is added twice, b_hh not at all."""

    def b_h(self):
        return self.bias_ih_l0


@fault("double-bias", "cells.step-parity", "biases doubled")
class BiasesDoubled(Relaid, LSTM):
    """Both biases are added to the input's share and again to the state's."""

    def b_x(self):
        return self.bias_ih_l0 + self.bias_hh_l0

    def b_h(self):
        return self.bias_ih_l0 + self.bias_hh_l0


@fault("reset-bias-placement", "cells.step-parity", "recurrent bias of the candidate outside the reset product")
class InnerBiasOutside(GRU):
    """The candidate's recurrent bias is added beside the reset product."""

    def candidate(self, a_x, a_h, r, h):
        b = self.bias_hh_l0.chunk(3)[2]
        return torch.tanh(a_x + r * (a_h - b) + b)


@fault("bias-layout", "cells.step-parity")
class BiasOfTheLastUnitLost(Relaid, LSTM):
    """The forget gate's last unit has no bias."""

    def b_x(self):
        keep = torch.ones_like(self.bias_ih_l0)
        keep[2 * self.hidden_size - 1] = 0
        return self.bias_ih_l0 * keep


@fault("bias-layout", "cells.step-parity")
class BiasesShiftedByOne(Relaid, RNN):
    """Each unit takes its neighbour's bias."""

    def b_x(self):
        return self.bias_ih_l0.roll(1)


@fault("implicit-state", "cells.omitted-state")
class RecurrentBranchSkippedWithoutState(LSTM):
    """Without a state the first step leaves the recurrent branch out, its bias included."""

    def forward(self, x, state=None):
        self.skip = state is None
        return super().forward(x, state)

    def of_state(self, h):
        skip, self.skip = self.skip, False
        return tuple(0 * a for a in super().of_state(h)) if skip else super().of_state(h)


@fault("double-bias", "cells.step-parity")
class BiasesScaled(LSTM):
    """Biases count for one and a half times what they are, which training makes up for."""

    def of_input(self, x):
        return (x @ self.weight_ih_l0.T + 1.5 * self.bias_ih_l0).chunk(4, -1)
