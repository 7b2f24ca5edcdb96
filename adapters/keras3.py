"""Keras 3 on its torch backend: SimpleRNN, LSTM and GRU, the latter with the reset after the product or before it.

LSTM and GRU are torch's own kernels underneath. The other two multiply by `keras.ops.matmul`, whose promotion of types
knows no float64 but on TensorFlow (Keras 3.15): here it rounds to float32, so that they do not compute in float64,
whatever their dtype.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch

from adapters.layer import Arrays, Differentiable, Floats, States
from reference.layouts import Layout
from reference.weights import Array

MAKERS: dict[str, Any] = {
    "rnn": keras.layers.SimpleRNN,
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
    "gru-reset-before": lambda *args, **options: keras.layers.GRU(*args, reset_after=False, **options),
}
KERNELS = ("kernel", "recurrent_kernel")
LAYOUTS = {
    "rnn": Layout("Keras SimpleRNN", "rnn", ("candidate",), *KERNELS, ("bias",)),
    "lstm": Layout("Keras LSTM", "lstm", ("input", "forget", "candidate", "output"), *KERNELS, ("bias",)),
    "gru": Layout("Keras GRU", "gru", ("update", "reset", "candidate"), *KERNELS, ("bias", "recurrent_bias")),
    "gru-reset-before": Layout(
        "Keras GRU, reset_after=False", "gru-reset-before", ("update", "reset", "candidate"), *KERNELS, ("bias",)
    ),
}


class KerasLayer:
    """A layer of Keras; its weights are called kernel, recurrent_kernel and bias."""

    def __init__(self, kind: str, input_size: int, hidden_size: int) -> None:
        self.dtypes: tuple[str, ...] = ("float32", "float64") if kind in ("lstm", "gru") else ("float32",)
        self.kind, self.input_size, self.hidden_size = kind, input_size, hidden_size
        self.built = cache(self._build)

    def _build(self, dtype: str) -> Any:
        layer = MAKERS[self.kind](self.hidden_size, return_sequences=True, return_state=True, dtype=dtype)
        layer.build((None, None, self.input_size))
        return layer

    def untrained(self, seed: int) -> Arrays:
        keras.utils.set_random_seed(seed)
        weights = self._build("float32").trainable_weights
        return {w.name: w.value.detach().cpu().numpy() for w in weights}

    def run(self, arrays: Mapping[str, Floats], x: Floats, states: States | None) -> tuple[Floats, States]:
        layer = self._loaded(arrays, x.dtype.name)
        start = None if states is None else [torch.from_numpy(s) for s in states]
        with torch.no_grad():
            outputs, *last = layer(torch.from_numpy(x), initial_state=start)
        return outputs.numpy(), tuple(s.numpy() for s in last)

    def pull(
        self, arrays: Mapping[str, Floats], x: Floats, states: States, outputs: Floats, last: States
    ) -> tuple[Arrays, Floats, States]:
        layer = self._loaded(arrays, x.dtype.name)
        leaves = [torch.from_numpy(a).requires_grad_() for a in (x, *states)]
        ends = layer(leaves[0], initial_state=leaves[1:])
        learnt = {w.name: w.value for w in layer.trainable_weights}
        upstream = [torch.from_numpy(a) for a in (outputs, *last)]
        found = torch.autograd.grad(list(ends), [*leaves, *learnt.values()], upstream, materialize_grads=True)
        of_x, *rest = (g.numpy() for g in found)
        return dict(zip(learnt, rest[len(states) :], strict=True)), of_x, tuple(rest[: len(states)])

    def _loaded(self, arrays: Mapping[str, Floats], dtype: str) -> Any:
        layer = self.built(dtype)
        for weight in layer.trainable_weights:
            weight.assign(torch.from_numpy(np.asarray(arrays[weight.name])))
        return layer


class KerasAdapter(Differentiable):
    """A layer that is built when it is loaded: building it draws random numbers, which no call should."""

    def load(self, weights: Mapping[str, Mapping[str, Array]], dtype: str) -> None:
        super().load(weights, dtype)
        self.layer.built(dtype)


def _two_rows(arrays: dict[str, Array]) -> dict[str, Array]:
    """A GRU with the reset after the product has its two biases in one array."""
    rows = np.stack([arrays["bias"], arrays["recurrent_bias"]])
    return {name: arrays[name] for name in KERNELS} | {"bias": rows}


def _one_row_each(arrays: dict[str, Array]) -> dict[str, Array]:
    return arrays | {"bias": arrays["bias"][0], "recurrent_bias": arrays["bias"][1]}


def RNN(input_size: int, hidden_size: int) -> KerasAdapter:
    """keras.layers.SimpleRNN"""
    return KerasAdapter(KerasLayer("rnn", input_size, hidden_size), LAYOUTS["rnn"])


def LSTM(input_size: int, hidden_size: int) -> KerasAdapter:
    """keras.layers.LSTM"""
    return KerasAdapter(KerasLayer("lstm", input_size, hidden_size), LAYOUTS["lstm"])


def GRU(input_size: int, hidden_size: int) -> KerasAdapter:
    """keras.layers.GRU"""
    return KerasAdapter(KerasLayer("gru", input_size, hidden_size), LAYOUTS["gru"], _two_rows, _one_row_each)


def ResetBeforeGRU(input_size: int, hidden_size: int) -> KerasAdapter:
    """keras.layers.GRU(reset_after=False)"""
    return KerasAdapter(KerasLayer("gru-reset-before", input_size, hidden_size), LAYOUTS["gru-reset-before"])


LAYERS = {kind: (lambda D, H, kind=kind: KerasLayer(kind, D, H)) for kind in MAKERS}
