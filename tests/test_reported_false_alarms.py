"""Reports of faults that were none, as others have filed them: on the equivalent of each the suite stays silent.

A01 to A30 are bug reports against frameworks (pytorch/pytorch#32023 and so on). Without an equivalent here:

- A06, a checker that failed on a sound cell: tests/test_every_claim_can_fail.py tries ours on sound and faulty ones.
- A11, A12, ReLU's kink: no kind of cell has a kink, and no claim takes finite differences; σ and tanh are smooth.
- A10, TF32 in the reference path: tests/test_devices.py; the reference here is numpy on the CPU.
- A21, an input mode of cuDNN: a subject has no modes.
- A22, A23, A24, code misread: a subject is judged by what it returns, and nobody reads it.
- A26, losses of two training protocols: the protocol is data (fixtures/training.toml), and every subject has the same.
- A27, A28, a variant and a name: a kind is declared, and states are told apart by place, not by name.
- A29, gradients of one backend in fewer digits: limits go by number format; every backend's is the same.
- A30, dropout's random streams on two devices: there is no dropout, and no claim compares devices.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted import PLANTED, verdicts
from sound import SOUND, Said, run, sweep
from sound.equations import InBlocks, ReferenceOtherwise
from sound.run import RoundingNoted, parity

from fixtures.evidence import ClaimFailed, Evidence
from fixtures.settings import Draw, Tolerance
from fixtures.subjects import Subject
from reference import cells

SATURATION = "test_far_pre_activations_saturate_and_stay_finite"
STEPS = "test_steps_halves_and_the_whole_sequence_agree"
GRUS = ("torch.nn.GRU", "reference.ResetBeforeGRU", "reference.DeckGRU", "equations.Lerp", "equations.LerpBefore")
TORCH = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")


class BlockedByTheBatch(ReferenceOtherwise):
    """Sums in one order for batches of an even size, in another for odd ones, as blocked products may."""

    def __call__(self, x, state):
        for gate in (value for value in vars(self.cell).values() if isinstance(value, cells.Gate)):
            gate.__class__ = InBlocks if x.shape[0] % 2 else cells.Gate
        return super().__call__(x, state)


def blocked(of: type[cells.Cell]) -> Subject:
    name = f"blocked.{of.__name__}"
    return Subject(name, of.kind, lambda w, dtype, device: BlockedByTheBatch(of(w, dtype, device), cells.Gate))


def test_a01_a02_rounding_may_depend_on_the_size_of_the_batch():
    """Two batches of 50 against one of 100, a row against its batch: bits differ, and no claim about cells minds."""
    lstm, draw = replace(blocked(cells.LSTM), dtype="float32"), Draw(1)
    weights, x = draw.weights("lstm"), draw.inputs(101)
    h, c = draw.start(lstm, 101)
    whole, half = (lstm(weights).run(x[:n], h[:n], c[:n]).outputs for n in (101, 50))
    assert not np.array_equal(whole[:50], half)
    said = run(
        [blocked(cells.LSTM), blocked(cells.GRU), blocked(cells.RNN)],
        1,
        tests=("claims/test_cells.py", "claims/test_cells_calls.py", "claims/test_cells_sizes.py"),
    )
    assert said.checks and not said.alarms


@pytest.mark.parametrize("name", [*TORCH, "equations.LSTM.InBlocks", "by-hand.Fused-lstm", "by-hand.Einsum-gru"])
def test_a03_sums_of_many_large_terms(name):
    """Inputs ten times as large as the claims' own, 200 of them, in any order of summation.

    (An error grows with the terms of a sum. The claims' inputs are of order 1, and so their limits; inputs of order 100
    would ask for more.)
    """
    said = Said()
    for draw in range(2):
        said.add(sweep(SOUND[name], draw, (3, 6, 200, 20), scale=10.0))
    assert not said.alarms


@pytest.mark.parametrize(("ours", "torchs"), [("by-hand.Einsum-gru", "torch.nn.GRU"), ("by-hand.Fused-lstm", TORCH[1])])
def test_a04_a_cell_by_hand_differs_from_torchs_in_the_last_bits(ours, torchs):
    """«Sum of |diff| = 2e-7, am I doing something wrong?» No: bits differ, errors do not."""
    one, other, draw = SOUND[ours], SOUND[torchs], Draw(1)
    weights, x = draw.weights(one.kind), draw.inputs()
    h, c = draw.start(one)
    a, b = (s(weights).run(x, h, c).outputs for s in (one, other))
    assert 0 < np.abs(a - b).max() < Tolerance().state(one, weights, 5)


@pytest.mark.parametrize("name", TORCH)
def test_a05_gradients_in_single_precision_on_random_data(name):
    """25 draws, no threshold that now and then is just missed: the worst keeps to half of it."""
    said = Said()
    for draw in range(25):
        said.add(sweep(SOUND[name], draw, (3, 5, 4, 7)))
    assert not said.alarms
    assert max(margin.used for margin in said.margins) < 0.5


@pytest.mark.parametrize("name", ["reference.LSTM", "reference.GRU", "torch.nn.LSTM", "torch.nn.GRU"])
def test_a07_a_number_format_has_its_own_tolerance(name):
    """A cell that computes in float16 errs by 1e-3, as it may; in a cell that says float32, it is a fault."""
    evidence = RoundingNoted()
    parity(replace(SOUND[name], dtype="float16"), Draw(1), (3, 5, 4, 7), 1.0, evidence)
    evidence.verify()
    assert verdicts(PLANTED["CellInHalf"], ["cells.step-parity"])["cells.step-parity"].turned


def test_a08_a09_a25_probes_keep_away_from_the_edges_of_the_formats():
    """No probe is infinite, not a number, or large, so no order of operations makes a difference of that kind."""
    for seed in range(25):
        draw = Draw(seed)
        for kind in ("rnn", "lstm", "lstm-peephole", "gru"):
            drawn = [*draw.weights(kind, 9, 129).parameters().values(), draw.inputs(131, 20), draw.state(131)]
            assert all(np.abs(array).max() < 10 for array in drawn)


def test_a08_what_is_no_number_is_never_close():
    """Where a truth is infinite, the check says so instead of excusing a difference of 100 %."""
    evidence = Evidence()
    evidence.close("x", [1.0], [np.inf], 1e-6)
    with pytest.raises(ClaimFailed):
        evidence.verify()


def test_a08_far_pre_activations_are_nobodys_overflow():
    """±10⁴ before σ and tanh, in every way to write them that is sound."""
    names = [name for name in SOUND if name.startswith(("by-hand.", "LSTM.", "GRU."))][::2]
    said = run([SOUND[name] for name in names], 1, tests=("claims/test_cells.py::" + SATURATION,))
    assert said.checks and not said.alarms


def test_a13_to_a18_no_convention_of_the_gru_is_called_wrong():
    """Reset before or after the product, z that keeps or writes: each is right as what it is declared to be."""
    said = run([SOUND[name] for name in GRUS], 1, tests=("claims/test_gru_conventions.py",))
    assert said.checks and not said.alarms


MIXED = {"ResetBeforeProduct": "conventions.pytorch-equations", "UpdateWrites": "conventions.pytorch-equations"}


@pytest.mark.parametrize("fault", sorted(MIXED))
def test_a14_a_mix_of_conventions_is(fault):
    """A cell that is declared as one convention and computes the other is no variant."""
    assert verdicts(PLANTED[fault], [MIXED[fault]])[MIXED[fault]].turned


@pytest.mark.parametrize("name", ["GRU.OneBias", "torch.nn.GRU", "reference.GRU", "equations.GRU.BiasLast"])
def test_a19_a20_a_count_of_parameters_goes_by_its_bias_convention(name):
    """One bias per gate and one inside the reset product, or two per gate: both counts are right."""
    said = run([SOUND[name]], 0, tests=("claims/test_parameters.py",))
    assert said.checks and not said.alarms


def test_a26_a_state_carried_on_is_the_state_handed_back():
    """A stateful run and one in pieces are the same numbers: what differs in training is the protocol."""
    said = run([SOUND[name] for name in TORCH], 2, tests=("claims/test_cells.py::" + STEPS,))
    assert said.checks and not said.alarms


@pytest.mark.parametrize("name", ["LSTM.WithoutOneDNN", "GRU.WithoutOneDNN", "oracle.lstm", "LSTM.Recomputed"])
def test_a29_a30_one_tolerance_for_every_backend(name):
    """oneDNN or not, autograd or a backward pass by hand, once or recomputed: float32's limits are the same."""
    assert not sweep(SOUND[name], 3, (7, 9, 13, 33)).alarms
