"""The cells at every size and for every number: forward and backward are the equations.

N §2.a. The truth is the oracle.
"""

import numpy as np
import pytest

from reference import oracle

# Batch, features and units take every size from 1 to 40, each once and each beside others. What kernels treat apart
# (tails of vectors, rows left over, windows of sizes) is among them.
SMALL = [(n, 1 + n % 3, 11 * n % 41, 17 * n % 41) for n in range(1, 41)]
# One dimension at a time beyond that (blocks, thresholds); pairs of them equal, which no layout can tell apart by its
# shape; and several large at once. The two number formats take turns.
SIZES = [
    *((batch, 2, 3, 5) for batch in (64, 65, 127, 128, 200, 257, 513, 1025)),
    *((2, steps, 3, 5) for steps in (4, 6, 7, 8, 10, 11, 13, 15, 16, 33, 64, 101, 513)),
    *((2, 2, features, 5) for features in (64, 66, 128, 130, 257, 1025)),
    *((2, 2, 3, units) for units in (48, 63, 64, 65, 66, 130, 100, 127, 128, 200, 257)),
    *((3, 3, 5, 7), (5, 3, 3, 7), (7, 3, 5, 7), (3, 7, 5, 7), (4, 4, 4, 4), (1, 1, 1, 1), (2, 1, 1, 1), (1, 7, 1, 2)),
    *((1, 12, 6, 6), (1, 9, 5, 5), (9, 9, 3, 5), (2, 2, 15, 5), (2, 2, 20, 5)),
    *((65, 3, 9, 131), (131, 2, 140, 33), (3, 2, 256, 256), (1, 1, 1, 1025), (65600, 1, 5, 6)),
]


@pytest.mark.claim("cells.every-size")
def test_forward_and_backward_are_the_equations_whatever_the_size(cell, draw, tolerance, evidence):
    """h_t, C_T, ∂L/∂x, ∂L/∂h_0, ∂L/∂C_0 and ∂L/∂θ: B, T, D and H in turn, some equal, some large together"""
    for shape in [*SMALL, *SIZES[cell.dtype == "float64" :: 2]]:
        parity_at(shape, cell, draw, tolerance, evidence)


@pytest.mark.claim("cells.omitted-state")
def test_an_omitted_state_is_zero_whatever_the_size(cell, draw, tolerance, evidence):
    """h_t, C_T, ∂L/∂x and ∂L/∂θ without a state, at small sizes and some larger ones"""
    for shape in [*SMALL[:: 2 if cell.dtype == "float64" else 3], (33, 2, 3, 65), (2, 33, 65, 5)]:
        parity_at(shape, cell, draw, tolerance, evidence, omitted=True)


@pytest.mark.claim("cells.every-size")
def test_forward_and_backward_are_the_equations_with_two_threads(cell, draw, tolerance, evidence):
    """The same with two threads, among which a kernel shares out rows, or units"""
    with cell.threads(2):
        for shape in ((131, 3, 9, 33), (3, 3, 140, 131)):
            parity_at(shape, cell, draw, tolerance, evidence)


@pytest.mark.claim("cells.every-number")
def test_forward_and_backward_are_the_equations_whatever_the_numbers(cell, draw, tolerance, evidence):
    """x, h_0, C_0 or θ zero, of one sign, the same in all rows, far above 1 or far below, with kernels to match"""
    weights, x = draw.weights(cell.kind), draw.inputs()
    h, c = draw.start(cell)
    zero, plenty, little = np.zeros_like, 2.0**12, 2.0**-40

    def check(at, weights=weights, x=x, h=h, c=c):
        parity(cell, draw, tolerance, evidence, weights, x, h, c, at)

    check("x = 0", x=zero(x))
    check("h_0 = 0", h=zero(h))
    if c is not None:
        check("C_0 = 0", c=zero(c))
        check("h_0 = 0, C_0 = 0", h=zero(h), c=zero(c))
        check("C_0 far from 0", hardly_peeping(weights), c=plenty * c)
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
    check("one x a step not 0", draw.weights(cell.kind, 300), np.eye(300)[[[5, 130, 299], [257, 0, 128], [299, 64, 1]]])
    check("x = 0 in the last steps of some rows", x=np.where(np.arange(5)[:, None] < [[[3]], [[5]], [[2]]], x, 0))
    check("x far above 1", weights.change(W_x=lambda W: W / 2.0**20), 2.0**20 * x)
    check("x far below 1", weights.change(W_x=lambda W: W / little), little * x)
    check("h_0 far above 1", weights.change(W_h=lambda W: W / plenty), h=plenty * h)
    # One step: the next state is far below 1 no more, and such kernels would amplify rounding.
    check("h_0 far below 1", weights.change(W_h=lambda W: W / little), x[:, :1], little * h)
    check("x = 0 for 100 steps, and then not", x=np.concatenate([np.zeros((3, 100, 4)), draw.inputs(3, 20)], axis=1))
    lanes = draw.weights(cell.kind, 4, 33, scale=4.0)
    check("gates near 0 and 1", lanes, x[:, :2], *draw.start(cell, 3, 33))
    check("a long memory", *remembering(cell, draw))
    check("b = 0", weights.change(b_x=zero, b_h=zero))
    check("b_x = 0", weights.change(b_x=zero))
    check("b_h = 0", weights.change(b_h=zero))
    check("W_x = 0", weights.change(W_x=zero))
    check("W_h = 0", weights.change(W_h=zero))
    check("θ = 0", weights.change(W_x=zero, W_h=zero, b_x=zero, b_h=zero))


def parity_at(shape, cell, draw, tolerance, evidence, omitted=False):
    """Parity with weights, inputs and a state, or none, of batch, steps, features and units."""
    batch, steps, features, units = shape
    weights, x = draw.weights(cell.kind, features, units), draw.inputs(batch, steps, features)
    h, c = (None, None) if omitted else draw.start(cell, batch, units)
    if cell.dtype == "float64":  # what is drawn is exact in float32, too
        x, h, c = (None if a is None else finer(a) for a in (x, h, c))
        weights = weights.change(W_x=finer, W_h=finer, b_x=finer, b_h=finer)
    parity(cell, draw, tolerance, evidence, weights, x, h, c, at="B {} T {} D {} H {}".format(*shape))


def finer(a):
    """Numbers that take more digits than float32 has."""
    return a * (1 + 2.0**-30)


def remembering(cell, draw):
    """Weights, inputs and a state from which a gradient still arrives 129 steps back."""
    weights, (h, c), x = draw.weights(cell.kind), draw.start(cell), draw.inputs(3, 129)
    if cell.kind == "rnn":
        blank = weights.change(W_h=lambda W: np.eye(len(W)), b_x=np.zeros_like, b_h=np.zeros_like)
        return blank, x / 1024, h / 64, c
    return hardly_peeping(weights).pin(**{"forget" if cell.has_cell_state else "update": 6.0}), x, h, c


def hardly_peeping(weights):
    """Weights whose peepholes, where there are any, are too weak for a large cell to feed its gates back to itself.

    Such a loop may amplify a rounding error at each step, and then no limit tells a wrong cell from a sound one.
    """
    peeping = [gate for gate, block in weights.blocks.items() if block.P is not None]
    return weights.change(*peeping, P=lambda P: P / 2**12) if peeping else weights


def parity(cell, draw, tolerance, evidence, weights, x, h, c, at):
    """Forward without a graph and with one, and backward from everything at once, beside the oracle."""
    batch, steps, units = *x.shape[:2], weights.hidden_size
    tape, loaded = oracle.forward(weights, x, h, c), cell(weights)
    within, slope = tolerance.state(cell, weights, steps), tolerance.gradient(cell, weights, steps)
    pull = {"outputs": draw.upstream(batch, steps, units), "h": draw.upstream(batch, units)}
    if cell.has_cell_state:
        pull["c"] = draw.upstream(batch, units)
    if batch > 1000:  # a sum over all rows would drown what a few of them lack, and round as sums do
        pull = {name: (upstream.T * (np.arange(batch) >= batch - 10)).T for name, upstream in pull.items()}
    graph = loaded.record(x, h, c)
    for run, how in ((loaded.run(x, h, c), ""), (graph, " with a graph")):
        evidence.close(f"max |h_t - oracle|{how}", run.outputs, tape.outputs, within, at=at)
        evidence.close(f"max |h_T - oracle|{how}", run.h, tape.h[:, -1], within, at=at)
        if cell.has_cell_state:
            evidence.close(f"max |C_T - oracle|{how}", run.c, tape.c[:, -1], within, at=at)
    found, truth = graph.pull(pull), oracle.backward(tape, **pull)
    # What arrives is of order 1, and a gate's share of it is dC C σ'(a), times x for its kernel. σ' = σ (1 - σ) errs
    # like a number of order 1, however small it is: so beyond a C of order 1 an error grows with C.
    least = 1.0
    if c is not None:
        arriving = max(np.abs(upstream).max() for upstream in pull.values())
        least = max(1.0, (np.abs(c).max() - 4) * arriving * max(1.0, np.abs(x).max()))
    # A sum over batch and steps may cancel, so the scale is that of all kernels and biases.
    scale = max(least, *(np.abs(gradient).max() for gradient in truth.parameters.values()))
    for name, gradient in truth.parameters.items():
        evidence.close_gradient(f"∂L/∂{name}", found.parameters[name], gradient, slope, scale, at)
    for name, given, own, gradient in (
        ("x", x, found.x, truth.x), ("h_0", h, found.h, truth.h), ("C_0", c, found.c, truth.c),
    ):  # fmt: skip
        if given is not None:
            evidence.close_gradient(f"∂L/∂{name}", own, gradient, slope, max(least, np.abs(gradient).max()), at)
