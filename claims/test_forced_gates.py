"""Forced gates: what is left of a gated cell when its gates are set by hand.

N §3 («almost a standard RNN»), §2 (who erases); L §3 and the textbook remark behind it. E11, E45.
"""

import numpy as np
import pytest

from fixtures.probes import OPEN, SHUT, lstm_gates
from reference import notebook, oracle
from reference.weights import Weights

ALMOST_RNN = {"forget": -1000.0, "input": 1000.0, "output": 1000.0}


def rnn_of(weights):
    """The plain RNN that has the candidate's weights."""
    return Weights("rnn", {"candidate": weights["candidate"]})


@pytest.mark.claim("forced-gates.rnn-with-a-second-tanh")
def test_an_lstm_that_forgets_writes_and_shows_everything(lstm, draw, tolerance, evidence):
    """f = 0, i = o = 1  ⇒  C = C̃ and h = tanh(tanh(W_C [h, x] + b_C)), at every step of a sequence"""
    weights, x = draw.weights("lstm", scale=2.0), draw.inputs(steps=6)
    h, c = draw.start(lstm)
    run, outputs = lstm(weights.pin(**ALMOST_RNN)).run(x, h, c), []
    for t in range(6):
        plain = oracle.forward(rnn_of(weights), x[:, t : t + 1], h).h[:, -1]
        h = np.tanh(plain)
        outputs.append(h)
    within = tolerance.state(lstm, weights, 6)
    evidence.close("h_t - tanh(tanh(·))", run.outputs, np.stack(outputs, 1), within)
    evidence.close("C_T - tanh(·)", run.c, plain, within)


def the_notebooks_forced_cell():
    """N §3: weights of seed 2 with f at -40, i and o at +40, and x (4, 1, 4), h and C (4, 8)."""
    stream = notebook.Stream(0)
    stream.randn(1, 8), stream.randn(1, 1000, 4)
    x, h, C = stream.randn(4, 4), stream.randn(4, 8), stream.randn(4, 8)
    weights = notebook.lstm_weights(4, 8, seed=2)
    return weights, weights.pin(forget=SHUT, input=OPEN, output=OPEN), x[:, None], h, C


@pytest.mark.claim("forced-gates.notebook-almost")
def test_the_notebooks_forced_cell_misses_the_rnn_by_the_second_tanh(lstm, tolerance, evidence):
    """Params seed 2, batch 4: against tanh(RNNCell) to a millionth, against RNNCell by 0.168"""
    weights, pinned, x, h, C = the_notebooks_forced_cell()
    run, plain = lstm(pinned).run(x, h, C).h, oracle.forward(rnn_of(weights), x, h).h[:, -1]
    second = np.abs(run - np.tanh(plain)).max()
    evidence.at_most("max |h - tanh(RNN)|", second, tolerance.absolute("notebook"), documented="1.2e-07")
    evidence.printed("max |h - RNN|", np.abs(run - plain).max(), "0.168")


@pytest.mark.claim("forced-gates.notebook-values")
def test_the_notebooks_forced_gates_have_the_printed_values(lstm, evidence):
    """f max 1.7e-17, i min 1.000000, o min 1.000000"""
    _, pinned, x, h, _ = the_notebooks_forced_cell()
    gates = lstm_gates(lstm, pinned, x[:, 0], h)
    evidence.printed("largest f", gates["forget"].max(), "1.7e-17")
    evidence.printed("least i", gates["input"].min(), "1.000000")
    evidence.printed("least o", gates["output"].min(), "1.000000")


@pytest.mark.claim("forced-gates.bounded")
def test_the_forced_cell_stays_below_tanh_one(lstm, draws, evidence):
    """|h| ≤ tanh 1 = 0.7616 and |h - RNN| ≤ 1 - tanh 1 = 0.2384, both attained in the limit"""
    shown, missed = [], []
    for draw in draws:
        weights, x = draw.weights("lstm", scale=8.0), draw.inputs(steps=1, scale=8.0)
        h, c = draw.start(lstm)
        run = lstm(weights.pin(**ALMOST_RNN)).run(x, h, c).h
        shown.append(np.abs(run).max())
        missed.append(np.abs(run - oracle.forward(rnn_of(weights), x, h).h[:, -1]).max())
    evidence.at_most("max |h|", max(shown), np.tanh(1.0) + 2 * lstm.eps)
    evidence.at_least("max |h|, attained", max(shown), np.tanh(1.0) - 1e-6)
    evidence.at_most("max |h - RNN|", max(missed), 1 - np.tanh(1.0) + 2 * lstm.eps)


@pytest.mark.claim("forced-gates.who-erases")
def test_the_forget_gate_erases_and_the_input_gate_cannot(lstm, draw, tolerance, evidence):
    """i = 0  ⇒  C' = f C: nothing is written, what is kept is f's;  f = 0  ⇒  C' = i C̃: the old cell is gone"""
    weights, x = draw.weights("lstm"), draw.inputs(steps=1)
    h, c = draw.start(lstm)
    truth = oracle.forward(weights, x, h, c).steps[0]
    within = tolerance.state(lstm, weights, 1)
    shut_input = lstm(weights.pin(input=-1000.0)).run(x, h, c).c
    evidence.close("i = 0: C_1 - f C_0", shut_input, truth.forget * c, within)
    evidence.at_least("i = 0: least |C_1 / C_0|", np.abs(shut_input / c).min(), 0.01)
    shut_forget = [lstm(weights.pin(forget=-1000.0)).run(x, h, start).c for start in (c, 1e3 * c)]
    evidence.close("f = 0: C_1 - i C̃", shut_forget[0], truth.input * truth.candidate, within)
    evidence.equal("f = 0: C_1 from C_0 and from 1000 C_0", shut_forget[1], shut_forget[0])


@pytest.mark.claim("forced-gates.output-gate-exposes")
def test_the_output_gate_decides_what_is_seen(lstm, draw, tolerance, evidence):
    """o = 0  ⇒  h = 0 whatever the cell holds;  o = 1  ⇒  h = tanh C"""
    weights, x = draw.weights("lstm"), draw.inputs()
    h, c = draw.start(lstm)
    hidden = lstm(weights.pin(output=-1000.0)).run(x, h, c)
    evidence.equal("o = 0: h_t", hidden.outputs, np.zeros_like(hidden.outputs))
    shown = lstm(weights.pin(output=1000.0)).run(x, h, c)
    evidence.close(
        "o = 1: h_T - tanh C_T", shown.h, np.tanh(shown.c.astype(np.float64)), tolerance.state(lstm, weights, 1)
    )


@pytest.mark.claim("forced-gates.gru-as-rnn")
def test_a_gru_that_resets_and_keeps_nothing_is_a_plain_rnn(any_gru, draw, tolerance, evidence):
    """R = 1, Z = 0  ⇒  H_t = tanh(X W_xh + H_{t-1} W_hh + b_h), over a sequence"""
    weights, x = draw.weights(any_gru.kind), draw.inputs(steps=6)
    h, _ = draw.start(any_gru)
    run = any_gru(weights.pin(reset=1000.0, update=-1000.0)).run(x, h)
    truth = oracle.forward(rnn_of(weights), x, h)
    evidence.close("H_t - RNN", run.outputs, truth.outputs, tolerance.state(any_gru, weights, 6))


@pytest.mark.claim("forced-gates.gru-as-mlp")
def test_a_gru_whose_reset_gate_is_shut_sees_the_input_alone(any_gru, draw, tolerance, evidence):
    """R = 0  ⇒  H̃ = tanh(X W_xh + b_h), the same for every H, and ∂H̃/∂H = 0"""
    rows = 64  # so many states that a reset gate which lets a little through is seen to, whatever is drawn
    weights, x = draw.weights(any_gru.kind), draw.inputs(rows, 1)
    h, _ = draw.start(any_gru, rows)
    shut = any_gru(weights.pin(reset=-1000.0, update=-1000.0))
    n = weights["candidate"]
    truth = np.tanh(x[:, 0] @ n.W_x + (n.b_x if any_gru.kind == "gru" else n.b))
    here, there = shut.run(x, h).h, shut.run(x, -h).h
    evidence.close("H̃ - tanh(X W_xh + b_h)", here, truth, tolerance.state(any_gru, weights, 1))
    # Not bit for bit: h + (1 - z) (n - h) is n to rounding.
    evidence.close("H̃ from H - H̃ from -H", here, there, tolerance.convex(any_gru))
    evidence.equal("∂H̃/∂H", shut.jacobian(x[:1], h[:1], of="h", wrt="h"), np.zeros((7, 7)))


@pytest.mark.claim("forced-gates.reset-does-not-forget")
def test_a_shut_reset_gate_forgets_nothing_that_the_update_gate_keeps(any_gru, draw, tolerance, evidence):
    """R = 0, Z = 1  ⇒  H_t = H_{t-1}: the reset gate acts on the candidate alone"""
    weights, x = draw.weights(any_gru.kind), draw.inputs(steps=1)
    h, _ = draw.start(any_gru)
    kept = any_gru(weights.pin(reset=-1000.0, update=1000.0)).run(x, h).h
    evidence.close("H_1 - H_0", kept, h, within=2 * any_gru.eps)


@pytest.mark.claim("forced-gates.reset-forgets")
def test_the_reset_gate_controls_how_much_of_the_state_is_forgotten(any_gru, draw, evidence):
    """R = 0  ⇒  H_t does not depend on H_{t-1}, with an update gate of its own"""
    weights, x = draw.weights(any_gru.kind).pin(reset=-1000.0), draw.inputs(steps=1)
    h, _ = draw.start(any_gru)
    evidence.equal("H_1 from H_0 - H_1 from -H_0", any_gru(weights).run(x, h).h, any_gru(weights).run(x, -h).h)
