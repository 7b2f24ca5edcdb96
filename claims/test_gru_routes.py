"""The four routes of a gradient through a GRU: direct, through the update gate, the reset gate and the candidate.

W «Gated Recurrent Unit (GRU)» and «Understand GRU through backpropagation»; E08, E09; X06. In W's GRU the update gate
u keeps, the reset gate comes after the recurrent product, and there are no biases. A black box shows its routes one by
one: of each step's routes one is open at a time, and the others see the state as a constant.
"""

from itertools import product
from math import log
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

from fixtures import probes
from reference import layouts, oracle, paths
from reference.weights import Weights

ROUTES = ("", "update", "reset", "candidate")
NODES = {"": (), "update": ("u",), "reset": ("h̃", "r"), "candidate": ("h̃",)}
"""What a route passes between h_t and h_{t-1}; the direct one, named "", passes nothing."""


def ws_gru(draw, units=4, scale=1.0):
    """Dense weights without biases, 3 inputs; by default none that saturate a gate."""
    weights = draw.weights("gru", 3, units, scale)
    return weights.change(b_x=np.zeros_like, b_h=np.zeros_like)


def a_run(draw, gru, steps=4):
    """W's GRU, inputs x (1, T, 3), a state h (1, 4), and δ = ∂L_T/∂h_T (1, 4), not uniform."""
    return ws_gru(draw), draw.inputs(1, steps, 3), draw.start(gru, 1, 4)[0], draw.upstream(1, 4)


def route(*steps):
    """The path h4 → … → h̃2 → W_xh that takes these routes at t = 4 and t = 3."""
    nodes = [
        node for t, taken in zip((4, 3), steps, strict=True) for node in (("h", t), *((n, t) for n in NODES[taken]))
    ]
    return (*nodes, ("h", 2), ("h̃", 2))


@pytest.mark.claim("routes.equations")
def test_the_articles_gru(gru64, draw, tolerance, evidence):
    """r, u = σ(x W_x + h W_h), h̃ = tanh(x W_xh + r ⊙ (h W_hh)), h_t = u ⊙ h_{t-1} + (1 - u) ⊙ h̃: one state, no bias"""
    weights, x, h, _ = a_run(draw, gru64)
    W = layouts.store(weights, layouts.W_GRU)
    run, states = gru64(weights).run(x, h), []
    for x_t in x[0]:
        r, u = (expit(x_t @ W[f"W_x{g}"] + h @ W[f"W_h{g}"]) for g in "ru")
        candidate = np.tanh(x_t @ W["W_xh"] + r * (h @ W["W_hh"]))
        h = u * h + (1 - u) * candidate
        states.append(h)
    evidence.exactly("matrices", len(W), 6)
    evidence.close("h_t", run.outputs, np.stack(states, 1), tolerance.state(gru64, weights, 4))
    evidence.equal("h_T - the last output: there is no other state", run.h, run.outputs[:, -1])


@pytest.mark.claim("routes.reset-gate-limits-the-candidate")
def test_the_reset_gate_sets_how_much_of_the_state_enters_the_candidate(gru64, draw, tolerance, evidence):
    """artanh h̃ = x W_xh + r ⊙ (h W_hh), for r = 0, ¼, ½, ¾, 1 in every unit"""
    weights, x, h, _ = a_run(draw, gru64, steps=1)
    plain = weights.without_recurrence("reset").change("reset", W_x=np.zeros_like).pin(update=probes.LITERALLY_SHUT)
    n = weights["candidate"]
    for r, a in {0.0: -1000.0, 0.25: -log(3), 0.5: 0.0, 0.75: log(3), 1.0: 1000.0}.items():
        candidate = gru64(plain.pin(reset=a)).run(x, h).h[0].astype(np.float64)
        entered, whole = np.arctanh(candidate) - x[0, 0] @ n.W_x, h[0] @ n.W_h
        # artanh' = 1 / (1 - h̃²): what rounding does to h̃ grows by that.
        within = (64 + 4 / (1 - candidate**2).min()) * gru64.eps
        evidence.close("artanh h̃ - x W_xh - r h W_hh", entered, r * whole, within, at=f"r = {r}")
    unmoved = [gru64(plain.pin(reset=-1000.0)).run(x, state).h for state in (h, -h)]
    # Not bit for bit: h + (1 - z) (n - h) is n to rounding.
    evidence.close("h̃ from h and from -h, r = 0", *unmoved, tolerance.convex(gru64))


def values(weights, x, h):
    """What W's formulas are made of: gates u, r and candidates n by step, states h by step, x_2 and the kernels."""
    tape = oracle.forward(weights, x, h)
    by_step = [dict(zip((2, 3, 4), tape.gate(gate)[0, 1:], strict=True)) for gate in ("update", "reset", "candidate")]
    kernels = [weights[gate].W_h for gate in ("update", "reset", "candidate")]
    return SimpleNamespace(u=by_step[0], r=by_step[1], n=by_step[2], h=tape.h[0], x2=x[0, 1],
                           W_hu=kernels[0], W_hr=kernels[1], W_hh=kernels[2])  # fmt: skip


def through_update(v, t):
    return (v.h[t - 1] - v.n[t]) * v.u[t] * (1 - v.u[t])


def through_reset(v, t):
    return (1 - v.u[t]) * (1 - v.n[t] ** 2) * (v.h[t - 1] @ v.W_hh) * v.r[t] * (1 - v.r[t])


def through_candidate(v, t):
    return (1 - v.u[t]) * (1 - v.n[t] ** 2) * v.r[t]


def at_the_end(v):
    return (1 - v.u[2]) * (1 - v.n[2] ** 2)


def left_to_right(v, delta):
    """W's four formulas with δ in front and every factor multiplied in turn, from the left: x_2ᵀ [ … ]."""
    end = at_the_end(v)
    brackets = {
        "": delta * v.u[4] * v.u[3] * end,
        "update": (delta * through_update(v, 4)) @ v.W_hu.T * through_update(v, 3) @ v.W_hu.T * end,
        "reset": (delta * through_reset(v, 4)) @ v.W_hr.T * through_reset(v, 3) @ v.W_hr.T * end,
        "candidate": (delta * through_candidate(v, 4)) @ v.W_hh.T * through_candidate(v, 3) @ v.W_hh.T * end,
    }
    return {name: np.outer(v.x2, bracket) for name, bracket in brackets.items()}


def carried(gru, weights, x, h, delta):
    """∂L_4/∂W_xh along each route, as the cell shows it with the other routes shut, (3, 4) each."""
    taken = probes.shares(gru, weights, x, h, None, delta, [route(name, name) for name in ROUTES])
    return dict(zip(ROUTES, taken, strict=True))


@pytest.mark.claim("routes.four-formulas")
def test_each_route_carries_its_formula_read_from_the_left(gru64, draw, tolerance, evidence):
    """δ first, then factor by factor: ((δ ⊙ A_4) Wᵀ ⊙ A_3) Wᵀ ⊙ (1 - u_2) ⊙ (1 - h̃_2²)"""
    weights, x, h, delta = a_run(draw, gru64)
    shown, within = carried(gru64, weights, x, h, delta[0]), tolerance.gradient(gru64, weights, 4)
    scale = np.abs(shown[""]).max()
    for name, formula in left_to_right(values(weights, x, h), delta[0]).items():
        evidence.close_gradient(f"{name or 'direct'} route - formula", formula, shown[name], within, scale)
        evidence.at_least(f"largest entry of the {name or 'direct'} route", np.abs(shown[name]).max(), 1e-6)


@pytest.mark.claim("routes.update-formula-as-printed")
def test_the_update_formula_with_its_products_taken_first(gru64, draw, tolerance, evidence):
    """x_2ᵀ [(h_3 - h̃_4) ⊙ u_4 ⊙ (1 - u_4) W_huᵀ ⊙ (h_2 - h̃_3) ⊙ u_3 ⊙ (1 - u_3) W_huᵀ ⊙ …], loss Σ h_4"""
    weights, x, h, _ = a_run(draw, gru64)
    v = values(weights, x, h)
    bracket = at_the_end(v)
    for t in (4, 3):
        bracket = bracket * (v.h[t - 1] - v.n[t]) * v.u[t] * ((1 - v.u[t]) @ v.W_hu.T)
    shown, within = carried(gru64, weights, x, h, np.ones(4)), tolerance.gradient(gru64, weights, 4)
    scale = np.abs(shown[""]).max()
    evidence.close_gradient("update route - formula", np.outer(v.x2, bracket), shown["update"], within, scale)


@pytest.mark.claim("routes.reset-formula-as-printed")
def test_the_reset_formula_as_it_is_bracketed(gru64, draw, tolerance, evidence):
    """x_2ᵀ [([A_4] W_hrᵀ ⊙ [A_3] W_hrᵀ) ⊙ (1 - u_2) ⊙ (1 - h̃_2²)], loss Σ h_4"""
    weights, x, h, _ = a_run(draw, gru64)
    v = values(weights, x, h)
    bracket = (through_reset(v, 4) @ v.W_hr.T) * (through_reset(v, 3) @ v.W_hr.T) * at_the_end(v)
    shown, within = carried(gru64, weights, x, h, np.ones(4)), tolerance.gradient(gru64, weights, 4)
    scale = np.abs(shown[""]).max()
    evidence.close_gradient("reset route - formula", np.outer(v.x2, bracket), shown["reset"], within, scale)


@pytest.mark.claim("routes.without-what-arrives")
def test_the_four_formulas_without_the_gradient_that_arrives(gru64, draw, tolerance, evidence):
    """∂L_4/∂W_xh along a route = x_2ᵀ [ … ] without δ = ∂L_4/∂h_4, read from the left"""
    weights, x, h, delta = a_run(draw, gru64)
    shown, within = carried(gru64, weights, x, h, delta[0]), tolerance.gradient(gru64, weights, 4)
    scale = np.abs(shown[""]).max()
    for name, formula in left_to_right(values(weights, x, h), np.ones(4)).items():
        evidence.close_gradient(f"{name or 'direct'} route - formula", formula, shown[name], within, scale)


@pytest.mark.claim("routes.sixteen")
def test_the_sixteen_choices_of_a_route_are_the_whole_gradient(gru64, draw, tolerance, evidence):
    """Σ over the 4² choices at t = 4 and t = 3 = what the use at t = 2 adds; 1 + 4 + 16 + 64 paths in all"""
    weights, x, h, delta = a_run(draw, gru64)
    found = paths.to_the_kernel(paths.gru(oracle.forward(weights, x, h)), 4, delta[0])
    for t, number in {4: 1, 3: 4, 2: 16, 1: 64}.items():
        evidence.exactly(f"paths to the use at t = {t}", len(found[t]), number)
    choices = {route(*taken) for taken in product(ROUTES, repeat=2)}
    evidence.exactly("choices of a route among the 16", len(choices & {path for path, _ in found[2]}), 16)
    within = tolerance.gradient(gru64, weights, 4)
    shown = probes.shares(gru64, weights, x, h, None, delta[0], [path for path, _ in found[2]])
    used = probes.uses_by_step(gru64, weights, x, h, None, {"h": delta})[1]
    for (path, share), seen in zip(found[2], shown, strict=True):
        evidence.close_gradient(
            "product along a path - what it carries", share, seen, within, np.abs(used).max(), paths.written(path)
        )
    evidence.close_gradient("sum of the sixteen - what the use at t = 2 adds", sum(shown), used, within)
    total = sum(share for pairs in found.values() for _, share in pairs)
    whole = gru64(weights).gradients(x, h, None, {"h": delta})[0].parameters["candidate.W_x"]
    evidence.close_gradient("sum of all 85 - ∂L_4/∂W_xh", total, whole, within)


UNITS = 16


def sizes(gru, draws, updates, *routes):
    """Frobenius norms of these routes through one step of 16 units over 25 draws, {u: {route: (25,)}}.

    The update gate is u in every unit at the state from which the step starts; its kernel W_hu is dense.
    """
    found = {u: {name: [] for name in ("", *routes)} for u in updates}
    for draw in draws:
        weights, x = ws_gru(draw, UNITS, scale=np.sqrt((3 + UNITS) / UNITS)), draw.inputs(1, 1, 3)
        h, _ = draw.start(gru, 1, UNITS)
        seen = weights.change("update", W_x=np.zeros_like).pin(update=-h[0] @ weights["update"].W_h)
        for u in updates:
            for name, J in probes.step_routes(gru, seen.pin(update=log(u / (1 - u))), x, h, None, routes).items():
                found[u][name].append(np.linalg.norm(J["hh"]))
    return {u: {name: np.array(norms) for name, norms in by_route.items()} for u, by_route in found.items()}


@pytest.mark.claim("routes.direct-route-survives")
def test_the_direct_route_survives_thirty_steps(gru64, draw, evidence):
    """u = 0.98: 0.98^30 = 0.54548 along the direct route; over the 29 steps from t = 30 to t = 1, 0.55662"""
    weights = ws_gru(draw).without_recurrence("update").change("update", W_x=np.zeros_like).pin(update=log(0.98 / 0.02))
    x, (h, _) = draw.inputs(1, 30, 3), draw.start(gru64, 1, 4)
    factors = probes.step_factors(gru64, weights, x, h)
    evidence.printed("∂h_30/∂h_0 along the direct route", factors.prod(0).mean(), "0.54548")
    evidence.printed("∂h_30/∂h_1 along the direct route", factors[1:].prod(0).mean(), "0.55662")


@pytest.mark.claim("routes.update-route-near-one")
def test_the_update_route_is_small_where_the_update_gate_is_near_one(gru64, draws, evidence):
    """It has the factor u (1 - u): 0.0196 at u = 0.98, and at u = 0.02, against ¼ at u = ½"""
    norms = {u: by_route["update"] for u, by_route in sizes(gru64, draws, (0.98, 0.5, 0.02), "update").items()}
    for u in (0.98, 0.02):
        ratio = norms[u] / norms[0.5]
        evidence.close(f"norm at u = {u} / norm at u = ½, - 0.0196 / ¼", ratio, np.full(25, 0.0196 / 0.25), within=1e-4)


@pytest.mark.claim("routes.keeping-suppresses-the-candidate")
def test_what_keeps_the_state_opens_the_direct_route_and_suppresses_the_candidates(gru64, draws, evidence):
    """One step of 16 units, u = 0.98: direct 0.98 √16 = 3.92; the candidate's route is a 49th of what it is at 0.02"""
    norms = sizes(gru64, draws, (0.98, 0.02), "candidate")
    evidence.printed("norm of the direct route at u = 0.98", norms[0.98][""].mean(), "3.92")
    ratio = norms[0.98]["candidate"] / norms[0.02]["candidate"]
    evidence.close(
        "candidate's route at u = 0.98 / at 0.02, - 0.02 / 0.98", ratio, np.full(25, 0.02 / 0.98), within=1e-4
    )
    evidence.at_most("mean norm of the candidate's route at u = 0.98", norms[0.98]["candidate"].mean(), 0.1)


@pytest.mark.claim("routes.reset-route-takes-over")
def test_the_reset_route_is_the_stronger_where_the_update_route_vanishes(gru64, draws, evidence):
    """u = 0.98: ‖reset route‖ > ‖update route‖"""
    norms = sizes(gru64, draws, (0.98,), "reset", "update")[0.98]
    evidence.at_least(
        "mean norm of the reset route / of the update route", norms["reset"].mean() / norms["update"].mean(), 1
    )


@pytest.mark.claim("routes.reset-route-needs-writing")
def test_the_reset_route_is_the_stronger_where_the_gate_writes(gru64, draws, evidence):
    """Both routes carry 1 - u, the reset route r (1 - r) ≤ ¼ besides: weaker at u = 0.98, stronger at u = 0.02"""
    norms = sizes(gru64, draws, (0.98, 0.02), "reset", "update")
    keeps, writes = (norms[u]["reset"] / norms[u]["update"] for u in (0.98, 0.02))
    evidence.exactly("of 25 draws, reset route the stronger at u = 0.98", int((keeps > 1).sum()), 0)
    evidence.exactly("of 25 draws, reset route the stronger at u = 0.02", int((writes > 1).sum()), 25)
    evidence.at_most("mean norm of the reset route / of the update route, u = 0.98", keeps.mean(), 0.25)
    evidence.at_least("the same, u = 0.02", writes.mean(), 3)


@pytest.mark.claim("routes.candidate-route-is-an-rnns")
def test_the_candidates_route_is_that_of_a_plain_rnn(gru64, draw, tolerance, evidence):
    """u = 0, r = 1: δ_{t-1} = (δ_t ⊙ (1 - h̃_t²)) W_hhᵀ, and the other three routes are shut"""
    weights, x, h, delta = a_run(draw, gru64)
    forced, within = weights.pin(update=-1000.0, reset=1000.0), tolerance.gradient(gru64, weights, 4)
    plain = oracle.forward(Weights("rnn", {"candidate": weights["candidate"]}), x, h)
    truth = oracle.backward(plain, h=delta).parameters["candidate.W_x"]
    whole = gru64(forced).gradients(x, h, None, {"h": delta})[0].parameters["candidate.W_x"]
    evidence.close_gradient("∂L_4/∂W_xh - the RNN's", whole, truth, within)
    for t, step in enumerate(probes.routes_along(gru64, forced, x, h), start=1):
        n = plain.h[0, t]
        rnns = np.diag(1 - n**2) @ weights["candidate"].W_h.T
        evidence.close_gradient(
            "candidate's route - (1 - h̃²) W_hhᵀ", step["candidate"]["hh"], rnns, within, at=f"t = {t}"
        )
        others = max(np.abs(step[name]["hh"]).max() for name in ("", "update", "reset"))
        evidence.at_most("largest entry of another route", others, within, documented=0)
