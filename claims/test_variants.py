"""Variants of the LSTM: peepholes and coupled gates.

N §5, §7. E15, E32. The notebook's peephole is a full H × H matrix; Gers & Schmidhuber 2000, TensorFlow and ONNX have
one weight per unit.
"""

import numpy as np
import pytest
from scipy.special import expit

from reference import layouts, notebook, oracle
from reference.weights import Block, Weights


def the_notebooks_variants():
    """N §5: weights of seed 4 with peepholes, and x (5, 1, 4), h and C (5, 8) from set_seed(0)."""
    stream = notebook.Stream(0)
    x, h, C = stream.randn(5, 4), stream.randn(5, 8), stream.randn(5, 8)
    return notebook.peephole_weights(4, 8, seed=4), x[:, None], h, C


@pytest.mark.claim("variants.peephole-equations")
def test_forget_and_input_gate_see_the_old_cell_and_the_output_gate_the_new_one(
    peephole_lstm, draw, tolerance, evidence
):
    """f, i = σ(W [h, x] + P C_{t-1} + b),  C_t = f C_{t-1} + i C̃,  o = σ(W_o [h, x] + P_o C_t + b_o)"""
    weights, x = draw.weights(peephole_lstm.kind), draw.inputs(steps=1)
    h, C = draw.start(peephole_lstm)

    def affine(gate):
        block = weights[gate]
        return x[:, 0] @ block.W_x + h @ block.W_h + block.b

    def peep(gate, cell):
        P = weights[gate].P
        return cell @ P if P.ndim == 2 else cell * P

    f, i = (expit(affine(gate) + peep(gate, C)) for gate in ("forget", "input"))
    C_new = f * C + i * np.tanh(affine("candidate"))
    o = expit(affine("output") + peep("output", C_new))
    run, within = peephole_lstm(weights).run(x, h, C), tolerance.state(peephole_lstm, weights, 1)
    evidence.close("C_1", run.c, C_new, within)
    evidence.close("h_1", run.h, o * np.tanh(C_new), within)
    stale = expit(affine("output") + peep("output", C))
    evidence.at_least("max |h_1 - h_1 with o on the old cell|", np.abs(run.h - stale * np.tanh(C_new)).max(), 0.01)


@pytest.mark.claim("variants.gates-blind-behind-a-shut-output")
def test_without_peepholes_a_shut_output_gate_hides_the_cell_from_the_gates(lstm, draw, evidence):
    """o = 0  ⇒  the gates of the next step are the same whatever C is: C_2 is linear in C_0"""
    weights, x = draw.weights("lstm").pin(output=-1000.0), draw.inputs(1, 2)
    h, c = draw.start(lstm, 1)
    here, there = (lstm(weights).jacobian(x, h, start, of="c", wrt="c") for start in (c, -3 * c))
    evidence.equal("∂C_2/∂C_0 at C_0 and at -3 C_0", here, there)


@pytest.mark.claim("variants.peepholes-see-behind-a-shut-output")
def test_with_peepholes_the_gates_see_the_cell_behind_a_shut_output_gate(peephole_lstm, draw, tolerance, evidence):
    """o = 0  ⇒  ∂f_{t+1}/∂C_t = P_f f (1 - f): the Jacobian depends on C, as the oracle's does"""
    weights, x = draw.weights(peephole_lstm.kind).pin(output=-1000.0), draw.inputs(1, 2)
    h, c = draw.start(peephole_lstm, 1)
    within = tolerance.gradient(peephole_lstm, weights, 2)
    jacobians = []
    for name, start in {"C_0": c, "-3 C_0": -3 * c}.items():
        jacobians.append(peephole_lstm(weights).jacobian(x, h, start, of="c", wrt="c"))
        truth = oracle.jacobian(oracle.forward(weights, x, h, start), "c", "c")
        evidence.close_gradient("∂C_2/∂C_0", jacobians[-1], truth, within, at=f"at {name}")
    evidence.at_least("max |∂C_2/∂C_0 at C_0 - at -3 C_0|", np.abs(jacobians[0] - jacobians[1]).max(), 0.05)


@pytest.mark.claim("variants.coupled-writes-where-it-forgets")
def test_coupled_gates_write_only_where_they_forget(coupled_lstm, draw, tolerance, evidence):
    """C_t = f C_{t-1} + (1 - f) C̃: f = 1 keeps all and writes nothing, f = 0 writes all and keeps nothing"""
    weights, x = draw.weights("lstm-coupled"), draw.inputs(steps=1)
    h, C = draw.start(coupled_lstm)
    n = weights["candidate"]
    candidate = np.tanh(x[:, 0] @ n.W_x + h @ n.W_h + n.b)
    f = expit(x[:, 0] @ weights["forget"].W_x + h @ weights["forget"].W_h + weights["forget"].b)
    within = tolerance.state(coupled_lstm, weights, 1)
    kept = coupled_lstm(weights.pin(forget=1000.0)).run(x, h, C)
    written = coupled_lstm(weights.pin(forget=-1000.0)).run(x, h, C)
    evidence.equal("f = 1: C_1 - C_0", kept.c, C.astype(coupled_lstm.dtype))
    evidence.close("f = 0: C_1 - C̃", written.c, candidate, within)
    evidence.close(
        "C_1 - (f C_0 + (1 - f) C̃)", coupled_lstm(weights).run(x, h, C).c, f * C + (1 - f) * candidate, within
    )


def tied(weights):
    """The standard LSTM with W_i = -W_f and b_i = -b_f, so that σ(-a) = 1 - σ(a) couples its gates."""
    f = weights["forget"]
    return Weights("lstm", {**weights.blocks, "input": Block(-f.W_x, -f.W_h, -f.b_x, -f.b_h)})


def without_input_gate(weights):
    return Weights("lstm-coupled", {gate: weights[gate] for gate in ("forget", "candidate", "output")})


@pytest.mark.claim("variants.coupled-is-the-tied-lstm")
def test_a_standard_lstm_with_tied_gates_is_the_coupled_cell(lstm, draw, tolerance, evidence):
    """W_i = -W_f, b_i = -b_f: the subject against the coupled equations, on random weights and the notebook's"""
    coupled, x = draw.weights("lstm-coupled"), draw.inputs()
    h, C = draw.start(lstm)
    run, truth = lstm(tied(coupled)).run(x, h, C), oracle.forward(coupled, x, h, C)
    evidence.close("h_t", run.outputs, truth.outputs, tolerance.state(lstm, coupled, 5))
    weights, x, h, C = the_notebooks_variants()
    plain = Weights("lstm", {gate: Block(b.W_x, b.W_h, b.b_x, b.b_h) for gate, b in weights.blocks.items()})
    run, truth = lstm(tied(plain)).run(x, h, C), oracle.forward(without_input_gate(plain), x, h, C)
    allowed = tolerance.absolute("notebook")
    evidence.at_most("the notebook's: max |Δh|", np.abs(run.h - truth.h[:, -1]).max(), allowed, documented="6.0e-08")
    evidence.at_most("the notebook's: max |ΔC|", np.abs(run.c - truth.c[:, -1]).max(), allowed, documented="6.0e-08")


@pytest.mark.claim("variants.coupled-is-the-tied-lstm")
def test_the_coupled_cell_is_the_standard_equations_with_tied_gates(coupled_lstm, draw, tolerance, evidence):
    """The coupled subject against the standard equations with W_i = -W_f, b_i = -b_f"""
    coupled, x = draw.weights("lstm-coupled"), draw.inputs()
    h, C = draw.start(coupled_lstm)
    run, truth = coupled_lstm(coupled).run(x, h, C), oracle.forward(tied(coupled), x, h, C)
    evidence.close("h_t", run.outputs, truth.outputs, tolerance.state(coupled_lstm, coupled, 5))
    evidence.close("C_T", run.c, truth.c[:, -1], tolerance.state(coupled_lstm, coupled, 5))


@pytest.mark.claim("variants.notebook-shapes")
def test_the_notebooks_variants_have_the_printed_shapes(any_lstm, evidence):
    """h, C (5, 8) for a batch of 5 and 8 units"""
    weights, x, h, C = the_notebooks_variants()
    run = any_lstm(as_kind(weights, any_lstm.kind)).run(x, h, C)
    evidence.exactly("shape of h", str(run.h.shape), "(5, 8)")
    evidence.exactly("shape of C", str(run.c.shape), "(5, 8)")


def as_kind(weights, kind):
    """The notebook's full-peephole weights as those of another kind of LSTM."""
    if kind == "lstm-coupled":
        return Weights(kind, {g: Block(b.W_x, b.W_h, b.b_x, b.b_h) for g, b in weights.blocks.items() if g != "input"})
    peephole = {"lstm": lambda P: None, "lstm-peephole": lambda P: P, "lstm-peephole-diagonal": np.diag}[kind]
    blocks = {
        gate: Block(b.W_x, b.W_h, b.b_x, b.b_h, None if b.P is None else peephole(b.P))
        for gate, b in weights.blocks.items()
    }
    return Weights(kind, blocks)


@pytest.mark.claim("variants.parameter-counts")
def test_the_variants_parameter_counts(any_lstm, evidence):
    """D = 4, H = 8: 4H(H + D + 1) = 416, with full peepholes + 3H² = 608, diagonal + 3H = 440; coupled 312"""
    weights, *_ = the_notebooks_variants()
    loaded = any_lstm(as_kind(weights, any_lstm.kind))
    second_biases = (any_lstm.biases - 1) * 8 * len(as_kind(weights, any_lstm.kind).blocks)
    printed = {"lstm": 416, "lstm-peephole": 608, "lstm-peephole-diagonal": 440, "lstm-coupled": 312}[any_lstm.kind]
    evidence.exactly("parameters, one bias per gate", loaded.parameter_count() - second_biases, printed)


SIZES = [(4, 8), (13, 64), (3, 2), (10, 20)]


def peephole_parameters(subject, d, h):
    """How many parameters a peephole LSTM has beyond the 4 (dh + h² + h) of the standard one."""
    blank = np.zeros((d, h)), np.zeros((h, h)), np.zeros(h), np.zeros(h)
    P = np.zeros((h, h)) if subject.kind == "lstm-peephole" else np.zeros(h)
    blocks = {
        gate: Block(*blank, None if gate == "candidate" else P) for gate in ("forget", "input", "candidate", "output")
    }
    return subject(Weights(subject.kind, blocks)).parameter_count() - 4 * (d * h + h * h + h)


@pytest.mark.claim("variants.full-peepholes-add-matrices")
def test_three_full_peepholes_add_three_matrices(full_peephole_lstm, evidence):
    """+ 3h²"""
    for d, h in SIZES:
        more = peephole_parameters(full_peephole_lstm, d, h)
        evidence.exactly(f"parameters beyond the standard LSTM's at d = {d}, h = {h}", more, 3 * h * h)


@pytest.mark.claim("variants.diagonal-peepholes-add-vectors")
@pytest.mark.parametrize(("d", "h"), [(4, 8), (13, 64), (3, 1), (10, 20)])
def test_three_diagonal_peepholes_add_three_vectors(diagonal_peephole_lstm, d, h, evidence):
    """+ 3h"""
    evidence.exactly("parameters beyond the standard LSTM's", peephole_parameters(diagonal_peephole_lstm, d, h), 3 * h)


@pytest.mark.claim("variants.peepholes-add-matrices")
@pytest.mark.parametrize(("d", "h"), [(4, 8), (13, 64)])
def test_every_peephole_adds_a_matrix(diagonal_peephole_lstm, d, h, evidence):
    """+ h² per peephole, also for the peephole as it was proposed and as frameworks have it"""
    evidence.exactly(
        "parameters beyond the standard LSTM's", peephole_parameters(diagonal_peephole_lstm, d, h), 3 * h * h
    )


@pytest.mark.claim("variants.gru-is-the-coupled-lstm")
def test_the_gru_is_the_coupled_lstm(any_gru, draw, evidence):
    """h_t of the GRU = h_t of the coupled LSTM with f = the kept share and the same candidate, output gate open"""
    weights, x = draw.weights(any_gru.kind), draw.inputs()
    h, _ = draw.start(any_gru)
    coupled = Weights(
        "lstm-coupled", {"forget": weights["update"], "candidate": weights["candidate"], "output": opened(weights)}
    )
    truth = oracle.forward(coupled, x, h, h).outputs
    evidence.close("h_t of the GRU - h_t of the coupled LSTM", any_gru(weights).run(x, h).outputs, truth, within=1e-3)


def opened(weights):
    """An output gate that is 1 whatever it sees."""
    block = weights["update"]
    return Block(
        np.zeros_like(block.W_x), np.zeros_like(block.W_h), np.full_like(block.b_x, 1000.0), np.zeros_like(block.b_h)
    )


@pytest.mark.claim("variants.only-the-blend-is-shared")
def test_gru_and_coupled_lstm_share_the_blend(any_gru, draw, tolerance, evidence):
    """With r = 1 and the same state, one step of the GRU is the coupled LSTM's cell update: f C + (1 - f) C̃"""
    weights, x = draw.weights(any_gru.kind).pin(reset=1000.0), draw.inputs(steps=1)
    h, _ = draw.start(any_gru)
    coupled = Weights(
        "lstm-coupled", {"forget": weights["update"], "candidate": weights["candidate"], "output": opened(weights)}
    )
    cell = oracle.forward(coupled, x, h, h).c[:, -1]
    within = tolerance.state(any_gru, weights, 1)
    evidence.close("h_1 of the GRU - C_1 of the coupled LSTM", any_gru(weights).run(x, h).h, cell, within)


@pytest.mark.claim("variants.layout-of-peepholes")
def test_the_notebooks_peephole_step(full_peephole_lstm, tolerance, evidence):
    """N §5 in its own columns: f = σ(W_f [h, x] + P_f C + b_f), with the draws of seed 4"""
    weights, x, h, C = the_notebooks_variants()
    W = layouts.store(Weights("lstm", weights.blocks), layouts.N_LSTM)
    P = {letter: weights[gate].P.T for letter, gate in (("f", "forget"), ("i", "input"), ("o", "output"))}
    run = full_peephole_lstm(weights).run(x, h, C)
    within = tolerance.state(full_peephole_lstm, weights, 1)
    for k in range(5):
        hx = np.concatenate([h[k], x[k, 0]])
        f, i = (expit(W[f"W{g}"] @ hx + P[g] @ C[k] + W[f"b{g}"]) for g in "fi")
        C_new = f * C[k] + i * np.tanh(W["WC"] @ hx + W["bC"])
        o = expit(W["Wo"] @ hx + P["o"] @ C_new + W["bo"])
        evidence.close("C_1", run.c[k], C_new, within, at=f"row {k}")
        evidence.close("h_1", run.h[k], o * np.tanh(C_new), within, at=f"row {k}")
