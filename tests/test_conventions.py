"""Does the measurement find the conventions that a black box was given, and say what it cannot name?"""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from adapters import conventions, measure
from adapters.documented import DOCUMENTED
from fixtures.settings import Draw
from reference import layouts, oracle
from reference.layouts import Layout
from reference.weights import GATES

LSTM_ORDERS = list(permutations(GATES["lstm"]))
GRU_ORDERS = list(permutations(GATES["gru"]))


class Planted:
    """The oracle behind a layout: one axis per kernel, stacked as it says, with a bias added at run time."""

    dtypes = ("float32", "float64")

    def __init__(self, layout, forget_bias=0.0, cell_first=False, dead=None):
        self.layout, self.forget_bias, self.cell_first, self.dead = layout, forget_bias, cell_first, dead

    def __call__(self, input_size, hidden_size):
        self.sizes = (input_size, hidden_size)
        return self

    def untrained(self, seed):
        weights = Draw(seed).weights(self.layout.kind, *self.sizes)
        if len(self.layout.biases) < 2 and not self.layout.inner_bias:
            weights = weights.change(b_h=np.zeros_like)
        if "forget" in weights.blocks or not self.layout.biases:
            weights = weights.change(b_x=np.zeros_like)
        return layouts.store(weights, self.layout)

    def run(self, arrays, x, states):
        arrays = dict(arrays)
        if self.dead:
            arrays[self.dead] = np.zeros_like(arrays[self.dead])
        weights = layouts.read(arrays, self.layout)
        if self.forget_bias:
            weights = weights.pin(forget=self.forget_bias)
        given = () if states is None else states[::-1] if self.cell_first else states
        tape = oracle.forward(weights, x, *given)
        last = tuple(s[:, -1] for s in (tape.h, tape.c) if s is not None)
        return tape.outputs, last[::-1] if self.cell_first else last


class Rectified(Planted):
    """An RNN with a ReLU in the place of tanh."""

    def run(self, arrays, x, states):
        weights = layouts.read(arrays, self.layout)["candidate"]
        h, outputs = states[0], []
        for t in range(x.shape[1]):
            h = np.maximum(x[:, t] @ weights.W_x + h @ weights.W_h + weights.b, 0.0)
            outputs.append(h)
        return np.stack(outputs, 1), (h,)


def letters(kind, order):
    return " ".join(measure.LETTERS[kind][gate] for gate in order)


@pytest.mark.parametrize("order", LSTM_ORDERS, ids=lambda order: letters("lstm", order).replace(" ", ""))
def test_the_order_of_an_lstms_gates_is_found(order):
    k = LSTM_ORDERS.index(order)
    layout = Layout("planted", "lstm", order, "V", "U", ("a", "b")[: 1 + k % 2], columns=k % 3 == 0)
    planted = Planted(layout, forget_bias=float(k % 4), cell_first=k % 5 == 0)
    found = measure.measure(planted, "lstm", trainable=False)
    assert found.unknown == []
    assert found.order == letters("lstm", order)
    assert found.biases == 4 * len(layout.biases)
    assert found.kernels == ("W x" if layout.columns else "x W")
    assert found.states == ("c, h" if planted.cell_first else "h, c")
    assert found.at_run_time == pytest.approx(planted.forget_bias, abs=1e-6)


@pytest.mark.parametrize("order", GRU_ORDERS, ids=lambda order: letters("gru", order).replace(" ", ""))
@pytest.mark.parametrize("kind", ["gru", "gru-reset-before"])
@pytest.mark.parametrize("writes", [False, True], ids=["keeps", "writes"])
def test_a_grus_order_update_and_reset_are_found(order, kind, writes):
    layout = Layout("planted", kind, order, "V", "U", ("a", "b"), columns=order[0] == "update", writes=writes)
    found = measure.measure(Planted(layout), "gru")
    assert found.unknown == []
    assert (found.order, found.biases) == (letters("gru", order), 6)
    assert found.update == ("writes" if writes else "keeps")
    assert (found.reset, found.inner) == (("after", 1) if kind == "gru" else ("before", 0))


@pytest.mark.parametrize(
    ("layout", "order", "biases", "inner"),
    [
        (layouts.N_TORCH_GRU, "separate", 4, 1),
        (layouts.W_GRU, "separate", 0, 0),
        (layouts.L_GRU, "separate", 3, 0),
        (layouts.N_DECK_GRU, "separate", 3, 0),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_documents_grus_are_found(layout, order, biases, inner):
    found = measure.measure(Planted(layout), "gru")
    assert (found.unknown, found.order, found.biases, found.inner) == ([], order, biases, inner)
    assert found.update == ("writes" if layout.writes else "keeps")
    assert found.reset == ("after" if layout.kind == "gru" else "before")


def test_the_initial_forget_bias_is_that_of_the_untrained_layer():
    found = measure.measure(Planted(layouts.TORCH["lstm"], forget_bias=1.0), "lstm")
    mean, spread = found.initial
    assert mean == pytest.approx(1.0, abs=0.1)
    assert spread == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_a_number_that_does_nothing_is_unknown(kind):
    found = measure.measure(Planted(layouts.TORCH[kind], dead="bias_hh"), kind, trainable=False)
    assert found.unknown == ["bias_hh"]


def test_a_rectified_rnn_is_none_with_tanh():
    layout = Layout("planted", "rnn", ("candidate",), "V", "U", ("a",))
    for plant, activation in ((Planted, "tanh"), (Rectified, "ReLU")):
        found = measure.measure(plant(layout), "rnn")
        assert (found.activation, found.kernels, found.biases, found.unknown) == (activation, "x W", 1, [])


def test_what_is_documented_otherwise_is_marked():
    found = measure.measure(Planted(replace(layouts.TORCH["lstm"], order=LSTM_ORDERS[0])), "lstm", trainable=False)
    lines = list(conventions.matrix({"torch_eager": {"lstm": found}}))
    row = next(line for line in lines if line.startswith("torch.nn"))
    assert f"{letters('lstm', LSTM_ORDERS[0])} ≠" in row
    assert any(line.startswith("- torch.nn, gates: f i g o measured, i f g o documented") for line in lines)


def test_a_framework_that_is_missing_has_a_row_that_says_so(monkeypatch):
    monkeypatch.setitem(conventions.FRAMEWORKS, "keras3", ("Keras", ("no_such_package",)))
    lines = [" ".join(line.split()) for line in conventions.matrix({"keras3": conventions.measured("keras3")})]
    assert "Keras not installed: no_such_package" in lines
    assert conventions.main(["no_such_adapter"]) == 4


def test_a_layer_that_cannot_be_measured_says_why(monkeypatch):
    def breaks(input_size, hidden_size):
        raise RuntimeError("no kernel\nfor this machine")

    from adapters import torch_eager

    monkeypatch.setitem(torch_eager.LAYERS, "gru", breaks)
    found = conventions.measured("torch_eager")
    assert found["gru"] == "could not be measured: RuntimeError: no kernel"
    assert found["lstm"].order == "i f g o"


def test_every_layer_has_its_documentation():
    assert {module for module, _ in DOCUMENTED} == set(conventions.FRAMEWORKS)
