"""The notebook's own random streams: the draws behind its printed figures, in its order (N, all sections).

A stream is a `torch.Generator` on the CPU with the notebook's seed; drawing from it leaves torch's global state alone.
All draws are float32, as in the notebook, and returned as numpy arrays.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from reference import layouts
from reference.weights import Array, Block, Weights

Draw = NDArray[np.float32]


class Stream:
    """One seeded run of the notebook's generator: `set_seed(seed)`, or the generator that an initialiser makes."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def randn(self, *shape: int) -> Draw:
        """What `torch.randn(*shape)` draws next."""
        return torch.randn(*shape, generator=self._generator).numpy()

    def skip_uniform(self, *sizes: int) -> None:
        """Pass over the uniform draws with which a `torch.nn` module of these parameter sizes initialises itself."""
        for size in sizes:
            torch.empty(size).uniform_(generator=self._generator)

    def skip_recall_training(self, steps: int, batch: int, gap: int) -> None:
        """Pass over the batches of a training run on the recall task (N §1.b): keys below 8, fillers from 8 to 11."""
        for _ in range(steps):
            torch.randint(0, 8, (batch,), generator=self._generator)
            torch.randint(8, 12, (batch, gap), generator=self._generator)


def _scaled(draw: Draw, factor: float, *, divide: bool = False) -> Array:
    """Scale in float32, as the notebook does, then widen."""
    scaled = draw / np.float32(factor) if divide else draw * np.float32(factor)
    return scaled.astype(np.float64)


def rnn_weights(input_size: int, hidden_size: int, seed: int, scale: float = 1.0) -> Weights:
    """N §4.b, `init_rnn_params`: W_xh = randn / √D, W_hh = scale · randn / √H, no bias."""
    stream = Stream(seed)
    W_x = _scaled(stream.randn(hidden_size, input_size), math.sqrt(input_size), divide=True).T
    W_h = _scaled(_scaled(stream.randn(hidden_size, hidden_size), scale).astype(np.float32), math.sqrt(hidden_size),
                  divide=True).T  # fmt: skip
    return Weights("rnn", {"candidate": Block(W_x, W_h, np.zeros(hidden_size), np.zeros(hidden_size))})


def lstm_weights(input_size: int, hidden_size: int, seed: int, forget_bias: float = 0.0) -> Weights:
    """N §2.a, `init_lstm_params`: W_f, W_i, W_C, W_o = randn(H, H + D) / √(H + D), biases zero but for b_f."""
    stream, fan_in = Stream(seed), hidden_size + input_size
    arrays = {
        f"W{g}": _scaled(stream.randn(hidden_size, fan_in), math.sqrt(fan_in), divide=True)
        for g in ("f", "i", "C", "o")
    }
    arrays |= {f"b{g}": np.zeros(hidden_size) for g in ("f", "i", "C", "o")}
    return layouts.read(arrays, layouts.N_LSTM).pin(forget=forget_bias)


def deck_gru_arrays(input_size: int, hidden_size: int, seed: int, update_bias: float = 0.0) -> dict[str, Array]:
    """N §7.a, `init_gru_params`, in the deck's layout: W_z, W_r, W = randn(H, H + D) / √(H + D), all b 0 but b_z."""
    stream, fan_in = Stream(seed), hidden_size + input_size
    arrays = {
        f"W{g}": _scaled(stream.randn(hidden_size, fan_in), math.sqrt(fan_in), divide=True) for g in ("z", "r", "n")
    }
    arrays |= {f"b{g}": np.zeros(hidden_size) for g in ("z", "r", "n")}
    arrays["bz"] = arrays["bz"] + update_bias
    return arrays


def deck_gru_weights(input_size: int, hidden_size: int, seed: int, update_bias: float = 0.0) -> Weights:
    """The deck's GRU weights with the deck's meaning: z writes, the reset comes before the product."""
    return layouts.read(deck_gru_arrays(input_size, hidden_size, seed, update_bias), layouts.N_DECK_GRU)


def peephole_weights(input_size: int, hidden_size: int, seed: int) -> Weights:
    """N §5: the LSTM's weights of this seed, and P_f, P_i, P_o = randn(H, H) / √H from a second run of that seed."""
    lstm, stream = lstm_weights(input_size, hidden_size, seed), Stream(seed)
    blocks = dict(lstm.blocks)
    for gate in ("forget", "input", "output"):
        P = _scaled(stream.randn(hidden_size, hidden_size), math.sqrt(hidden_size), divide=True).T
        old = blocks[gate]
        blocks[gate] = Block(old.W_x, old.W_h, old.b_x, old.b_h, P)
    return Weights("lstm-peephole", blocks)
