"""The GRU's conventions: does z keep or write, and does the reset come before or after the recurrent product?

N's deck: z writes, the reset comes before. L: z keeps, before. W and PyTorch: z keeps, after. N §7, L §3, W «GRU»;
X04, X05, X06.
"""

import numpy as np
import pytest
from scipy.special import expit

from fixtures.probes import gru_gates
from reference import layouts, notebook, oracle


@pytest.mark.claim("conventions.deck-equations")
def test_the_decks_gru(gru_before, draw, tolerance, evidence):
    """z = σ(W_z [h, x]), r = σ(W_r [h, x]), h̃ = tanh(W [r * h, x]), h' = (1 - z) * h + z * h̃"""
    weights, x = draw.weights("gru-reset-before"), draw.inputs(steps=1)
    h, _ = draw.start(gru_before)
    W = layouts.store(weights, layouts.N_DECK_GRU)
    run = gru_before(weights).run(x, h)
    for k in range(3):
        hx = np.concatenate([h[k], x[k, 0]])
        z, r = expit(W["Wz"] @ hx + W["bz"]), expit(W["Wr"] @ hx + W["br"])
        candidate = np.tanh(W["Wn"] @ np.concatenate([r * h[k], x[k, 0]]) + W["bn"])
        truth = (1 - z) * h[k] + z * candidate
        evidence.close("h_1", run.h[k], truth, tolerance.state(gru_before, weights, 1), at=f"row {k}")


@pytest.mark.claim("conventions.lesson-equations")
def test_the_lessons_gru(gru_before, draw, tolerance, evidence):
    """R, Z = σ(X W + H W + b), H̃ = tanh(X W_xh + (R ⊙ H) W_hh + b_h), H' = Z ⊙ H + (1 - Z) ⊙ H̃"""
    weights, x = draw.weights("gru-reset-before"), draw.inputs(steps=1)
    H, _ = draw.start(gru_before)
    p, X = layouts.store(weights, layouts.L_GRU), x[:, 0]
    R, Z = (expit(X @ p[f"W_x{g}"] + H @ p[f"W_h{g}"] + p[f"b_{g}"]) for g in "rz")
    candidate = np.tanh(X @ p["W_xh"] + (R * H) @ p["W_hh"] + p["b_h"])
    run = gru_before(weights).run(x, H)
    evidence.close("H_1", run.h, Z * H + (1 - Z) * candidate, tolerance.state(gru_before, weights, 1))


@pytest.mark.claim("conventions.pytorch-equations")
def test_pytorchs_gru(gru, draw, tolerance, evidence):
    """r, z = σ(W_i x + b_i + W_h h + b_h), n = tanh(W_in x + b_in + r * (W_hn h + b_hn)), h' = (1 - z) * n + z * h"""
    weights, x = draw.weights("gru"), draw.inputs(steps=1)
    h, _ = draw.start(gru)
    p = layouts.store(weights, layouts.TORCH["gru"])
    given = x[:, 0] @ p["weight_ih"].T + p["bias_ih"]
    recurrent = h @ p["weight_hh"].T + p["bias_hh"]
    (i_r, i_z, i_n), (h_r, h_z, h_n) = np.split(given, 3, axis=1), np.split(recurrent, 3, axis=1)
    r, z = expit(i_r + h_r), expit(i_z + h_z)
    n = np.tanh(i_n + r * h_n)
    evidence.close("h_1", gru(weights).run(x, h).h, (1 - z) * n + z * h, tolerance.state(gru, weights, 1))


@pytest.mark.claim("conventions.update-gate-is-a-relabelling")
def test_negated_update_weights_exchange_keeping_and_writing(any_gru, draw, tolerance, evidence):
    """W_z → -W_z, b_z → -b_z  ⇒  z → 1 - z, and so h' = (1 - z) h + z n becomes z h + (1 - z) n"""
    weights, x = draw.weights(any_gru.kind), draw.inputs(steps=1)
    h, _ = draw.start(any_gru)
    negated = weights.change("update", W_x=np.negative, W_h=np.negative, b_x=np.negative, b_h=np.negative)
    gates = gru_gates(any_gru, weights, x[:, 0], h)
    z, n = gates["update"], gates["candidate"]
    within = tolerance.state(any_gru, weights, 2)
    evidence.close(
        "z of the negated weights - (1 - z)", gru_gates(any_gru, negated, x[:, 0], h)["update"], 1 - z, within
    )
    evidence.close("h_1 of the negated weights", any_gru(negated).run(x, h).h, (1 - z) * h + z * n, within)


@pytest.mark.claim("conventions.reset-placement-is-another-function")
def test_the_reset_before_and_after_the_product_are_different_functions(any_gru, draws, evidence):
    """tanh(W x + (r * h) U) ≠ tanh(W x + r * (h U)) for dense U, in every one of 25 draws"""
    apart = []
    for draw in draws:
        x = draw.inputs()
        h, _ = draw.start(any_gru)
        weights = draw.weights("gru").change("candidate", b_h=np.zeros_like)
        after, before = as_kind(weights, "gru"), as_kind(weights, "gru-reset-before")
        other = before if any_gru.kind == "gru" else after
        found = any_gru(as_kind(weights, any_gru.kind)).run(x, h).outputs
        apart.append(np.abs(found - oracle.forward(other, x, h).outputs).max())
    evidence.at_least("least max |h_t - h_t of the other placement|", min(apart), 0.01, documented="0.2301")


@pytest.mark.claim("conventions.reset-placements-coincide")
@pytest.mark.parametrize("case", ["U diagonal", "r the same for all units"])
def test_the_placements_coincide_for_a_diagonal_product_or_a_uniform_reset(any_gru, case, draw, tolerance, evidence):
    """(r * h) U = r * (h U) iff U is diagonal or r is constant across the units"""
    x = draw.inputs()
    h, _ = draw.start(any_gru)
    weights = draw.weights("gru").change("candidate", b_h=np.zeros_like)
    if case == "U diagonal":
        weights = weights.change("candidate", W_h=lambda W: np.diag(np.diag(W)))
    else:
        weights = weights.without_recurrence("reset").change(
            "reset", W_x=np.zeros_like, b_x=lambda b: np.full_like(b, 0.25), b_h=np.zeros_like
        )
    other = as_kind(weights, "gru-reset-before" if any_gru.kind == "gru" else "gru")
    found, truth = any_gru(as_kind(weights, any_gru.kind)).run(x, h), oracle.forward(other, x, h)
    evidence.close(
        "max |h_t - h_t of the other placement|", found.outputs, truth.outputs, tolerance.state(any_gru, weights, 5)
    )


def as_kind(weights, kind):
    """The same numbers, read as a GRU of the other kind."""
    return type(weights)(kind, weights.blocks)


def the_notebooks_pair():
    """N §7.b: the deck's arrays of seed 1 as the deck reads them and as PyTorch does, and x (3, 1, 4), h (3, 8)."""
    stream = notebook.Stream(0)
    for shape in [(5, 4), (5, 8), (5, 8), (3, 8), (3, 4)]:
        stream.randn(*shape)
    stream.skip_uniform(24 * 4, 24 * 8, 24, 24)
    arrays = notebook.deck_gru_arrays(4, 8, seed=1)
    as_deck = layouts.read(arrays, layouts.N_DECK_GRU)
    as_torch = layouts.read(arrays | {"bnh": np.zeros(8)}, layouts.N_TORCH_GRU)
    return as_deck, as_torch, stream.randn(3, 4)[:, None], stream.randn(3, 8)


@pytest.mark.claim("conventions.printed-disagreement")
def test_the_decks_gru_and_pytorchs_disagree_by_as_much_as_printed(any_gru, evidence):
    """Params seed 1, batch 3: first as they are, then with z exchanged for 1 - z"""
    as_deck, as_torch, x, h = the_notebooks_pair()
    swapped = as_deck.change("update", W_x=np.negative, W_h=np.negative, b_x=np.negative, b_h=np.negative)
    if any_gru.kind == "gru":
        torchs = any_gru(as_torch).run(x, h).h
        decks, exchanged = (oracle.forward(w, x, h).h[:, -1] for w in (as_deck, swapped))
    else:
        torchs = oracle.forward(as_torch, x, h).h[:, -1]
        decks, exchanged = (any_gru(w).run(x, h).h for w in (as_deck, swapped))
    evidence.printed("max |deck - PyTorch|", np.abs(decks - torchs).max(), "1.1268")
    evidence.printed("max |deck with z for 1 - z, - PyTorch|", np.abs(exchanged - torchs).max(), "0.2301")


@pytest.mark.claim("conventions.notebook-parity")
def test_the_notebooks_cell_in_pytorchs_convention_agrees_to_a_millionth(gru, draw, tolerance, evidence):
    """Params seed 1, one step; then 15 steps of a batch of 3 with biases of every kind"""
    _, as_torch, x, h = the_notebooks_pair()
    allowed = tolerance.absolute("notebook")
    step = np.abs(gru(as_torch).run(x, h).h - oracle.forward(as_torch, x, h).h[:, -1]).max()
    evidence.at_most("one step, max |Δh|", step, allowed, documented="2.4e-07")
    weights, X = draw.weights("gru", 4, 8), draw.inputs(3, 15)
    run = np.abs(gru(weights).run(X).outputs - oracle.forward(weights, X).outputs).max()
    evidence.at_most("15 steps, max |Δh|", run, allowed, documented="7.5e-08")


@pytest.mark.claim("conventions.notebook-ranges")
def test_the_notebooks_gru_has_the_printed_gate_ranges(gru_before, evidence):
    """Params seed 0, h_{t-1} and x from the stream after §5"""
    stream = notebook.Stream(0)
    for shape in [(5, 4), (5, 8), (5, 8)]:
        stream.randn(*shape)
    h, x = stream.randn(3, 8), stream.randn(3, 4)
    gates = gru_gates(gru_before, notebook.deck_gru_weights(4, 8, seed=0), x, h)
    z, r = 1 - gates["update"], gates["reset"]
    evidence.printed("least z", z.min(), "0.049")
    evidence.printed("largest z", z.max(), "0.940")
    evidence.printed("least r", r.min(), "0.069")
    evidence.printed("largest r", r.max(), "0.790")


@pytest.mark.claim("conventions.convex-state")
def test_the_new_state_lies_between_the_old_one_and_the_candidate(any_gru, draws, tolerance, evidence):
    """min(h, n) ≤ h' ≤ max(h, n), unit by unit; so |h_t| ≤ max(|h_0|, 1)"""
    outside, growth, beyond = [], [], tolerance.convex(any_gru)
    for draw in draws:
        weights, x = draw.weights(any_gru.kind, scale=3.0), draw.inputs(3, 8, scale=3.0)
        h = np.float32(draw.state(scale=2.0)).astype(np.float64)
        n = gru_gates(any_gru, weights, x[:, 0], h)["candidate"]
        new = any_gru(weights).run(x[:, :1], h).h
        low, high = np.minimum(h, n), np.maximum(h, n)
        size = np.maximum(np.abs(h), 1.0)
        outside.append((np.maximum(low - new, new - high) / size).max())
        growth.append((np.abs(any_gru(weights).run(x, h).outputs).max(axis=1) / size).max())
    evidence.at_most("how far h' leaves [min(h, n), max(h, n)]", max(outside), beyond)
    evidence.at_most("max |h_t| / max(|h_0|, 1)", max(growth), 1 + 8 * beyond)


@pytest.mark.claim("conventions.lstm-cell-grows")
@pytest.mark.parametrize("steps", [1, 100])
def test_the_lstms_cell_grows_by_one_a_step(lstm, steps, draw, evidence):
    """f = i = 1, C̃ = 1  ⇒  C_t = C_0 + t, the bound |C_t| ≤ |C_0| + t attained"""
    weights = draw.weights("lstm").pin(forget=1000.0, input=1000.0, candidate=1000.0)
    h, _ = draw.start(lstm)
    start = np.round(draw.state() * 8) / 8
    end = lstm(weights).run(draw.inputs(3, steps), h, start).c
    evidence.equal("C_T - (C_0 + T)", end, start + steps)
