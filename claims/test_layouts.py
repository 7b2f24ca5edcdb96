"""Layouts: the same cell in the documents' matrices and in PyTorch's stacked blocks.

N §2.a-b, §7.b; W «Create Arbitrary Weights»; L §2, §3. X01, X02.
"""

from itertools import islice

import numpy as np
import pytest
from scipy.special import expit

from fixtures.probes import OPEN, gru_gates, lstm_gates
from reference import layouts, notebook, oracle


@pytest.mark.claim("layouts.round-trip")
@pytest.mark.parametrize("name", sorted(layouts.LAYOUTS))
def test_stored_and_read_back_every_number_is_the_same(name, draw, evidence):
    """read(store(θ)) = θ, bit for bit"""
    layout = layouts.LAYOUTS[name]
    weights = draw.weights(layout.kind).change(W_x=lambda W: W / 3, W_h=lambda W: W / 7)  # more digits than float32 has
    weights = fitting(weights, layout)
    arrays = layouts.store(weights, layout)
    back = layouts.read(arrays, layout)
    for parameter, array in weights.parameters().items():
        evidence.equal(parameter, back.parameters()[parameter], array)
    numbers = sum(array.size for array in weights.parameters().values())
    unused = sum(array.size for array in weights.parameters().values() if not array.any())
    evidence.exactly("numbers stored", sum(array.size for array in arrays.values()), numbers - unused)


def fitting(weights, layout):
    """The weights as far as a layout has places for them: biases that it lacks are zero."""
    if len(layout.biases) == 2:
        return weights
    single = [gate for gate in weights.blocks if not (layout.inner_bias and gate == "candidate")]
    weights = weights.change(*single, b_h=np.zeros_like)
    return weights if layout.biases else weights.change(b_x=np.zeros_like)


@pytest.mark.claim("layouts.notebook-round-trip")
def test_the_decks_matrices_come_back_from_pytorch_exactly(lstm, evidence):
    """W_f, W_i, W_C, W_o (H, H + D) → weight_ih (4H, D), weight_hh (4H, H) → W_f, W_i, W_C, W_o"""
    deck = layouts.store(notebook.lstm_weights(4, 8, seed=1, forget_bias=0.5), layouts.N_LSTM)
    torch_arrays = layouts.store(layouts.read(deck, layouts.N_LSTM), layouts.TORCH["lstm"])
    loaded = lstm(layouts.read(torch_arrays, layouts.TORCH["lstm"]))
    held = loaded.parameters()
    if "weight_ih" in held:
        evidence.equal("weight_ih in the module", held["weight_ih"], torch_arrays["weight_ih"])
        evidence.equal("weight_hh in the module", held["weight_hh"], torch_arrays["weight_hh"])
        torch_arrays = held
    back = layouts.store(layouts.read(torch_arrays, layouts.TORCH["lstm"]), layouts.N_LSTM)
    for name, array in deck.items():
        evidence.equal(f"{name} from the deck and back", back[name], array)


@pytest.mark.claim("layouts.column-form")
def test_the_decks_column_form_is_the_same_lstm(lstm, draw, tolerance, evidence):
    """f = σ(W_f [h, x] + b_f) and likewise i, C̃, o, with one vector [h, x] of H + D numbers and W (H, H + D)"""
    weights, x = draw.weights("lstm"), draw.inputs(steps=1)
    h, C = draw.start(lstm)
    W = layouts.store(weights, layouts.N_LSTM)
    run = lstm(weights).run(x, h, C)
    for k in range(3):
        hx = np.concatenate([h[k], x[k, 0]])
        f, i, o = (expit(W[f"W{gate}"] @ hx + W[f"b{gate}"]) for gate in "fio")
        C_new = f * C[k] + i * np.tanh(W["WC"] @ hx + W["bC"])
        within = tolerance.state(lstm, weights, 1)
        evidence.close("C_1", run.c[k], C_new, within, at=f"row {k}")
        evidence.close("h_1", run.h[k], o * np.tanh(C_new), within, at=f"row {k}")


@pytest.mark.claim("layouts.row-form")
def test_the_row_form_of_article_and_lesson_is_the_same_lstm(lstm, draw, tolerance, evidence):
    """F = σ(X W_xf + H W_hf + b_f) and likewise I, C̃, O, a batch of rows at once; W leaves the biases out"""
    weights, x = draw.weights("lstm"), draw.inputs(steps=1)
    H, C = draw.start(lstm)
    for layout in (layouts.L_LSTM, layouts.W_LSTM):
        held = fitting(weights, layout)
        p, X = layouts.store(held, layout), x[:, 0]
        affine = {g: X @ p[f"W_x{g}"] + H @ p[f"W_h{g}"] + p.get(f"b_{g}", 0.0) for g in "fico"}
        C_new = expit(affine["f"]) * C + expit(affine["i"]) * np.tanh(affine["c"])
        run, within = lstm(held).run(x, H, C), tolerance.state(lstm, held, 1)
        evidence.close(f"C_1, {layout.name}", run.c, C_new, within)
        evidence.close(f"h_1, {layout.name}", run.h, expit(affine["o"]) * np.tanh(C_new), within)


@pytest.mark.claim("layouts.lstm-blocks")
def test_pytorch_stacks_input_forget_candidate_output(lstm, draw, tolerance, evidence):
    """Rows kH : (k + 1)H of the kernels and biases are i, f, g, o: driving one block opens that gate alone."""
    weights, x = draw.weights("lstm"), draw.inputs(steps=1)[:, 0]
    h, _ = draw.start(lstm)
    rest = lstm_gates(lstm, weights, x, h)
    for k, gate in enumerate(("input", "forget", "candidate", "output")):
        arrays = layouts.store(weights, layouts.TORCH["lstm"])
        arrays["bias_ih"][7 * k : 7 * (k + 1)] += OPEN
        arrays["weight_ih"][7 * k : 7 * (k + 1)] = 0
        arrays["weight_hh"][7 * k : 7 * (k + 1)] = 0
        driven = lstm_gates(lstm, layouts.read(arrays, layouts.TORCH["lstm"]), x, h)
        for name, value in driven.items():
            truth = np.ones_like(value) if name == gate else rest[name]
            evidence.close(f"{name} with rows {k}H : {k + 1}H driven", value, truth, tolerance.state(lstm, weights, 2))


@pytest.mark.claim("layouts.gru-blocks")
def test_pytorch_stacks_reset_update_candidate_and_the_update_gate_keeps(gru, draw, tolerance, evidence):
    """Rows 0:H are r, H:2H are z, which multiplies h_{t-1}, and 2H:3H are n."""
    weights, x = draw.weights("gru"), draw.inputs(steps=1)[:, 0]
    h, _ = draw.start(gru)
    rest = gru_gates(gru, weights, x, h)
    within = tolerance.state(gru, weights, 4)
    for k, gate in enumerate(("reset", "update")):
        arrays = layouts.store(weights, layouts.TORCH["gru"])
        arrays["bias_ih"][7 * k : 7 * (k + 1)] += OPEN
        driven = gru_gates(gru, layouts.read(arrays, layouts.TORCH["gru"]), x, h)
        evidence.close(f"{gate} with rows {k}H : {k + 1}H driven", driven[gate], np.ones_like(h), within)
        other = "update" if gate == "reset" else "reset"
        evidence.close(f"{other} with rows {k}H : {k + 1}H driven", driven[other], rest[other], within)
    arrays["bias_ih"][14:] -= OPEN
    kept = gru(layouts.read(arrays, layouts.TORCH["gru"])).run(x[:, None], h)
    evidence.close("h_1 with z = 1, against h_0", kept.h, h, within)


@pytest.mark.claim("layouts.kernel-rows")
def test_the_decks_product_is_pytorchs_two_products(lstm, draw, tolerance, evidence):
    """W_f [h, x] = weight_hh[H:2H] h + weight_ih[H:2H] x, read off the forget gate of the cell"""
    weights, x = draw.weights("lstm"), draw.inputs(steps=1)[:, 0]
    h, _ = draw.start(lstm)
    arrays = layouts.store(weights, layouts.TORCH["lstm"])
    rows = slice(7, 14)
    product = h @ arrays["weight_hh"][rows].T + x @ arrays["weight_ih"][rows].T
    bias = arrays["bias_ih"][rows] + arrays["bias_hh"][rows]
    f = lstm_gates(lstm, weights, x, h)["forget"]
    evidence.close("f - σ(of the rows)", f, expit(product + bias), tolerance.state(lstm, weights, 1))


@pytest.mark.claim("layouts.two-biases")
@pytest.mark.parametrize("moved", [0.25, 4.0])
def test_two_biases_act_through_their_sum(cell, moved, draw, tolerance, evidence):
    """b_ih + m and b_hh - m give the same cell, but for the candidate of the GRU with the reset after the product."""
    weights, x = draw.weights(cell.kind), draw.inputs()
    h, c = draw.start(cell)
    summed = [gate for gate in weights.blocks if not (cell.kind == "gru" and gate == "candidate")]
    same = weights.change(*summed, b_x=lambda b: b + moved, b_h=lambda b: b - moved)
    run, other = cell(weights).run(x, h, c), cell(same).run(x, h, c)
    evidence.close(
        "max |h_t - h_t with mass moved|", other.outputs, run.outputs, tolerance.state(cell, weights, 5) * (1 + moved)
    )


@pytest.mark.claim("layouts.inner-bias")
def test_the_bias_inside_the_reset_product_is_no_other_bias(gru, draw, evidence):
    """n = tanh(W x + b_in + r (U h + b_hn)): what is moved from b_hn to b_in changes the GRU"""
    weights, x = draw.weights("gru"), draw.inputs()
    h, _ = draw.start(gru)
    moved = weights.change("candidate", b_x=lambda b: b + 0.5, b_h=lambda b: b - 0.5)
    change = np.abs(gru(moved).run(x, h).outputs - gru(weights).run(x, h).outputs).max()
    truth = np.abs(oracle.forward(moved, x, h).outputs - oracle.forward(weights, x, h).outputs).max()
    evidence.at_least("max |h_t - h_t with mass moved|", change, 0.01)
    evidence.close("that, against the oracle's", change, truth, within=1e-3)


@pytest.mark.claim("layouts.agreement-is-exact")
def test_the_map_is_exact(cell, draws, evidence):
    """h_T of the cell in its number format = h_T of the equations, bit for bit, over 25 draws"""
    runs, truths = [], []
    for draw in draws:
        weights, x = draw.weights(cell.kind), draw.inputs(3, 12)
        h, c = draw.start(cell)
        runs.append(cell(weights).run(x, h, c).outputs)
        truths.append(oracle.forward(weights, x, h, c).outputs.astype(cell.dtype))
    evidence.equal("max |h_t - equations rounded once|", np.stack(runs), np.stack(truths))


@pytest.mark.claim("layouts.notebook-lstm-parity")
def test_the_notebooks_lstm_is_pytorchs_to_a_millionth(lstm, tolerance, evidence):
    """Params seed 1, forget bias 0.5, batch 3: one step, then 12 steps"""
    weights, stream = notebook.lstm_weights(4, 8, seed=1, forget_bias=0.5), notebook.Stream(0)
    stream.skip_uniform(32 * 4, 32 * 8, 32, 32)
    x, h, C = stream.randn(3, 4), stream.randn(3, 8), stream.randn(3, 8)
    stream.skip_uniform(32 * 4, 32 * 8, 32, 32)
    X = stream.randn(3, 12, 4)
    allowed = tolerance.absolute("notebook")
    step, deck = lstm(weights).run(x[:, None], h, C), oracle.forward(weights, x[:, None], h, C)
    evidence.at_most("one step, max |Δh|", np.abs(step.h - deck.h[:, -1]).max(), allowed, documented="5.96e-08")
    evidence.at_most("one step, max |ΔC|", np.abs(step.c - deck.c[:, -1]).max(), allowed, documented="7.45e-08")
    run, deck = lstm(weights).run(X), oracle.forward(weights, X)
    evidence.at_most("12 steps, max |Δh|", np.abs(run.outputs - deck.outputs).max(), allowed, documented="1.19e-07")
    evidence.at_most("12 steps, max |ΔC_T|", np.abs(run.c - deck.c[:, -1]).max(), allowed, documented="6.71e-08")


@pytest.mark.claim("layouts.notebook-ranges")
def test_the_notebooks_first_step_has_the_printed_ranges(lstm, evidence):
    """Params seed 0, a batch of 5 from the stream that the last RNN run left behind, zero state"""
    weights, stream = notebook.lstm_weights(4, 8, seed=0), notebook.Stream(0)
    stream.skip_uniform(64 * 13, 64 * 64, 64, 64, 8 * 64, 8)
    stream.skip_recall_training(steps=800, batch=128, gap=80)
    x, zeros = stream.randn(5, 4), np.zeros((5, 8))
    run = lstm(weights).run(x[:, None], zeros, zeros)
    evidence.exactly("shape of h_t", str(run.h.shape), "(5, 8)")
    evidence.exactly("shape of C_t", str(run.c.shape), "(5, 8)")
    printed = {
        "forget": ("0.060", "0.918"),
        "input": ("0.257", "0.757"),
        "output": ("0.106", "0.776"),
        "candidate": ("-0.919", "0.781"),
    }
    for name, value in lstm_gates(lstm, weights, x, zeros).items():
        evidence.printed(f"least {name}", value.min(), printed[name][0])
        evidence.printed(f"largest {name}", value.max(), printed[name][1])


@pytest.mark.claim("layouts.gates-in-closed-interval")
@pytest.mark.parametrize("pull", [0.0, 40.0, -40.0, 100.0, -100.0])
def test_gates_lie_in_the_closed_unit_interval(lstm, pull, draws, evidence):
    """0 ≤ f, i, o ≤ 1 and -1 ≤ C̃ ≤ 1"""
    least, largest, candidate = 1.0, 0.0, 0.0
    for draw in islice(draws, 5):
        weights, x = draw.weights("lstm"), draw.inputs(batch=15, steps=1, scale=3.0)[:, 0]
        h, _ = draw.start(lstm, 15)
        values = lstm_gates(lstm, weights.pin(forget=pull, input=pull, output=pull), x, h)
        gates = np.stack([values["forget"], values["input"], values["output"]])
        least, largest = min(least, gates.min()), max(largest, gates.max())
        candidate = max(candidate, np.abs(values["candidate"]).max())
    evidence.at_least("least gate", least, 0.0)
    evidence.at_most("largest gate", largest, 1.0 + 2 * lstm.eps)
    evidence.at_most("largest |candidate|", candidate, 1.0)


@pytest.mark.claim("layouts.gates-in-open-interval")
def test_gates_lie_in_the_open_unit_interval(lstm, draw, evidence):
    """0 < f < 1, with a pre-activation of ±1000"""
    weights, x = draw.weights("lstm"), draw.inputs(steps=1)[:, 0]
    h, _ = draw.start(lstm)
    opened, shut = (lstm_gates(lstm, weights.pin(forget=pull), x, h)["forget"] for pull in (1000.0, -1000.0))
    evidence.at_most("largest f, pre-activation about +1000", opened.max(), 1.0 - lstm.eps / 2)
    evidence.at_least("least f, pre-activation about -1000", shut.min(), np.finfo(lstm.dtype).smallest_subnormal)


@pytest.mark.claim("layouts.gates-follow-the-context")
def test_gates_are_computed_from_the_context(lstm, draw, evidence):
    """Another input, or another h_{t-1}, gives every gate another value."""
    weights, x = draw.weights("lstm"), draw.inputs(2, 1)[:, 0]
    h, _ = draw.start(lstm, 2)
    here = lstm_gates(lstm, weights, x, h)
    elsewhere = {
        "input x": lstm_gates(lstm, weights, x[[1, 0]], h),
        "state h": lstm_gates(lstm, weights, x, h[[1, 0]]),
    }
    for change, values in elsewhere.items():
        for name, value in values.items():
            evidence.at_least(f"least |Δ{name}| under another {change}", np.abs(value - here[name]).min(), 1e-4)
