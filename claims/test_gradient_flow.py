"""Where the loss gradient goes on the recall task, before training and after.

N §4.c, §7.d. E16, E17, E29, E30. The mean norm of ∂L/∂C_t (LSTM) or ∂L/∂h_t (RNN, GRU) over 256 sequences of generator
seed 99 at gap 40; the key stands at t = 0, the query at t = 41.
"""

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax

from fixtures.trained import head_of, one_hot, weights_of
from reference import networks, recall, training

GAP, QUERY = 40, 41
AT = (0, 1, 10, 20, 30, 40, QUERY)
"""The steps that the notebook prints."""
ENDS, CURVE = (0, QUERY), (0, 1, 5, 10, 15, 20, 25, 30, 35, 40, QUERY)
SYMBOLS = recall.tokens(256, GAP, torch.Generator().manual_seed(99))


def state_gradients(cell, weights, head, at, symbols=SYMBOLS):
    """Mean norm of the loss gradient that reaches the memory after each step in `at`, of a black box with a read-out.

    From each state on, the rest of the sequence is run and pulled back; an LSTM's cell also shows through its own h.
    """
    x, keys, n = one_hot(symbols), symbols[:, 0].numpy(), len(symbols)
    loaded, h, (W, b) = cell(weights), np.zeros((n, weights.hidden_size)), head
    c, states = (h if cell.has_cell_state else None), []
    for t in range(x.shape[1]):
        run = loaded.run(x[:, t : t + 1], h, c)
        h, c = run.h.astype(np.float64), None if run.c is None else run.c.astype(np.float64)
        states.append((h, c))
    upstream = (softmax(h @ W.T + b, axis=1) - np.eye(recall.KEYS)[keys]) @ W / n
    norms = {}
    for t in at:
        h, c = states[t]
        at_h, at_c = upstream, np.zeros_like(upstream)
        if t < QUERY:
            pulled = loaded.gradients(x[:, t + 1 :], h, c, {"h": upstream})[0]
            at_h, at_c = pulled.h, pulled.c
        if c is not None:
            shown = np.tanh(c)
            o = np.divide(h, shown, out=np.zeros_like(h), where=shown != 0)
            at_h = at_c + at_h * o * (1 - shown**2)
        norms[t] = np.linalg.norm(at_h, axis=1).mean()
    return norms


def of_run(run, when, at=ENDS):
    """The gradients of a training run, with its weights before or after."""
    return state_gradients(run.cell, weights_of(run, when), head_of(run, when), at)


def at_the_start(cell, net, keep_bias, at=ENDS, symbols=SYMBOLS):
    """The gradients of the notebook's network before training, seed 0, in any cell that takes its weights."""
    model, _ = networks.initial(training.Protocol(net, GAP, keep_bias=keep_bias), seed=0)
    start = {name: parameter.detach() for name, parameter in model.named_parameters()}
    run = training.Run(training.Protocol(net, GAP), seed=0, before=start)
    return state_gradients(cell, weights_of(run, "before"), head_of(run, "before"), at, symbols)


def ratio(gradients):
    """The gradient at the key over that at the query."""
    return gradients[0] / gradients[QUERY]


def as_printed(evidence, memory, gradients, printed):
    """The notebook's table of the gradients that reach C or h."""
    for t, document in zip(AT, printed, strict=True):
        evidence.printed(f"mean ‖∂L/∂{memory}_{t}‖", gradients[t], document)


def draw_curve(evidence, series, gradients, printed=()):
    """The gradients for the chapter's figure, with the printed ones."""
    points = [(t, float(document)) for t, document in zip(AT, printed, strict=False)]
    evidence.curve("gradient-flow", series, list(gradients), list(gradients.values()), points)


@pytest.mark.claim("gradient-flow.lstm-at-the-start")
def test_before_training_an_lstms_gradient_is_larger_at_the_key(lstm, evidence):
    """Keep bias 5, seed 0: 3.13e-03 at the key, 4.07e-04 at the query, ratio 7.7"""
    found = at_the_start(lstm, "LSTM", 5.0, AT)
    printed = ("3.13e-03", "2.79e-03", "1.20e-03", "6.77e-04", "4.78e-04", "4.11e-04", "4.07e-04")
    as_printed(evidence, "C", found, printed)
    evidence.printed("key over query", ratio(found), "7.7")
    draw_curve(evidence, "LSTM, before", found, printed)


@pytest.mark.claim("gradient-flow.rnn-at-the-start")
def test_before_training_a_plain_rnns_gradient_dies_on_the_way_to_the_key(rnn, evidence):
    """Seed 0: 2.08e-03 at the query, 1.08e-11 at the key, ratio 5.2e-09"""
    found = at_the_start(rnn, "RNN", 0.0, AT)
    printed = ("1.08e-11", "1.64e-11", "7.45e-10", "5.61e-08", "5.07e-06", "1.14e-03", "2.08e-03")
    as_printed(evidence, "h", found, printed)
    evidence.printed("key over query", ratio(found), "5.2e-09")
    draw_curve(evidence, "RNN, before", found, printed)


@pytest.mark.claim("gradient-flow.gru-at-the-start")
def test_before_training_a_grus_gradient_arrives_nearly_whole(gru, evidence):
    """Keep bias 5, seed 0: ratio 0.76, eight orders above the RNN's"""
    found = ratio(at_the_start(gru, "GRU", 5.0))
    evidence.printed("key over query", found, "0.76")
    evidence.at_least("orders of magnitude above the RNN's 5.2e-9", np.log10(found / 5.2e-9), 8.0)


@pytest.mark.claim("gradient-flow.more-than-a-product-of-gates")
def test_a_ratio_above_one_is_more_than_forget_gates_can_carry(lstm, evidence):
    """∏ f ≤ 1, σ(5)^40 = 0.76; the ratio of 7.7 came through h as well: 8 to 9 orders above the RNN's"""
    found = at_the_start(lstm, "LSTM", 5.0, symbols=SYMBOLS[:32])
    evidence.printed("σ(5)^40", expit(5.0) ** 40, "0.76")
    evidence.at_least("key over query", ratio(found), 5.0)
    evidence.at_least("orders of magnitude above the RNN's 5.2e-9", np.log10(ratio(found) / 5.2e-9), 8.0)


@pytest.mark.claim("gradient-flow.only-ratios-compare")
def test_the_size_of_a_gradient_halves_where_the_mean_is_over_twice_as_many(lstm64, evidence):
    """32 sequences and the same twice: ‖∂L/∂C_t‖ is half as large, key over query the same"""
    few = SYMBOLS[:32]
    once, twice = (at_the_start(lstm64, "LSTM", 5.0, symbols=symbols) for symbols in (few, few.repeat(2, 1)))
    for t in ENDS:
        evidence.close("‖∂L/∂C_t‖, 64 sequences over 32, - 1/2", twice[t] / once[t], 0.5, within=1e-9, at=f"t = {t}")
    evidence.close("key over query, 64 sequences over 32, - 1", ratio(twice) / ratio(once), 1.0, within=1e-9)


@pytest.mark.claim("gradient-flow.low-bias-is-like-an-rnn")
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_with_half_open_forget_gates_an_lstm_starts_like_a_plain_rnn(lstm, bias, evidence):
    """Biases 0 and 1: the gradient at the key is below a hundredth of that at the query"""
    evidence.at_most("key over query", ratio(at_the_start(lstm, "LSTM", bias, symbols=SYMBOLS[:32])), 0.01)


@pytest.mark.claim("gradient-flow.rnn-constant-factor")
def test_a_plain_rnns_gradient_shrinks_by_a_constant_factor_per_step(rnn, evidence):
    """The factor from step 40 to 39 differs from that from 1 to 0 by less than a tenth"""
    found = at_the_start(rnn, "RNN", 0.0, (0, 1, 39, 40))
    early, late = found[0] / found[1], found[39] / found[40]
    evidence.at_most("|factor far from the query / factor near it - 1|", abs(early / late - 1), 0.1)


@pytest.mark.claim("gradient-flow.rnn-drifting-factor")
def test_a_plain_rnns_factor_drifts_from_0_55_to_0_66(rnn, evidence):
    """‖∂L/∂h_{t-1}‖ / ‖∂L/∂h_t‖ = 0.548 from 41 to 40, 0.659 from 1 to 0"""
    found = at_the_start(rnn, "RNN", 0.0, (0, 1, 40, 41))
    evidence.printed("factor from 41 to 40", found[40] / found[41], "0.55")
    evidence.printed("factor from 1 to 0", found[0] / found[1], "0.66")


@pytest.mark.claim("gradient-flow.training-widens-the-ratio")
@pytest.mark.training("lstm-40-whole", about="lstm")
def test_training_widens_an_lstms_ratio(trained, evidence):
    """Key over query after 800 steps above that before"""
    pairs = [(ratio(of_run(run, "before")), of_run(run, "after")) for run in trained("lstm-40-whole")]
    evidence.rate(
        "the ratio is larger after training", [ratio(after) > before for before, after in pairs], at_least=0.99
    )
    evidence.shown("key over query after training, seed 0", ratio(pairs[0][1]), "34")
    printed = ("4.24e-07", "3.50e-07", "6.31e-08", "1.90e-08", "1.33e-08", "1.37e-08", "1.26e-08")
    draw_curve(evidence, "LSTM, after", of_run(trained("lstm-40-whole")[0], "after", CURVE), printed)


@pytest.mark.claim("gradient-flow.trained-gru")
@pytest.mark.training("gru-40-whole", about="gru")
def test_after_training_a_grus_gradient_is_larger_at_the_key_too(trained, evidence):
    """Key over query after 800 steps above 1"""
    found = [of_run(run, "after") for run in trained("gru-40-whole")]
    evidence.rate("the gradient is larger at the key", [ratio(after) > 1 for after in found], at_least=0.99)
    evidence.shown("key over query after training, seed 0", ratio(found[0]), "44")
    draw_curve(evidence, "GRU, after", of_run(trained("gru-40-whole")[0], "after", CURVE))


@pytest.mark.claim("gradient-flow.trained-rnn")
@pytest.mark.training("rnn-40", about="rnn")
def test_after_training_still_no_gradient_reaches_a_plain_rnns_key(trained, evidence):
    """Key over query below 1e-6 after 800 steps"""
    found = [of_run(run, "after") for run in trained("rnn-40")[:5]]
    evidence.rate(
        "the gradient at the key is below a millionth", [ratio(after) < 1e-6 for after in found], at_least=0.99
    )
    evidence.shown("key over query after training, seed 0", ratio(found[0]), "4.6e-09")
    printed = ("7.97e-12", "1.25e-11", "7.26e-10", "6.65e-08", "7.25e-06", "8.82e-04", "1.72e-03")
    draw_curve(evidence, "RNN, after", of_run(trained("rnn-40")[0], "after", CURVE), printed)


@pytest.mark.claim("gradient-flow.rnn-is-where-it-started")
@pytest.mark.training("rnn-40", about="rnn")
def test_after_training_a_plain_rnn_is_exactly_where_it_started(trained, evidence):
    """θ = θ_0"""
    run = trained("rnn-40")[0]
    moved = max((run.after[name] - p).abs().max().item() for name, p in run.before.items())
    evidence.at_most("max |θ - θ_0|, seed 0", moved, 0.0)


@pytest.mark.claim("gradient-flow.rnn-has-moved")
@pytest.mark.training("rnn-40", about="rnn")
def test_training_moves_a_plain_rnn_and_its_ratio_stays(trained, evidence):
    """θ ≠ θ_0, while the ratio stays below a millionth and the accuracy at chance"""
    runs = trained("rnn-40")[:5]
    stays = [ratio(of_run(run, "after")) < 1e-6 and run.accuracy[-1] < 0.2 for run in runs]
    evidence.rate("ratio and accuracy stay", stays, at_least=0.99)
    moved = [max((run.after[name] - p).abs().max().item() for name, p in run.before.items()) for run in runs]
    evidence.at_least("least max |θ - θ_0|", min(moved), 0.01)


@pytest.mark.claim("gradient-flow.small-because-the-loss-is")
@pytest.mark.training("lstm-40-whole", about="lstm")
def test_a_trained_networks_gradient_is_small_because_its_loss_is(trained, evidence):
    """Divided by the mean error 1 - p(target), the gradient at the query is of the size it had before training"""
    sizes = []
    for run in trained("lstm-40-whole"):
        normalised = [of_run(run, when)[QUERY] / mean_error(run, when) for when in ("before", "after")]
        sizes.append(normalised[1] / normalised[0])
    evidence.rate("its size is of the same order", [0.01 < size < 100 for size in sizes], at_least=0.99)


def mean_error(run, when):
    """Mean of 1 - p(target) over the 256 sequences."""
    h, (W, b) = run.cell(weights_of(run, when)).run(one_hot(SYMBOLS)).h, head_of(run, when)
    p = softmax(h @ W.T + b, axis=1)
    return 1 - p[np.arange(len(SYMBOLS)), SYMBOLS[:, 0].numpy()].mean()


@pytest.mark.claim("gradient-flow.flat-over-the-second-half")
@pytest.mark.training("lstm-40-whole", about="lstm")
def test_a_trained_lstms_gradient_is_smallest_and_flat_over_the_second_half(trained, evidence):
    """From t = 30 on within a factor of 2 of the least, for every seed; of five seeds measured before, two"""
    runs = trained("lstm-40-whole", until=lambda run: not flat(run), most=8)
    evidence.every("the gradient is flat and least over the second half", [flat(run) for run in runs], rate=0.4, most=8)


def flat(run):
    """Whether the trained network's gradient stays within a factor of 2 of its least from t = 30 on."""
    after = of_run(run, "after", CURVE)
    return max(after[t] for t in after if t >= 30) < 2 * min(after.values())


@pytest.mark.claim("gradient-flow.forget-gates-alone")
@pytest.mark.training("lstm-40-whole", about="lstm")
def test_the_forget_gates_decide_where_a_trained_networks_gradient_goes(trained, evidence):
    """Key over query is what a product of forget gates can give, at most 1"""
    found = [ratio(of_run(run, "after")) for run in trained("lstm-40-whole")]
    evidence.rate("the ratio is at most 1", [each <= 1 for each in found], at_least=0.99)
