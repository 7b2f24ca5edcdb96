"""The cells: every subject computes what its equations say, forward and backward, alone and in batches, step by step.

N §2, §5, §7; W «The Building Blocks», «GRU»; L §2, §3. The truth is the oracle: the same equations in numpy, float64,
differentiated by hand.
"""

import numpy as np
import pytest

from fixtures.settings import as_dtype
from reference import oracle

# Batch, steps, features and units: pairwise different, one each, square kernels, around 128, and B·T above 65,536.
SHAPES = [
    (3, 5, 4, 7),
    (3, 1, 4, 7),
    (3, 5, 4, 1),
    (2, 5, 6, 6),
    (130, 2, 9, 127),
    (3, 2, 9, 128),
    (1, 2, 9, 129),
]
LONG, WIDE = (65, 1025, 2, 3), (21877, 3, 2, 3)


def named(shape):
    return "B {} T {} D {} H {}".format(*shape)


@pytest.mark.claim("cells.step-parity")
def test_one_step_is_the_equations(cell, draw, tolerance, evidence):
    """h_1, C_1 = cell(x_1, h_0, C_0)"""
    for batch, _, features, units in SHAPES:
        weights, x = draw.weights(cell.kind, features, units), draw.inputs(batch, 1, features)
        h, c = draw.start(cell, batch, units)
        run, truth = cell(weights).run(x, h, c), oracle.forward(weights, x, h, c)
        within, at = tolerance.state(cell, weights, 1), f"B {batch} D {features} H {units}"
        evidence.close("max |h_1 - oracle|", run.h, truth.h[:, -1], within, at=at)
        if c is not None:
            evidence.close("max |C_1 - oracle|", run.c, truth.c[:, -1], within, at=at)


@pytest.mark.claim("cells.sequence-parity")
def test_a_sequence_is_the_equations_step_by_step(cell, draw, tolerance, evidence):
    """h_t, C_t = cell(x_t, h_{t-1}, C_{t-1}),  t = 1 … T, in training mode as in evaluation"""
    big = LONG if cell.dtype == "float32" else WIDE
    for shape in [*SHAPES, big]:
        batch, steps, features, units = shape
        weights, x = draw.weights(cell.kind, features, units), draw.inputs(batch, steps, features)
        h, c = draw.start(cell, batch, units)
        truth, within = oracle.forward(weights, x, h, c), tolerance.state(cell, weights, steps)
        loaded = cell(weights)
        run = loaded.run(x, h, c)
        evidence.close("max |h_t - oracle|", run.outputs, truth.outputs, within, at=named(shape))
        evidence.close("max |h_T - oracle|", run.h, truth.h[:, -1], within, at=named(shape))
        if c is not None:
            evidence.close("max |C_T - oracle|", run.c, truth.c[:, -1], within, at=named(shape))
        if shape != big:
            trained = loaded.run(x, h, c, training=True)
            evidence.close("max |h_t - oracle| in training", trained.outputs, truth.outputs, within, at=named(shape))


@pytest.mark.claim("cells.gradient-parity")
def test_gradients_are_the_chain_rule(cell, draw, tolerance, evidence):
    """∂L/∂x, ∂L/∂h_0, ∂L/∂C_0 and ∂L/∂θ for every parameter θ, with L of the outputs, of h_T, of C_T, and of all"""
    for shape in [(3, 5, 4, 7), (1, 3, 4, 7), (3, 4, 5, 1), (2, 3, 6, 6), (5, 2, 9, 129)]:
        batch, steps, features, units = shape
        weights, x = draw.weights(cell.kind, features, units), draw.inputs(batch, steps, features)
        h, c = draw.start(cell, batch, units)
        tape, within = oracle.forward(weights, x, h, c), tolerance.gradient(cell, weights, steps)
        pulls = {
            "outputs": {"outputs": draw.upstream(batch, steps, units)},
            "h_T": {"h": draw.upstream(batch, units)},
            "C_T": {"c": draw.upstream(batch, units)},
        }
        if c is None:
            del pulls["C_T"]
        pulls["all"] = {name: pull for one in pulls.values() for name, pull in one.items()}
        pulls["outputs, 0 of the rest"] = {name: pull * (name == "outputs") for name, pull in pulls["all"].items()}
        found = cell(weights).gradients(x, h, c, *pulls.values())
        for loss, gradients in zip(pulls, found, strict=True):
            truth = oracle.backward(tape, **pulls[loss])
            # A sum over batch and steps may cancel, so the scale is that of the whole gradient.
            scale = max(np.abs(gradient).max() for gradient in truth.parameters.values())
            at = f"L of {loss}, {named(shape)}"
            evidence.close_gradient("∂L/∂x", gradients.x, truth.x, within, scale, at)
            evidence.close_gradient("∂L/∂h_0", gradients.h, truth.h, within, scale, at)
            if c is not None:
                evidence.close_gradient("∂L/∂C_0", gradients.c, truth.c, within, scale, at)
            for name, gradient in truth.parameters.items():
                evidence.close_gradient(f"∂L/∂{name}", gradients.parameters[name], gradient, within, scale, at)


@pytest.mark.claim("cells.gradient-parity")
def test_gradients_reach_back_through_a_wide_batch(cell, draw, tolerance, evidence):
    """∂L/∂x of each of 65,631 steps, B · T above 65,536, and ∂L/∂θ with L of the last of them"""
    batch, steps, features, units = WIDE
    weights, x = draw.weights(cell.kind, features, units), draw.inputs(batch, steps, features)
    h, c = draw.start(cell, batch, units)
    pull = {"outputs": draw.upstream(batch, steps, units)}
    # A sum over all rows would drown what a few of them lack.
    last = {"outputs": np.where(np.arange(batch)[:, None, None] < batch - 20, 0.0, pull["outputs"])}
    tape, within = oracle.forward(weights, x, h, c), tolerance.gradient(cell, weights, steps)
    found, of_last = cell(weights).gradients(x, h, c, pull, last)
    evidence.close_gradient("∂L/∂x", found.x, oracle.backward(tape, **pull).x, within, at=named(WIDE))
    truth = oracle.backward(tape, **last).parameters
    scale = max(np.abs(gradient).max() for gradient in truth.values())  # a sum over rows may cancel
    for name, gradient in truth.items():
        evidence.close_gradient(f"∂L/∂{name}, L of the last rows", of_last.parameters[name], gradient, within, scale)


@pytest.mark.claim("cells.omitted-state")
def test_an_omitted_state_is_zero(cell, draw, evidence):
    """cell(x) = cell(x, 0, 0), bit for bit, and so are their gradients"""
    weights = draw.weights(cell.kind)
    for batch, steps in [(3, 5), (1, 1), (3, 1)]:
        x, zeros = draw.inputs(batch, steps), np.zeros((batch, 7))
        loaded = cell(weights)
        omitted, given = loaded.run(x), loaded.run(x, zeros, zeros if cell.has_cell_state else None)
        evidence.equal(f"h_t without, first and again, B {batch} T {steps}", loaded.run(x).outputs, omitted.outputs)
        evidence.equal(f"h_t without and with zeros, B {batch} T {steps}", omitted.outputs, given.outputs)
        if cell.has_cell_state:
            evidence.equal(f"C_T without and with zeros, B {batch} T {steps}", omitted.c, given.c)
        pull = {"outputs": draw.upstream(batch, steps, 7), "h": draw.upstream(batch, 7)}
        found = loaded.gradients(x, None, None, pull)[0]
        truth = loaded.gradients(x, zeros, zeros if cell.has_cell_state else None, pull)[0]
        evidence.equal(f"∂L/∂x without and with zeros, B {batch} T {steps}", found.x, truth.x)
        for name, gradient in truth.parameters.items():
            evidence.equal(f"∂L/∂{name} without and with zeros, B {batch} T {steps}", found.parameters[name], gradient)


@pytest.mark.claim("cells.omitted-state")
def test_a_call_without_a_state_leaves_no_trace_in_the_next(cell, draw, tolerance, evidence):
    """cell(x) = cell(x, 0, 0) in one instance, the batches growing and shrinking from call to call"""
    weights = draw.weights(cell.kind)
    loaded, within = cell(weights), tolerance.state(cell, weights, 3)
    for batch in (2, 5, 3, 6, 1, 5, 5, 5, 2):
        x = draw.inputs(batch, 3)
        truth, run = oracle.forward(weights, x), loaded.run(x)
        evidence.close("max |h_t - oracle|", run.outputs, truth.outputs, within, at=f"B {batch}")
        if cell.has_cell_state:
            evidence.close("max |C_T - oracle|", run.c, truth.c[:, -1], within, at=f"B {batch}")


@pytest.mark.claim("cells.steps-are-the-sequence")
def test_steps_halves_and_the_whole_sequence_agree(cell, draw, tolerance, evidence):
    """run(x_1 … x_T) = run(x_{k+1} … x_T) after run(x_1 … x_k) = T runs of one step"""
    weights, x = draw.weights(cell.kind), draw.inputs(3, 6)
    h, c = draw.start(cell)
    loaded, within = cell(weights), tolerance.state(cell, weights, 6)
    whole = loaded.run(x, h, c)
    first = loaded.run(x[:, :3], h, c)
    second = loaded.run(x[:, 3:], first.h, first.c)
    evidence.close("h_t of two halves", np.concatenate([first.outputs, second.outputs], 1), whole.outputs, within)
    outputs, at = [], first
    for t in range(6):
        at = loaded.run(x[:, t : t + 1], h, c) if t == 0 else loaded.run(x[:, t : t + 1], at.h, at.c)
        outputs.append(at.h)
    evidence.close("h_t of single steps", np.stack(outputs, 1), whole.outputs, within)
    evidence.close("h_T of single steps", at.h, whole.h, within)
    evidence.equal("h_T and the last output", whole.outputs[:, -1], whole.h)
    if whole.c is not None:
        evidence.close("C_T of two halves", second.c, whole.c, within)
        evidence.close("C_T of single steps", at.c, whole.c, within)


@pytest.mark.claim("cells.rows-alone")
def test_a_row_of_a_batch_is_the_row_alone(cell, draw, tolerance, evidence):
    """run(x)[k] = run(x[k]), up to rounding: kernels may block a product by the size of the batch"""
    weights, x = draw.weights(cell.kind), draw.inputs(6)
    h, c = draw.start(cell, 6)
    loaded, within = cell(weights), tolerance.state(cell, weights, 5)
    whole = loaded.run(x, h, c)
    alone = [loaded.run(x[k : k + 1], h[k : k + 1], None if c is None else c[k : k + 1]) for k in range(6)]
    evidence.close("h_t of the rows alone", np.concatenate([run.outputs for run in alone]), whole.outputs, within)
    evidence.close("h_T of the rows alone", np.concatenate([run.h for run in alone]), whole.h, within)
    if whole.c is not None:
        evidence.close("C_T of the rows alone", np.concatenate([run.c for run in alone]), whole.c, within)


@pytest.mark.claim("cells.number-format")
def test_the_number_format_of_the_inputs_is_that_of_the_outputs(cell, draw, evidence):
    """float32 in, float32 out; float64 in, float64 out"""
    h, c = draw.start(cell)
    run = cell(draw.weights(cell.kind)).run(draw.inputs(), h, c)
    evidence.exactly("number format of the outputs", str(run.outputs.dtype), cell.dtype)
    evidence.exactly("number format of h_T", str(run.h.dtype), cell.dtype)
    if run.c is not None:
        evidence.exactly("number format of C_T", str(run.c.dtype), cell.dtype)


@pytest.mark.claim("cells.saturation")
@pytest.mark.parametrize("reach", [1e2, 1e4])
def test_far_pre_activations_saturate_and_stay_finite(cell, draw, reach, tolerance, evidence):
    """σ(±a) → 1, 0 and tanh(±a) → ±1 for a up to 10⁴, in every lane of the hardware's vectors and beside them"""
    units = 37
    for gate in draw.weights(cell.kind).blocks:
        weights, x = draw.weights(cell.kind, 4, units), draw.inputs(3, 4)
        h, c = draw.start(cell, 3, units)
        driven = weights.change(gate, b_x=lambda b: b + np.round(reach * np.cos(np.arange(units))))
        run, truth = cell(driven).run(x, h, c), oracle.forward(driven, x, h, c)
        within = tolerance.state(cell, weights, 4)
        at = f"{gate} driven to ±{reach:g}"
        evidence.close("max |h_t - oracle|", run.outputs, truth.outputs, within, at)
        pull = {"outputs": draw.upstream(3, 4, units)}
        found, slopes = cell(driven).gradients(x, h, c, pull)[0], oracle.backward(truth, **pull)
        evidence.close_gradient("∂L/∂x", found.x, slopes.x, tolerance.gradient(cell, weights, 4), at=at)
        evidence.close_gradient("∂L/∂h_0", found.h, slopes.h, tolerance.gradient(cell, weights, 4), at=at)
        for name in slopes.parameters:
            evidence.exactly(f"∂L/∂{name} is finite", bool(np.isfinite(found.parameters[name]).all()), True, at=at)


@pytest.mark.claim("cells.empty-sequence")
def test_no_steps_leave_the_state_as_it_is(cell, draw, evidence):
    """T = 0  ⇒  h_T = h_0 and C_T = C_0, or the call is refused"""
    h, c = (None if s is None else as_dtype(cell, s) for s in draw.start(cell))
    run = unless_refused(evidence, lambda: cell(draw.weights(cell.kind)).run(draw.inputs()[:, :0], h, c))
    if run is None:
        return
    evidence.equal("h_T - h_0", run.h, h)
    evidence.exactly("outputs", run.outputs.shape[1], 0)
    if c is not None:
        evidence.equal("C_T - C_0", run.c, c)


@pytest.mark.claim("cells.empty-sequence")
def test_no_steps_pass_a_gradient_on_as_it_is(cell, draw, evidence):
    """T = 0  ⇒  ∂L/∂h_0 = ∂L/∂h_T, ∂L/∂C_0 = ∂L/∂C_T and ∂L/∂θ = 0, or the call is refused"""
    h, c = draw.start(cell)
    h_T, C_T = draw.upstream(3, 7), draw.upstream(3, 7)
    pulls = [{"h": h_T}] if c is None else [{"h": h_T}, {"c": C_T}, {"h": h_T, "c": C_T}]
    found = unless_refused(
        evidence, lambda: cell(draw.weights(cell.kind)).gradients(draw.inputs()[:, :0], h, c, *pulls)
    )
    if found is None:
        return
    for pull, gradients in zip(pulls, found, strict=True):
        at = f"L of {' and '.join(pull)}"
        evidence.equal("∂L/∂h_0 - ∂L/∂h_T", gradients.h, pull.get("h", np.zeros_like(h_T)), at=at)
        if c is not None:
            evidence.equal("∂L/∂C_0 - ∂L/∂C_T", gradients.c, pull.get("c", np.zeros_like(C_T)), at=at)
        for name, gradient in gradients.parameters.items():
            evidence.equal(f"∂L/∂{name}", gradient, np.zeros_like(gradient), at=at)


def unless_refused(evidence, call):
    """What a call returns; None where it is refused with a reason."""
    try:
        return call()
    except (RuntimeError, ValueError) as refusal:
        evidence.at_least("letters in the refusal", len(str(refusal)), 1)
        return None
