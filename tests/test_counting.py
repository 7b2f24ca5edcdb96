"""Costs, counted: against torch's FLOP counter, by hand, and for families of cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fixtures import families
from fixtures.subjects import BUILT_IN
from reference import costs


def test_work_is_counted_as_by_hand():
    """(4, 3) @ (3, 5) is 60 multiply-adds into 20 numbers; a batch of 2 such, twice that."""
    a, b = torch.ones(4, 3), torch.ones(3, 5)
    result, work = costs.count(lambda: torch.tanh(a @ b))
    assert torch.equal(result, torch.tanh(a @ b))
    assert work == costs.Work(multiply_adds=60, products=20, activations=20, operators=2)
    _, work = costs.count(lambda: torch.bmm(a.expand(2, 4, 3), b.expand(2, 3, 5)))
    assert (work.multiply_adds, work.products) == (120, 40)
    _, work = costs.count(lambda: nn.functional.linear(a, b.T.contiguous(), torch.ones(5)).sigmoid_())
    assert (work.multiply_adds, work.activations) == (60, 20)


@pytest.mark.parametrize("cell", BUILT_IN, ids=lambda cell: cell.name)
def test_multiply_adds_are_half_of_torchs_flops(cell):
    """Forward and backward, `FlopCounterMode` finds what `count` finds."""
    net, x, state = families.prepared(cell, 4, rows=3)
    leaves = list(net.parameters.values())

    def compute():
        return torch.autograd.grad(net(x, state)[1][0].sum(), leaves, allow_unused=True)

    with costs.own_kernels():
        _, work = costs.count(compute)
        with FlopCounterMode(display=False) as flops:
            compute()
    assert work.multiply_adds == flops.get_total_flops() / 2 > 0


def test_own_kernels_are_what_they_were_afterwards_and_compute_the_same():
    layer, x = nn.LSTM(3, 5), torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
    before = torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled
    shipped = layer(x)[0]
    with pytest.raises(KeyError), costs.own_kernels():
        assert not torch.backends.mkldnn.enabled and not torch.backends.cudnn.enabled
        assert costs.count(lambda: layer(x))[1].multiply_adds == 4 * 2 * 4 * (3 * 5 + 5 * 5)
        torch.testing.assert_close(layer(x)[0], shipped)
        raise KeyError
    assert (torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled) == before


def test_what_is_kept_counts_each_storage_once_and_the_excepted_not():
    """tanh keeps its result, a product its factors; a view keeps all that it is a view of."""
    x, w = torch.ones(8, 4, requires_grad=True), torch.ones(4, 4, requires_grad=True)
    assert costs.kept(lambda: torch.tanh(x)) == 8 * 4 * 4
    assert costs.kept(lambda: x @ w) == 8 * 4 * 4 + 4 * 4 * 4
    assert costs.kept(lambda: x @ w, w) == 8 * 4 * 4
    assert costs.kept(lambda: (x * x) * x, x) == 8 * 4 * 4
    assert costs.kept(lambda: torch.tanh(x)[:1] * 2.0) == 8 * 4 * 4
    with torch.no_grad():
        assert costs.kept(lambda: torch.tanh(x)) == 0


def test_products_in_sequence_are_the_longest_way():
    h, W = torch.ones(2, 3, requires_grad=True), torch.eye(3)
    other = torch.ones(2, 3, requires_grad=True)
    assert costs.products_in_sequence(torch.tanh(h), h) == 0
    assert costs.products_in_sequence(h @ W + torch.sigmoid(h @ W), h) == 1
    assert costs.products_in_sequence(h + (torch.sigmoid(h @ W) * h) @ W, h) == 2
    assert costs.products_in_sequence(h @ W + ((other @ W) @ W) @ W, h) == 1
    assert costs.products_in_sequence(nn.functional.linear(h @ W, W, torch.ones(3)), h) == 2
    with pytest.raises(ValueError, match="no way"):
        costs.products_in_sequence(other @ W, h)


def test_works_are_timed_in_turn_after_a_run_that_warms_up():
    said: list[str] = []
    seconds = costs.seconds_in_turn({name: lambda name=name: said.append(name) for name in "ab"}, times=3)
    assert "".join(said) == "ab" * 4
    assert [len(turns) for turns in seconds.values()] == [3, 3]
    assert costs.times_as_long([1.0, 2.0, 90.0], [2.0, 1.0, 1.0]) == 2.0


def test_families_stand_by_make():
    found = families.families(BUILT_IN, "cpu", ["gru", "gru-deck"], beside=["lstm", "lstm-coupled"])
    names = {make: {kind: cell.name for kind, cell in family.items()} for make, family in found.items()}
    coupled = {"lstm-coupled": "reference.CoupledLSTM"}
    assert names == {
        families.EQUATIONS: {"gru": "reference.GRU", "gru-deck": "reference.DeckGRU", "lstm": "reference.LSTM"}
        | coupled,
        families.CELLS: {"gru": "torch.nn.GRUCell", "lstm": "torch.nn.LSTMCell"} | coupled,
        families.LAYERS: {"gru": "torch.nn.GRU", "lstm": "torch.nn.LSTM"} | coupled,
    }


def test_one_cell_alone_stands_beside_the_equations():
    mine = replace(next(cell for cell in BUILT_IN if cell.kind == "gru"), name="mine.GRU")
    assert {
        make: {kind: cell.name for kind, cell in family.items()}
        for make, family in families.families([mine], "cpu", ["gru"], beside=["gru", "lstm"]).items()
    } == {"mine.GRU": {"gru": "mine.GRU", "lstm": "reference.LSTM"}}
    with pytest.raises(LookupError, match="kind gru; this claim is about rnn or lstm"):
        families.families([mine], "cpu", ["rnn", "lstm"])


def test_a_cell_whose_products_are_hidden_stands_nowhere():
    class Sum:
        parameters: dict[str, torch.Tensor] = {}  # noqa: RUF012

        def train(self, mode):
            pass

        def __call__(self, x, state):
            return x, tuple(s + x.sum() for s in state)

    hidden = replace(BUILT_IN[0], name="hidden", build=lambda *_: Sum())
    with pytest.raises(LookupError, match="hidden multiplies in kernels"):
        families.families([hidden], "cpu", [hidden.kind])


def test_the_kept_numbers_of_the_equations_are_those_of_the_chain_rule():
    """LSTM: f i g o, C, tanh C, h. GRU: r z n, 1 - z, h and what r multiplies. RNN: h."""
    numbers = {c.kind: families.kept_per_unit(c) for c in BUILT_IN if c.name.startswith("reference.")}
    assert {kind: numbers[kind] for kind in ("rnn", "gru", "lstm")} == {"rnn": 1, "gru": 6, "lstm": 7}


def test_the_settings_of_a_clock_are_told():
    assert families.setting("cpu").startswith(f"cpu, {torch.get_num_threads()} thread")
    with costs.own_kernels():
        assert "no oneDNN" in families.setting("cpu")
    assert np.isfinite(min(families.seconds("cpu", [1], rows=1, units=2, times=1)["LSTM", 1]))
