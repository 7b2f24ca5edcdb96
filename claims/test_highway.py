"""The gradient highway: what multiplies the error on its way back along the memory, and what the other routes add.

N §4.a, §4.b, §7.d, takeaways, exercise 1. E04, E06, E21, E41, E42. A black box shows its highway in two ways: with
recurrent weights of zero the gates cannot depend on the state, and with dense ones they can be frozen at what they saw.
"""

import numpy as np
import pytest
from scipy.special import expit

from fixtures.probes import off_diagonal, step_factors
from reference import notebook, oracle


def gate_values(weights, gate, x):
    """A gate that sees the input alone, for inputs (1, T, D): (T, H)."""
    return expit(x[0] @ weights[gate].W_x + weights[gate].b)


@pytest.mark.claim("highway.lstm-product")
@pytest.mark.parametrize("steps", [1, 12, 60])
def test_without_recurrent_weights_the_jacobian_is_the_product_of_the_forget_gates(
    any_lstm, steps, draw, tolerance, evidence
):
    """W_h = 0  ⇒  ∂C_T/∂C_0 = diag(∏ f_t)"""
    weights, x = draw.weights(any_lstm.kind).without_recurrence(), draw.inputs(1, steps)
    h, c = draw.start(any_lstm, 1)
    J = any_lstm(weights).jacobian(x, h, c, of="c", wrt="c")
    product = gate_values(weights, "forget", x).prod(0)
    evidence.close_gradient(
        "∂C_T/∂C_0 - diag(∏ f_t)", J, np.diag(product), tolerance.gradient(any_lstm, weights, steps)
    )
    evidence.equal("∂C_T/∂C_0 off the diagonal", off_diagonal(J), np.zeros((7, 7)))


@pytest.mark.claim("highway.gru-product")
@pytest.mark.parametrize("steps", [1, 12, 60])
def test_without_recurrent_weights_the_jacobian_is_the_product_of_the_kept_shares(
    any_gru, steps, draw, tolerance, evidence
):
    """W_h = 0  ⇒  ∂h_T/∂h_0 = diag(∏ z_t) where z keeps, diag(∏ (1 - z_t)) where it writes"""
    weights, x = (
        draw.weights(any_gru.kind).without_recurrence().change("candidate", b_h=np.zeros_like),
        draw.inputs(1, steps),
    )
    h, _ = draw.start(any_gru, 1)
    J = any_gru(weights).jacobian(x, h, of="h", wrt="h")
    product = gate_values(weights, "update", x).prod(0)
    evidence.close_gradient(
        "∂h_T/∂h_0 - diag(∏ kept share)", J, np.diag(product), tolerance.gradient(any_gru, weights, steps)
    )
    evidence.equal("∂h_T/∂h_0 off the diagonal", off_diagonal(J), np.zeros((7, 7)))


@pytest.mark.claim("highway.no-matrix-on-it")
def test_along_a_run_with_dense_weights_only_gates_multiply_the_highway(gated, draw, tolerance, evidence):
    """∂C_t/∂C_{t-1} = diag(f_t) and ∂h_t/∂h_{t-1} = diag(kept share) for the gate values of the run: no W, no tanh′"""
    weights, x = draw.weights(gated.kind), draw.inputs(1, 12)
    h, c = draw.start(gated, 1)
    gates = oracle.forward(weights, x, h, c).gate("forget" if gated.has_cell_state else "update")[0]
    factors = step_factors(gated, weights, x, h, c)
    within = tolerance.gradient(gated, weights, 12)
    evidence.close_gradient("factor of each step - gate", factors, gates, within)
    evidence.close_gradient("product of the factors - ∏ gates", factors.prod(0), gates.prod(0), within)
    evidence.at_most("largest factor", factors.max(), 1.0)


@pytest.mark.claim("highway.whole-jacobian")
@pytest.mark.parametrize("steps", [1, 12])
def test_with_dense_weights_the_whole_jacobian_is_the_oracles(cell, steps, draw, tolerance, evidence):
    """∂(h, C)_T / ∂(h, C)_0, the routes through gates and candidate included"""
    weights, x = draw.weights(cell.kind, scale=1.5), draw.inputs(1, steps)
    h, c = draw.start(cell, 1)
    tape, loaded, states = oracle.forward(weights, x, h, c), cell(weights), "hc" if cell.has_cell_state else "h"
    scale = max(np.abs(oracle.jacobian(tape, of, wrt)).max() for of in states for wrt in states)
    for of in states:
        for wrt in states:
            J = loaded.jacobian(x, h, c, of=of, wrt=wrt)
            truth = oracle.jacobian(tape, of, wrt)
            evidence.close_gradient(f"∂{of}_T/∂{wrt}_0", J, truth, tolerance.gradient(cell, weights, steps), scale)


@pytest.mark.claim("highway.decomposition")
def test_the_jacobian_is_the_highway_and_what_comes_through_the_hidden_state(lstm, draw, tolerance, evidence):
    """∂C_T/∂C_0 = diag(∏ f_t) + Σ over the routes that leave the cell through h, chained step by step"""
    weights, x = draw.weights("lstm").pin(forget=2.0), draw.inputs(1, 12)
    h, c = draw.start(lstm, 1)
    loaded, factors = lstm(weights), step_factors(lstm, weights, x, h, c)
    whole, at = loaded.jacobian(x, h, c, of="c", wrt="c"), (h, c)
    direct, left = np.eye(7), np.zeros((7, 7))  # ∂C_t/∂C_0 along the cell alone, and ∂C_t/∂C_0 by way of h
    shown = np.zeros((7, 7))  # ∂h_t/∂C_0
    for t in range(12):
        step = x[:, t : t + 1]
        CC, Ch, hC, hh = (loaded.jacobian(step, *at, of=of, wrt=wrt) for of in "ch" for wrt in "ch")
        left, shown = CC @ left + Ch @ shown, hC @ (direct + left) + hh @ shown
        direct = np.diag(factors[t]) @ direct
        run = loaded.run(step, *at)
        at = (run.h, run.c)
    within = tolerance.gradient(lstm, weights, 12)
    evidence.close_gradient("∂C_T/∂C_0 - (highway + indirect)", direct + left, whole, within)
    evidence.at_least("largest indirect entry", np.abs(left).max(), 0.01)


@pytest.mark.claim("highway.closed-output-gate")
def test_a_shut_output_gate_closes_the_lstms_indirect_route(lstm, draw, tolerance, evidence):
    """o = 0 at every step  ⇒  ∂C_T/∂C_0 = diag(∏ f_t), with dense recurrent weights"""
    weights, x = draw.weights("lstm").pin(output=-1000.0), draw.inputs(1, 12)
    h, c = draw.start(lstm, 1)
    J = lstm(weights).jacobian(x, h, c, of="c", wrt="c")
    product = oracle.forward(weights, x, h, c).gate("forget")[0].prod(0)
    evidence.close_gradient("∂C_T/∂C_0 - diag(∏ f_t)", J, np.diag(product), tolerance.gradient(lstm, weights, 12))
    evidence.equal("∂C_T/∂C_0 off the diagonal", off_diagonal(J), np.zeros((7, 7)))


@pytest.mark.claim("highway.gru-route-stays-open")
def test_a_shut_reset_gate_leaves_the_grus_indirect_route_open(any_gru, draw, tolerance, evidence):
    """r = 0: the state still reaches the next one through W_hz; with W_hz = 0 too, ∂h_T/∂h_0 is the highway alone"""
    weights, x = draw.weights(any_gru.kind).pin(reset=-1000.0), draw.inputs(1, 12)
    h, _ = draw.start(any_gru, 1)
    J = any_gru(weights).jacobian(x, h, of="h", wrt="h")
    scale = np.abs(np.diag(J)).max()
    evidence.at_least("largest entry off the diagonal, relative", np.abs(off_diagonal(J)).max() / scale, 0.01)
    blind = weights.without_recurrence("update")
    J = any_gru(blind).jacobian(x, h, of="h", wrt="h")
    product = oracle.forward(blind, x, h).gate("update")[0].prod(0)
    evidence.close_gradient(
        "W_hz = 0: ∂h_T/∂h_0 - diag(∏ z_t)", J, np.diag(product), tolerance.gradient(any_gru, blind, 12)
    )


@pytest.mark.claim("highway.per-unit")
def test_the_forget_gate_closes_the_highway_unit_by_unit(any_lstm, draw, evidence):
    """A unit whose forget gate shuts loses its gradient; its neighbours keep theirs. An RNN has no such switch."""
    pull = np.where(np.arange(7) % 2, -8.0, 8.0)
    weights = draw.weights(any_lstm.kind).without_recurrence().pin(forget=pull)
    h, c = draw.start(any_lstm, 1)
    kept = np.diag(any_lstm(weights).jacobian(draw.inputs(1, 20), h, c, of="c", wrt="c"))
    evidence.at_least("least |∂C_T/∂C_0| of an open unit", np.abs(kept[pull > 0]).min(), 0.5)
    evidence.at_most("largest |∂C_T/∂C_0| of a shut unit", np.abs(kept[pull < 0]).max(), 1e-20)


@pytest.mark.claim("highway.rnn-product")
def test_the_rnns_jacobian_is_a_product_of_matrices(rnn, draw, tolerance, evidence):
    """∂h_T/∂h_0 = ∏ diag(1 - h_t²) W, on random weights and on the notebook's"""
    weights, x = draw.weights("rnn", scale=1.5), draw.inputs(1, 12)
    h, _ = draw.start(rnn, 1)
    J, product = rnn(weights).jacobian(x, h, of="h", wrt="h"), rnn_product(rnn, weights, x, h)
    evidence.close_gradient("∂h_T/∂h_0 - product", J, product, tolerance.gradient(rnn, weights, 12))
    weights, x, h = the_notebooks_rnn()
    miss = np.abs(rnn(weights).jacobian(x, h, of="h", wrt="h") - rnn_product(rnn, weights, x, h)).max()
    allowed = tolerance.absolute("notebook-product")
    evidence.at_most("the notebook's: max |autograd - product|", miss, allowed, documented="4.2e-09")


def rnn_product(rnn, weights, x, h):
    """J = J_T … J_1 with J_t = diag(1 - h_t²) W, at the states that the subject visits."""
    W, J = weights["candidate"].W_h.T, np.eye(h.shape[1])
    for state in rnn(weights).run(x, h).outputs[0].astype(np.float64):
        J = np.diag(1 - state**2) @ W @ J
    return J


def the_notebooks_rnn():
    """N §4.b: weights of seed 3, X (1, 12, 6), h_0 (1, 16) from the stream of §4.a."""
    stream = notebook.Stream(0)
    x, _, h = stream.randn(1, 12, 6), stream.randn(1, 16), stream.randn(1, 16)
    return notebook.rnn_weights(6, 16, seed=3), x, h


def the_notebooks_lstm(bias):
    """N §4.a: weights of seed 3 with a forget bias, X (1, 12, 6), h_0 = 0 and C_0 (1, 16)."""
    stream = notebook.Stream(0)
    x, c = stream.randn(1, 12, 6), stream.randn(1, 16)
    return notebook.lstm_weights(6, 16, seed=3, forget_bias=bias), x, np.zeros((1, 16)), c


@pytest.mark.claim("highway.lesson-product")
def test_the_lessons_product_is_the_jacobian(rnn, draw, evidence):
    """∂h_t/∂h_k = ∏ Wᵀ diag(f′(h_{i-1})), read as a Jacobian or as its transpose, the factors in either order"""
    weights, x = draw.weights("rnn", scale=1.5), draw.inputs(1, 5)
    h, _ = draw.start(rnn, 1)
    J, run = rnn(weights).jacobian(x, h, of="h", wrt="h"), rnn(weights).run(x, h).outputs[0].astype(np.float64)
    states, W = np.concatenate([h, run[:-1]]), weights["candidate"].W_h.T
    factors = [W.T @ np.diag(1 - np.tanh(state) ** 2) for state in states]
    readings = [np.linalg.multi_dot(order) for order in (factors, factors[::-1])]
    misses = [np.abs(reading - truth).max() for reading in readings for truth in (J, J.T)]
    evidence.at_most("least max |∂h_t/∂h_k - product| of four readings", min(misses), 1e-5)


@pytest.mark.claim("highway.notebook-lstm")
def test_the_notebooks_highway_has_the_printed_products(lstm, tolerance, evidence):
    """Params seed 3, forget bias 1, 12 steps: the first four ∏ f_t, and the route alone against them"""
    weights, x, h, c = the_notebooks_lstm(1.0)
    product = step_factors(lstm, weights, x, h, c).prod(0)
    for unit, printed in enumerate(("0.0134", "0.0258", "0.0409", "0.0300")):
        evidence.printed(f"∏ f_t of unit {unit}", product[unit], printed)
    miss = np.abs(product - oracle.forward(weights, x, h, c).gate("forget")[0].prod(0)).max()
    evidence.at_most(
        "max |∂C_T/∂C_0 along the cell - ∏ f_t|", miss, tolerance.absolute("notebook"), documented="7.5e-09"
    )


@pytest.mark.claim("highway.notebook-gru")
def test_the_notebooks_gru_highway_and_whole_jacobian_have_the_printed_sizes(gru_before, tolerance, evidence):
    """Params seed 5, update bias -1, 12 steps: ∏ (1 - z_t) to a millionth; norms of the whole Jacobian"""
    stream = notebook.Stream(0)
    x, h = stream.randn(1, 12, 6), stream.randn(1, 16)
    weights = notebook.deck_gru_weights(6, 16, seed=5, update_bias=-1.0)
    product = step_factors(gru_before, weights, x, h).prod(0)
    truth = oracle.forward(weights, x, h).gate("update")[0].prod(0)
    allowed = tolerance.absolute("notebook")
    evidence.at_most("max |route - ∏ (1 - z_t)|", np.abs(product - truth).max(), allowed, documented="1.1e-08")
    J = gru_before(weights).jacobian(x, h, of="h", wrt="h")
    evidence.printed("max |diag - ∏ (1 - z_t)|", np.abs(np.diag(J) - product).max(), "4.0e-02")
    evidence.printed("norm of the diagonal", np.linalg.norm(np.diag(J)), "0.177")
    evidence.printed("norm off the diagonal", np.linalg.norm(off_diagonal(J)), "0.248")


BIASES = (0.0, 1.0, 2.0, 3.0, 5.0)


def the_notebooks_jacobian(lstm, bias):
    """The whole ∂C_T/∂C_0 (16, 16) of N's table at this forget bias, and ∏ f_t (16,)."""
    weights, x, h, c = the_notebooks_lstm(bias)
    return lstm(weights).jacobian(x, h, c, of="c", wrt="c"), step_factors(lstm, weights, x, h, c).prod(0)


def the_notebooks_jacobians(lstm):
    """The same for each forget bias of the table."""
    return {bias: the_notebooks_jacobian(lstm, bias) for bias in BIASES}


@pytest.mark.claim("highway.jacobian-table")
def test_the_notebooks_jacobian_table(lstm, evidence):
    """The whole ∂C_T/∂C_0 over 12 steps by forget bias: norms on and off the diagonal, max |diag - ∏ f_t|"""
    printed = {
        0.0: ("0.50", "0.004", "0.017", "2.2e-03"),
        1.0: ("0.73", "0.147", "0.433", "4.4e-02"),
        2.0: ("0.88", "1.080", "1.960", "1.9e-01"),
        3.0: ("0.95", "2.471", "3.694", "3.9e-01"),
        5.0: ("0.99", "4.000", "5.443", "5.6e-01"),
    }
    on, off = [], []
    for bias, (J, product) in the_notebooks_jacobians(lstm).items():
        gate, diagonal, rest, apart = printed[bias]
        on.append(np.linalg.norm(np.diag(J)))
        off.append(np.linalg.norm(off_diagonal(J)))
        evidence.printed(f"σ(b), b = {bias:g}", expit(bias), gate)
        evidence.printed(f"norm of the diagonal, b = {bias:g}", on[-1], diagonal)
        evidence.printed(f"norm off the diagonal, b = {bias:g}", off[-1], rest)
        evidence.printed(f"max |diag - ∏ f_t|, b = {bias:g}", np.abs(np.diag(J) - product).max(), apart)
    evidence.curve("jacobian-table", "on the diagonal", BIASES, on, [(b, float(p[1])) for b, p in printed.items()])
    evidence.curve("jacobian-table", "off the diagonal", BIASES, off, [(b, float(p[2])) for b, p in printed.items()])


@pytest.mark.claim("highway.off-diagonal-norm")
def test_off_the_diagonal_the_norm_is_larger(lstm, evidence):
    """‖∂C_T/∂C_0 off the diagonal‖_F > ‖its diagonal‖ at every forget bias: 240 entries against 16"""
    for bias, (J, _) in the_notebooks_jacobians(lstm).items():
        ratio = np.linalg.norm(off_diagonal(J)) / np.linalg.norm(np.diag(J))
        evidence.at_least(f"off / on the diagonal, b = {bias:g}", ratio, 1.0)


@pytest.mark.claim("highway.off-diagonal-entries")
def test_entry_for_entry_the_indirect_terms_are_as_large_as_the_diagonal(lstm, evidence):
    """Root mean square off the diagonal ≥ that on the diagonal, at every forget bias"""
    for bias, (J, _) in the_notebooks_jacobians(lstm).items():
        evidence.at_least(f"per entry, off / on the diagonal, b = {bias:g}", per_entry(J), 1.0)


@pytest.mark.claim("highway.diagonal-entries")
def test_entry_for_entry_the_diagonal_is_larger_once_the_gate_opens(lstm, evidence):
    """Root mean squares off and on the diagonal: 0.75 to 1 at b = 1, and ever less, down to 0.35 at b = 5"""
    ratios = [per_entry(J) for J, _ in the_notebooks_jacobians(lstm).values()]
    for bias, ratio, bound in zip(BIASES[1:], ratios[1:], (0.8, 0.5, 0.4, 0.36), strict=True):
        evidence.at_most(f"per entry, off / on the diagonal, b = {bias:g}", ratio, bound)
    evidence.at_most("largest rise of that from one bias to the next", np.diff(ratios).max(), 0.0)


def per_entry(J):
    """Root mean square of the entries off the diagonal over that of the diagonal's."""
    units = len(J)
    return np.sqrt((off_diagonal(J) ** 2).sum() / (units * units - units)) / np.sqrt((np.diag(J) ** 2).mean())


@pytest.mark.claim("highway.guaranteed-floor")
@pytest.mark.parametrize("bias", BIASES)
def test_the_product_of_the_gates_is_a_floor_on_every_diagonal_entry(lstm, bias, evidence):
    """(∂C_T/∂C_0)_kk ≥ ∏ f_t,k for every unit k"""
    J, product = the_notebooks_jacobian(lstm, bias)
    evidence.at_least("least (∂C_T/∂C_0)_kk / ∏ f_t,k", (np.diag(J) / product).min(), 1 - 64 * lstm.eps)


@pytest.mark.claim("highway.no-floor")
def test_indirect_terms_carry_diagonal_entries_below_the_product(lstm, evidence):
    """Of 16 diagonal entries 7, 8, 6, 6, 6 lie below ∏ f_t for b = 0, 1, 2, 3, 5; four and one are negative at 0, 1"""
    for (bias, (J, product)), below in zip(the_notebooks_jacobians(lstm).items(), (7, 8, 6, 6, 6), strict=True):
        evidence.exactly(f"entries below ∏ f_t, b = {bias:g}", int((np.diag(J) < product).sum()), below)
        negative = {0.0: 4, 1.0: 1}.get(bias)
        if negative is not None:
            evidence.exactly(f"negative entries, b = {bias:g}", int((np.diag(J) < 0).sum()), negative)
    evidence.at_most("least (∂C_T/∂C_0)_kk - ∏ f_t,k, b = 5", (np.diag(J) - product).min(), -0.4)


@pytest.mark.claim("highway.three-objects")
def test_the_notebooks_rnn_norm(rnn, evidence):
    """‖∂h_T/∂h_0‖_F of the RNN over 12 steps"""
    weights, x, h = the_notebooks_rnn()
    evidence.printed("‖∂h_T/∂h_0‖_F of the RNN", np.linalg.norm(rnn(weights).jacobian(x, h, of="h", wrt="h")), "0.0348")


@pytest.mark.claim("highway.three-objects")
def test_the_notebooks_lstm_norms(lstm, evidence):
    """‖∏ f_t‖, the highway alone, and ‖diag ∂C_T/∂C_0‖, the whole diagonal, at forget bias 1"""
    J, product = the_notebooks_jacobian(lstm, 1.0)
    evidence.printed("‖∏ f_t‖ of the LSTM", np.linalg.norm(product), "0.1049")
    evidence.printed("‖diag ∂C_T/∂C_0‖ of the LSTM", np.linalg.norm(np.diag(J)), "0.147")


@pytest.mark.claim("highway.set-by-the-bias-alone")
def test_no_weight_matrix_affects_the_highway(lstm, evidence):
    """∏ f_t over 60 steps with random weights = σ(0)^60, since only the bias sets it"""
    stream = notebook.Stream(0)
    x, _, c = stream.randn(1, 60, 8), stream.randn(32), stream.randn(1, 32) * np.float32(0.5)
    product = step_factors(lstm, notebook.lstm_weights(8, 32, seed=0), x, np.zeros((1, 32)), c).prod(0)
    evidence.close_gradient("‖∏ f_t‖ - √H σ(0)^60", np.linalg.norm(product), np.sqrt(32) * 0.5**60, within=0.1)
