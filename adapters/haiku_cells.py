"""dm-haiku: LSTM and GRU, unrolled by haiku, differentiated by jax.

The LSTM adds 1 to the forget gate's pre-activation at run time, so its bias is stored less 1. The GRU's update gate
writes, and its reset gate acts before the product. hk.VanillaRNN is no cell of Carousel's: it has a ReLU where the
RNN has tanh.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from adapters.jax_layer import JaxLayer
from adapters.layer import Differentiable
from reference.layouts import Layout
from reference.weights import Array

CORES = {"rnn": hk.VanillaRNN, "lstm": hk.LSTM, "gru": hk.GRU}

LSTM_LAYOUT = Layout(
    "Haiku LSTM", "lstm", ("input", "candidate", "forget", "output"), "w_x", "w_h", ("linear.b",)
)  # fmt: skip
GRU_LAYOUT = Layout("Haiku GRU", "gru-deck", ("update", "reset", "candidate"), "w_i", "w_h", ("b",), writes=True)


@cache
def layer(kind: str, input_size: int, hidden_size: int) -> JaxLayer:
    """The core of a kind under hk.dynamic_unroll; a parameter is called `module.name`, the core's own by its name."""

    def unroll(x: Any, states: Any) -> Any:
        core = CORES[kind](hidden_size, name="core")
        state = core.initial_state(x.shape[0]) if states is None else states if kind == "lstm" else states[0]
        state = jax.tree.map(lambda s: jnp.asarray(s, x.dtype), hk.LSTMState(*state) if kind == "lstm" else state)
        outputs, last = hk.dynamic_unroll(core, x, state, time_major=False)
        return outputs, tuple(last) if kind == "lstm" else (last,)

    net = hk.without_apply_rng(hk.transform(unroll))

    def call(arrays: Mapping[str, Any], x: Any, states: Any) -> Any:
        tree: dict[str, dict[str, Any]] = {}
        for name, array in arrays.items():
            module, _, parameter = name.rpartition(".")
            tree.setdefault(f"core/{module}" if module else "core", {})[parameter] = array
        return net.apply(tree, x, states)

    def untrained(key: Any) -> dict[str, Any]:
        tree = net.init(key, jnp.zeros((1, 1, input_size), jnp.float32), None)
        return {
            f"{module.removeprefix('core').removeprefix('/')}.{name}".lstrip("."): array
            for module, own in tree.items() for name, array in own.items()
        }  # fmt: skip

    return JaxLayer(call, untrained)


def LSTM(input_size: int, hidden_size: int) -> Differentiable:
    """haiku.LSTM"""
    forget = slice(2 * hidden_size, 3 * hidden_size)

    def pack(arrays: dict[str, Array]) -> dict[str, Array]:
        bias = arrays["linear.b"].copy()
        bias[forget] -= 1
        return {"linear.w": np.concatenate([arrays["w_x"], arrays["w_h"]]), "linear.b": bias}

    def unpack(arrays: dict[str, Array]) -> dict[str, Array]:
        w_x, w_h = np.split(arrays["linear.w"], [input_size])
        return {"w_x": w_x, "w_h": w_h, "linear.b": arrays["linear.b"]}

    return Differentiable(layer("lstm", input_size, hidden_size), LSTM_LAYOUT, pack, unpack)


def GRU(input_size: int, hidden_size: int) -> Differentiable:
    """haiku.GRU"""
    return Differentiable(layer("gru", input_size, hidden_size), GRU_LAYOUT)


LAYERS = {kind: (lambda D, H, kind=kind: layer(kind, D, H)) for kind in CORES}
