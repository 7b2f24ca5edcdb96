"""Reach: how much of a gradient arrives T steps back, in a plain RNN and in an LSTM, and how long a cell remembers.

N §4.b and widget 3; §9 (half-life). E05, E31. Reach is ‖∂(v · s_T)/∂s_0‖ for one random unit direction v, with s = h
for the RNN and s = C for the LSTM, the indirect routes included.
"""

import numpy as np
import pytest
from scipy.special import expit

from fixtures.probes import step_factors
from reference import notebook


def the_notebooks_reach(seed=0, steps=60):
    """N §4.b, `reach_curve`: X (1, T, 8), the direction v (32,), and s_0 (1, 32)."""
    stream = notebook.Stream(seed)
    x, v = stream.randn(1, steps, 8), stream.randn(32)
    return x, v / np.linalg.norm(v), stream.randn(1, 32) * np.float32(0.5)


def lstm_reach(lstm, bias, at, seed=0):
    """Reach of an LSTM with this forget bias after each number of steps in `at`."""
    x, v, c = the_notebooks_reach(seed)
    loaded = lstm(notebook.lstm_weights(8, 32, seed, forget_bias=bias))
    return [np.linalg.norm(loaded.gradients(x[:, :T], np.zeros((1, 32)), c, {"c": v[None]})[0].c) for T in at]


def rnn_reach(rnn, scale, at, steps=60):
    """Reach of a plain RNN with recurrent weights of this scale after each number of steps in `at`."""
    x, v, h = the_notebooks_reach(0, steps)
    pulls = []
    for T in at:
        pull = np.zeros((1, steps, 32))
        pull[:, T - 1] = v
        pulls.append({"outputs": pull})
    loaded = rnn(notebook.rnn_weights(8, 32, seed=0, scale=scale))
    return [np.linalg.norm(pulled.h) for pulled in loaded.gradients(x, h, None, *pulls)]


@pytest.mark.claim("highway.lstm-reach")
@pytest.mark.parametrize("bias", [0.0, 2.0, 5.0])
def test_the_notebooks_reach_of_the_lstm(lstm, bias, evidence):
    """‖∂(v · C_T)/∂C_0‖ at T = 1, 30, 60, beside σ(b)^60"""
    printed = {
        0.0: ("5.28e-01", "1.93e-06", "9.27e-10", "8.67e-19"),
        2.0: ("8.85e-01", "9.77e-01", "1.20e+00", "4.93e-04"),
        5.0: ("9.93e-01", "2.79e+00", "7.37e+00", "6.68e-01"),
    }[bias]
    at = (1, 10, 20, 30, 40, 50, 60)
    reach = lstm_reach(lstm, bias, at)
    for T, document in zip((1, 30, 60), printed, strict=False):
        evidence.printed(f"reach after {T} steps", reach[at.index(T)], document)
    evidence.printed("σ(b)^60", expit(bias) ** 60, printed[3])
    documented = [(T, float(value)) for T, value in zip((1, 30, 60), printed, strict=False)]
    evidence.curve("reach", f"LSTM, forget bias {bias:g}", at, reach, documented)


@pytest.mark.claim("highway.rnn-reach-decays")
@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5])
def test_the_rnns_reach_is_nearly_a_straight_line_down(rnn, scale, evidence):
    """log reach falls about linearly in T for scales 0.5, 1.0, 1.5: a line explains 9/10 of it, reach(60) below 1e-3"""
    at = tuple(range(4, 61, 4))
    reach = rnn_reach(rnn, scale, at)
    usable = np.array(reach) > 100 * np.finfo("float32").tiny
    evidence.at_least("steps at which anything arrives", int(usable.sum()), 3)
    if usable.sum() < 3:
        return
    T, y = np.array(at)[usable], np.log10(np.array(reach)[usable])
    line = np.polynomial.Polynomial.fit(T, y, 1)
    r_squared = 1 - ((y - line(T)) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    evidence.at_least("share of log reach that a straight line explains, R²", r_squared, 0.9)
    evidence.at_most("reach after 60 steps", reach[-1], 1e-3)
    evidence.curve("reach", f"RNN, scale {scale:g}", at, reach)


@pytest.mark.claim("highway.spectral-radius")
def test_the_gradient_dies_although_the_spectral_radius_is_one(rnn, evidence):
    """randn/√H has spectral radius about 1: 1.000 (H = 16, seed 3), 1.200 (H = 32, seed 0); tanh′ eats the gradient"""
    for units, features, seed, radius in ((16, 6, 3, "1.000"), (32, 8, 0, "1.200")):
        W = notebook.rnn_weights(features, units, seed)["candidate"].W_h
        evidence.printed(f"spectral radius, H = {units}", np.abs(np.linalg.eigvals(W)).max(), radius)
    evidence.at_most("reach after 60 steps, scale 1", rnn_reach(rnn, 1.0, (60,))[0], 1e-12, documented="8.8e-14")


@pytest.mark.claim("highway.rnn-explodes-on-the-slider")
@pytest.mark.parametrize("steps", [20, 60, 120])
def test_the_widgets_slider_tilts_the_rnn_up(rnn, steps, evidence):
    """For some scale from 0.3 to 1.8, reach(T) > reach(1)"""
    growth = [end / one for one, end in (rnn_reach(rnn, scale, (1, steps), steps) for scale in (0.3, 1.0, 1.7, 1.8))]
    evidence.at_least(f"largest reach({steps}) / reach(1) on the slider", max(growth), 1.0)


@pytest.mark.claim("highway.rnn-never-flat")
def test_no_scale_flattens_the_rnns_reach(rnn, evidence):
    """|log₁₀ reach(60) - log₁₀ reach(1)| stays above 0.1 for every scale"""
    evidence.at_least("|log₁₀ reach(60) / reach(1)| at the flattest scale", abs(decades(rnn, flattest(rnn))), 0.1)


@pytest.mark.claim("highway.rnn-crossover")
def test_the_rnns_reach_turns_from_vanishing_to_exploding_near_scale_two(rnn, evidence):
    """reach(60) ≪ 1 at 1.8, > 1 at 2.0, ≫ 1 at 2.5; in between, by continuity, a scale where the line is flat"""
    for scale, low, high in ((1.8, 1e-2, 1e-1), (2.0, 3.0, 30.0), (2.5, 1e3, 1e4)):
        reach = rnn_reach(rnn, scale, (60,))[0]
        evidence.at_least(f"reach(60) at scale {scale}", reach, low)
        evidence.at_most(f"reach(60), scale {scale}", reach, high)
    flat = flattest(rnn)
    evidence.at_least("flattest scale", flat, 1.9)
    evidence.at_most("flattest scale, at most", flat, 2.0)
    evidence.at_most("|log₁₀ reach(60) / reach(1)| at that scale", abs(decades(rnn, flat)), 0.05)


def decades(rnn, scale):
    """By how many powers of ten the gradient grows from 1 step back to 60."""
    one, end = rnn_reach(rnn, scale, (1, 60))
    return np.log10(end / one)


def flattest(rnn):
    """The scale between 1.9 and 2.0 at which reach(60) = reach(1); where there is none, the flatter end."""
    low, high = decades(rnn, 1.9), decades(rnn, 2.0)
    if not low < 0 < high:
        return 1.9 if abs(low) < abs(high) else 2.0
    from scipy.optimize import brentq  # takes longer to import than most claims to check

    return brentq(lambda scale: decades(rnn, scale), 1.9, 2.0, xtol=1e-3)


@pytest.mark.claim("highway.beyond-the-product")
@pytest.mark.parametrize("bias", [0.0, 2.0, 5.0])
def test_more_arrives_than_a_product_of_gates_can_carry(lstm, bias, evidence):
    """∏ f_t ≤ 1, so what arrives beyond ‖v ∏ f_t‖ came through h: at b = 5 the gradient even grows, 0.99 to 7.4"""
    x, v, c = the_notebooks_reach()
    weights = notebook.lstm_weights(8, 32, seed=0, forget_bias=bias)
    factors = step_factors(lstm, weights, x, np.zeros((1, 32)), c)
    highway, reach = np.linalg.norm(v * factors.prod(0)), lstm_reach(lstm, bias, (60,))[0]
    evidence.at_most("‖v ∏ f_t‖ over 60 steps", highway, 1.0)
    evidence.at_least("reach(60) / ‖v ∏ f_t‖", reach / highway, {0.0: 1e6, 2.0: 100.0, 5.0: 5.0}[bias])
    if bias == 5.0:
        evidence.at_least("reach(60)", reach, 5.0, documented="7.37")


@pytest.mark.claim("highway.indirect-terms-vanish-or-explode")
def test_indirect_terms_can_vanish_or_explode(lstm, evidence):
    """At b = 0 all of reach(60) ≈ 1e-9 is indirect; at b = 5 it grows 7- to 31-fold for weights of seeds 0, 1, 2"""
    evidence.at_most("reach(60), b = 0, seed 0", lstm_reach(lstm, 0.0, (60,))[0], 1e-8)
    for seed, low, high in ((0, 7.0, 8.0), (1, 29.0, 33.0), (2, 9.0, 10.5)):
        reach = lstm_reach(lstm, 5.0, (60,), seed)[0]
        evidence.at_least(f"reach(60), b = 5, seed {seed}", reach, low)
        evidence.at_most(f"reach(60) bounded, b = 5, seed {seed}", reach, high)


@pytest.mark.claim("highway.bias-lifts-reach")
def test_a_larger_forget_bias_lifts_the_lstms_reach(lstm, evidence):
    """reach(60) rises with the forget bias from 0 over 2 to 5, and is flat or rising in T from b = 2 on"""
    shut, half, opened = (lstm_reach(lstm, bias, (1, 60)) for bias in (0.0, 2.0, 5.0))
    evidence.at_least("reach(60) at b = 2 over that at b = 0", half[1] / shut[1], 1e6)
    evidence.at_least("reach(60) at b = 5 over that at b = 2", opened[1] / half[1], 2.0)
    evidence.at_most("reach(60) / reach(1) at b = 0", shut[1] / shut[0], 1e-6)
    evidence.at_least("reach(60) / reach(1) at b = 2", half[1] / half[0], 1.0)
    evidence.at_least("reach(60) / reach(1) at b = 5", opened[1] / opened[0], 5.0)


@pytest.mark.claim("highway.curve-above-the-floor")
@pytest.mark.parametrize("bias", [2.0, 3.0, 5.0])
def test_the_curve_sits_above_the_highway_alone(lstm, bias, evidence):
    """reach(T) ≥ ‖v ∏ f_t‖ for T = 1, 2, 3, 4"""
    x, v, c = the_notebooks_reach()
    factors = step_factors(lstm, notebook.lstm_weights(8, 32, seed=0, forget_bias=bias), x[:, :4], np.zeros((1, 32)), c)
    reach = lstm_reach(lstm, bias, (1, 2, 3, 4))
    ratios = [r / np.linalg.norm(v * factors[:T].prod(0)) for T, r in zip((1, 2, 3, 4), reach, strict=True)]
    evidence.at_least("least reach(T) / ‖v ∏ f_t‖", min(ratios), 1.0 - 16 * lstm.eps)


HALF_LIVES = {0.5: 1, 0.8: 4, 0.9: 7, 0.95: 14, 0.99: 69}


def decayed(lstm, f, steps, draw):
    """|C_T / C_0| after so many steps with a constant forget gate f, and an input gate of 0."""
    weights = draw.weights("lstm").without_recurrence("forget").pin(input=-1000.0)
    weights = weights.change(
        "forget", W_x=np.zeros_like, b_x=lambda b: np.full_like(b, np.log(f / (1 - f))), b_h=np.zeros_like
    )
    h, _ = draw.start(lstm, 1)
    return lstm(weights).run(draw.inputs(1, steps), h, np.ones((1, 7))).c


@pytest.mark.claim("highway.half-life")
@pytest.mark.parametrize("f", HALF_LIVES)
def test_with_nothing_written_the_cell_halves_as_the_forget_gate_says(lstm, f, draw, tolerance, evidence):
    """C_T = f^T C_0; the first T with f^T ≤ 1/2 is ln 2 / ln(1/f), rounded up"""
    half, formula = HALF_LIVES[f], np.log(2) / np.log(1 / f)
    within = tolerance.state(lstm, draw.weights("lstm"), half)
    before, after = (decayed(lstm, f, steps, draw) for steps in (half - 1, half) if steps) if half > 1 else (
        np.ones((1, 7)), decayed(lstm, f, half, draw),
    )  # fmt: skip
    evidence.exactly("⌈ln 2 / ln(1/f)⌉ steps", int(np.ceil(formula - 1e-9)), half)
    evidence.close("C_T - f^T C_0", after, np.full((1, 7), f**half), within)
    evidence.at_most("C_T / C_0 at the half-life", after.max(), 0.5 * (1 + within))
    evidence.at_least("C_T / C_0 one step before", before.min(), 0.5)


@pytest.mark.claim("highway.forget-gate-alone-decides")
def test_the_forget_gate_alone_decides_how_long_the_cell_remembers(lstm, evidence):
    """With live inputs at b = 2, reach(60) = σ(2)^60 within a factor of 10"""
    reach = lstm_reach(lstm, 2.0, (60,))[0]
    evidence.at_most("reach(60) / σ(2)^60", reach / expit(2.0) ** 60, 10.0)
