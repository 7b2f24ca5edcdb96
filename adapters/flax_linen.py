"""Flax: linen's SimpleCell, OptimizedLSTMCell and GRUCell in linen's RNN, differentiated by jax."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from adapters.jax_layer import JaxLayer
from adapters.layer import Differentiable
from reference.layouts import Layout

CELLS = {"rnn": nn.SimpleCell, "lstm": nn.OptimizedLSTMCell, "gru": nn.GRUCell}

LAYOUTS = {
    "rnn": Layout("Flax SimpleCell", "rnn", ("candidate",), "i{}.kernel", "h{}.kernel", ("i{}.bias",), ("",)),
    "lstm": Layout(
        "Flax LSTMCell", "lstm", ("input", "forget", "candidate", "output"), "i{}.kernel", "h{}.kernel",
        ("h{}.bias",), ("i", "f", "g", "o"),
    ),
    "gru": Layout(
        "Flax GRUCell", "gru", ("reset", "update", "candidate"), "i{}.kernel", "h{}.kernel", ("i{}.bias",),
        ("r", "z", "n"), inner_bias="hn.bias",
    ),
}  # fmt: skip


@cache
def layer(kind: str, input_size: int, hidden_size: int) -> JaxLayer:
    """The cell of a kind in linen's RNN; a parameter is called `cell.dense`, such as `hf.kernel`."""

    def rnn(dtype: Any) -> nn.RNN:
        return nn.RNN(CELLS[kind](hidden_size, param_dtype=dtype), return_carry=True)

    def call(arrays: Mapping[str, Any], x: Any, states: Any) -> Any:
        tree: dict[str, dict[str, Any]] = {}
        for name, array in arrays.items():
            dense, parameter = name.split(".")
            tree.setdefault(dense, {})[parameter] = array
        carry = states if states is None or kind == "lstm" else states[0]
        last, outputs = rnn(x.dtype).apply({"params": {"cell": tree}}, x, initial_carry=carry)
        return outputs, last if kind == "lstm" else (last,)

    def untrained(key: Any) -> dict[str, Any]:
        tree = rnn(jnp.float32).init(key, jnp.zeros((1, 1, input_size), jnp.float32))["params"]["cell"]
        return {f"{dense}.{name}": array for dense, own in tree.items() for name, array in own.items()}

    return JaxLayer(call, untrained)


def _adapter(kind: str, input_size: int, hidden_size: int) -> Differentiable:
    return Differentiable(layer(kind, input_size, hidden_size), LAYOUTS[kind], cell_first=kind == "lstm")


def RNN(input_size: int, hidden_size: int) -> Differentiable:
    """flax.linen.SimpleCell"""
    return _adapter("rnn", input_size, hidden_size)


def LSTM(input_size: int, hidden_size: int) -> Differentiable:
    """flax.linen.OptimizedLSTMCell"""
    return _adapter("lstm", input_size, hidden_size)


def GRU(input_size: int, hidden_size: int) -> Differentiable:
    """flax.linen.GRUCell"""
    return _adapter("gru", input_size, hidden_size)


LAYERS = {kind: (lambda D, H, kind=kind: layer(kind, D, H)) for kind in CELLS}
