"""The cells, however they are called: strided, twice, later, in training, with new weights, and who asks for what.

N §2.a, §4; setup.
"""

import warnings

import numpy as np
import pytest

from fixtures.settings import as_dtype
from reference import oracle


@pytest.mark.claim("cells.gradient-is-linear")
def test_gradients_grow_and_shrink_with_what_arrives(cell, draw, tolerance, evidence):
    """∂(a L)/∂θ = a ∂L/∂θ for a = 2⁷⁰, 2⁻⁷⁰ and -1"""
    weights, x = draw.weights(cell.kind), draw.inputs(3, 9)
    h, c = draw.start(cell)
    pull = {"outputs": draw.upstream(3, 9, 7), "h": draw.upstream(3, 7)}
    if c is not None:
        pull["c"] = draw.upstream(3, 7)
    factors, loaded = (2.0**70, 2.0**-70, -1.0), cell(weights)
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
    """∂L/∂θ is the same whether or not ∂L/∂x and ∂L/∂h_0 are computed too; so is each alone, and amid a network"""
    weights, x = draw.weights(cell.kind), draw.inputs(3, 12)
    h, c = draw.start(cell)
    loaded, pull, within = cell(weights), {"outputs": draw.upstream(3, 12, 7)}, tolerance.gradient(cell, weights, 12)
    whole, names = loaded.record(x, h, c).pull(pull), loaded.parameters()
    asked_alone = {name: loaded.record(x, h, c, asked=[name]).pull(pull) for name in ("x", "h", "c", *names)}
    together = loaded.record(x, h, c, asked=names).pull(pull).parameters
    amid = loaded.record(x, h, c, amid=True).pull(pull)
    for name, gradient in whole.parameters.items():
        evidence.close_gradient(f"∂L/∂{name}, parameters alone", together[name], gradient, within)
        # The net's own parameters may be laid out otherwise; each adds its part of the canonical ones.
        parts = sum(asked_alone[own].parameters[name] for own in names)
        evidence.close_gradient(f"∂L/∂{name}, one parameter at a time", parts, gradient, within)
        evidence.close_gradient(f"∂L/∂{name} amid a network", amid.parameters[name], gradient, within)
    for name in ("x", "h", "c"):
        if (gradient := getattr(whole, name)) is not None:
            evidence.close_gradient(f"∂L/∂{name} amid a network", getattr(amid, name), gradient, within)
            evidence.close_gradient(f"∂L/∂{name} alone", getattr(asked_alone[name], name), gradient, within)


@pytest.mark.claim("cells.strides")
def test_what_lies_strided_in_memory_is_the_same(cell, draw, tolerance, evidence):
    """Inputs, states and upstream gradients that are views of other arrays give what their copies give."""
    weights = draw.weights(cell.kind)
    loaded, within, slope = cell(weights), tolerance.state(cell, weights, 5), tolerance.gradient(cell, weights, 5)
    for rows in (11, 1):
        given = drawn(cell, draw, rows)
        upstream = {"outputs": draw.upstream(rows, 5, 7), "h": draw.upstream(rows, 7)}
        if cell.has_cell_state:
            upstream["c"] = draw.upstream(rows, 7)
        upstream = {name: as_dtype(cell, array) for name, array in upstream.items()}
        same = loaded.run(**given), gradients(loaded, given, upstream)
        for view in (transposed, time_first, every_other, further_on, amid_others, rows_alike, steps_alike, all_alike):
            strided, pull = ({name: view(array) for name, array in arrays.items()} for arrays in (given, upstream))
            plain, truth = same
            if view in (rows_alike, steps_alike, all_alike):
                plain, truth = loaded.run(**copies(strided)), gradients(loaded, copies(strided), copies(pull))
            run, found = loaded.run(**strided), gradients(loaded, strided, pull)
            how = f"{view.__name__.replace('_', ' ')}, B {rows}"
            evidence.close("h_t - those of copies", run.outputs, plain.outputs, within, at=how)
            for name, gradient in truth.items():
                evidence.close_gradient(f"∂L/∂{name} - that of copies", found[name], gradient, slope, at=how)
        for name in given:
            run = loaded.run(**given | {name: transposed(given[name])})
            how = f"{name} alone transposed, B {rows}"
            evidence.close("h_t - those of copies", run.outputs, same[0].outputs, within, at=how)
    if cell.has_cell_state:
        one_state = given | {"c": given["h"]}
        run, plain = loaded.run(**one_state), loaded.run(**copies(one_state))
        evidence.close("h_t - those of copies", run.outputs, plain.outputs, within, at="C_0 is h_0")


@pytest.mark.claim("cells.strides")
def test_parameters_that_lie_otherwise_in_memory_are_the_same(cell, draw, tolerance, evidence):
    """θ by its columns, or in each second place, gives what θ gives."""
    weights, given, pull = draw.weights(cell.kind), drawn(cell, draw), {"outputs": draw.upstream(3, 5, 7)}
    scattered, plain = cell(weights), cell(weights)
    scattered.scatter()
    with warnings.catch_warnings(action="ignore"):  # a layer may say that it has to copy them
        run, found = scattered.run(**given), gradients(scattered, given, pull)
    evidence.close("h_t - those of θ", run.outputs, plain.run(**given).outputs, tolerance.state(cell, weights, 5))
    slope = tolerance.gradient(cell, weights, 5)
    for name, gradient in gradients(plain, given, pull).items():
        evidence.close_gradient(f"∂L/∂{name} - that of θ", found[name], gradient, slope)


def drawn(cell, draw, rows=3):
    """Inputs and a state by name, in the cell's number format."""
    given = {"x": draw.inputs(rows), **dict(zip("hc", draw.start(cell, rows), strict=True))}
    return {name: as_dtype(cell, array) for name, array in given.items() if array is not None}


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


def further_on(a):
    """The same numbers, the last ones of a longer array."""
    return np.concatenate([-a, a])[len(a) :]


def amid_others(a):
    """The same numbers, each row of them a part of a longer row."""
    return np.concatenate([-a, a, -a], axis=-1)[..., a.shape[-1] : -a.shape[-1]]


def rows_alike(a):
    """The first row, shown as all of them with stride 0."""
    return np.lib.stride_tricks.as_strided(a, a.shape, (0, *a.strides[1:]))


def steps_alike(a):
    """The first step, shown as all of them; of a state the first unit."""
    return np.lib.stride_tricks.as_strided(a, a.shape, (a.strides[0], 0, *a.strides[2:]))


def all_alike(a):
    """The first number, shown as all of them, as the gradient of a sum arrives."""
    return np.lib.stride_tricks.as_strided(a, a.shape, (0,) * a.ndim)


@pytest.mark.claim("cells.backward-twice")
def test_a_second_backward_pass_finds_the_same(cell, draw, tolerance, evidence):
    """Two pulls of one gradient through one forward pass agree bit for bit, and with what backward() accumulates."""
    weights, x = draw.weights(cell.kind), draw.inputs()
    h, c = draw.start(cell)
    pull = {"outputs": draw.upstream(3, 5, 7), "h": draw.upstream(3, 7)}
    graph = cell(weights).record(x, h, c)
    first, between, again = (graph.pull(one) for one in (pull, {"h": draw.upstream(3, 7)}, pull))
    accumulated, within = graph.accumulate(pull), tolerance.gradient(cell, weights, 5)
    evidence.equal("∂L/∂x, first and again", again.x, first.x)
    evidence.equal("∂L/∂h_0, first and again", again.h, first.h)
    if c is not None:
        evidence.equal("∂L/∂C_0, first and again", again.c, first.c)
    for name, gradient in first.parameters.items():
        evidence.equal(f"∂L/∂{name}, first and again", again.parameters[name], gradient)
        evidence.close_gradient(f"∂L/∂{name} by backward()", accumulated.parameters[name], gradient, within)
    evidence.close_gradient("∂L/∂x by backward()", accumulated.x, first.x, within)
    evidence.at_least("|∂L/∂x| of another loss differs", np.abs(between.x - first.x).max(), 1e-3)


@pytest.mark.claim("cells.backward-later")
def test_a_backward_pass_belongs_to_its_forward_pass(cell, draw, evidence):
    """Forward a, forward b, backward a, backward b find what each would find at once, bit for bit."""
    weights, pull = draw.weights(cell.kind), {"outputs": draw.upstream(9, 12, 7), "h": draw.upstream(9, 7)}
    calls = [(draw.inputs(9, 12), *draw.start(cell, 9)) for _ in range(3)]
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
    """θ := θ' between two calls, in place, from a checkpoint and replaced, gives what a new instance with θ' gives"""
    x, pull = draw.inputs(), {"outputs": draw.upstream(3, 5, 7)}
    h, c = draw.start(cell)
    loaded = cell(draw.weights(cell.kind))
    calls = [
        lambda: loaded.run(x, h, c),
        lambda: loaded.run(x, h, c, training=True),
        lambda: loaded.gradients(x, h, c, pull),
    ]
    for n in range(3):
        for call in calls if n % 2 else calls[::-1]:  # what is kept from one call may be dropped by the next
            call()
        weights = draw.weights(cell.kind)
        fresh = cell(weights)
        loaded.rewrite(weights, fresh if n else None, assign=n == 2)
        evidence.equal("h_t of new weights", loaded.run(x, h, c).outputs, fresh.run(x, h, c).outputs)
        trained, as_new = (one.run(x, h, c, training=True).outputs for one in (loaded, fresh))
        evidence.equal("h_t of new weights, in training", trained, as_new)
        found, truth = (one.gradients(x, h, c, pull)[0] for one in (loaded, fresh))
        evidence.equal("∂L/∂x of new weights", found.x, truth.x)
        evidence.equal("∂L/∂h_0 of new weights", found.h, truth.h)
        for name, gradient in truth.parameters.items():
            evidence.equal(f"∂L/∂{name} of new weights", found.parameters[name], gradient)


@pytest.mark.claim("cells.new-weights")
def test_a_single_parameter_that_changes_is_that_of_the_next_call(cell, draw, evidence):
    """The same of each parameter alone, while the others stay"""
    x, (h, c) = draw.inputs(), draw.start(cell)
    weights, others = draw.weights(cell.kind), cell(draw.weights(cell.kind))
    for name in cell(weights).parameters():
        used, fresh = cell(weights), cell(weights)
        used.run(x, h, c)
        used.run(x, h, c, training=True)
        for one in (used, fresh):
            one.take(name, others)
        for training in (False, True):
            run, new = (one.run(x, h, c, training=training) for one in (used, fresh))
            evidence.equal("h_t with one parameter new", run.outputs, new.outputs, at=f"{name}, training {training}")


@pytest.mark.claim("cells.modes")
def test_training_and_recording_a_graph_change_no_number(cell, draw, tolerance, evidence):
    """h_t in training, evaluation and inference, with a graph or not, whoever asks for a gradient, from any state"""
    weights, x = draw.weights(cell.kind), draw.inputs(3, 12)
    h, c = draw.start(cell)
    zeros = np.zeros_like(h), None if c is None else np.zeros_like(c)
    loaded, within = cell(weights), tolerance.state(cell, weights, 12)
    asking = [None, (), ("x",), ("h",), tuple(loaded.parameters())]
    for given, state in (((h, c), (h, c)), ((), zeros)):
        truth, with_state = oracle.forward(weights, x, *state), "" if given else ", no state given"
        runs = {
            f"training {training}, recording {recording}": loaded.run(x, *given, training=training, recording=recording)
            for training in (True, False)
            for recording in (True, False)
        }
        runs["inference"] = loaded.run(x, *given, inference=True)
        runs |= {
            f"asking: {asked or 'all' if asked != () else 'none'}": loaded.record(x, *given, asked=asked)
            for asked in asking
        }
        for at, run in runs.items():
            evidence.close(f"max |h_t - oracle|{with_state}", run.outputs, truth.outputs, within, at=at)
            evidence.close(f"max |h_T - oracle|{with_state}", run.h, truth.h[:, -1], within, at=at)
            if c is not None:
                evidence.close(f"max |C_T - oracle|{with_state}", run.c, truth.c[:, -1], within, at=at)
    pull = {"outputs": draw.upstream(3, 12, 7)}
    slopes, slope = oracle.backward(oracle.forward(weights, x, h, c), **pull), tolerance.gradient(cell, weights, 12)
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
                if array is not None and array.flags.writeable:
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
    for state, how in (((h, c), ""), ((), ", no state given")):
        memory = as_dtype(cell, x).copy()
        loaded.run(memory, *state)
        memory[...] = other_x
        moved, same = loaded.run(memory, *state).outputs, loaded.run(other_x, *state).outputs
        evidence.equal(f"outputs for other numbers in the same memory{how}", moved, same)
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
    weights, given = draw.weights(cell.kind), drawn(cell, draw)
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
