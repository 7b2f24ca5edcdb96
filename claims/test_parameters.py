"""How many parameters a cell has, and how that grows.

N §8.b, §7.b; L §4. E26. With input size d and hidden size h a weight block has d·h + h² + h parameters; the RNN has one
block, the GRU three, the LSTM four. PyTorch keeps a second bias per block.
"""

import math

import numpy as np
import pytest

from fixtures.beginning import begins
from reference.weights import GATES, PEEPHOLES, Block, Weights

BLOCKS = {"rnn": 1, "gru": 3, "lstm": 4, "gru-reset-before": 3, "gru-deck": 3, "lstm-coupled": 3}
SIZES = [(4, 8), (13, 64), (100, 256), (10, 20), (1, 1), (7, 3), (50, 10), (1, 40)]


def counted(cell, d, h):
    """The parameters of a cell of this size, counted on the cell itself."""
    blocks = {}
    for gate in GATES[cell.kind]:
        P = (
            (np.zeros((h, h)) if cell.kind == "lstm-peephole" else np.zeros(h))
            if gate in PEEPHOLES.get(cell.kind, ())
            else None
        )
        blocks[gate] = Block(np.zeros((d, h)), np.zeros((h, h)), np.zeros(h), np.zeros(h), P)
    return cell(Weights(cell.kind, blocks)).parameter_count()


def beyond_one_bias(cell, h):
    """Bias numbers beyond one vector per block: PyTorch's second ones, or the one inside the GRU's reset product."""
    if cell.biases == 2:
        return BLOCKS[cell.kind] * h
    return h if cell.kind == "gru" else 0


@pytest.mark.claim("parameters.formula")
def test_a_cell_has_one_three_or_four_blocks(plain, evidence):
    """blocks · (d h + h² + h), blocks = 1, 3, 4 for RNN, GRU, LSTM"""
    for d, h in SIZES:
        formula = BLOCKS[plain.kind] * (d * h + h * h + h)
        evidence.exactly(f"parameters at d = {d}, h = {h}", counted(plain, d, h) - beyond_one_bias(plain, h), formula)


@pytest.mark.claim("parameters.second-bias")
def test_pytorch_keeps_one_bias_more_per_block(standard, evidence):
    """d = 10, h = 20: deck 620, 1860, 2480; PyTorch 640, 1920, 2560; difference 20, 60, 80"""
    deck, pytorch, difference = {"rnn": (620, 640, 20), "gru": (1860, 1920, 60), "lstm": (2480, 2560, 80)}[
        standard.kind
    ]
    one_bias = counted(standard, 10, 20) - beyond_one_bias(standard, 20)
    evidence.exactly("the deck's formula", one_bias, deck)
    evidence.exactly("with a second bias per block", one_bias + BLOCKS[standard.kind] * 20, pytorch)
    evidence.exactly("difference", BLOCKS[standard.kind] * 20, difference)


@pytest.mark.claim("parameters.recall-models")
def test_the_recall_models_have_the_printed_counts(standard, evidence):
    """d = 13, h = 64 with PyTorch's two biases: RNN 5,056, LSTM 20,224, GRU 15,168"""
    blocks = BLOCKS[standard.kind]
    count = counted(standard, 13, 64) - beyond_one_bias(standard, 64) + blocks * 64
    evidence.exactly(
        "parameters with two biases per block", count, {"rnn": 5056, "lstm": 20224, "gru": 15168}[standard.kind]
    )


@pytest.mark.claim("parameters.three-quarters")
def test_a_gru_has_three_quarters_of_an_lstms_parameters(any_gru, evidence):
    """3 (d h + h² + h) : 4 (d h + h² + h) = 0.75 exactly, the same biases per block on both sides"""
    for d, h in SIZES:
        own = counted(any_gru, d, h) - beyond_one_bias(any_gru, h)
        evidence.exactly(f"GRU : LSTM at d = {d}, h = {h}", own / (4 * (d * h + h * h + h)), 0.75)


@pytest.mark.claim("parameters.ratio-never-changes")
def test_the_ratio_of_gru_to_lstm_never_changes(gru, evidence):
    """0.75, also where the GRU carries biases inside the reset product and the LSTM one bias per gate"""
    for d, h in ((13, 64), (10, 20)):
        ratio = counted(gru, d, h) / (4 * (d * h + h * h + h))
        evidence.at_most(
            f"|GRU : LSTM with one bias - 0.75| at d = {d}, h = {h}", abs(ratio - 0.75), 0.0, documented=0.0
        )


@pytest.mark.claim("parameters.ratio-by-bias-convention")
def test_the_ratio_depends_on_the_bias_convention(gru, evidence):
    """Over an LSTM with one bias: 0.7596 and 0.7742 with two biases per block, as in Keras; less with b_hn alone"""
    for d, h, two, inner in ((13, 64, "0.7596", "0.7532"), (10, 20, "0.7742", "0.7581")):
        ratio = counted(gru, d, h) / (4 * (d * h + h * h + h))
        evidence.printed(f"GRU : LSTM with one bias at d = {d}, h = {h}", ratio, two if gru.biases == 2 else inner)


@pytest.mark.claim("parameters.inner-bias")
def test_the_reset_after_the_product_needs_one_bias_more(gru, evidence):
    """b_hn: 3 (d h + h² + h) + h distinct parameters; PyTorch's other second biases are redundant"""
    for d, h in SIZES:
        redundant = 2 * h if gru.biases == 2 else 0
        distinct = 3 * (d * h + h * h + h) + h
        evidence.exactly(f"distinct parameters at d = {d}, h = {h}", counted(gru, d, h) - redundant, distinct)


@pytest.mark.claim("parameters.coupled-like-gru")
def test_the_coupled_lstm_has_as_many_parameters_as_a_gru(coupled_lstm, evidence):
    """3 (d h + h² + h)"""
    for d, h in SIZES:
        evidence.exactly(f"parameters at d = {d}, h = {h}", counted(coupled_lstm, d, h), 3 * (d * h + h * h + h))


def exponent(cell, d, h):
    """d log N / d log h at h, from the counts at h - 1 and h + 1, one bias per block."""
    below, above = (counted(cell, d, k) - beyond_one_bias(cell, k) for k in (h - 1, h + 1))
    return (math.log(above) - math.log(below)) / (math.log(h + 1) - math.log(h - 1))


@pytest.mark.claim("parameters.quadratic-once-h-exceeds-d")
def test_parameters_grow_as_the_square_once_h_exceeds_d(standard, evidence):
    """d log N / d log h = 2"""
    for d, h in ((64, 64), (13, 64)):
        evidence.at_least(f"exponent at d = {d}, h = {h}", exponent(standard, d, h), 1.95, documented=2)


@pytest.mark.claim("parameters.exponent")
def test_the_exponent_rises_from_one_and_a_half_at_h_equal_d_towards_two(standard, evidence):
    """d log N / d log h = (d + 2h + 1) / (d + h + 1): 1.50 at h = d, 1.82 at (13, 64), 1.97 at (13, 512)"""
    for d, h, printed in ((64, 64, "1.50"), (13, 64, "1.82"), (13, 512, "1.97")):
        evidence.printed(f"exponent at d = {d}, h = {h}", exponent(standard, d, h), printed)


@pytest.mark.claim("parameters.which-term-dominates")
def test_a_wide_input_lets_dh_dominate_and_a_wide_state_h_squared(standard, evidence):
    """What each input adds is h per block; the rest, less the biases, is h²"""
    blocks = BLOCKS[standard.kind]
    for d, h in ((1024, 8), (100, 10), (13, 64), (1, 40)):
        count = counted(standard, d, h) - beyond_one_bias(standard, h)
        of_inputs = (counted(standard, d + 1, h) - counted(standard, d, h)) * d
        of_states = count - of_inputs - blocks * h
        evidence.exactly(f"d h of all blocks at d = {d}, h = {h}", of_inputs, blocks * d * h)
        evidence.exactly(f"h² of all blocks at d = {d}, h = {h}", of_states, blocks * h * h)
        evidence.exactly(
            f"larger at d = {d}, h = {h}", "d h" if of_inputs > of_states else "h²", "d h" if d > h else "h²"
        )


@pytest.mark.claim("parameters.layers-of-the-module")
def test_every_block_of_the_repeating_module_takes_part(plain, draw, evidence):
    """One tanh layer in the RNN; three σ and one tanh in the LSTM; two σ and one tanh in the GRU: none is idle"""
    weights, x = draw.weights(plain.kind), draw.inputs()
    h, c = draw.start(plain)
    gradients = plain(weights).gradients(x, h, c, {"outputs": draw.upstream(3, 5, 7)})[0].parameters
    evidence.exactly("blocks", len({name.split(".")[0] for name in gradients}), BLOCKS[plain.kind])
    for gate in weights.blocks:
        evidence.at_least(f"max |∂L/∂W_x| of the {gate}", np.abs(gradients[f"{gate}.W_x"]).max(), 1e-4)


FALSE_FAILURE = 1e-7
"""The probability with which one such test would call uniform numbers otherwise; a layer has 20 of them at most."""


@pytest.mark.claim("parameters.start")
def test_every_parameter_starts_uniform_on_a_width_of_two_over_the_root_of_h(begun, evidence):
    """θ ~ U(-1/√H, 1/√H): |θ| √H ≤ 1, Kolmogorov and Smirnov's test of each array, and of b_ih + b_hh, a triangle"""
    starts = [begins(begun, 13, 64, seed).said_of_torch() for seed in range(10)]

    from scipy.stats import kstest, triang, uniform  # takes longer to import than the claim to check

    flat, peaked = uniform(-1, 2).cdf, triang(0.5, -2, 4).cdf
    for name in starts[0].arrays:
        numbers = np.concatenate([start.arrays[name].ravel() / start.bound for start in starts])
        evidence.at_most("max |θ| √H", np.abs(numbers).max(), 1.0 + begun.eps)
        p = kstest(numbers, flat).pvalue
        evidence.at_least(f"probability of such a {name.rpartition('.')[2]}, where uniform", p, FALSE_FAILURE)
    for gate in starts[0].weights.blocks:
        if f"{gate}.b_x" in starts[0].arrays:
            sums = np.concatenate([start.weights[gate].b / start.bound for start in starts])
            evidence.at_least("probability of such sums of two biases", kstest(sums, peaked).pvalue, FALSE_FAILURE)
