"""Layouts: what stands where in the documents' and PyTorch's arrays, and what a layout refuses to hold."""

import numpy as np
import pytest
import torch

from fixtures.settings import Draw
from reference import layouts
from reference.weights import GATES


def small(kind):
    return Draw(5).weights(kind, 2, 3)


def single_biased(weights):
    return weights.change(b_h=np.zeros_like)


def test_pytorchs_blocks_are_those_of_its_modules():
    for kind, module in {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.items():
        arrays = layouts.store(small(kind), layouts.TORCH[kind])
        parameters = dict(module(2, 3).named_parameters())
        assert {f"{name}_l0": array.shape for name, array in arrays.items()} == {
            name: tuple(p.shape) for name, p in parameters.items()
        }


def test_the_notebooks_matrix_has_the_state_first_then_the_input():
    weights = single_biased(small("lstm"))
    W_f = layouts.store(weights, layouts.N_LSTM)["Wf"]
    assert W_f.shape == (3, 5)
    np.testing.assert_array_equal(W_f[:, :3], weights["forget"].W_h.T)
    np.testing.assert_array_equal(W_f[:, 3:], weights["forget"].W_x.T)


def test_the_decks_update_gate_is_stored_negated():
    weights = single_biased(small("gru-deck"))
    arrays = layouts.store(weights, layouts.N_DECK_GRU)
    np.testing.assert_array_equal(arrays["bz"], -weights["update"].b)
    np.testing.assert_array_equal(arrays["br"], weights["reset"].b)


def test_two_biases_are_added_where_a_layout_has_one():
    weights = small("lstm")
    np.testing.assert_array_equal(layouts.store(weights, layouts.L_LSTM)["b_f"], weights["forget"].b)


def test_a_layout_without_biases_refuses_one():
    with pytest.raises(ValueError, match="W's LSTM has no biases, and that of the forget is not zero"):
        layouts.store(small("lstm"), layouts.W_LSTM)


def test_a_layout_with_one_bias_refuses_the_one_inside_the_reset_product():
    import dataclasses

    one_bias = dataclasses.replace(layouts.N_TORCH_GRU, inner_bias=None)
    with pytest.raises(ValueError, match="no place for b_h inside the reset product"):
        layouts.store(small("gru"), one_bias)


@pytest.mark.parametrize("layout", layouts.LAYOUTS.values(), ids=lambda layout: layout.name)
def test_every_layout_names_every_gate_once(layout):
    assert sorted(layout.order) == sorted(GATES[layout.kind])
    assert not layout.letters or len(set(layout.letters)) == len(layout.order)


def test_reading_notices_blocks_in_another_order():
    weights = small("lstm")
    arrays = layouts.store(weights, layouts.TORCH["lstm"])
    arrays["weight_ih"] = np.roll(arrays["weight_ih"], 3, axis=0)
    assert not np.array_equal(layouts.read(arrays, layouts.TORCH["lstm"])["forget"].W_x, weights["forget"].W_x)
