"""ONNX Runtime: the operators RNN, LSTM and GRU, the latter with linear_before_reset 1 and 0.

In float32 alone: the runtime's processor kernels refuse float64. It infers; nothing here has gradients. Its σ is a
rational approximation, right to 1e-7, that is 0 from -18 down and not monotone near ±17, so claims about how far gates
open and shut do not hold of it. In a GRU the reset gate ends at -2.4e-7 and tanh at 1 + 4.8e-7. Of no steps it
returns memory that it has not written, or ends the process; such calls are refused here. (ONNX Runtime 1.32)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from adapters.layer import Adapter, Arrays, Floats, States
from reference.layouts import Layout
from reference.weights import GATES, Array

OPSET, IR = 22, 10
OPERATORS = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU", "gru-reset-before": "GRU"}
ORDER = {
    "rnn": ("candidate",),
    "lstm": ("input", "output", "forget", "candidate"),
    "gru": ("update", "reset", "candidate"),
    "gru-reset-before": ("update", "reset", "candidate"),
}


class Session:
    """A model in ONNX Runtime, on one thread of the processor."""

    def __init__(self, model: bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def __call__(self, *inputs: Floats) -> list[Floats]:
        """Outputs, of an input that comes first and of states.

        Raises:
            ValueError: the input has no steps.
        """
        if 0 in inputs[0].shape:
            raise ValueError("ONNX Runtime reads memory that is not its own where a sequence has no steps")
        names = [i.name for i in self._session.get_inputs()]
        outputs: list[Floats] = self._session.run(None, dict(zip(names, inputs, strict=True)))
        return outputs


class OnnxLayer:
    """A layer that is a model of its own for its parameters, one that takes states and one that does not."""

    dtypes: tuple[str, ...] = ("float32",)
    _loaded: tuple[Any, dict[bool, Session]] = (None, {})

    def session(self, arrays: Mapping[str, Floats], *, with_states: bool) -> Session:
        """The model under these parameters, made when it is first asked for."""
        if self._loaded[0] is not arrays:
            self._loaded = (arrays, {})
        sessions = self._loaded[1]
        if with_states not in sessions:
            sessions[with_states] = Session(self.model(arrays, with_states=with_states))
        return sessions[with_states]

    def model(self, arrays: Mapping[str, Floats], *, with_states: bool) -> bytes:
        """The serialised model."""
        raise NotImplementedError


class OperatorLayer(OnnxLayer):
    """An operator in a graph of its own, with its weights as initializers."""

    def __init__(self, kind: str, input_size: int, hidden_size: int) -> None:
        self.kind, self.hidden_size = kind, hidden_size
        gates = len(GATES[kind]) * hidden_size
        self.shapes = {"W": (1, gates, input_size), "R": (1, gates, hidden_size), "B": (1, 2 * gates)}

    def untrained(self, seed: int) -> Arrays:
        return {name: np.zeros(shape, np.float32) for name, shape in self.shapes.items()}

    def run(self, arrays: Mapping[str, Floats], x: Floats, states: States | None) -> tuple[Floats, States]:
        outputs, *last = self.session(arrays, with_states=states is not None)(
            x.swapaxes(0, 1), *(s[None] for s in states or ())
        )
        return np.ascontiguousarray(outputs[:, 0].swapaxes(0, 1)), tuple(s[0] for s in last)

    def model(self, arrays: Mapping[str, Floats], *, with_states: bool) -> bytes:
        """The serialised graph: X (T, B, D), and the states (1, B, H) where they are given."""
        states = ["h", "c"] if self.kind == "lstm" else ["h"]
        inputs = ["X", *([f"initial_{s}" for s in states] if with_states else [])]
        outputs = ["Y", *(f"Y_{s}" for s in states)]
        options = {"linear_before_reset": int(self.kind == "gru")} if self.kind.startswith("gru") else {}
        node = helper.make_node(
            OPERATORS[self.kind],
            ["X", "W", "R", "B", "", *inputs[1:]],
            outputs,
            hidden_size=self.hidden_size,
            **options,
        )
        graph = helper.make_graph(
            [node], self.kind,
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 3) for name in inputs],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(np.asarray(arrays[name]), name) for name in self.shapes],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
        return bytes(model.SerializeToString())


def _directions(arrays: dict[str, Array]) -> dict[str, Array]:
    """One direction, and the two biases of all gates one after the other."""
    return {"W": arrays["W"][None], "R": arrays["R"][None], "B": np.concatenate([arrays["Wb"], arrays["Rb"]])[None]}


def _adapter(kind: str, input_size: int, hidden_size: int) -> Adapter:
    layout = Layout(f"ONNX {OPERATORS[kind]}", kind, ORDER[kind], "W", "R", ("Wb", "Rb"), columns=True)
    return Adapter(OperatorLayer(kind, input_size, hidden_size), layout, _directions)


def RNN(input_size: int, hidden_size: int) -> Adapter:
    """The operator RNN"""
    return _adapter("rnn", input_size, hidden_size)


def LSTM(input_size: int, hidden_size: int) -> Adapter:
    """The operator LSTM"""
    return _adapter("lstm", input_size, hidden_size)


def GRU(input_size: int, hidden_size: int) -> Adapter:
    """The operator GRU with linear_before_reset = 1"""
    return _adapter("gru", input_size, hidden_size)


def ResetBeforeGRU(input_size: int, hidden_size: int) -> Adapter:
    """The operator GRU with linear_before_reset = 0, its default"""
    return _adapter("gru-reset-before", input_size, hidden_size)


LAYERS = {kind: (lambda D, H, kind=kind: OperatorLayer(kind, D, H)) for kind in OPERATORS}
