"""The paths of a gradient through an LSTM: what they are, how many there are, and what each of them carries.

W «∂L_4/∂W_xc Chain Preview» to «The remaining timesteps». E10, E34; X07, X14, X15. A black box shows its
paths one by one: of each step's routes one is open at a time, and the others see the state as a constant.
"""

from math import log

import numpy as np
import pytest

from fixtures import probes
from reference import oracle, paths

LISTED = """
    h4 c4 c̃4

    h4 c4 c3 c̃3
    h4 o4 h3 c3 c̃3
    h4 c4 f4 h3 c3 c̃3
    h4 c4 i4 h3 c3 c̃3
    h4 c4 c̃4 h3 c3 c̃3
"""
"""The paths that W writes down, to the uses of W_xc at t = 4 and t = 3."""


def a_run(draw, lstm, steps=4):
    """Dense weights that saturate no gate, inputs x (1, T, 3), a state h, c (1, 4), and δ = ∂L_T/∂h_T (1, 4)."""
    weights, x = draw.weights("lstm", 3, 4), draw.inputs(1, steps, 3)
    return weights, x, *draw.start(lstm, 1, 4), draw.upstream(1, 4)


def walked(weights, x, h, c, delta):
    """Every path from h_T to a use of W_xc, by the step of that use, with its share of the gradient."""
    graph = paths.lstm(oracle.forward(weights, x, h, c))
    return paths.to_the_kernel(graph, x.shape[1], delta[0])


@pytest.mark.claim("paths.sum-of-all")
def test_the_gradient_is_the_sum_over_all_paths(lstm64, draw, tolerance, evidence):
    """∂L_4/∂W_xc = ∂L_4/∂h_4 [P_4 + P_3 + P_2 + P_1]"""
    weights, x, h, c, delta = a_run(draw, lstm64)
    P = {t: sum(share for _, share in found) for t, found in walked(weights, x, h, c, delta).items()}
    within = tolerance.gradient(lstm64, weights, 4)
    whole = lstm64(weights).gradients(x, h, c, {"h": delta})[0].parameters["candidate.W_x"]
    evidence.close_gradient("∂L_4/∂W_xc - sum over all paths", sum(P.values()), whole, within)
    scale = np.abs(whole).max()
    for t, used in enumerate(probes.uses_by_step(lstm64, weights, x, h, c, {"h": delta}), start=1):
        evidence.close_gradient("P_t - what the use at step t adds", P[t], used, within, scale, at=f"t = {t}")


@pytest.mark.claim("paths.listed")
def test_one_path_leads_to_the_last_use_and_five_to_the_one_before(lstm64, draw, tolerance, evidence):
    """P_4 = ∂h_4/∂c_4 ∂c_4/∂c̃_4 ∂c̃_4/∂W_xc; P_3 has five such products, through the cell, o_4, f_4, i_4 and c̃_4"""
    weights, x, h, c, delta = a_run(draw, lstm64)
    found = walked(weights, x, h, c, delta)
    listed = [tuple((node[:-1], int(node[-1])) for node in line.split()) for line in LISTED.split("\n") if line.strip()]
    walked_too = [path for t in (4, 3) for path, _ in found[t]]
    evidence.exactly("paths to the use at t = 4", len(found[4]), 1)
    evidence.exactly("paths to the use at t = 3", len(found[3]), 5)
    evidence.exactly("listed paths among them", len(set(listed) & set(walked_too)), 6)
    product, within = dict(found[4] + found[3]), tolerance.gradient(lstm64, weights, 4)
    shown = probes.shares(lstm64, weights, x, h, c, delta[0], listed)
    largest = max(np.abs(share).max() for share in shown)  # a route is what opening a gate adds, a difference
    for path, share in zip(listed, shown, strict=True):
        evidence.close_gradient(
            "∂L_4/∂W_xc along a path - its product", product.get(path, 0 * share), share, within, largest,
            paths.written(path),
        )  # fmt: skip


@pytest.mark.claim("paths.counts")
def test_there_are_145_paths(lstm64, draw, tolerance, evidence):
    """1 + 5 + 24 + 115 = 145, walked and by recurrence; each carries what the cell shows, and together the whole"""
    weights, x, h, c, delta = a_run(draw, lstm64)
    found = walked(weights, x, h, c, delta)
    for t, printed in {4: 1, 3: 5, 2: 24, 1: 115}.items():
        evidence.exactly(f"paths to the use at t = {t}", len(found[t]), printed)
        evidence.exactly(f"the same by recurrence, t = {t}", paths.counted(4)[t], printed)
    evidence.exactly("paths in all", sum(map(len, found.values())), 145)
    every = [pair for pairs in found.values() for pair in pairs]
    shown = probes.shares(lstm64, weights, x, h, c, delta[0], [path for path, _ in every])
    within, largest = tolerance.gradient(lstm64, weights, 4), max(np.abs(share).max() for _, share in every)
    for (path, share), seen in zip(every, shown, strict=True):
        evidence.close_gradient(
            "share of a path - what it carries in the cell", share, seen, within, largest, paths.written(path)
        )
    whole = lstm64(weights).gradients(x, h, c, {"h": delta})[0].parameters["candidate.W_x"]
    evidence.close_gradient("sum of the 145 in the cell - whole gradient", sum(shown), whole, within)


@pytest.mark.claim("paths.growth")
def test_the_number_of_paths_grows_nearly_fivefold_a_step(lstm64, draw, tolerance, evidence):
    """b_{k-1} = b_k + 3 a_k, a_k = b_k + a_{k+1}, so a_k = 5 a_{k+1} - a_{k+2}: 551, 2640, at the rate (5 + √21) / 2"""
    weights, x, h, c, delta = a_run(draw, lstm64, steps=6)
    found = walked(weights, x, h, c, delta)
    for t, number in {2: 551, 1: 2640}.items():
        evidence.exactly(f"paths over {6 - t} steps", len(found[t]), number)
        evidence.exactly(f"the same by recurrence, {6 - t} steps", paths.counted(6)[t], number)
    far = list(paths.counted(20).values())
    evidence.exactly("steps at which a_k is not 5 a_{k+1} - a_{k+2}", sum(
        a != 5 * b - c for a, b, c in zip(far[2:], far[1:], far, strict=False)
    ), 0)  # fmt: skip
    evidence.close(
        "paths over 19 steps / those over 18, - (5 + √21) / 2", far[-1] / far[-2], (5 + np.sqrt(21)) / 2, within=1e-12
    )
    used, within = (
        probes.uses_by_step(lstm64, weights, x, h, c, {"h": delta}),
        tolerance.gradient(lstm64, weights, 6),
    )
    total = sum(share for _, share in found[1])
    evidence.close_gradient(
        "sum of 2640 shares - what the use at t = 1 adds", total, used[0], within, np.abs(used).max()
    )


@pytest.mark.claim("paths.branches")
def test_four_routes_lead_on_from_a_cell(lstm64, draw, tolerance, evidence):
    """From c_3: to c_2, and to h_2 through f_3, i_3 and c̃_3; the output gate o_3 is none of them"""
    weights, x, h, c, _ = a_run(draw, lstm64, steps=1)
    routes = probes.step_routes(lstm64, weights, x, h, c)
    carrying = {gate or "cell" for gate, J in routes.items() if max(np.abs(J[p]).max() for p in ("cc", "ch")) > 1e-6}
    evidence.exactly("routes from C_t", " ".join(sorted(carrying)), "candidate cell forget input")
    onward = paths.lstm(oracle.forward(weights, x, h, c)).edges[("c", 1)]
    evidence.exactly("operands of c_t", " ".join(name for name, _ in onward), "c f i c̃")
    for wrt in "ch":
        whole = lstm64(weights).jacobian(x, h, c, of="c", wrt=wrt)
        total = sum(J["c" + wrt] for J in routes.values())
        within = tolerance.gradient(lstm64, weights, 1)
        evidence.close_gradient(f"sum of the routes - ∂C_t/∂{wrt}_{{t-1}}", total, whole, within)


def as_printed(delta, v, W):
    """The ways to multiply a row δ by «v W» or «v ⊙ W», v a row and W a matrix: W's columns scaled, its rows, v W."""
    return [delta @ (v * W), delta @ (v[:, None] * W), delta * (v @ W)]


def rnn_step(rnn, draw):
    """∂L_4/∂h_3 of an RNN for a row δ = ∂L_4/∂h_4, that δ, v = 1 - h_4², and W_hh."""
    weights, x, delta = draw.weights("rnn", 3, 4, scale=2.0), draw.inputs(1, 1, 3), draw.upstream(1, 4)
    h, _ = draw.start(rnn, 1, 4)
    v = 1 - oracle.forward(weights, x, h).h[0, -1] ** 2
    return rnn(weights).gradients(x, h, None, {"h": delta})[0].h[0], delta[0], v, weights["candidate"].W_h


def forget_route(lstm, draw):
    """The same for an LSTM by way of f_4: v = o_4 ⊙ (1 - tanh² c_4) ⊙ c_3 ⊙ f_4 ⊙ (1 - f_4), and W_hf."""
    weights, x, h, c, delta = a_run(draw, lstm, steps=1)
    tape = oracle.forward(weights, x, h, c)
    f, o = tape.gate("forget")[0, 0], tape.gate("output")[0, 0]
    v = o * (1 - np.tanh(tape.c[0, -1]) ** 2) * c[0] * f * (1 - f)
    back = delta[0] @ probes.step_routes(lstm, weights, x, h, c, ("forget",))["forget"]["hh"]
    return back, delta[0], v, weights["forget"].W_h


def readings(evidence, back, delta, v, W, within):
    """Of six readings one is the gradient: rows of the transposed kernel scaled.

    v is 1 - h², a difference: however small it is, its error is that of numbers of order 1.
    """
    scale, largest = np.abs(back).max(), np.max(np.abs(delta) @ np.abs(W.T))
    misses = [np.abs(reading - back).max() for K in (W, W.T) for reading in as_printed(delta, v, K)]
    evidence.close_gradient("∂L_4/∂h_3 - (δ ⊙ v) Wᵀ", (delta * v) @ W.T, back, within, largest)
    evidence.exactly("readings out of six that are ∂L_4/∂h_3", sum(miss <= within * largest for miss in misses), 1)
    evidence.at_least("relative miss of the next best", sorted(misses)[1] / scale, 0.1)


@pytest.mark.claim("paths.factors-as-printed")
def test_the_rnns_factor_as_it_is_printed(rnn64, draw, tolerance, evidence):
    """∂h_4/∂h_3 = (1 - h_4²) W_hh"""
    back, delta, v, W = rnn_step(rnn64, draw)
    miss = min(np.abs(reading - back).max() for reading in as_printed(delta, v, W)) / np.abs(back).max()
    within = tolerance.gradient(rnn64, draw.weights("rnn", 3, 4), 1)
    evidence.at_most("least relative miss of three readings", miss, within)


@pytest.mark.claim("paths.factors-as-printed")
def test_the_forget_routes_factor_as_it_is_printed(lstm64, draw, tolerance, evidence):
    """∂h_4/∂c_4 ∂c_4/∂f_4 ∂f_4/∂h_3 = [o_4 ⊙ (1 - tanh²(c_4))] ⊙ c_3 ⊙ [f_4 ⊙ (1 - f_4)] ⊙ W_hf"""
    back, delta, v, W = forget_route(lstm64, draw)
    miss = min(np.abs(reading - back).max() for reading in as_printed(delta, v, W)) / np.abs(back).max()
    within = tolerance.gradient(lstm64, draw.weights("lstm", 3, 4), 1)
    evidence.at_most("least relative miss of three readings", miss, within)


@pytest.mark.claim("paths.factors-as-rows")
def test_the_rnns_factor_on_a_row(rnn64, draw, tolerance, evidence):
    """δ_{t-1} = (δ_t ⊙ (1 - h_t²)) W_hhᵀ"""
    step = rnn_step(rnn64, draw)
    readings(evidence, *step, tolerance.gradient(rnn64, draw.weights("rnn", 3, 4), 1))


@pytest.mark.claim("paths.factors-as-rows")
def test_the_forget_routes_factor_on_a_row(lstm64, draw, tolerance, evidence):
    """δ_{t-1} = (δ_t ⊙ o_t ⊙ (1 - tanh² c_t) ⊙ c_{t-1} ⊙ f_t ⊙ (1 - f_t)) W_hfᵀ; along the cell the factor is f_t"""
    within = tolerance.gradient(lstm64, draw.weights("lstm", 3, 4), 1)
    readings(evidence, *forget_route(lstm64, draw), within)
    weights, x, h, c, _ = a_run(draw, lstm64, steps=1)
    along, f = (
        probes.step_routes(lstm64, weights, x, h, c, ())[""]["cc"],
        oracle.forward(weights, x, h, c).gate("forget"),
    )
    evidence.close_gradient("∂c_t/∂c_{t-1} along the cell - diag(f_t)", along, np.diag(f[0, 0]), within)


def constant_gate(draw, f):
    """An LSTM whose forget gate is f at every step, whatever it sees; the other gates are dense."""
    return draw.weights("lstm", 3, 4).without_recurrence("forget").change(
        "forget", W_x=np.zeros_like, b_x=lambda b: np.full_like(b, log(f / (1 - f))), b_h=np.zeros_like
    )  # fmt: skip


def first_use_to_last(lstm, draw, f):
    """P_1 / P_30 along the cell: no gate sees the state, and every step has the same input."""
    weights = constant_gate(draw, f).without_recurrence()
    x = np.repeat(draw.inputs(1, 1, 3), 30, axis=1)
    used = probes.uses_by_step(lstm, weights, x, *draw.start(lstm, 1, 4), {"c": np.ones((1, 4))})
    return (used[0] / used[-1]).mean()


@pytest.mark.claim("paths.thirty-gates")
def test_thirty_gates_near_one_let_the_gradient_survive(lstm64, draw, evidence):
    """0.98^30 = 0.54548; 29 gates lie between the uses at t = 30 and t = 1. 0.9^30 = 0.042, 0.5^30 = 9.3e-10."""
    for f, thirty, between in ((0.98, "0.54548", "0.55662"), (0.9, "0.042", "0.047"), (0.5, "9.3e-10", "1.9e-9")):
        x, (h, c) = draw.inputs(1, 30, 3), draw.start(lstm64, 1, 4)
        product = probes.step_factors(lstm64, constant_gate(draw, f), x, h, c).prod(0)
        evidence.printed(f"∂C_30/∂C_0 along the cell, f = {f}", product.mean(), thirty)
        evidence.printed(f"use at t = 1 / use at t = 30, f = {f}", first_use_to_last(lstm64, draw, f), between)


@pytest.mark.claim("paths.thirty-gates-between")
def test_the_gradient_passes_thirty_gates_from_the_thirtieth_step_to_the_first(lstm64, draw, evidence):
    """P_1 / P_30 = 0.98^30 along the cell"""
    ratio = first_use_to_last(lstm64, draw, 0.98)
    evidence.printed("use at t = 1 / use at t = 30, f = 0.98", ratio, "0.54548")


@pytest.mark.claim("paths.forget-gate-route")
def test_what_keeps_the_cell_closes_the_route_through_the_forget_gate(lstm64, draw, evidence):
    """f = 0.98: ∂c_t/∂h_{t-1} by way of f_t has the factor f (1 - f) = 0.0196; along the cell it is f"""
    weights, x, h, _, _ = a_run(draw, lstm64, steps=30)
    keeping = weights.change("forget", W_x=np.zeros_like, W_h=lambda W: np.eye(4), b_x=np.zeros_like, b_h=np.zeros_like)
    seen = keeping.pin(forget=log(0.98 / 0.02) - h[0])
    step = probes.step_routes(lstm64, seen, x[:, :1], h, np.ones((1, 4)), ("forget",))
    f, slope = step[""]["cc"].diagonal().mean(), step["forget"]["ch"].diagonal().mean()
    evidence.printed("1 - f", 1 - f, "0.02")
    evidence.printed("f (1 - f)", slope, "0.0196")
    evidence.printed("(f (1 - f))^30", slope**30, "5.9e-52")
    routes = probes.routes_along(lstm64, weights.pin(forget=4.0), x, h, np.ones((1, 4)), ("forget",))
    along = {
        name: np.linalg.norm(np.linalg.multi_dot([J[gate][pair] for J in reversed(routes)]))
        for name, gate, pair in (("cell", "", "cc"), ("forget gate", "forget", "hh"))
    }
    evidence.at_most("‖route through the forget gate at each of 30 steps‖", along["forget gate"], 1e-40)
    evidence.at_least("‖route along the cell over 30 steps‖", along["cell"], 0.1)


@pytest.mark.claim("paths.highway-is-one-of-them")
def test_the_highway_is_one_of_the_paths(lstm64, draw, tolerance, evidence):
    """Of the paths from c_3 to c_0 one stays in the cell and carries ∏ f_t; the others are the indirect terms"""
    weights, x, h, c, delta = a_run(draw, lstm64, steps=3)
    graph = paths.lstm(oracle.forward(weights, x, h, c))
    back = [(path, reached) for path, reached in paths.walk(graph, ("c", 3), delta[0]) if path[-1] == ("c", 0)]
    inside = [reached for path, reached in back if {name for name, _ in path} == {"c"}]
    evidence.exactly("paths from c_3 to c_0", len(back), 19)
    evidence.exactly("paths that stay in the cell", len(inside), 1)
    within = tolerance.gradient(lstm64, weights, 3)
    highway = delta[0] * probes.step_factors(lstm64, weights, x, h, c).prod(0)
    whole = lstm64(weights).gradients(x, h, c, {"c": delta})[0].c[0]
    evidence.close_gradient("that path - δ ∏ f_t of the cell", inside[0], highway, within)
    rest = sum(reached for _, reached in back) - inside[0]
    evidence.close_gradient(
        "the others - indirect terms of the cell", rest, whole - highway, within, np.abs(whole).max()
    )
    evidence.at_least("largest indirect term, far beyond rounding", np.abs(rest).max(), 1e6 * within)
