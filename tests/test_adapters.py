"""Does each shipped adapter compute the oracle's states and gradients, in each format, from a state and without one?

A framework that is not installed is skipped; `.ci/run` installs all of requirements-adapters.txt.
"""

import importlib
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from adapters import conventions, measure
from adapters.documented import DOCUMENTED
from fixtures.settings import Draw
from fixtures.subjects import Subject, TorchNet
from reference import oracle
from reference.weights import Block, Weights, has_cell_state

MODULES = {
    "torch_eager": "RNN LSTM GRU",
    "torch_plain": "RNN LSTM GRU",
    "torch_vmap": "RNN LSTM GRU",
    "torch_compiled": "RNN LSTM GRU",
    "onnx_operators": "RNN LSTM GRU ResetBeforeGRU",
    "onnx_export": "RNN LSTM GRU",
    "keras3": "RNN LSTM GRU ResetBeforeGRU",
    "flax_linen": "RNN LSTM GRU",
    "equinox_cells": "LSTM GRU",
    "haiku_cells": "LSTM GRU",
}
ADAPTERS = [(module, name) for module, names in MODULES.items() for name in names.split()]
OTHERWISE = {
    ("keras3", "gru"): {"reset"},
    ("haiku_cells", "lstm"): {"at_run_time"},
    ("haiku_cells", "gru"): {"order"},
}
"""What is documented otherwise than it is, in the versions of requirements-adapters.txt."""

each = pytest.mark.parametrize(("module", "name"), ADAPTERS, ids=lambda x: x)
FACTOR = 4.0


def adapter(module, name, input_size, hidden_size):
    if (reason := conventions.why_not(module)) is not None:
        pytest.skip(reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = getattr(importlib.import_module(f"adapters.{module}"), name)(input_size, hidden_size)
    return DropIn(made) if isinstance(made, nn.Module) else made


class DropIn:
    """A drop-in module through the suite's own subject, in the adapters' protocol."""

    dtypes = ("float32", "float64")

    def __init__(self, module):
        self.module = module
        self.kind = {nn.RNN: "rnn", nn.LSTM: "lstm", nn.GRU: "gru"}[
            next(base for base in type(module).__mro__ if base in (nn.RNN, nn.LSTM, nn.GRU))
        ]

    def load(self, weights, dtype):
        canonical = Weights(self.kind, {gate: Block(**block) for gate, block in weights.items()})
        subject = Subject(
            "own", self.kind, lambda w, t, device: TorchNet(self.module.to(device, t), self.kind, w), dtype=dtype
        )
        self.loaded = subject(canonical)

    def run(self, x, h, c):
        ran = self.loaded.run(x, h, c)
        return ran.outputs, ran.h, ran.c

    def gradients(self, x, h, c, upstream):
        found = self.loaded.gradients(x, h, c, upstream)[0]
        return {"x": found.x, "h": found.h, "c": found.c} | found.parameters


def blocks(weights):
    return {gate: block.parameters() for gate, block in weights.blocks.items()}


def limit(dtype, fan_in, steps, truth):
    return FACTOR * np.finfo(dtype).eps * np.sqrt(fan_in) * steps * max(1.0, np.abs(truth).max())


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("given", [True, False], ids=["state", "no-state"])
@pytest.mark.parametrize(("B", "T", "D", "H"), [(3, 5, 4, 7), (1, 1, 2, 3)])
def test_states_are_the_oracles(module, name, dtype, given, B, T, D, H):
    cell, draw = adapter(module, name, D, H), Draw(3)
    if dtype not in cell.dtypes:
        pytest.skip(f"{module} computes in {' and '.join(cell.dtypes)}")
    weights, x = draw.weights(cell.kind, D, H), draw.inputs(B, T, D)
    h, c = (draw.state(B, H), draw.state(B, H)) if given else (None, None)
    c = c if has_cell_state(cell.kind) else None
    cell.load(blocks(weights), dtype)
    outputs, last_h, last_c = cell.run(*(None if a is None else a.astype(dtype) for a in (x, h, c)))
    tape = oracle.forward(weights, x, h, c)
    assert outputs.dtype == last_h.dtype == dtype
    assert (last_c is None) == (tape.c is None)
    shown = [("outputs", outputs, tape.outputs), ("h", last_h, tape.h[:, -1])]
    for what, found, truth in shown + ([] if tape.c is None else [("c", last_c, tape.c[:, -1])]):
        assert found.shape == truth.shape, what
        np.testing.assert_allclose(found, truth, rtol=0, atol=limit(dtype, D + H, T, truth), err_msg=what)


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ends", ["outputs h c", "h", "c"])
def test_gradients_are_the_oracles(module, name, dtype, ends):
    B, T, D, H = 3, 5, 4, 7
    cell, draw = adapter(module, name, D, H), Draw(5)
    if dtype not in cell.dtypes:
        pytest.skip(f"{module} computes in {' and '.join(cell.dtypes)}")
    if not hasattr(cell, "gradients"):
        pytest.skip(f"{module} has no gradients")
    carried = has_cell_state(cell.kind)
    weights, x, h = draw.weights(cell.kind, D, H), draw.inputs(B, T, D), draw.state(B, H)
    c = draw.state(B, H) if carried else None
    pulls = {"outputs": draw.upstream(B, T, H), "h": draw.upstream(B, H), "c": draw.upstream(B, H)}
    pulls = {end: pulls[end] for end in ends.split() if carried or end != "c"}
    if not pulls:
        pytest.skip("no cell state")
    cell.load(blocks(weights), dtype)
    given = [None if a is None else a.astype(dtype) for a in (x, h, c)]
    found = cell.gradients(*given, {end: pull.astype(dtype) for end, pull in pulls.items()})
    truth = oracle.backward(oracle.forward(weights, x, h, c), **pulls)
    expected = {"x": truth.x, "h": truth.h} | ({"c": truth.c} if carried else {}) | truth.parameters
    for what, right in expected.items():
        assert found[what].shape == right.shape, what
        np.testing.assert_allclose(found[what], right, rtol=0, atol=limit(dtype, D + H, T, right), err_msg=what)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_weights_can_be_loaded_anew(name):
    """One adapter, other weights, another format, another batch: nothing stays behind."""
    for module in ("torch_plain", "onnx_operators", "onnx_export", "keras3", "flax_linen", "haiku_cells"):
        if name not in MODULES[module].split():
            continue
        try:
            cell = adapter(module, name, 3, 4)
        except pytest.skip.Exception:
            continue
        for seed, batch, dtype in ((1, 2, "float32"), (2, 1, cell.dtypes[-1]), (3, 5, "float32")):
            draw = Draw(seed)
            weights, x = draw.weights(cell.kind, 3, 4), draw.inputs(batch, seed, 3)
            cell.load(blocks(weights), dtype)
            truth = oracle.forward(weights, x).outputs
            np.testing.assert_allclose(
                cell.run(x.astype(dtype), None, None)[0],
                truth,
                rtol=0,
                atol=limit(dtype, 7, seed, truth),
                err_msg=module,
            )


@pytest.mark.parametrize("module", sorted(MODULES))
def test_conventions_are_the_documented_ones_but_for_what_is_known(module):
    if module == "torch_compiled":
        pytest.skip("torch.nn's parameters, and compiled; `make conventions` measures it")
    if (reason := conventions.why_not(module)) is not None:
        pytest.skip(reason)
    for kind, found in conventions.measured(module).items():
        assert isinstance(found, measure.Conventions), found
        assert found.unknown == []
        wrong = {statement.field for statement in conventions.differences(found, DOCUMENTED[module, kind])}
        assert wrong == OTHERWISE.get((module, kind), set()), kind


def test_keras_on_torch_multiplies_float64_in_float32():
    """Why two of its layers are said to compute in float32 alone; if this fails, they can do more."""
    if (reason := conventions.why_not("keras3")) is not None:
        pytest.skip(reason)
    adapter("keras3", "RNN", 3, 4)  # which settles the backend
    import keras

    third, one = torch.full((1, 1), 1 / 3, dtype=torch.float64), torch.ones((1, 1), dtype=torch.float64)
    assert keras.ops.matmul(third, one).item() == float(np.float32(1 / 3)) != (third @ one).item()


def test_onnx_runtimes_reset_gate_ends_below_zero():
    """Shut, it still lets the state through: z = 0 and a candidate of r (1 + … + 1) give a multiple of r."""
    cell, H = adapter("onnx_operators", "GRU", 1, 8), 8
    nothing = (
        Draw(0).weights("gru", 1, H).change(W_x=np.zeros_like, W_h=np.zeros_like, b_x=np.zeros_like, b_h=np.zeros_like)
    )
    cell.load(blocks(nothing.change("candidate", W_h=np.ones_like).pin(reset=-40.0, update=-1000.0)), "float32")
    _, h, _ = cell.run(np.zeros((1, 1, 1), np.float32), np.ones((1, H), np.float32), None)
    assert np.all(h / H < -1e-7)


@pytest.mark.parametrize("module", ["onnx_operators", "onnx_export"])
def test_onnx_runtime_is_not_asked_for_no_steps(module):
    """It would read memory that is not its own, and may end the process."""
    cell = adapter(module, "GRU", 2, 3)
    cell.load(blocks(Draw(0).weights("gru", 2, 3)), "float32")
    with pytest.raises(ValueError, match="no steps"):
        cell.run(np.zeros((1, 0, 2), np.float32), np.zeros((1, 3), np.float32), None)


def test_onnx_runtimes_sigmoid_ends_at_minus_eighteen():
    """A forget gate far below leaks nothing at all; if this fails, claims about far-shut gates may hold of it too."""
    cell = adapter("onnx_operators", "LSTM", 1, 1)
    nothing = (
        Draw(0).weights("lstm", 1, 1).change(W_x=np.zeros_like, W_h=np.zeros_like, b_x=np.zeros_like, b_h=np.zeros_like)
    )
    x, h, c = np.zeros((1, 1, 1), np.float32), np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32)
    for pre, leaks in ((-17.0, True), (-18.0, False)):
        cell.load(blocks(nothing.pin(forget=pre)), "float32")
        assert (cell.run(x, h, c)[2].item() > 0.0) == leaks
