"""A plain RNN forgets: how similar its state stays to what was put into it, while unrelated inputs arrive.

N §1.a, widgets 1 and 6. E13, E14, E28. The RNN is h = tanh(W h + U x), 8 units, no bias; the signal is a state of ones.
"""

import numpy as np
import pytest

from fixtures.settings import table
from reference import notebook
from reference.weights import Block, Weights

SIGNAL = np.ones(8)
RANDOM_DIRECTION = 1 / np.sqrt(8)
"""Standard deviation of the cosine between two random directions of 8 dimensions."""


def the_notebooks_weights(scale):
    """W = scale · randn(8, 8) and U = 0.3 · randn(8, 4), set_seed(0)."""
    stream = notebook.Stream(0)
    W, U = stream.randn(8, 8) * np.float32(scale), stream.randn(8, 4) * np.float32(0.3)
    return W.astype(np.float64), U.astype(np.float64)


def plain_rnn(W, U):
    return Weights("rnn", {"candidate": Block(U.T, W.T, np.zeros(8), np.zeros(8))})


def noise_streams(steps, count=5):
    """Inputs (count, steps, 4): generator seeds 0, 1, 2 …, one draw of 4 numbers per step."""
    streams = [notebook.Stream(seed) for seed in range(count)]
    return np.stack([np.stack([stream.randn(4) for _ in range(steps)]) for stream in streams]).astype(np.float64)


def states(rnn, W, U, noise):
    """The states (streams, T, 8) that follow the signal."""
    start = np.tile(SIGNAL, (len(noise), 1))
    return rnn(plain_rnn(W, U)).run(noise, start).outputs.astype(np.float64)


def similarity(h):
    """cos(h, signal); a state shorter than 1e-8 points nowhere, as in `F.cosine_similarity`."""
    return h.sum(-1) / np.sqrt(8) / np.maximum(np.linalg.norm(h, axis=-1), 1e-8)


@pytest.mark.claim("forgetting.notebook-trace")
def test_the_notebooks_similarities(rnn, evidence):
    """cos(h_t, signal) after 1, 3, 5, 10, 20 and 30 steps; scale 0.9, noise 1, stream 0"""
    W, U = the_notebooks_weights(0.9)
    trace = similarity(states(rnn, W, U, noise_streams(30, 1)))[0]
    printed = {1: "0.387", 3: "-0.005", 5: "0.159", 10: "0.086", 20: "-0.050", 30: "0.285"}
    for step, document in printed.items():
        evidence.printed(f"cos after {step} steps", trace[step - 1], document)
    steps = np.arange(1, 31)
    evidence.curve("forgetting", "random W, scale 0.9", steps, trace, [(t, float(v)) for t, v in printed.items()])
    small = similarity(states(rnn, *the_notebooks_weights(0.3), noise_streams(30, 1)))[0]
    evidence.curve("forgetting", "random W, scale 0.3", steps, small)
    kept = similarity(states(rnn, 5 * np.eye(8), U, noise_streams(30, 1)))[0]
    evidence.curve("forgetting", "W = 5 I", steps, kept)


@pytest.mark.claim("forgetting.gone-in-a-handful-of-steps")
@pytest.mark.parametrize("scale", [0.3, 0.9, 1.5])
def test_with_random_weights_the_similarity_is_gone_in_a_handful_of_steps(rnn, scale, evidence):
    """Mean |cos| from step 5 to 30 over five streams, near that of random directions, 0.29"""
    found = np.abs(similarity(states(rnn, *the_notebooks_weights(scale), noise_streams(30))))
    evidence.at_most("mean |cos|, steps 5 to 30", found[:, 4:].mean(), 0.4)
    evidence.at_most("share of those steps with |cos| above 0.9", (found[:, 4:] > 0.9).mean(), 0.01)


@pytest.mark.claim("forgetting.points-nowhere-near")
def test_after_thirty_steps_the_state_points_where_a_random_one_would(rnn, evidence):
    """|cos(h_30, signal)| = 0.285, within one standard deviation of random directions, 1/√8 = 0.354"""
    trace = similarity(states(rnn, *the_notebooks_weights(0.9), noise_streams(30, 1)))[0]
    evidence.at_most("|cos| after 30 steps", abs(trace[-1]), RANDOM_DIRECTION, documented="0.285")


@pytest.mark.claim("forgetting.nothing-protects-the-signal")
@pytest.mark.parametrize("k", [5, 6])
def test_no_plain_rnn_keeps_the_signal(rnn, k, evidence):
    """For W = k I and the notebook's inputs the similarity falls below 0.9 within 300 noisy steps"""
    evidence.at_most("least cos over 300 steps", latched(rnn, k).min(), 0.9)


@pytest.mark.claim("forgetting.a-latch-keeps-it")
def test_a_plain_rnn_that_latches_keeps_the_signal(rnn, evidence):
    """W = k I, 20 streams of noise 1, 300 steps: least cos 0.65 for k = 3, 0.989 for 4, 0.9997 for 5, 1.0000 for 6"""
    for k, printed in {3: "0.649", 4: "0.989", 5: "0.9997", 6: "1.0000"}.items():
        evidence.printed(f"least cos over 300 steps, k = {k}", latched(rnn, k).min(), printed)


def latched(rnn, k):
    _, U = the_notebooks_weights(0.9)
    seeds = table("seeds")["streams"]
    return similarity(states(rnn, k * np.eye(8), U, noise_streams(300, seeds["count"])))


@pytest.mark.claim("forgetting.small-weights-shrink-the-state")
@pytest.mark.parametrize("scale", [0.1, 0.3])
def test_small_weights_shrink_the_state_towards_zero(rnn, scale, evidence):
    """‖h_t‖ → 0 with noise 1 (the first states have norm 2 to 3)"""
    sizes = np.linalg.norm(states(rnn, *the_notebooks_weights(scale), noise_streams(100)), axis=-1)
    evidence.at_most("mean ‖h_t‖, steps 21 to 100", sizes[:, 20:].mean(), 0.1)


@pytest.mark.claim("forgetting.inputs-drive-the-state")
def test_inputs_keep_the_state_of_small_weights_alive(rnn, evidence):
    """‖h_t‖ with noise 1 stays of order 1 at scales 0.1 and 0.3; without, it dies at 0.1 and stays at 0.77 at 0.3"""
    for scale in (0.1, 0.3):
        sizes = np.linalg.norm(states(rnn, *the_notebooks_weights(scale), noise_streams(100)), axis=-1)
        evidence.at_least(f"mean ‖h_t‖ with noise, scale {scale}", sizes[:, 20:].mean(), 0.5)
    quiet = {s: states(rnn, *the_notebooks_weights(s), np.zeros((1, 100, 4)))[0] for s in (0.1, 0.3)}
    evidence.at_most("‖h_100‖ without noise, scale 0.1", np.linalg.norm(quiet[0.1][-1]), 1e-30)
    evidence.at_least("‖h_100‖ without noise, scale 0.3", np.linalg.norm(quiet[0.3][-1]), 0.5)


@pytest.mark.claim("forgetting.moves-without-noise")
def test_without_noise_the_state_still_moves(rnn, evidence):
    """h_1 ≠ h_0 and cos(h_30, signal) below 0.9 at every scale of the slider, 0.1 to 2.0, with x = 0"""
    moved, kept = [], []
    for scale in np.arange(1, 21) / 10:
        h = states(rnn, *the_notebooks_weights(scale), np.zeros((1, 30, 4)))[0]
        moved.append(np.linalg.norm(h[0] - SIGNAL))
        kept.append(similarity(h[-1]))
    evidence.at_least("least ‖h_1 - h_0‖", min(moved), 0.5)
    evidence.at_most("largest cos after 30 steps", max(kept), 0.9)


@pytest.mark.claim("forgetting.small-scale-collapses-faster")
def test_a_smaller_scale_collapses_the_similarity_faster(rnn, evidence):
    """Mean |cos| over steps 21 to 100 with noise 1: less at scale 0.1 than at 0.9"""
    evidence.at_most("mean |cos| at scale 0.1 over that at 0.9", lasting(rnn, 0.1) / lasting(rnn, 0.9), 1.0)


@pytest.mark.claim("forgetting.small-scale-follows-its-inputs")
def test_with_noise_a_smaller_scale_has_the_larger_similarity(rnn, evidence):
    """Mean |cos|, steps 21 to 100: with noise 0.405, 0.342, 0.252 at scales 0.1, 0.3, 0.9; without, 0.1 falls to 0"""
    for scale, low, high in ((0.1, 0.39, 0.42), (0.3, 0.33, 0.36), (0.9, 0.23, 0.28)):
        evidence.at_least(f"mean |cos| with noise, scale {scale}", lasting(rnn, scale), low)
        evidence.at_most(f"mean |cos| with noise, scale {scale}, at most", lasting(rnn, scale), high)
    evidence.at_most("mean |cos| without noise, scale 0.1", lasting(rnn, 0.1, noise=0.0), 0.001)
    evidence.printed("mean |cos| without noise, scale 0.3", lasting(rnn, 0.3, noise=0.0), "0.153")


def lasting(rnn, scale, noise=1.0):
    """Mean |cos| from step 21 to step 100, over five streams."""
    return np.abs(similarity(states(rnn, *the_notebooks_weights(scale), noise * noise_streams(100))))[:, 20:].mean()


@pytest.mark.claim("forgetting.no-setting-keeps-it")
def test_no_setting_of_the_widget_keeps_the_similarity_near_one(rnn, evidence):
    """Scale 0.1 to 2.0, noise 0 to 3, five streams of 100 steps: cos stays above 0.9 for no more than a few steps"""
    longest, means = 0, []
    streams = noise_streams(100)
    for scale in (0.1, 0.5, 1.0, 1.5, 2.0):
        for noise in (0.0, 1.0, 2.0, 3.0):
            found = similarity(states(rnn, *the_notebooks_weights(scale), noise * streams))
            longest = max(longest, *(longest_run(row > 0.9) for row in found))
            means.append(np.abs(found[:, 20:]).mean())
    evidence.at_most("longest run of steps with cos > 0.9", longest, 10)
    evidence.at_most("largest mean |cos|, steps 21 to 100", max(means), 0.45)


def longest_run(flags):
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best


SLIDER = np.arange(3, 16) / 10
"""The scales of widget 6, 0.3 to 1.5."""


def retained(rnn, scale, steps):
    """What widget 6 plots: |cos(h, signal)| ‖h‖ / √8 = |mean(h)|, at the last of so many steps without input."""
    W, U = the_notebooks_weights(scale)
    return abs(states(rnn, W, U, np.zeros((1, steps, 4)))[0, -1].mean())


@pytest.mark.claim("forgetting.no-scale-holds-the-signal")
def test_at_no_scale_does_the_rnn_hold_more_than_the_lstms_cell(rnn, evidence):
    """Widget 6, f = 0.95: |mean(h_60)| ≤ 0.95^60 at every scale of the slider"""
    most = max(retained(rnn, scale, 60) for scale in SLIDER)
    evidence.at_most("largest |mean(h_60)| of the RNN", most, 0.95**60)


@pytest.mark.claim("forgetting.widget-six")
def test_what_widget_six_plots_is_no_memory(rnn, evidence):
    """|mean(h_60)| = 0.0637 at the default scale 0.9, more than the LSTM's 0.95^60 = 0.0461; at 0.3 it stands still"""
    evidence.printed("|mean(h_60)|, scale 0.9", retained(rnn, 0.9, 60), "0.0637")
    evidence.printed("0.95^60", 0.95**60, "0.0461")
    for steps in (60, 120):
        evidence.printed(f"|mean(h_{steps})|, scale 0.3", retained(rnn, 0.3, steps), "0.0416")
