"""The exercises, run: causes, controls and variants on the recall task.

N §7.c (why a GRU is slower), §1.c against §2.c (what the RNN's failure is owed to), exercises 1 to 4 and 6. E18.
«First» is the first evaluated step with 95 % held-out accuracy.
"""

import numpy as np
import pytest
import torch

from fixtures.probes import off_diagonal
from fixtures.settings import Draw
from fixtures.trained import median
from reference import oracle

GAPS = (20, 40, 80)


def learns(run):
    """Whether a run gets above one half at any evaluation."""
    return max(run.accuracy) > 0.5


def radius(run, when):
    """The spectral radius of a plain RNN's recurrent weights."""
    return torch.linalg.eigvals(getattr(run, when)["layer.weight_hh_l0"]).abs().max().item()


@pytest.mark.claim("exercises.shut-input-gate-slows-the-lstm")
@pytest.mark.training("lstm-40-shut-input", "lstm-40", "gru-40", about="lstm gru")
def test_an_lstm_whose_input_gate_starts_shut_learns_at_the_grus_pace(trained, evidence):
    """Input bias -5: the median first step is at least twice the LSTM's, and within a factor of 2 of the GRU's"""
    shut, lstm, gru = (median(trained(name)) for name in ("lstm-40-shut-input", "lstm-40", "gru-40"))
    evidence.at_least("median steps, input gate shut over open", shut / lstm, 2.0)
    evidence.at_least("median steps over the GRU's", shut / gru, 0.5)
    evidence.at_most("median steps over the GRU's, at most", shut / gru, 2.0)


@pytest.mark.claim("exercises.lower-bias-speeds-up-the-gru")
@pytest.mark.training("gru-10-bias-2", "gru-10", about="gru")
def test_a_gru_that_may_write_more_at_the_start_learns_a_short_gap_sooner(trained, evidence):
    """Keep bias 2 writes 12 % instead of 0.7 %: at gap 10 the median first step is less than 0.8 of that at bias 5"""
    less, five = median(trained("gru-10-bias-2")), median(trained("gru-10"))
    evidence.at_most("median steps at gap 10, bias 2 over bias 5", less / five, 0.8)


@pytest.mark.claim("exercises.lower-bias-speeds-up-every-gap")
@pytest.mark.training("gru-40-bias-2", "gru-40", about="gru")
def test_a_gru_that_may_write_more_at_the_start_learns_a_long_gap_sooner(trained, evidence):
    """The same at gap 40, where bias 2 keeps 0.6 % of the state and bias 5 three quarters"""
    less, five = median(trained("gru-40-bias-2")), median(trained("gru-40"))
    evidence.at_most("median steps at gap 40, bias 2 over bias 5", less / five, 0.8)


@pytest.mark.claim("exercises.architecture-alone")
@pytest.mark.training("{net}-40-bias-0", about="lstm gru")
@pytest.mark.parametrize("net", ["lstm", "gru"])
def test_a_gated_cell_learns_a_gap_of_40_whatever_its_initialisation(trained, net, evidence):
    """PyTorch's default biases: 95 %, the LSTM within 400 steps, the GRU within 800"""
    runs = trained(f"{net}-40-bias-0")
    evidence.rate("gap 40 is solved from the default bias", [run.solved for run in runs], at_least=0.99)


@pytest.mark.claim("exercises.orthogonal-rnn-learns")
@pytest.mark.training("rnn-40-orthogonal", about="rnn")
def test_a_plain_rnn_that_starts_from_an_orthogonal_matrix_learns_a_gap_of_40(trained, evidence):
    """95 % within 800 steps, where none does from PyTorch's default"""
    runs = trained("rnn-40-orthogonal")
    evidence.rate("gap 40 is solved from an orthogonal matrix", [run.solved for run in runs], at_least=0.99)


@pytest.mark.claim("exercises.identity-rnn-seldom-learns")
@pytest.mark.training("rnn-40-identity", about="rnn")
def test_a_plain_rnn_that_starts_from_the_identity_seldom_learns_a_gap_of_40(trained, evidence):
    """95 % within 800 steps at a rate of at most 0.1: with tanh the identity is no isometry for long"""
    runs = trained("rnn-40-identity")
    evidence.rate("gap 40 is solved from the identity", [run.solved for run in runs], at_most=0.1)


@pytest.mark.claim("exercises.peephole-is-like-the-lstm")
@pytest.mark.training("peephole-{gap}", "lstm-{gap}", about="lstm")
@pytest.mark.parametrize("gap", GAPS)
def test_a_peephole_lstm_learns_like_an_lstm(trained, gap, evidence):
    """95 % within 800 steps, and a median first step within a factor of 2 of the LSTM's: it helps little here"""
    runs = trained(f"peephole-{gap}")
    evidence.rate(f"gap {gap} is solved within 800 steps", [run.solved for run in runs], at_least=0.99)
    quotient = median(runs) / median(trained(f"lstm-{gap}"))
    evidence.at_least("median steps over the LSTM's", quotient, 0.5)
    evidence.at_most("median steps over the LSTM's, at most", quotient, 2.0)


@pytest.mark.claim("exercises.peephole-helps-to-count")
@pytest.mark.training("peephole-20-gap-length", "lstm-20-gap-length", about="lstm")
def test_a_peephole_lstm_learns_to_tell_the_length_of_a_gap_sooner(trained, evidence):
    """A mark in one of eight places among twenty fillers: 95 % within 800 steps, median at most 0.85 of the LSTM's"""
    peephole, lstm = trained("peephole-20-gap-length"), trained("lstm-20-gap-length")
    evidence.rate("the length of the gap is learnt", [run.solved for run in peephole], at_least=0.99)
    evidence.at_most("median steps over the LSTM's", median(peephole) / median(lstm), 0.85)


@pytest.mark.claim("exercises.coupled-is-like-the-gru")
@pytest.mark.training("coupled-{gap}", "lstm-{gap}", "gru-{gap}", about="lstm gru")
@pytest.mark.parametrize("gap", GAPS)
def test_a_coupled_lstm_learns_like_a_gru(trained, gap, evidence):
    """95 % within 800 steps; the median first step at least twice the LSTM's, within a factor of 2 of the GRU's"""
    runs = trained(f"coupled-{gap}")
    evidence.rate(f"gap {gap} is solved within 800 steps", [run.solved for run in runs], at_least=0.99)
    evidence.at_least("median steps over the LSTM's", median(runs) / median(trained(f"lstm-{gap}")), 2.0)
    quotient = median(runs) / median(trained(f"gru-{gap}"))
    evidence.at_least("median steps over the GRU's", quotient, 0.5)
    evidence.at_most("median steps over the GRU's, at most", quotient, 2.0)


@pytest.mark.claim("exercises.reset-placement-hardly-matters")
@pytest.mark.training("before-{gap}", "gru-{gap}", about="gru")
@pytest.mark.parametrize("gap", GAPS)
def test_reset_before_or_after_learns_alike(trained, gap, evidence):
    """The deck's GRU: 95 % within 800 steps, and a median first step within a factor of 1.5 of PyTorch's"""
    runs = trained(f"before-{gap}")
    evidence.rate(f"gap {gap} is solved within 800 steps", [run.solved for run in runs], at_least=0.99)
    quotient = median(runs) / median(trained(f"gru-{gap}"))
    evidence.at_least("median steps over those of the reset after", quotient, 1 / 1.5)
    evidence.at_most("median steps over those of the reset after, at most", quotient, 1.5)


@pytest.mark.claim("exercises.rnn-escapes")
@pytest.mark.training("rnn-40-fast", about="rnn")
def test_at_a_higher_learning_rate_some_plain_rnns_escape(trained, evidence):
    """Learning rate 3e-3: some seeds get above one half, others end at chance; who learns has a radius above 1.5"""
    runs = trained("rnn-40-fast", until=learns, most=24)
    learnt = [run for run in runs if learns(run)]
    stuck = [run for run in runs if run.accuracy[-1] < 0.2]
    evidence.at_least("seeds above one half", len(learnt), 1)
    evidence.at_least("seeds at chance", len(stuck), 1)
    evidence.at_least(
        "least spectral radius after training of those that learnt", min(radius(r, "after") for r in learnt), 1.5
    )
    evidence.at_most("largest spectral radius before training", max(radius(run, "before") for run in runs), 0.8)
    for seed, document in enumerate(("2.6", "3.6", "4.4")):
        evidence.shown(f"spectral radius after training, seed {seed}", radius(runs[seed], "after"), document)


@pytest.mark.claim("exercises.purer-highway")
def test_the_grus_highway_is_purer_at_equal_keep(lstm, evidence):
    """Off-diagonal over diagonal norm of the whole Jacobian at keep bias 5, 16 units, 12 steps: the GRU's is smaller"""
    ratios = {}
    for kind, gate in (("lstm", "forget"), ("gru", "update")):
        draw = Draw(3)
        weights = draw.weights(kind, 6, 16).change(b_x=np.zeros_like, b_h=np.zeros_like).pin(**{gate: 5.0})
        x, h, c = draw.inputs(1, 12, 6), np.zeros((1, 16)), draw.state(1, 16)
        if kind == "lstm":
            J = lstm(weights).jacobian(x, h, c, of="c", wrt="c")
        else:
            J = oracle.jacobian(oracle.forward(weights, x, np.tanh(c)), "h", "h")
        ratios[kind] = np.linalg.norm(off_diagonal(J)) / np.linalg.norm(np.diag(J))
    evidence.at_most("GRU's ratio over the LSTM's", ratios["gru"] / ratios["lstm"], 0.5)
    evidence.at_least("LSTM's ratio", ratios["lstm"], 0.5)
