"""The cells: every subject computes what its equations say, forward and backward, however it is called.

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
LONG, WIDE = (131, 501, 2, 3), (21877, 3, 2, 3)

# One dimension at a time through what kernels treat apart (tails of vectors, blocks, thresholds); pairs of them equal,
# which no layout can tell apart by its shape; and several large at once. The two number formats take turns.
SIZES = [
    *((batch, 2, 3, 5) for batch in (1, 2, 4, 8, 16, 33, 64, 65, 127, 128, 200, 257, 513, 1025)),
    *((2, steps, 3, 5) for steps in (2, 3, 4, 8, 16, 33, 65, 101, 257)),
    *((2, 2, features, 5) for features in (1, 2, 8, 16, 33, 64, 128, 257, 513)),
    *((2, 2, 3, units) for units in (2, 3, 4, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100)),
    *((2, 2, 3, units) for units in (127, 128, 200, 257)),
    *((3, 3, 5, 7), (5, 3, 3, 7), (7, 3, 5, 7), (3, 7, 5, 7), (4, 4, 4, 4), (1, 1, 1, 1), (2, 1, 1, 1), (1, 7, 1, 2)),
    *((65, 3, 9, 131), (131, 2, 140, 33), (3, 2, 256, 256), (2, 1, 3, 513), (65600, 1, 3, 3)),
]


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


@pytest.mark.claim("cells.every-size")
def test_forward_and_backward_are_the_equations_whatever_the_size(cell, draw, tolerance, evidence):
    """h_t, C_T, ∂L/∂x, ∂L/∂h_0, ∂L/∂C_0 and ∂L/∂θ: B, T, D and H in turn, some equal, some large together"""
    for shape in SIZES[cell.dtype == "float64" :: 2]:
        batch, steps, features, units = shape
        weights, x = draw.weights(cell.kind, features, units), draw.inputs(batch, steps, features)
        parity(cell, draw, tolerance, evidence, weights, x, *draw.start(cell, batch, units), at=named(shape))


@pytest.mark.claim("cells.every-number")
def test_forward_and_backward_are_the_equations_whatever_the_numbers(cell, draw, tolerance, evidence):
    """x, h_0, C_0 or θ zero, of one sign, the same in all rows, far above 1 or far below, with kernels to match"""
    weights, x = draw.weights(cell.kind), draw.inputs()
    h, c = draw.start(cell)
    zero, plenty, little = np.zeros_like, 2.0**12, 2.0**-20

    def check(at, weights=weights, x=x, h=h, c=c):
        parity(cell, draw, tolerance, evidence, weights, x, h, c, at)

    check("x = 0", x=zero(x))
    check("h_0 = 0", h=zero(h))
    if c is not None:
        check("C_0 = 0", c=zero(c))
        check("h_0 = 0, C_0 = 0", h=zero(h), c=zero(c))
        peeping = [gate for gate, block in weights.blocks.items() if block.P is not None]
        peep_less = weights.change(*peeping, P=lambda P: P / plenty) if peeping else weights
        check("C_0 far from 0", peep_less, c=plenty * c)
    check("x = 0, h_0 = 0", x=zero(x), h=zero(h))
    check("all of it 0", x=zero(x), h=zero(h), c=None if c is None else zero(c))
    check("x > 0", x=abs(x))
    check("x < 0, h_0 < 0", x=-abs(x), h=-abs(h))
    check(
        "the same x at every step, the same rows",
        x=np.tile(x[:1, :1], (*x.shape[:2], 1)),
        h=np.tile(h[:1], (len(h), 1)),
    )
    check("one x not 0", x=np.where(np.arange(x.size).reshape(x.shape) == 17, x, 0))
    for scale, how in ((plenty, "far above 1"), (little, "far below 1")):
        check(f"x {how}", weights.change(W_x=lambda W, scale=scale: W / scale), x=scale * x)
        check(f"h_0 {how}", weights.change(W_h=lambda W, scale=scale: W / scale), h=scale * h)
    lanes = draw.weights(cell.kind, 4, 33, scale=4.0)
    check("gates near 0 and 1", lanes, x[:, :2], *draw.start(cell, 3, 33))
    check("a long memory", *remembering(cell, draw))
    check("b = 0", weights.change(b_x=zero, b_h=zero))
    check("b_x = 0", weights.change(b_x=zero))
    check("b_h = 0", weights.change(b_h=zero))
    check("W_x = 0", weights.change(W_x=zero))
    check("W_h = 0", weights.change(W_h=zero))
    check("θ = 0", weights.change(W_x=zero, W_h=zero, b_x=zero, b_h=zero))


def remembering(cell, draw):
    """Weights, inputs and a state from which a gradient still arrives 129 steps back."""
    weights, (h, c), x = draw.weights(cell.kind), draw.start(cell), draw.inputs(3, 129)
    if cell.kind == "rnn":
        blank = weights.change(W_h=lambda W: np.eye(len(W)), b_x=np.zeros_like, b_h=np.zeros_like)
        return blank, x / 1024, h / 64, c
    return weights.pin(**{"forget" if cell.has_cell_state else "update": 6.0}), x, h, c


def parity(cell, draw, tolerance, evidence, weights, x, h, c, at):
    """Forward without a graph and with one, and backward from everything at once, beside the oracle."""
    batch, steps, units = *x.shape[:2], h.shape[1]
    tape, loaded = oracle.forward(weights, x, h, c), cell(weights)
    within, slope = tolerance.state(cell, weights, steps), tolerance.gradient(cell, weights, steps)
    pull = {"outputs": draw.upstream(batch, steps, units), "h": draw.upstream(batch, units)}
    if c is not None:
        pull["c"] = draw.upstream(batch, units)
    if batch > 2048:  # a sum over all rows would drown what a few of them lack, and round as sums do
        pull = {name: (upstream.T * (np.arange(batch) >= batch - 10)).T for name, upstream in pull.items()}
    graph = loaded.record(x, h, c)
    for run, how in ((loaded.run(x, h, c), ""), (graph, " with a graph")):
        evidence.close(f"max |h_t - oracle|{how}", run.outputs, tape.outputs, within, at=at)
        evidence.close(f"max |h_T - oracle|{how}", run.h, tape.h[:, -1], within, at=at)
        if c is not None:
            evidence.close(f"max |C_T - oracle|{how}", run.c, tape.c[:, -1], within, at=at)
    found, truth = graph.pull(pull), oracle.backward(tape, **pull)
    # A sum over batch and steps may cancel, so the scale is that of all kernels and biases, or of what arrives: 1.
    scale = max(1.0, *(np.abs(gradient).max() for gradient in truth.parameters.values()))
    for name, gradient in truth.parameters.items():
        evidence.close_gradient(f"∂L/∂{name}", found.parameters[name], gradient, slope, scale, at)
    for name, own, gradient in (("x", found.x, truth.x), ("h_0", found.h, truth.h), ("C_0", found.c, truth.c)):
        if gradient is not None:
            evidence.close_gradient(f"∂L/∂{name}", own, gradient, slope, max(1.0, np.abs(gradient).max()), at)


@pytest.mark.claim("cells.gradient-is-linear")
def test_gradients_grow_and_shrink_with_what_arrives(cell, draw, tolerance, evidence):
    """∂(a L)/∂θ = a ∂L/∂θ for a = 2¹⁶, 2⁻²⁰ and -1"""
    weights, x = draw.weights(cell.kind), draw.inputs(3, 9)
    h, c = draw.start(cell)
    pull = {"outputs": draw.upstream(3, 9, 7), "h": draw.upstream(3, 7)}
    if c is not None:
        pull["c"] = draw.upstream(3, 7)
    factors, loaded = (2.0**16, 2.0**-20, -1.0), cell(weights)
    graph, within = loaded.record(x, h, c), tolerance.gradient(cell, weights, 9)
    once = graph.pull(pull)
    for factor in factors:
        many = graph.pull({name: factor * upstream for name, upstream in pull.items()})
        for name in ("x", "h", "c"):
            if (own := getattr(once, name)) is not None:
                evidence.close_gradient(f"∂(a L)/∂{name} - a ∂L/∂{name}", getattr(many, name) / factor, own, within)
        for name, own in once.parameters.items():
            evidence.close_gradient(f"∂(a L)/∂{name} - a ∂L/∂{name}", many.parameters[name] / factor, own, within)


@pytest.mark.claim("cells.parameters-alone")
def test_parameters_have_their_gradients_when_nothing_else_asks_for_one(cell, draw, tolerance, evidence):
    """∂L/∂θ is the same whether or not ∂L/∂x and ∂L/∂h_0 are computed too, and so is each of them alone"""
    weights, x = draw.weights(cell.kind), draw.inputs()
    h, c = draw.start(cell)
    loaded, pull, within = cell(weights), {"outputs": draw.upstream(3, 5, 7)}, tolerance.gradient(cell, weights, 5)
    whole, names = loaded.record(x, h, c).pull(pull), loaded.parameters()
    asked_alone = {name: loaded.record(x, h, c, asked=[name]).pull(pull) for name in ("x", "h", "c", *names)}
    together = loaded.record(x, h, c, asked=names).pull(pull).parameters
    for name, gradient in whole.parameters.items():
        evidence.close_gradient(f"∂L/∂{name}, parameters alone", together[name], gradient, within)
        # The net's own parameters may be laid out otherwise; each adds its part of the canonical ones.
        parts = sum(asked_alone[own].parameters[name] for own in names)
        evidence.close_gradient(f"∂L/∂{name}, one parameter at a time", parts, gradient, within)
    for name in ("x", "h", "c"):
        if (gradient := getattr(whole, name)) is not None:
            evidence.close_gradient(f"∂L/∂{name} alone", getattr(asked_alone[name], name), gradient, within)


@pytest.mark.claim("cells.strides")
def test_what_lies_strided_in_memory_is_the_same(cell, draw, tolerance, evidence):
    """Inputs, states and upstream gradients that are views of other arrays give what their copies give."""
    weights = draw.weights(cell.kind)
    given = {"x": draw.inputs(3, 5, 4), **dict(zip("hc", draw.start(cell), strict=True))}
    upstream = {"outputs": draw.upstream(3, 5, 7), "h": draw.upstream(3, 7), "c": draw.upstream(3, 7)}
    if not cell.has_cell_state:
        del given["c"], upstream["c"]
    loaded, within, slope = cell(weights), tolerance.state(cell, weights, 5), tolerance.gradient(cell, weights, 5)
    for view in (transposed, time_first, every_other, expanded):
        strided = {name: view(as_dtype(cell, array)) for name, array in given.items()}
        pull = {name: view(as_dtype(cell, array)) for name, array in upstream.items()}
        run, plain = loaded.run(**strided), loaded.run(**copies(strided))
        how = view.__name__.replace("_", " ")
        evidence.close("h_t - those of copies", run.outputs, plain.outputs, within, at=how)
        found, truth = gradients(loaded, strided, pull), gradients(loaded, copies(strided), copies(pull))
        for name, gradient in truth.items():
            evidence.close_gradient(f"∂L/∂{name} - that of copies", found[name], gradient, slope, at=how)


def gradients(loaded, given, pull):
    """The gradients of everything that has one, by name."""
    found = loaded.gradients(given["x"], given["h"], given.get("c"), pull)[0]
    return {name: getattr(found, name) for name in given} | found.parameters


def copies(arrays):
    return {name: np.array(array, order="C") for name, array in arrays.items()}


def transposed(a):
    """The same numbers, the batch running fastest in memory."""
    return np.ascontiguousarray(a.T).T


def time_first(a):
    """The same numbers, one step of the whole batch after the other in memory."""
    return np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1)


def every_other(a):
    """The same numbers, each second one of a longer array."""
    return np.repeat(a, 2, axis=-1)[..., ::2]


def expanded(a):
    """The first row, shown as all of them with stride 0."""
    return np.lib.stride_tricks.as_strided(a, a.shape, (0, *a.strides[1:]))


@pytest.mark.claim("cells.backward-twice")
def test_a_second_backward_pass_finds_the_same(cell, draw, evidence):
    """Two pulls of one gradient through one forward pass agree bit for bit."""
    weights, x = draw.weights(cell.kind), draw.inputs()
    h, c = draw.start(cell)
    pull = {"outputs": draw.upstream(3, 5, 7), "h": draw.upstream(3, 7)}
    first, between, again = cell(weights).gradients(x, h, c, pull, {"h": draw.upstream(3, 7)}, pull)
    evidence.equal("∂L/∂x, first and again", again.x, first.x)
    evidence.equal("∂L/∂h_0, first and again", again.h, first.h)
    if c is not None:
        evidence.equal("∂L/∂C_0, first and again", again.c, first.c)
    for name, gradient in first.parameters.items():
        evidence.equal(f"∂L/∂{name}, first and again", again.parameters[name], gradient)
    evidence.at_least("|∂L/∂x| of another loss differs", np.abs(between.x - first.x).max(), 1e-3)


@pytest.mark.claim("cells.backward-later")
def test_a_backward_pass_belongs_to_its_forward_pass(cell, draw, evidence):
    """Forward a, forward b, backward a, backward b find what each would find at once, bit for bit."""
    weights, pull = draw.weights(cell.kind), {"outputs": draw.upstream(3, 5, 7), "h": draw.upstream(3, 7)}
    calls = [(draw.inputs(), *draw.start(cell)) for _ in range(3)]
    loaded, other = cell(weights), cell(draw.weights(cell.kind))
    truth = [loaded.record(*call).pull(pull) for call in calls]
    between = {
        "a call that records": lambda: loaded.record(*calls[0]),
        "a call that does not": lambda: loaded.run(draw.inputs(), *draw.start(cell)),
        "a call of another shape": lambda: loaded.run(draw.inputs(2, 3), *draw.start(cell, 2)),
        "another instance": lambda: other.record(*calls[0]).pull(pull),
    }
    late = []
    for at, call in between.items():
        graphs = [loaded.record(*call) for call in calls]
        call()
        late += [(at, graph.pull(pull), own) for graph, own in zip(graphs, truth, strict=True)]
    for at, found, own in late:
        evidence.equal("∂L/∂x, at once and later", found.x, own.x, at=f"after {at}")
        evidence.equal("∂L/∂h_0, at once and later", found.h, own.h, at=f"after {at}")
        if own.c is not None:
            evidence.equal("∂L/∂C_0, at once and later", found.c, own.c, at=f"after {at}")
        for name, gradient in own.parameters.items():
            evidence.equal(f"∂L/∂{name}, at once and later", found.parameters[name], gradient, at=f"after {at}")


@pytest.mark.claim("cells.new-weights")
def test_weights_that_change_in_place_are_those_of_the_next_call(cell, draw, evidence):
    """θ := θ' between two calls gives what a new instance with θ' gives, forward and backward"""
    x, pull = draw.inputs(), {"outputs": draw.upstream(3, 5, 7)}
    h, c = draw.start(cell)
    loaded = cell(draw.weights(cell.kind))
    for _ in range(2):
        loaded.run(x, h, c)
        loaded.run(x, h, c, training=True)
        loaded.gradients(x, h, c, pull)
        weights = draw.weights(cell.kind)
        loaded.rewrite(weights)
        fresh = cell(weights)
        evidence.equal("h_t of new weights", loaded.run(x, h, c).outputs, fresh.run(x, h, c).outputs)
        trained, as_new = (one.run(x, h, c, training=True).outputs for one in (loaded, fresh))
        evidence.equal("h_t of new weights, in training", trained, as_new)
        found, truth = (one.gradients(x, h, c, pull)[0] for one in (loaded, fresh))
        evidence.equal("∂L/∂x of new weights", found.x, truth.x)
        evidence.equal("∂L/∂h_0 of new weights", found.h, truth.h)
        for name, gradient in truth.parameters.items():
            evidence.equal(f"∂L/∂{name} of new weights", found.parameters[name], gradient)


@pytest.mark.claim("cells.modes")
def test_training_and_recording_a_graph_change_no_number(cell, draw, tolerance, evidence):
    """h_t in training and evaluation, without a graph and with one, whoever asks for a gradient, state given or not"""
    weights, x = draw.weights(cell.kind), draw.inputs()
    h, c = draw.start(cell)
    zeros = np.zeros_like(h), None if c is None else np.zeros_like(c)
    loaded, within = cell(weights), tolerance.state(cell, weights, 5)
    asking = [None, (), ("x",), ("h",), tuple(loaded.parameters())]
    for given, state in (((h, c), (h, c)), ((), zeros)):
        truth, with_state = oracle.forward(weights, x, *state), "" if given else ", no state given"
        runs = {
            f"training {training}, recording {recording}": loaded.run(x, *given, training=training, recording=recording)
            for training in (True, False)
            for recording in (True, False)
        } | {
            f"asking: {asked or 'all' if asked != () else 'none'}": loaded.record(x, *given, asked=asked)
            for asked in asking
        }
        for at, run in runs.items():
            evidence.close(f"max |h_t - oracle|{with_state}", run.outputs, truth.outputs, within, at=at)
            evidence.close(f"max |h_T - oracle|{with_state}", run.h, truth.h[:, -1], within, at=at)
            if c is not None:
                evidence.close(f"max |C_T - oracle|{with_state}", run.c, truth.c[:, -1], within, at=at)
    pull = {"outputs": draw.upstream(3, 5, 7)}
    slopes, slope = oracle.backward(oracle.forward(weights, x, h, c), **pull), tolerance.gradient(cell, weights, 5)
    try:
        found = loaded.record(x, h, c, training=False).pull(pull)
    except RuntimeError:  # as cuDNN does: a backward pass belongs to training
        return
    evidence.close_gradient("∂L/∂x in evaluation", found.x, slopes.x, slope)
    for name, gradient in slopes.parameters.items():
        evidence.close_gradient(f"∂L/∂{name} in evaluation", found.parameters[name], gradient, slope)


@pytest.mark.claim("cells.repeatable")
def test_the_hundredth_call_is_the_first_one_again(cell, draw, tolerance, evidence):
    """Calls of other shapes, in training and in evaluation, and results that were overwritten leave no trace."""
    weights, shapes = draw.weights(cell.kind), [(3, 4), (5, 2), (1, 6), (2, 1)]
    loaded, within = cell(weights), tolerance.state(cell, weights, 6)
    starts = [(draw.inputs(*shape), *draw.start(cell, shape[0])) for shape in shapes]
    calls = [(start, training) for training in (False, True) for start in starts]
    first = [loaded.run(*start, training=training) for start, training in calls]
    kept = [numbers(run) for run in first]
    for (start, training), before in zip(calls, kept, strict=True):
        truth, at = oracle.forward(weights, *start).outputs, f"training {training}"
        evidence.close("max |h_t - oracle| after calls of other shapes", before["outputs"], truth, within, at=at)
    for n in range(13):
        order = list(range(len(calls)))[:: -1 if n % 2 else 1]
        for k in order:
            start, training = calls[k]
            again = loaded.run(*start, training=training)
            for name, array in numbers(again).items():
                evidence.equal(f"{name}, first call and a later one", array, kept[k][name], at=f"round {n}")
            for array in (again.outputs, again.h, again.c):
                if array is not None:
                    array[...] = np.nan
    for run, before in zip(first, kept, strict=True):
        for name, array in numbers(run).items():
            evidence.equal(f"{name} of the first call, after later ones", array, before[name])


def numbers(run):
    """Copies of what a run returned, by name."""
    returned = {"outputs": run.outputs, "h_T": run.h, "C_T": run.c}
    return {name: array.copy() for name, array in returned.items() if array is not None}


@pytest.mark.claim("cells.repeatable")
def test_the_same_call_gives_the_same_bits(cell, draw, tolerance, evidence):
    """run(x, h_0, C_0) again, after a call in training mode, with another instance in between, is equal bit for bit."""
    weights, others = draw.weights(cell.kind), draw.weights(cell.kind)
    x, other_x = draw.inputs(), draw.inputs()
    (h, c), other_start = draw.start(cell), draw.start(cell)
    loaded, other = cell(weights), cell(others)
    first, other_first = loaded.run(x, h, c), other.run(other_x, *other_start)
    pull = {"outputs": draw.upstream(3, 5, 7)}
    gradient = loaded.gradients(x, h, c, pull)[0]
    loaded.run(other_x, *other_start, training=True)
    again, other_again = loaded.run(x, h, c), other.run(other_x, *other_start)
    memory = as_dtype(cell, x).copy()
    loaded.run(memory, h, c)
    memory[...] = other_x
    moved, same = loaded.run(memory, h, c).outputs, loaded.run(other_x, h, c).outputs
    evidence.equal("outputs for other numbers in the same memory", moved, same)
    evidence.equal("outputs, first call and a later one", again.outputs, first.outputs)
    evidence.equal("h_T, first call and a later one", again.h, first.h)
    if c is not None:
        evidence.equal("C_T, first call and a later one", again.c, first.c)
    evidence.equal("outputs of another instance, first call and a later one", other_again.outputs, other_first.outputs)
    truth, within = oracle.forward(others, other_x, *other_start).outputs, tolerance.state(cell, others, 5)
    evidence.close("max |h_t - oracle| of another instance", other_again.outputs, truth, within)
    evidence.equal("outputs of a new instance with the same weights", cell(weights).run(x, h, c).outputs, first.outputs)
    repeated = loaded.gradients(x, h, c, pull)[0]
    evidence.equal("∂L/∂x, first call and a later one", repeated.x, gradient.x)
    evidence.equal("∂L/∂h_0, first call and a later one", repeated.h, gradient.h)
    if c is not None:
        evidence.equal("∂L/∂C_0, first call and a later one", repeated.c, gradient.c)
    for name, value in gradient.parameters.items():
        evidence.equal(f"∂L/∂{name}, first call and a later one", repeated.parameters[name], value)


@pytest.mark.claim("cells.arguments-untouched")
def test_a_call_changes_neither_its_arguments_nor_the_parameters(cell, draw, evidence):
    """Inputs, states and parameters are the same bits after forward and backward as before."""
    weights = draw.weights(cell.kind)
    given = {"x": draw.inputs(), **dict(zip("hc", draw.start(cell), strict=True))}
    given = {name: as_dtype(cell, array) for name, array in given.items() if array is not None}
    kept = {name: array.copy() for name, array in given.items()}
    loaded = cell(weights)
    before, around = loaded.parameters(), cell.surroundings()
    loaded.run(**given, training=True)
    run = loaded.run(**given)
    loaded.gradients(given["x"], given["h"], given.get("c"), {"outputs": draw.upstream(3, 5, 7)})
    for name, array in kept.items():
        evidence.equal(f"{name} after the call, as the subject saw it", run.given[name], array)
        evidence.equal(f"{name} after the call", given[name], array)
    for name, array in loaded.parameters().items():
        evidence.equal(f"{name} after the call", array, before[name])
    evidence.exactly("parameters with a gradient that nobody asked for", loaded.unasked(), 0)
    for name, setting in cell.surroundings().items():
        evidence.exactly(f"{name} after the call", setting, around[name])


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
    try:
        run = cell(draw.weights(cell.kind)).run(draw.inputs()[:, :0], h, c)
    except (RuntimeError, ValueError) as refusal:
        evidence.at_least("letters in the refusal", len(str(refusal)), 1)
        return
    evidence.equal("h_T - h_0", run.h, h)
    evidence.exactly("outputs", run.outputs.shape[1], 0)
    if c is not None:
        evidence.equal("C_T - C_0", run.c, c)
