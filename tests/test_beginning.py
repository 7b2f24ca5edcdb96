"""How a layer begins: torch.nn's is held against torch's documentation, one's own against what it says of itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fixtures import own_cell
from fixtures.beginning import begins
from fixtures.guarded import CannotDo
from fixtures.subjects import BUILT_IN
from tests.faults.base import GRU, LSTM
from tests.faults.run import said


class Fresh(LSTM):
    """A drop-in that begins as it likes; `begin` says how."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.begin(slice(hidden_size, 2 * hidden_size))

    def begin(self, forget):
        raise NotImplementedError


class KerasLike(Fresh):
    """Kernels as Keras draws them, biases of zero, and a forget bias of 1 in one of them."""

    def begin(self, forget):
        nn.init.xavier_uniform_(self.weight_ih_l0)
        nn.init.orthogonal_(self.weight_hh_l0)
        for bias in (self.bias_ih_l0, self.bias_hh_l0):
            nn.init.zeros_(bias)
        self.bias_ih_l0.data[forget] = 1


class KerasLikeAndSaysSo(KerasLike):
    """The same, and says so."""

    forget_bias = 1.0


class TorchLikeWithForgetBias(Fresh):
    """torch.nn's beginning, but for a forget bias of 1 beside what torch.nn draws for the other."""

    start, forget_bias = "torch", 1.0

    def begin(self, forget):
        self.bias_ih_l0.data[forget] = 1


class TwoOnPurpose(Fresh):
    """A forget bias of 2, half of it in each bias."""

    forget_bias = 2

    def begin(self, forget):
        for bias in (self.bias_ih_l0, self.bias_hh_l0):
            bias.data[forget] = 1


class ConstantBiases(Fresh):
    """All biases of all gates begin at 0.1."""

    def begin(self, forget):
        for bias in (self.bias_ih_l0, self.bias_hh_l0):
            nn.init.constant_(bias, 0.1)


class Zeros(Fresh):
    """Weights of zero, to be loaded."""

    def begin(self, forget):
        for parameter in self.parameters():
            nn.init.zeros_(parameter)


class TorchLikeGRU(GRU):
    """torch.nn's beginning, and says so."""

    start = "torch"


SOUND = [
    LSTM,
    KerasLike,
    KerasLikeAndSaysSo,
    TorchLikeWithForgetBias,
    TwoOnPurpose,
    ConstantBiases,
    Zeros,
    TorchLikeGRU,
]
WHERE = ["claims/test_parameters.py", "claims/test_forget_bias.py"]
START, TWO = "parameters.start", "forget-bias.two-biases-add-up"


def test_a_drop_in_may_begin_as_it_likes():
    found = said(SOUND, lambda _, claim: claim in (START, TWO), where=WHERE)
    assert {claim for claims in found.values() for claim in claims.values()} == {"upheld", "not applicable"}
    assert {cell for cell, claims in found.items() if claims.get(START) == "upheld"} == {
        "TorchLikeWithForgetBias",
        "TorchLikeGRU",
    }
    assert all(found[cell.__name__][TWO] == "upheld" for cell in SOUND if cell is not TorchLikeGRU)


def test_what_says_nothing_of_its_beginning_is_told_how_it_begins():
    subject = own_cell.subject("KerasLike", KerasLike)
    with pytest.raises(CannotDo, match=r"KerasLike says nothing of how it begins.*forget gate's bias is 1 in the mean"):
        begins(subject, 13, 64).said_of_torch()


def test_the_stream_of_random_numbers_stays_where_it_was():
    layer = next(subject for subject in BUILT_IN if subject.begin)
    before = torch.get_rng_state()
    first, again, other = begins(layer, 3, 5), begins(layer, 3, 5), begins(layer, 3, 5, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert (first.arrays["candidate.W_h"] == again.arrays["candidate.W_h"]).all()
    assert (first.arrays["candidate.W_h"] != other.arrays["candidate.W_h"]).any()
