"""What the initial forget bias decides: whether an LSTM learns a long gap at all.

N §4.d, exercise 5. E19, E20. With bias 0 the notebook leaves PyTorch's initialisation alone.
"""

import numpy as np
import pytest
from scipy.special import expit

from fixtures.beginning import begins
from fixtures.trained import CHANCE_ERROR
from reference import networks, recall, training
from reference.weights import GATES, Block, Weights

SWEEP = {0.0: "lstm-40-bias-0", 1.0: "lstm-40-bias-1", 1.5: "lstm-40-bias-1h", 2.0: "lstm-40-bias-2"}
SWEEP |= {2.5: "lstm-40-bias-2h", 3.0: "lstm-40-bias-3"}


def solved(runs, steps=400):
    """Whether each run reached 95 % within so many steps."""
    return [run.first is not None and run.first < steps for run in runs]


def kept(lstm, bias, steps):
    """What is left of a cell of 1 after so many steps with a constant forget gate σ(bias), nothing written."""
    zero = np.zeros((1, 1))
    blank = Weights("lstm", {gate: Block(zero, zero, np.zeros(1), np.zeros(1)) for gate in GATES["lstm"]})
    pinned = blank.pin(forget=bias, input=-1000.0)
    return lstm(pinned).run(np.zeros((1, steps, 1)), zero, np.ones((1, 1))).c.item()


@pytest.mark.claim("forget-bias.what-survives-a-gap")
def test_what_of_a_cell_survives_40_steps_and_80(lstm, evidence):
    """σ(b)^40 for b = 0, 1, 2, 3, 5; σ(3)^80; and σ(b)^80 > 0.1 needs b > 3.5"""
    for bias, printed in {0: "9.1e-13", 1: "3.6e-06", 2: "6.2e-03", 3: "1.4e-01", 5: "7.6e-01"}.items():
        evidence.printed(f"C_40 / C_0, b = {bias}", kept(lstm, bias, 40), printed)
    evidence.printed("C_80 / C_0, b = 3", kept(lstm, 3, 80), "0.02")
    evidence.at_most("C_80 / C_0, b = 3.5", kept(lstm, 3.5, 80), 0.1)
    evidence.at_least("C_80 / C_0, b = 3.54", kept(lstm, 3.54, 80), 0.1)


@pytest.mark.claim("forget-bias.default-is-zero")
def test_the_row_of_bias_zero_has_a_forget_bias_of_zero(evidence):
    """b_f = 0 in the network that the notebook trains for b = 0, seeds 0 to 4"""
    biases = []
    for seed in range(5):
        model, _ = networks.initial(training.Protocol("LSTM", 40), seed)
        layer, rows = model.layer, slice(networks.HIDDEN, 2 * networks.HIDDEN)
        biases.append((layer.bias_ih_l0[rows] + layer.bias_hh_l0[rows]).detach().numpy())
    evidence.at_most("max |b_f| at the start", np.abs(biases).max(), 0.0)


@pytest.mark.claim("forget-bias.two-biases-add-up")
def test_a_bias_of_one_in_both_biases_is_a_bias_of_two(lstm, evidence):
    """f = σ(b_x + b_h) = σ(2) = 0.881 where both are 1, and σ(1) = 0.731 where one of them is"""
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    blank = Weights("lstm", {gate: Block(zero, zero, np.zeros(1), np.zeros(1)) for gate in GATES["lstm"]})
    once = blank.pin(input=-1000.0, forget=1.0)
    twice = once.change("forget", b_h=np.ones_like)
    for weights, printed, filled in ((once, "0.731", "one bias"), (twice, "0.881", "both")):
        f = lstm(weights).run(zero[None], zero, one).c.item()
        evidence.printed(f"f with a forget bias of 1 in {filled}", f, printed)


@pytest.mark.claim("forget-bias.two-biases-add-up")
def test_a_layer_starts_with_the_forget_bias_that_it_means(begun_lstm, evidence):
    """The mean of b_ih + b_hh of the forget gate is what is said; where nothing is, it is not one number put in both"""
    start = begins(begun_lstm, 13, 64)
    if start.forget_bias is None:
        evidence.exactly("one number fills both biases of the forget gate", start.fills_both, False)
        evidence.shown("mean forget bias at the start", start.weights["forget"].b.mean(), "0")
    else:
        # One bias may be left as torch.nn draws it, uniform on ±1/√H: six standard errors of a mean of H such numbers.
        allowed = 6 * start.bound / np.sqrt(3 * 64)
        off = abs(start.weights["forget"].b.mean() - start.forget_bias)
        evidence.at_most("|mean forget bias at the start - the one that is said|", off, allowed)


@pytest.mark.claim("forget-bias.zero-does-not-learn")
@pytest.mark.training("lstm-40-bias-0", about="lstm")
def test_an_lstm_started_at_bias_0_does_not_learn_a_gap_of_40(trained, evidence):
    """Not 95 % within 400 steps"""
    runs = trained("lstm-40-bias-0")
    evidence.rate("gap 40 is solved within 400 steps", solved(runs), at_most=0.01)
    evidence.shown("final accuracy, seed 0", runs[0].accuracy[-1], "0.129")


@pytest.mark.claim("forget-bias.one-never-learns")
@pytest.mark.training("lstm-40-bias-1", about="lstm")
def test_an_lstm_started_at_bias_1_never_learns_a_gap_of_40(trained, evidence):
    """Not 95 % within 400 steps, for any seed; of 16 seeds measured before, 3 did"""
    runs = trained("lstm-40-bias-1", until=lambda run: run.solved, most=48)
    evidence.every("gap 40 stays unsolved for 400 steps", [not done for done in solved(runs)], rate=0.85, most=48)
    evidence.shown("final accuracy, seed 0", runs[0].accuracy[-1], "0.259")


@pytest.mark.claim("forget-bias.one-seldom-learns")
@pytest.mark.training("lstm-40-bias-1", about="lstm")
def test_an_lstm_started_at_bias_1_seldom_learns_a_gap_of_40(trained, evidence):
    """95 % within 400 steps at a rate of at most 0.2"""
    evidence.rate("gap 40 is solved within 400 steps", solved(trained("lstm-40-bias-1")), at_most=0.2)


@pytest.mark.claim("forget-bias.one-stays-at-chance")
@pytest.mark.training("lstm-40-bias-1", about="lstm")
def test_an_lstm_started_at_bias_1_stays_at_or_near_chance(trained, evidence):
    """Final accuracy within 4 standard errors of 1/8"""
    near = [run.accuracy[-1] < recall.CHANCE + 4 * CHANCE_ERROR for run in trained("lstm-40-bias-1")]
    evidence.rate("final accuracy is at chance", near, at_least=0.99)


@pytest.mark.claim("forget-bias.one-has-begun")
@pytest.mark.training("lstm-40-bias-1", about="lstm")
def test_an_lstm_started_at_bias_1_has_begun_to_learn(trained, evidence):
    """Final accuracy more than 4 standard errors above 1/8"""
    above = [run.accuracy[-1] > recall.CHANCE + 4 * CHANCE_ERROR for run in trained("lstm-40-bias-1")]
    evidence.rate("final accuracy is above chance", above, at_least=0.97)
    evidence.shown("(accuracy - 1/8) in standard errors, seed 0",
                   (trained("lstm-40-bias-1")[0].accuracy[-1] - recall.CHANCE) / CHANCE_ERROR, "12.8")  # fmt: skip


@pytest.mark.claim("forget-bias.two-learns-within-a-hundred")
@pytest.mark.training("lstm-40-bias-2", about="lstm")
def test_an_lstm_started_at_bias_2_learns_a_gap_of_40_within_a_hundred_steps(trained, evidence):
    """First step at most 100"""
    runs = trained("lstm-40-bias-2")
    evidence.rate("gap 40 is solved within 100 steps", solved(runs, 101), at_least=0.99)
    evidence.shown("first step with 95 %, seed 0", runs[0].first, "100")


@pytest.mark.claim("forget-bias.two-mostly-learns")
@pytest.mark.training("lstm-40-bias-2", about="lstm")
def test_an_lstm_started_at_bias_2_mostly_learns_a_gap_of_40(trained, evidence):
    """95 % within 400 steps at a rate of at least 0.8"""
    evidence.rate("gap 40 is solved within 400 steps", solved(trained("lstm-40-bias-2")), at_least=0.8)


@pytest.mark.claim("forget-bias.three-learns")
@pytest.mark.training("lstm-40-bias-3", "lstm-40", about="lstm")
@pytest.mark.parametrize("bias", [3, 5])
def test_an_lstm_started_at_bias_3_or_5_learns_a_gap_of_40(trained, bias, evidence):
    """95 % within 400 steps"""
    runs = trained("lstm-40-bias-3" if bias == 3 else "lstm-40")
    evidence.rate("gap 40 is solved within 400 steps", solved(runs), at_least=0.99)
    evidence.shown("first step with 95 %, seed 0", runs[0].first, "75")


@pytest.mark.claim("forget-bias.threshold")
@pytest.mark.training(*SWEEP.values(), "lstm-40", about="lstm")
def test_between_biases_1_and_2_half_of_the_seeds_begin_to_learn(trained, evidence):
    """Share of seeds that solve gap 40 in 400 steps, by bias; a logistic curve through them is one half in [1, 2]"""
    runs = {bias: trained(name) for bias, name in SWEEP.items()} | {5.0: trained("lstm-40")}
    shares = {bias: np.mean(solved(of)) for bias, of in runs.items()}
    evidence.curve("bias-curve", "seeds that learn", list(shares), list(shares.values()),
                   [(0, 0.0), (1, 0.0), (2, 1.0), (3, 1.0), (5, 1.0)])  # fmt: skip
    biases = np.concatenate([np.full(len(of), bias) for bias, of in runs.items()])
    outcomes = np.concatenate([solved(of) for of in runs.values()]).astype(float)
    half, low, high = crossing(biases, outcomes)
    evidence.at_least("bias at which half of the seeds learn", half, 1.0)
    evidence.at_most("bias at which half of the seeds learn, at most", half, 2.0)
    evidence.at_most("width of its 95 % interval", high - low, 1.5)
    evidence.curve("bias-curve", "half, with its 95 % interval", [low, half, high], [0.5, 0.5, 0.5])


def crossing(biases, outcomes):
    """Where a logistic curve fitted to outcomes crosses one half, and the interval of the likelihood ratio (95 %)."""

    from scipy.optimize import minimize  # takes longer to import than most claims to check

    def misfit(half, slope):
        p = np.clip(expit(slope * (biases - half)), 1e-9, 1 - 1e-9)
        return -(outcomes * np.log(p) + (1 - outcomes) * np.log(1 - p)).sum()

    best = minimize(lambda theta: misfit(theta[0], np.exp(theta[1])), x0=[1.5, 1.0], method="Nelder-Mead")
    slopes = np.exp(np.linspace(-1, 4, 101))
    grid = np.linspace(0.0, 4.0, 401)
    profile = np.array([min(misfit(half, slope) for slope in slopes) for half in grid])
    inside = grid[profile <= best.fun + 1.92]
    return (best.x[0], inside.min(), inside.max()) if inside.size else (best.x[0], grid[0], grid[-1])


@pytest.mark.claim("forget-bias.gap-80")
@pytest.mark.training("lstm-80-bias-3", "lstm-80-bias-4", "lstm-80", about="lstm")
@pytest.mark.parametrize("bias", [3, 4, 5])
def test_biases_3_4_and_5_learn_a_gap_of_80(trained, bias, evidence):
    """95 % within 800 steps"""
    runs = trained("lstm-80" if bias == 5 else f"lstm-80-bias-{bias}")
    evidence.rate("gap 80 is solved within 800 steps", [run.solved for run in runs], at_least=0.99)
    seeds = {3: ("100", "100"), 4: ("125", "375"), 5: ("50", "125")}[bias]
    for seed, document in enumerate(seeds):
        evidence.shown(f"first step with 95 %, seed {seed}", runs[seed].first, document)


@pytest.mark.claim("forget-bias.less-highway-than-the-rule")
@pytest.mark.training("lstm-80-bias-2", "lstm-80-bias-3", about="lstm")
def test_networks_learn_with_less_highway_than_the_rule_of_thumb_asks(trained, evidence):
    """σ(b)^80 > 0.1 needs b > 3.53; bias 3 (σ^80 = 0.02) learns, and bias 2 (σ^80 = 4e-5) for some seeds"""
    runs = trained("lstm-80-bias-3")
    evidence.rate("gap 80 is solved at bias 3", [run.solved for run in runs], at_least=0.99)
    evidence.at_most("σ(3)^80", expit(3.0) ** 80, 0.1)
    two = trained("lstm-80-bias-2", until=lambda run: run.solved, most=10)
    evidence.at_least("seeds of bias 2 that solve gap 80", sum(run.solved for run in two), 1)
