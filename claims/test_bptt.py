"""Back-propagation through time: the product of step Jacobians, the sum over steps, and what reaches the far ones.

N review; L §1; W «LSTM Overview», «The Building Blocks». E23, E34, E46; X07, X15. In inputs that are one-hot in time,
x_t = e_t, each step has a row of W_x to itself, and a black box shows what that step alone contributes.
"""

import numpy as np
import pytest

from fixtures.probes import off_diagonal
from reference import bptt, oracle
from reference.weights import Block, Weights


def own_rows(steps):
    """Inputs (1, T, T) in which step t shows the t-th symbol and no other step does."""
    return np.eye(steps)[None]


def visited(rnn, weights, x, h):
    """The states h_1 … h_T (T, H) of one sequence, as the subject visits them."""
    return rnn(weights).run(x, h).outputs[0].astype(np.float64)


def jacobians(rnn, weights, x, h, at):
    """∂h_T/∂h_0 of a black box for each T in `at`, all through one forward pass."""
    units = h.shape[1]
    pulls = []
    for T in at:
        pull = np.zeros((units, x.shape[1], units))
        pull[:, T - 1] = np.eye(units)
        pulls.append({"outputs": pull})
    copies = [np.repeat(array, units, axis=0) for array in (x, h)]
    return [pulled.h for pulled in rnn(weights).gradients(*copies, None, *pulls)]


AT = (1, 5, 20)
"""The numbers of steps over which a bound is tried."""


def norm(J):
    """The spectral norm of a matrix: by how much it lengthens a vector at most."""
    return np.linalg.norm(J, 2)


@pytest.mark.claim("bptt.one-factor-a-step")
def test_going_back_one_more_step_multiplies_by_one_more_jacobian(rnn, draw, tolerance, evidence):
    """∂h_T/∂h_{T-n} = J_T J_{T-1} … J_{T-n+1}, J_t = diag(1 - h_t²) W: n factors, the same W in each"""
    weights, x, steps = draw.weights("rnn", scale=1.5), draw.inputs(1, 8), 8
    h, _ = draw.start(rnn, 1)
    loaded, states = rnn(weights), np.concatenate([h, visited(rnn, weights, x, h)])
    product = np.eye(7)
    for n in range(1, steps + 1):
        t, within = steps - n, tolerance.gradient(rnn, weights, n)
        own = loaded.jacobian(x[:, t : t + 1], states[None, t], of="h", wrt="h")
        formula = bptt.step_jacobian(weights, states[t + 1])
        evidence.close_gradient("J_t - diag(1 - h_t²) W", own, formula, within, at=f"t = {t}")
        product = product @ own
        back = loaded.jacobian(x[:, t:], states[None, t], of="h", wrt="h")
        evidence.close_gradient("∂h_T/∂h_{T-n} - product of n factors", back, product, within, at=f"n = {n}")


def even_kernel():
    """W = 0.4 in every entry, 7 units: no entry of a step Jacobian reaches 1, yet σ_max(W) = 2.8."""
    zero = np.zeros(7)
    return Weights("rnn", {"candidate": Block(np.eye(7), np.full((7, 7), 0.4), zero, zero)})


@pytest.mark.claim("bptt.shrinks-for-every-matrix")
def test_the_product_shrinks_because_the_derivative_of_tanh_is_at_most_one(rnn, evidence):
    """tanh′ ≤ 1 and every entry of J_t below 1  ⇒  ‖J_T … J_1‖ falls with T; at rest, h = 0, each J_t is W itself"""
    weights, rest = even_kernel(), np.zeros((1, 7))
    one, ten = (norm(J) for J in jacobians(rnn, weights, np.zeros((1, 10, 7)), rest, (1, 10)))
    evidence.at_most("‖∂h_10/∂h_0‖ / ‖∂h_1/∂h_0‖", ten / one, 1.0)


@pytest.mark.claim("bptt.bounded-by-singular-values")
def test_the_product_shrinks_below_one_and_above_that_is_undecided(rnn, draws, tolerance, evidence):
    """σ_max(W) = 0.95, max tanh′ = 1  ⇒  ‖J_T … J_1‖ ≤ 0.95^T; at σ_max(W) = 2.8: 2.8^T at rest, 0 when saturated"""
    for draw in draws:
        weights, x = draw.weights("rnn"), draw.inputs(1, 20, scale=0.1)
        weights = weights.change(W_h=lambda W: 0.95 * W / norm(W))
        h, _ = draw.start(rnn, 1)
        for T, J in zip(AT, jacobians(rnn, weights, x, h, AT), strict=True):
            evidence.at_most("‖∂h_T/∂h_0‖ / 0.95^T", norm(J) / 0.95**T, 1 + tolerance.gradient(rnn, weights, T))
    weights, rest = even_kernel(), np.zeros((1, 7))
    at_rest, driven = (
        norm(jacobians(rnn, weights, x, rest, (20,))[0]) for x in (np.zeros((1, 20, 7)), np.full((1, 20, 7), 3.0))
    )
    evidence.close("‖∂h_20/∂h_0‖ / 2.8^20 - 1, at rest", at_rest / 2.8**20, 1.0, tolerance.gradient(rnn, weights, 20))
    evidence.at_most("‖∂h_20/∂h_0‖, units saturated", driven, 1e-20)


@pytest.mark.claim("bptt.sum-over-steps")
def test_the_gradient_of_the_last_step_is_a_sum_over_the_steps_before(rnn, draw, tolerance, evidence):
    """∂L_T/∂W = ∂L_T/∂h_T Σ_t (∂h_T/∂h_{T-1} … ∂h_{t+1}/∂h_t) ∂⁺h_t/∂W, T = 30"""
    # No unit saturates: 1 - h² would be far smaller than its rounding, and so would be all that passes it.
    weights, x, steps = draw.weights("rnn"), draw.inputs(1, 30, scale=0.5), 30
    h, _ = draw.start(rnn, 1)
    upstream = draw.upstream(1, 7)
    loaded, states = rnn(weights), np.concatenate([h, visited(rnn, weights, x, h)])
    terms = bptt.terms(weights, x[0], h[0], states[1:], upstream[0])
    whole, within = loaded.gradients(x, h, None, {"h": upstream})[0].parameters, tolerance.gradient(rnn, weights, steps)
    for name, total in whole.items():
        short = name.removeprefix("candidate.")
        evidence.close_gradient(f"∂L/∂{short} - sum of 30 terms", total, terms[name].sum(0), within)
    for t in (1, 15, 29, 30):  # the step's own use of W, pulled back alone: what reaches h_t is pulled through the rest
        rest = x[:, t:]
        reaching = loaded.gradients(rest, states[None, t], None, {"h": upstream})[0].h if t < steps else upstream
        alone = loaded.gradients(x[:, t - 1 : t], states[None, t - 1], None, {"h": reaching})[0].parameters
        truth = terms["candidate.W_h"][t - 1]
        evidence.close_gradient("term of step t, alone", alone["candidate.W_h"], truth, within, at=f"t = {t}")


@pytest.mark.claim("bptt.a-step-has-one-path")
def test_each_path_alone_carries_the_lesson_of_its_step(rnn, draw, tolerance, evidence):
    """x_t = e_t: row t of ∂L/∂W_x is the term of step t; a factor of 0 at step 6 leaves exactly 0 of terms 1 to 6"""
    steps, cut = 10, 5
    weights, x = draw.weights("rnn", steps, scale=1.5), own_rows(steps)
    h, _ = draw.start(rnn, 1)
    upstream = draw.upstream(1, 7)
    lessons = rnn(weights).gradients(x, h, None, {"h": upstream})[0].parameters["candidate.W_x"]
    terms = bptt.terms(weights, x[0], h[0], visited(rnn, weights, x, h), upstream[0])["candidate.W_x"].sum(1)
    evidence.close_gradient("row t of ∂L/∂W_x - term t", lessons, terms, tolerance.gradient(rnn, weights, steps))
    saturated = weights.change("candidate", W_x=lambda W: np.where(np.arange(steps)[:, None] == cut, 1000.0, W))
    lessons = rnn(saturated).gradients(x, h, None, {"h": upstream})[0].parameters["candidate.W_x"]
    evidence.equal("rows 1 to 6 of ∂L/∂W_x, step 6 saturated", lessons[: cut + 1], np.zeros((cut + 1, 7)))
    left = np.linalg.norm(lessons[cut + 1 :], axis=1) / np.linalg.norm(lessons[-1])
    evidence.at_least("least of the rows behind it, relative to the last", left.min(), 1e-3)


@pytest.mark.claim("bptt.recent-terms-dominate")
def test_the_gradient_is_healthy_and_made_of_its_recent_terms(rnn, draws, evidence):
    """30 steps, x_t = e_t, W ~ N(0, 1/(D + H)): shares of the terms, and the whole against its last five terms"""
    last_ten, whole, first = [], [], []
    for draw in draws:
        weights, x, upstream = draw.weights("rnn", 30, 16), own_rows(30), draw.upstream(1, 16)
        h, _ = draw.start(rnn, 1, units=16)
        sizes = np.linalg.norm(
            gradient := rnn(weights).gradients(x, h, None, {"h": upstream})[0].parameters["candidate.W_x"], axis=1
        )
        last_ten.append(sizes[-10:].sum() / sizes.sum())
        whole.append(np.linalg.norm(gradient) / sizes[-1])
        first.append(sizes[0] / sizes[-1])
    evidence.at_least("median share of the last 10 terms of 30", np.median(last_ten), 0.99)
    evidence.at_least("least share of the last 10 terms of 30", min(last_ten), 0.95)  # 1 of 200 draws is below 0.99
    evidence.at_least("least size of the whole gradient over that of its last term", min(whole), 0.9)
    evidence.at_most("median size of term 1 over term 30", np.median(first), 1e-9, documented="1e-09")


HALF = Weights("rnn", {"candidate": Block(np.ones((1, 1)), np.full((1, 1), 0.5), np.zeros(1), np.zeros(1))})
"""A unit at rest whose every step Jacobian is exactly 1/2: the gradient that arrives counts the factors."""


def factors(rnn, steps):
    """How many halvings lie between the last state and each step's, as the gradient of x_t says, (T,)."""
    zero = np.zeros((1, 1))
    arrived = rnn(HALF).gradients(np.zeros((1, steps, 1)), zero, None, {"h": zero + 1})[0].x
    return -np.log2(arrived[0, :, 0])


@pytest.mark.claim("bptt.thirty-steps-thirty-factors")
def test_thirty_factors_lie_between_step_30_and_step_1(rnn, evidence):
    """∂h_30/∂h_1 is a product of 30 factors"""
    evidence.exactly("factors from t = 30 back to t = 1", factors(rnn, 30)[0], 30)


@pytest.mark.claim("bptt.factors-between-steps")
def test_between_two_steps_lie_as_many_factors_as_transitions(rnn, evidence):
    """∂h_30/∂h_1 = 0.5^29 = 1.9e-9 at a factor of 1/2; a recall gap g has g + 1 transitions from key to query"""
    counted = factors(rnn, 30)
    evidence.equal("factors from t = 30 back to t, minus 30 - t", counted, np.arange(29, -1, -1))
    evidence.at_most("∂h_30/∂h_1 at factors of 1/2", 0.5 ** counted[0], 2e-9, documented="1e-09")
    for gap in (5, 40, 80):
        evidence.exactly(f"factors from the query back to the key, gap {gap}", factors(rnn, gap + 2)[0], gap + 1)


@pytest.mark.claim("bptt.cell-step-is-linear")
def test_in_one_step_the_cell_is_scaled_and_added_to(lstm, draw, tolerance, evidence):
    """C_1 = f_1 * C_0 + i_1 * C̃_1: ∂C_1/∂C_0 = diag(f_1) at every C_0, and C_1 is an affine function of C_0"""
    weights, x = draw.weights("lstm"), draw.inputs(1, 1)
    h, a = draw.start(lstm, 1)
    b = draw.state(1)
    loaded, within = lstm(weights), tolerance.gradient(lstm, weights, 1)
    f = oracle.forward(weights, x, h, a).gate("forget")[0, 0]
    for size in (1, 10):
        J = loaded.jacobian(x, h, size * a, of="c", wrt="c")
        evidence.close_gradient("∂C_1/∂C_0 - diag(f_1)", J, np.diag(f), within, at=f"{size} C_0")
        evidence.equal("∂C_1/∂C_0 off the diagonal", off_diagonal(J), np.zeros((7, 7)))
    both, one, other, none = (loaded.run(x, h, c).c.astype(np.float64) for c in (a + b, a, b, 0 * a))
    evidence.close("C_1(a + b) - C_1(a) - C_1(b) + C_1(0)", both + none, one + other, tolerance.state(lstm, weights, 1))


@pytest.mark.claim("bptt.cell-meets-no-matrix")
def test_from_step_to_step_the_cell_passes_no_weight_matrix(lstm, draw, evidence):
    """∂C_2/∂C_0 is diagonal: no matrix mixes the units of the cell"""
    weights, x = draw.weights("lstm"), draw.inputs(1, 2)
    h, c = draw.start(lstm, 1)
    J = lstm(weights).jacobian(x, h, c, of="c", wrt="c")
    evidence.at_most(
        "largest |∂C_2/∂C_0| off the diagonal, relative", np.abs(off_diagonal(J)).max() / np.abs(J).max(), 0.0
    )
