"""The constant error carousel: with the forget gate at 1 and the input gate at 0 the cell state stays what it is.

N §3 and, for the GRU's state, §7.a; the lesson's quiz (L). E01, E02, E45. The gates are forced through their biases, as
in the notebook; the recurrent weights stay dense.
"""

import numpy as np
import pytest

from fixtures.probes import OPEN, SHUT, gru_gates, lstm_gates
from reference import notebook
from reference.weights import GATES, Block, Weights

LITERAL = {"forget": 1000.0, "input": -1000.0}
"""Pre-activations at which σ is exactly 1 and exactly 0 in both number formats."""


@pytest.mark.claim("carousel.preserves-cell")
@pytest.mark.parametrize("steps", [1, 1000])
@pytest.mark.parametrize("size", [1.0, 1e-10, 0.0])
def test_gates_of_exactly_one_and_zero_keep_the_cell(lstm, steps, size, draw, evidence):
    """f = 1, i = 0  ⇒  C_t = C_0 at every t, bit for bit, whatever the input says and however small C_0 is"""
    weights = draw.weights("lstm").pin(**LITERAL)
    h, start = draw.start(lstm)
    start = (size * start).astype(lstm.dtype)
    end = lstm(weights).run(draw.inputs(3, steps, scale=3.0), h, start).c
    evidence.equal("C_T - C_0", end, start)


@pytest.mark.claim("carousel.notebook-thousand-steps")
def test_the_notebooks_thousand_random_inputs_leave_the_cell_bit_identical(lstm, evidence):
    """Params seed 2, b_f + 40, b_i - 40, C_0 = randn(1, 8), X = randn(1, 1000, 4), set_seed(0)"""
    weights, start, x = the_notebooks_carousel()
    run = lstm(weights).run(x, np.zeros((1, 8)), start)
    if lstm.dtype == "float32":
        evidence.equal("C_T - C_0", run.c, start.astype(np.float32))
    states = np.concatenate([np.zeros((1, 8)), run.outputs[0, :-1]])
    gates = lstm_gates(lstm, weights, x[0], states)
    evidence.printed("least f", gates["forget"].min(), "1.000000")
    evidence.printed("largest i", gates["input"].max(), "5.1e-17")


def the_notebooks_carousel():
    """N §3: the weights with gates at ±40, C_0 (1, 8) and X (1, 1000, 4)."""
    stream = notebook.Stream(0)
    weights = notebook.lstm_weights(4, 8, seed=2).pin(forget=OPEN, input=SHUT)
    return weights, stream.randn(1, 8), stream.randn(1, 1000, 4)


@pytest.mark.claim("carousel.forty-is-one")
def test_a_pre_activation_of_forty_opens_a_gate_exactly(lstm, evidence):
    """σ(40) = 1. Rounded to nearest, σ(a) is 1 from ln(2/eps) upwards, 16.64 and 36.74; a kernel may need ln(4/eps)."""
    first, last = np.log(2 / lstm.eps), np.log(4 / lstm.eps)
    for a in (40.0, last + 0.1):
        evidence.equal(f"σ({a:.4g}) - 1", forced(lstm, "forget", a), np.ones(1))
    evidence.at_most(f"σ({first - 0.1:.4g})", forced(lstm, "forget", first - 0.1).item(), 1 - lstm.eps / 4)


@pytest.mark.claim("carousel.minus-forty-is-zero")
def test_a_pre_activation_of_minus_forty_shuts_a_gate_exactly(lstm, evidence):
    """σ(-40) = 0"""
    evidence.equal("σ(-40)", forced(lstm, "input", -40.0), np.zeros(1))


@pytest.mark.claim("carousel.minus-forty-is-small")
def test_a_pre_activation_of_minus_forty_leaves_a_gate_open_by_4e_18(lstm, evidence):
    """σ(-40) = 4.248e-18; zero only where exp overflows, certainly at -1000"""
    evidence.printed("σ(-40)", forced(lstm, "input", -40.0).item(), "4.248e-18")
    evidence.equal("σ(-1000)", forced(lstm, "input", -1000.0), np.zeros(1))


def forced(lstm, gate, pre_activation):
    """The value of one gate of one unit whose pre-activation is forced, as the cell state shows it."""
    zero = np.zeros((1, 1))
    blank = Weights("lstm", {g: Block(zero, zero, np.zeros(1), np.zeros(1)) for g in GATES["lstm"]})
    return lstm_gates(lstm, blank.pin(**{gate: pre_activation}), zero, zero)[gate][0]


@pytest.mark.claim("carousel.preserved-indefinitely")
@pytest.mark.parametrize("size", [0.0, 1e-10])
def test_gates_at_plus_and_minus_forty_preserve_every_cell(lstm, size, evidence):
    """b_f + 40, b_i - 40  ⇒  C_1000 = C_0, for every C_0"""
    weights, _, x = the_notebooks_carousel()
    start = np.full((1, 8), size).astype(lstm.dtype)
    evidence.equal(f"C_1000 - C_0, C_0 = {size:g}", lstm(weights).run(x, np.zeros((1, 8)), start).c, start)


@pytest.mark.claim("carousel.drift-at-forty")
def test_gates_at_plus_and_minus_forty_let_the_cell_drift_no_further_than_they_leak(lstm, evidence):
    """|C_1000 - C_0| ≤ Σ i_t |C̃_t| ≤ 1000 max i, for C_0 = 0, 1e-10 and the notebook's own"""
    weights, own, x = the_notebooks_carousel()
    for name, start in {"0": np.zeros((1, 8)), "1e-10": np.full((1, 8), 1e-10), "the notebook's": own}.items():
        start = start.astype(lstm.dtype)
        drift = np.abs(lstm(weights).run(x, np.zeros((1, 8)), start).c - start).max()
        evidence.at_most(f"max |C_1000 - C_0|, C_0 {name}", drift, 1000 * 5.15e-17)
        if name != "the notebook's":
            evidence.at_least(f"max |C_1000 - C_0| above 0, C_0 {name}", drift, 1e-17)


@pytest.mark.claim("carousel.error-is-constant")
@pytest.mark.parametrize("steps", [1, 100])
def test_the_error_flowing_back_is_constant(lstm, steps, draw, evidence):
    """f = 1, i = 0  ⇒  ∂C_T/∂C_0 = I, with dense recurrent weights"""
    weights = draw.weights("lstm").pin(**LITERAL)
    h, c = draw.start(lstm, 1)
    J = lstm(weights).jacobian(draw.inputs(1, steps), h, c, of="c", wrt="c")
    evidence.equal("∂C_T/∂C_0 - I", J, np.eye(7))


@pytest.mark.claim("carousel.leak-bound")
@pytest.mark.parametrize("leak", [1e-1, 1e-2, 1e-4])
def test_nearly_open_and_nearly_shut_gates_keep_nearly_everything(lstm, leak, draw, tolerance, evidence):
    """f = 1 - ε, i = ε  ⇒  |C_T - C_0| ≤ (1 - f^T) |C_0| + i (1 + f + … + f^{T-1})"""
    steps, logit = 50, np.log(1 / leak - 1)
    weights = draw.weights("lstm").without_recurrence("forget", "input")
    for gate, a in (("forget", logit), ("input", -logit)):
        weights = weights.change(gate, W_x=np.zeros_like, b_x=lambda b, a=a: np.full_like(b, a), b_h=np.zeros_like)
    h, start = draw.start(lstm)
    end = lstm(weights).run(draw.inputs(3, steps), h, start).c
    f = 1 - leak
    bound = (1 - f**steps) * np.abs(start) + leak * (1 - f**steps) / (1 - f)
    rounding = tolerance.state(lstm, weights, steps)
    evidence.at_most("largest |C_T - C_0| - bound", (np.abs(end - start) - bound).max(), rounding)
    evidence.at_most(
        "largest |C_T - C_0| / (1 + |C_0|)", (np.abs(end - start) / (1 + np.abs(start))).max(), 1 - f**steps + rounding
    )


@pytest.mark.claim("carousel.deck-gru-is-frozen")
@pytest.mark.parametrize("reset", [0.0, OPEN, SHUT])
def test_the_decks_gru_with_a_shut_update_gate_is_frozen(deck_gru, reset, evidence):
    """z = 0  ⇒  h_t = h_{t-1}, whatever the input and whatever r: one step of the notebook's batch, z at -40"""
    weights, h, x = the_notebooks_gru()
    weights = weights.pin(update=OPEN, reset=reset)
    run = deck_gru(weights).run(x, h)
    if deck_gru.dtype == "float32":
        evidence.equal("h_1 - h_0", run.h, h)
    evidence.at_most("max |h_1 - h_0|", np.abs(run.h - h).max(), 1.2e-16)
    literal = deck_gru(weights.pin(update=1000.0)).run(np.repeat(x, 1000, axis=1), h)
    evidence.equal("h_1000 - h_0, z exactly 0", literal.h, h.astype(deck_gru.dtype))


def the_notebooks_gru():
    """N §7.a: the deck's weights of seed 0, h (3, 8) and x (3, 1, 4)."""
    stream = notebook.Stream(0)
    for shape in [(5, 4), (5, 8), (5, 8)]:
        stream.randn(*shape)
    h, x = stream.randn(3, 8), stream.randn(3, 4)
    return notebook.deck_gru_weights(4, 8, seed=0), h, x[:, None]


@pytest.mark.claim("carousel.deck-gru-printed")
def test_the_notebooks_forced_gru_gates_are_the_printed_ones(deck_gru, evidence):
    """b_r + 40, b_z - 40: r min 1.000000, z max 6.7e-17"""
    weights, h, x = the_notebooks_gru()
    # z writes as much of a candidate pinned to 1 as a state of 0 then shows; h is seen by the gates as a constant.
    z = []
    for k in range(3):
        seen = weights.pin(update=OPEN, reset=OPEN, candidate=OPEN).change(
            "update", b_x=lambda b, k=k: b + h[k] @ weights["update"].W_h
        )
        z.append(deck_gru(seen.without_recurrence("update")).run(x[k : k + 1], np.zeros((1, 8))).h[0])
    evidence.printed("largest z", np.max(z), "6.7e-17")
    r = gru_gates(deck_gru, weights.pin(update=OPEN, reset=OPEN), x[:, 0], h)["reset"]
    evidence.at_least("least r", r.min(), 1 - 8 * deck_gru.eps, documented="1.000000")


@pytest.mark.claim("carousel.gru-frozen-to-rounding")
def test_pytorchs_gru_with_an_open_update_gate_keeps_its_state_to_rounding(gru, draw, evidence):
    """z = 1  ⇒  |h_1000 - h_0| ≤ 1000 roundings of h - n and n + (h - n)"""
    weights, x = draw.weights("gru").pin(update=1000.0), draw.inputs(3, 1000)
    h, _ = draw.start(gru)
    run = gru(weights).run(x, h)
    evidence.at_most("max |h_1 - h_0|", np.abs(gru(weights).run(x[:, :1], h).h - h).max(), 2 * gru.eps)
    evidence.at_most("max |h_1000 - h_0|", np.abs(run.h - h).max(), 100 * gru.eps)


@pytest.mark.claim("carousel.same-gates-opposite-outcome")
@pytest.mark.parametrize("update", ["writes", "keeps"])
def test_a_reset_of_one_and_an_update_of_zero_freeze_one_convention_and_free_the_other(
    any_gru, update, draw, tolerance, evidence
):
    """r = 1, z = 0: where z writes, h' = h; where z keeps, h' = tanh(W x + U h + b)"""
    weights, x = draw.weights(any_gru.kind).pin(reset=1000.0), draw.inputs(steps=1)
    h, _ = draw.start(any_gru)
    n = weights["candidate"]
    plain = np.tanh(x[:, 0] @ n.W_x + h @ n.W_h + n.b)
    within = tolerance.state(any_gru, weights, 1)
    if update == "writes":
        run = any_gru(weights.pin(update=1000.0)).run(x, h).h  # z = 0 in the deck's labels is 1 in canonical ones
        evidence.close("h_1 - h_0", run, h, within)
    else:
        run = any_gru(weights.pin(update=-1000.0)).run(x, h).h
        evidence.close("h_1 - tanh(W x + U h + b)", run, plain, within)
    evidence.at_least("max |h_0 - tanh(W x + U h + b)|", np.abs(h - plain).max(), 0.1)


@pytest.mark.claim("carousel.gru-frozen-for-every-state")
@pytest.mark.parametrize("start", ["zero", "1e-12"])
def test_z_at_minus_forty_freezes_every_state_of_the_decks_gru(deck_gru, start, evidence):
    """b_z - 40  ⇒  h_1000 = h_0, also for h_0 = 0 and 1e-12"""
    weights, _, x = the_notebooks_gru()
    h = np.full((3, 8), {"zero": 0.0, "1e-12": 1e-12}[start]).astype(deck_gru.dtype)
    run = deck_gru(weights.pin(reset=OPEN, update=OPEN)).run(np.repeat(x, 1000, axis=1), h)
    evidence.equal("h_1000 - h_0", run.h, h)
