"""Layers of torch.nn, exported to ONNX by torch.onnx.export and run by ONNX Runtime.

By the exporter that traces, in some milliseconds: torch 2.13's other one takes a second or more, and unrolls a
torch.nn.RNN over the steps of its example, whatever is said about lengths; the model then refuses any other. In float32
alone, and without gradients, as the operators.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from adapters.layer import Adapter, Arrays, Floats, States
from adapters.onnx_operators import OnnxLayer
from adapters.torch_modules import TorchLayer
from reference.layouts import TORCH

LAYERS_OF_TORCH: dict[str, Any] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Flat(nn.Module):
    """A layer whose states are arguments and results of their own, (B, H) each."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        layered = tuple(s[None] for s in states)
        if not states:
            outputs, last = self.layer(x)
        else:
            outputs, last = self.layer(x, layered if len(states) == 2 else layered[0])
        return (outputs, *(s[0] for s in (last if isinstance(last, tuple) else (last,))))


class ExportedLayer(OnnxLayer):
    """A layer of torch.nn with batch_first=True, exported once for its parameters with states and once without."""

    def __init__(self, kind: str, input_size: int, hidden_size: int) -> None:
        self.kind, self.sizes = kind, (input_size, hidden_size)

    def make(self, *sizes: int) -> nn.Module:
        """The layer of torch."""
        module: nn.Module = LAYERS_OF_TORCH[self.kind](*sizes, batch_first=True)
        return module

    def untrained(self, seed: int) -> Arrays:
        return TorchLayer(self.make, *self.sizes).untrained(seed)

    def run(self, arrays: Mapping[str, Floats], x: Floats, states: States | None) -> tuple[Floats, States]:
        outputs, *last = self.session(arrays, with_states=states is not None)(x, *(states or ()))
        return outputs, tuple(last)

    def model(self, arrays: Mapping[str, Floats], *, with_states: bool) -> bytes:
        """The exported model, for any batch and any number of steps."""
        layer = self.make(*self.sizes)
        layer.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
        states = {"rnn": ["h"], "lstm": ["h", "c"], "gru": ["h"]}[self.kind] if with_states else []
        example = (torch.zeros(2, 3, self.sizes[0]), *(torch.zeros(2, self.sizes[1]) for _ in states))
        free = {"x": {0: "batch", 1: "steps"}} | {name: {0: "batch"} for name in states}
        written = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of being replaced, and of batches that it can do
            export: Any = torch.onnx.export  # which types say writes to files alone
            export(Flat(layer), example, written, dynamo=False, input_names=["x", *states], dynamic_axes=free)
        return written.getvalue()


def _adapter(kind: str, input_size: int, hidden_size: int) -> Adapter:
    def of_one_layer(name: str) -> str:
        return f"{name}_l0"

    torch_layout = TORCH[kind]
    layout = replace(
        torch_layout, x=of_one_layer(torch_layout.x), h=of_one_layer(torch_layout.h),
        biases=tuple(map(of_one_layer, torch_layout.biases)),
    )  # fmt: skip
    return Adapter(ExportedLayer(kind, input_size, hidden_size), layout)


def RNN(input_size: int, hidden_size: int) -> Adapter:
    """torch.nn.RNN, exported"""
    return _adapter("rnn", input_size, hidden_size)


def LSTM(input_size: int, hidden_size: int) -> Adapter:
    """torch.nn.LSTM, exported"""
    return _adapter("lstm", input_size, hidden_size)


def GRU(input_size: int, hidden_size: int) -> Adapter:
    """torch.nn.GRU, exported"""
    return _adapter("gru", input_size, hidden_size)


LAYERS = {kind: (lambda D, H, kind=kind: ExportedLayer(kind, D, H)) for kind in LAYERS_OF_TORCH}
