"""Equinox: LSTMCell and GRUCell, mapped over the batch and scanned through time, differentiated by jax."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from adapters.jax_layer import JaxLayer
from adapters.layer import Differentiable
from reference.layouts import Layout

CELLS = {"lstm": eqx.nn.LSTMCell, "gru": eqx.nn.GRUCell}
NAMES = {"lstm": ("weight_ih", "weight_hh", "bias"), "gru": ("weight_ih", "weight_hh", "bias", "bias_n")}

LAYOUTS = {
    "lstm": Layout(
        "Equinox LSTMCell", "lstm", ("input", "forget", "candidate", "output"), "weight_ih", "weight_hh", ("bias",),
        columns=True,
    ),
    "gru": Layout(
        "Equinox GRUCell", "gru", ("reset", "update", "candidate"), "weight_ih", "weight_hh", ("bias",),
        columns=True, inner_bias="bias_n",
    ),
}  # fmt: skip


@cache
def layer(kind: str, input_size: int, hidden_size: int) -> JaxLayer:
    """The cell of a kind; Equinox has no layers of its own, and leaves the scan to its user."""

    def call(arrays: Mapping[str, Any], x: Any, states: Any) -> Any:
        cell = eqx.tree_at(
            lambda cell: [getattr(cell, name) for name in NAMES[kind]],
            CELLS[kind](input_size, hidden_size, key=jax.random.key(0)),
            [arrays[name] for name in NAMES[kind]],
        )
        if states is None:
            zeros = jnp.zeros((x.shape[0], hidden_size), x.dtype)
            states = (zeros, zeros) if kind == "lstm" else (zeros,)

        def step(states: Any, x_t: Any) -> Any:
            last = jax.vmap(cell)(x_t, states if kind == "lstm" else states[0])
            states = last if kind == "lstm" else (last,)
            return states, states[0]

        last, outputs = jax.lax.scan(step, states, jnp.swapaxes(x, 0, 1))
        return jnp.swapaxes(outputs, 0, 1), last

    def untrained(key: Any) -> dict[str, Any]:
        cell = CELLS[kind](input_size, hidden_size, key=key, dtype=jnp.float32)
        return {name: getattr(cell, name) for name in NAMES[kind]}

    return JaxLayer(call, untrained)


def LSTM(input_size: int, hidden_size: int) -> Differentiable:
    """equinox.nn.LSTMCell"""
    return Differentiable(layer("lstm", input_size, hidden_size), LAYOUTS["lstm"])


def GRU(input_size: int, hidden_size: int) -> Differentiable:
    """equinox.nn.GRUCell"""
    return Differentiable(layer("gru", input_size, hidden_size), LAYOUTS["gru"])


LAYERS = {kind: (lambda D, H, kind=kind: layer(kind, D, H)) for kind in CELLS}
