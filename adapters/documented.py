"""What the frameworks' own documentation says of their layers, to be set beside what is measured.

Read in the docstrings of torch 2.13, onnx 1.23, Keras 3.15, Flax 0.12, Equinox 0.13 and dm-haiku 0.0.17; where these
are silent, in the source ("source"), which is the only documentation there is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """One thing that is said: a field of `measure.Conventions`, its value, where, and what follows if it is wrong."""

    field: str
    value: str | int | float
    where: str
    so: str = ""


def _statements(where: str, **fields: str | int | float) -> tuple[Statement, ...]:
    return tuple(Statement(name, value, where) for name, value in fields.items())


TORCH = {
    "rnn": _statements("nn.RNN", activation="tanh", biases=2, kernels="W x"),
    "lstm": _statements(
        "nn.LSTM", order="i f g o", biases=8, kernels="W x", states="h, c", initial=0.0, at_run_time=0.0
    ),
    "gru": _statements(
        "nn.GRU", order="r z n", biases=6, kernels="W x", update="keeps", reset="after", inner=1
    ),
}  # fmt: skip
ONNX_GRU = _statements("operator GRU", order="z r n", biases=6, kernels="W x", update="keeps")
KERAS_GRU = _statements("keras.layers.GRU, source", order="z r n", kernels="x W", update="keeps")

DOCUMENTED: dict[tuple[str, str], tuple[Statement, ...]] = {
    **{
        (way, kind): said
        for way in ("torch_eager", "torch_plain", "torch_vmap", "torch_compiled", "onnx_export")
        for kind, said in TORCH.items()
    },
    ("onnx_operators", "rnn"): _statements("operator RNN", activation="tanh", biases=2, kernels="W x"),
    ("onnx_operators", "lstm"): _statements(
        "operator LSTM", order="i o f g", biases=8, kernels="W x", states="h, c", at_run_time=0.0
    ),
    ("onnx_operators", "gru"): (*ONNX_GRU, *_statements("linear_before_reset = 1", reset="after", inner=1)),
    ("onnx_operators", "gru-reset-before"): (
        *ONNX_GRU, *_statements("linear_before_reset = 0", reset="before", inner=0)
    ),
    ("keras3", "rnn"): _statements("keras.layers.SimpleRNN", activation="tanh", biases=1, kernels="x W"),
    ("keras3", "lstm"): (
        *_statements("keras.layers.LSTM, source", order="i f g o", biases=4, kernels="x W", states="h, c"),
        *_statements("argument unit_forget_bias", initial=1.0, at_run_time=0.0),
    ),
    ("keras3", "gru"): (
        *KERAS_GRU,
        *_statements("argument reset_after, by default true", reset="after", biases=6, inner=1),
        Statement(
            "reset", "before", "the class's own text: its default applies the reset gate to the state first",
            so="the text and the default of reset_after contradict each other, and the default decides",
        ),
    ),
    ("keras3", "gru-reset-before"): (
        *KERAS_GRU, *_statements("argument reset_after = False", reset="before", biases=3, inner=0)
    ),
    ("flax_linen", "rnn"): _statements("linen.SimpleCell", activation="tanh", biases=1, kernels="x W"),
    ("flax_linen", "lstm"): (
        *_statements("linen.LSTMCell", order="separate", biases=4, initial=0.0, at_run_time=0.0),
        *_statements("linen.LSTMCell, source", kernels="x W", states="c, h"),
    ),
    ("flax_linen", "gru"): _statements(
        "linen.GRUCell", order="separate", biases=4, update="keeps", reset="after", inner=1
    ),
    ("equinox_cells", "lstm"): _statements(
        "nn.LSTMCell, source", order="i f g o", biases=4, kernels="W x", states="h, c", initial=0.0, at_run_time=0.0
    ),
    ("equinox_cells", "gru"): _statements(
        "nn.GRUCell, source", order="r z n", biases=4, kernels="W x", update="keeps", reset="after", inner=1
    ),
    ("haiku_cells", "rnn"): _statements("hk.VanillaRNN", activation="ReLU", biases=2),
    ("haiku_cells", "lstm"): (
        *_statements("hk.LSTM, source", order="i g f o", kernels="x W", states="h, c", biases=4),
        *_statements("hk.LSTM", initial=1.0),
        Statement(
            "at_run_time", 0.0, "hk.LSTM: 1 is added to the forget gate's bias after initialisation",
            so="the stored bias starts at 0, and 1 is added at every call: a ported bias must be stored less 1",
        ),
    ),
    ("haiku_cells", "gru"): (
        *_statements("hk.GRU, its equations", biases=3, reset="before", update="writes", inner=0),
        Statement(
            "order", "r z n", "hk.GRU's prose, which calls the first gate, z, the reset gate and r the update gate",
            so="the names are exchanged in the prose; the equations and the array have z, the update gate, first",
        ),
    ),
}  # fmt: skip
