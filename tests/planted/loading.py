"""Faults in how weights get into a cell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from fixtures.subjects import Net, TorchNet
from planted.plant import plant, plant_as, plant_in
from reference import cells, layouts
from reference.weights import Weights


class _Mislaid(cells.LSTM):
    """An LSTM that loads other weights than it is given."""

    def __init__(self, weights: Weights, dtype: torch.dtype, device: str) -> None:
        super().__init__(self.mislay(weights), dtype, device)

    def mislay(self, weights: Weights) -> Weights:
        raise NotImplementedError


@plant
class ExchangedGates(_Mislaid):
    """The forget gate gets the input gate's block and the input gate the forget gate's."""

    def mislay(self, weights):
        return Weights(weights.kind, weights.blocks | {"forget": weights["input"], "input": weights["forget"]})


@plant
class CandidateForOutput(_Mislaid):
    """Candidate and output gate change places, as between i f c o and i f o c."""

    def mislay(self, weights):
        return Weights(weights.kind, weights.blocks | {"candidate": weights["output"], "output": weights["candidate"]})


@plant
class TransposedKernel(_Mislaid):
    """The square recurrent kernels are loaded transposed."""

    def mislay(self, weights):
        return weights.change(W_h=np.transpose)


@plant
class RecurrentBiasLeftOut(_Mislaid):
    """Of the two biases only the input's is loaded."""

    def mislay(self, weights):
        return weights.change(b_h=np.zeros_like)


@plant
class InputBiasTwice(_Mislaid):
    """The input's bias is loaded in the place of both."""

    def mislay(self, weights):
        return Weights(weights.kind, {g: type(b)(b.W_x, b.W_h, b.b_x, b.b_x, b.P) for g, b in weights.blocks.items()})


@plant
class OneBiasForAllGates(_Mislaid):
    """Every gate gets the forget gate's bias."""

    def mislay(self, weights):
        return weights.change(b_x=lambda b: weights["forget"].b_x, b_h=lambda b: weights["forget"].b_h)


@plant
class OneRecurrentKernelForAllGates(_Mislaid):
    """Every gate gets the candidate's recurrent kernel."""

    def mislay(self, weights):
        return weights.change(W_h=lambda W: weights["candidate"].W_h)


class _OtherOrder(TorchNet):
    """torch.nn.LSTM, loaded in the order input, output, forget, candidate (ONNX)."""

    def __init__(self, module: nn.Module, weights: Weights) -> None:
        blocks = {"output": weights["forget"], "forget": weights["candidate"], "candidate": weights["output"]}
        super().__init__(module, "lstm", Weights("lstm", weights.blocks | blocks))


def _other_order(weights: Weights, dtype: torch.dtype, device: str) -> Net:
    return _OtherOrder(nn.LSTM(weights.input_size, weights.hidden_size, batch_first=True).to(device, dtype), weights)


plant_as("TorchBlocksInAnotherOrder", "lstm", _other_order)


class _GRUBlocks(cells.GRU):
    """A GRU that reads its blocks in the order update, reset, candidate."""

    def __init__(self, weights: Weights, dtype: torch.dtype, device: str) -> None:
        swapped = {"reset": weights["update"], "update": weights["reset"]}
        super().__init__(Weights(weights.kind, weights.blocks | swapped), dtype, device)


@plant
class ExchangedResetAndUpdate(_GRUBlocks):
    """Reset and update gate change places."""


_read = layouts.read


@plant_in(layouts, "read")
def sign_forgotten_in_reading(arrays, layout):
    """An update gate that writes is stored negated and read as it stands."""
    return _read(arrays, replace(layout, writes=False))
