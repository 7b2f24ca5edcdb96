"""What is said of the cells in comparison, as far as a measurement can support or contradict it.

N §4.d, §6, §7, §8; W «LSTM Overview»; L §3, §4, conclusion. E33, E43; X12. The networks of the recall task are taken as
they start, before any training; what training makes of them is asked of the runs that other chapters train.
"""

import numpy as np
import pytest
import torch

from fixtures.probes import LITERALLY_SHUT, OPEN
from fixtures.trained import median, one_hot, starting
from reference import networks, oracle, recall, training
from reference.weights import GATES, Block, Weights

WIDE_OPEN = 1000.0
STEPS = 60


def arrives(cell, net, keep_bias, draw):
    """Of a unit gradient at the memory of step 60, how much arrives at its start, over what arrives one step back."""
    weights = starting(net, keep_bias)
    x = one_hot(recall.tokens(1, STEPS - 2, torch.Generator().manual_seed(0)))
    (h, c), v = draw.start(cell, 1, units=64), draw.upstream(1, 64)
    memory, loaded = "c" if cell.has_cell_state else "h", cell(weights)
    far, near = (np.linalg.norm(getattr(loaded.gradients(x[:, :T], h, c, {memory: v})[0], memory)) for T in (STEPS, 1))
    return far / near


@pytest.mark.claim("comparison.gates-prevent-vanishing")
def test_the_additive_update_keeps_the_gradient_from_vanishing(lstm, draw, evidence):
    """An LSTM as PyTorch starts it: a hundredth of the gradient arrives 60 steps back"""
    evidence.at_least("‖∂(v·C_60)/∂C_0‖ over one step's", arrives(lstm, "LSTM", 0.0, draw), 0.01)


def judge_mitigation(cell, net, draw, evidence):
    """Held open, the gate carries the gradient; half open, as PyTorch starts it, it loses it."""
    evidence.at_least("arrives 60 steps back over 1, keep bias 5", arrives(cell, net, 5.0, draw), 0.5)
    evidence.at_most("arrives 60 steps back over 1, PyTorch's default", arrives(cell, net, 0.0, draw), 1e-9)


@pytest.mark.claim("comparison.gates-mitigate")
def test_an_lstms_gates_carry_the_gradient_if_they_are_open(lstm, draw, evidence):
    """‖∂(v·C_60)/∂C_0‖ over one step's: at least half at f = 0.993, below 1e-9 at f ≈ 0.5"""
    judge_mitigation(lstm, "LSTM", draw, evidence)


@pytest.mark.claim("comparison.gates-mitigate")
def test_a_grus_gates_carry_the_gradient_if_they_are_open(gru, draw, evidence):
    """‖∂(v·h_60)/∂h_0‖ over one step's: at least half at z = 0.993, below 1e-9 at z ≈ 0.5"""
    judge_mitigation(gru, "GRU", draw, evidence)


@pytest.mark.claim("comparison.forgetting-bounds-a-stream")
def test_a_cell_that_cannot_forget_grows_along_a_stream(lstm, draw, tolerance, evidence):
    """500 inputs: |C_t| ≤ f^t |C_0| + 1/(1-f) with f = σ(2), no bound with f = 1; f = 0 clears what is stale"""
    x, f = draw.inputs(3, 500), 1 / (1 + np.exp(-2.0))
    weights = draw.weights("lstm").without_recurrence("forget")
    weights = weights.change("forget", W_x=np.zeros_like, b_x=np.zeros_like, b_h=np.zeros_like)
    h, c = draw.start(lstm)
    early, late = (np.abs(lstm(weights.pin(forget=WIDE_OPEN)).run(x[:, :T], h, c).c).max() for T in (50, 500))
    evidence.at_least("largest |C_500| over |C_50|, f = 1", late / early, 5.0)
    kept = lstm(weights.pin(forget=2.0))
    bound = f**500 * np.abs(c) + 1 / (1 - f)
    evidence.at_most("largest |C_500| over its bound, f = 0.88", (np.abs(kept.run(x, h, c).c) / bound).max(), 1.0)
    driven = weights.change(W_x=np.zeros_like, W_h=np.zeros_like)
    i, g = (oracle.forward(driven, x[:, :1]).gate(gate)[0, 0] for gate in ("input", "candidate"))
    grown = lstm(driven.pin(forget=WIDE_OPEN)).run(x).c
    settled = lstm(driven.pin(forget=2.0)).run(x).c
    within = tolerance.state(lstm, weights, 500)
    evidence.close("constant drive, f = 1: C_500 - 500 i C̃", grown, np.tile(500 * i * g, (3, 1)), within)
    evidence.close("constant drive, f = 0.88: C_500 - i C̃/(1-f)", settled, np.tile(i * g / (1 - f), (3, 1)), within)
    cleared = [lstm(weights.pin(forget=LITERALLY_SHUT)).run(x[:, :1], h, start).c for start in (c, 1000 * c)]
    evidence.equal("cell behind a shut forget gate, whatever was there", *cleared)


@pytest.mark.claim("comparison.gated-path-is-a-residual")
def test_the_gated_path_is_a_residual_connection(lstm, draw, tolerance, evidence):
    """C_t = C_{t-1} + C̃_t, with the gates as they are"""
    judge_residual(lstm, draw.weights("lstm"), draw, tolerance, evidence)


@pytest.mark.claim("comparison.residual-has-open-gates")
def test_with_both_gates_open_the_path_is_a_residual_connection(lstm, draw, tolerance, evidence):
    """f = i = 1  ⇒  C_t = C_{t-1} + C̃_t, over 5 steps with dense weights"""
    judge_residual(lstm, draw.weights("lstm").pin(forget=WIDE_OPEN, input=WIDE_OPEN), draw, tolerance, evidence)


def judge_residual(lstm, weights, draw, tolerance, evidence):
    """Measure C_t against C_{t-1} + tanh(x_t W_xc + h_{t-1} W_hc + b_c), step by step."""
    x, (h, c), loaded, n = draw.inputs(), draw.start(lstm), lstm(weights), weights["candidate"]
    for t in range(5):
        added = np.tanh(x[:, t] @ n.W_x + h @ n.W_h + n.b)
        run = loaded.run(x[:, t : t + 1], h, c)
        evidence.close("C_t - (C_{t-1} + C̃_t)", run.c, c + added, tolerance.state(lstm, weights, 1), at=f"t = {t + 1}")
        h, c = run.h.astype(np.float64), run.c.astype(np.float64)


@pytest.mark.claim("comparison.one-state-one-gate-for-two")
def test_a_gru_has_one_state_and_one_gate_that_keeps_and_writes(gru, draw, tolerance, evidence):
    """h' = k h + w n: k + w = 1 unit by unit; what is shown is all that is carried; the reset gate changes n alone"""
    weights, x = draw.weights("gru"), draw.inputs(steps=1)
    h, _ = draw.start(gru)
    up, down = (gru(weights.pin(candidate=pull)).run(x, h).h.astype(np.float64) for pull in (OPEN, -OPEN))
    kept, written = (up + down) / 2, (up - down) / 2
    within = tolerance.state(gru, weights, 1)
    evidence.close("k h - (1 - w) h", kept, (1 - written) * h, within)
    run = gru(weights).run(draw.inputs(), h)
    evidence.equal("state carried on - output shown", run.h, run.outputs[:, -1])
    reset = gru(weights.pin(reset=LITERALLY_SHUT, candidate=OPEN)).run(x, h).h
    evidence.close("h' with the reset gate shut, candidate at 1", reset, up, within)


def counter(kind, **gates):
    """A unit that sees +1 or -1 and writes it: the candidate is saturated, its other blocks are given constants."""
    zero, none = np.zeros((1, 1)), np.zeros(1)
    blocks = {gate: Block(zero, zero, none, none) for gate in GATES[kind]}
    blocks["candidate"] = Block(zero + WIDE_OPEN, zero, none, none)
    return Weights(kind, blocks).pin(**gates)


@pytest.mark.claim("comparison.lstm-counts")
def test_an_lstm_counts(lstm, evidence):
    """f = i = 1, C̃ = ±1: after 300 up and 299 down C = C_0 + 1, exactly, from 0 and from a million"""
    loaded = lstm(counter("lstm", forget=WIDE_OPEN, input=WIDE_OPEN))
    signs = np.repeat([1.0, -1.0], [300, 299])
    start, zero = np.array([[0.0], [2.0**20]]), np.zeros((2, 1))
    for steps, count in ((1, 1), (300, 300), (599, 1)):
        x = np.tile(signs[None, :steps, None], (2, 1, 1))
        end = loaded.run(x, zero, start).c
        evidence.equal("C_T - C_0 - count", end, start + count, at=f"{steps} symbols")


@pytest.mark.claim("comparison.lstm-counts")
def test_a_gru_loses_count(gru, tolerance, evidence):
    """z = 1/2, n = ±1: h stays within [-1, 1], and after 150 and 300 ups it is the same number"""
    weights = counter("gru")
    outputs = gru(weights).run(np.ones((1, 300, 1)), np.zeros((1, 1))).outputs[0]
    # Each step errs, and halves what the steps before it erred: at most 1 + 1/2 + 1/4 + … times as much as one alone.
    evidence.at_most("largest |h_t|", np.abs(outputs).max(), 1.0 + 2 * tolerance.state(gru, weights, 1))
    evidence.equal("h after 150 ups - h after 300", outputs[149], outputs[299])


@pytest.mark.claim("comparison.on-par-in-the-end")
@pytest.mark.training("lstm-40", "gru-40", "lstm-80", "gru-80", about="lstm gru")
def test_in_the_end_lstm_and_gru_are_on_par(trained, evidence):
    """Gaps 40 and 80, keep bias 5: either cell reaches 95 % within 800 steps, for about equally many seeds"""
    lstm, gru = ([run.solved for gap in (40, 80) for run in trained(f"{net}-{gap}")] for net in ("lstm", "gru"))
    evidence.rate("the gap is solved, by either cell", lstm + gru, at_least=0.99)
    evidence.at_most("difference of the shares of seeds that solve it", abs(np.mean(lstm) - np.mean(gru)), 0.2)


@pytest.mark.claim("comparison.lstm-manages-distance")
@pytest.mark.training("lstm-80", "gru-80", about="lstm gru")
def test_over_a_long_distance_the_lstm_needs_fewer_steps(trained, evidence):
    """Gap 80: the LSTM's median first step at most half the GRU's, and within the budget for both"""
    lstm, gru = median(trained("lstm-80")), median(trained("gru-80"))
    evidence.at_most("median steps at gap 80, LSTM over GRU", lstm / gru, 0.5)
    evidence.at_most("median steps at gap 80, GRU", gru, 700)


@pytest.mark.claim("comparison.forget-gate-starts-positive")
def test_pytorch_starts_the_forget_gate_with_a_positive_bias(evidence):
    """Both forget biases of torch.nn.LSTM(13, 64), summed: their mean is at least 0.5 for each of 25 seeds"""
    evidence.subject, means = "torch.nn.LSTM", []
    for seed in range(25):
        layer = networks.initial(training.Protocol("LSTM", 40), seed)[0].layer
        rows = slice(networks.HIDDEN, 2 * networks.HIDDEN)
        means.append((layer.bias_ih_l0[rows] + layer.bias_hh_l0[rows]).mean().item())
    evidence.at_least("least mean forget bias of 25 seeds", min(means), 0.5)
