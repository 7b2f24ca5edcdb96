"""Is the oracle right? Against autograd on the reference cells, and against finite differences of itself."""

import numpy as np
import pytest
import torch

from fixtures.settings import Draw
from reference import cells, oracle
from reference.weights import GATES, Weights, has_cell_state

KINDS = sorted(GATES)


def probe(kind, scale=1.5):
    draw = Draw(7)
    weights, x, h = draw.weights(kind, 4, 5, scale), draw.inputs(3, 6, 4), draw.state(3, 5)
    return weights, x, h, draw.state(3, 5) if has_cell_state(kind) else None, draw


def upstream(kind, draw):
    pulls = {"outputs": draw.upstream(3, 6, 5), "h": draw.upstream(3, 5)}
    return pulls | ({"c": draw.upstream(3, 5)} if has_cell_state(kind) else {})


@pytest.mark.parametrize("cell", cells.CELLS, ids=lambda cell: cell.__name__)
def test_oracle_forward_and_backward_agree_with_autograd(cell):
    weights, x, h, c, draw = probe(cell.kind)
    tape, pulls = oracle.forward(weights, x, h, c), upstream(cell.kind, draw)
    gradients = oracle.backward(tape, **pulls)

    net = cell(weights, torch.float64)
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, h, c) if a is not None]
    state, outputs = tuple(leaves[1:]), []
    for t in range(6):
        step = net.step(leaves[0][:, t], *state)
        state = step if isinstance(step, tuple) else (step,)
        outputs.append(state[0])
    ends = {"outputs": torch.stack(outputs, 1), "h": state[0], "c": state[-1]}
    loss = sum((ends[name] * torch.tensor(pull)).sum() for name, pull in pulls.items())
    found = torch.autograd.grad(loss, [*leaves, *net.parameters.values()])

    np.testing.assert_allclose(ends["outputs"].detach().numpy(), tape.outputs, rtol=0, atol=1e-14)
    names = ["x", "h", "c"][: len(leaves)]
    for name, gradient in zip(names, found, strict=False):
        np.testing.assert_allclose(gradient.numpy(), getattr(gradients, name), rtol=0, atol=1e-12, err_msg=name)
    for name, gradient in zip(net.parameters, found[len(leaves) :], strict=True):
        own = gradients.parameters[name.replace(".b", ".b_x") if name.endswith(".b") else name]
        np.testing.assert_allclose(gradient.numpy(), own, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_oracle_gradients_agree_with_finite_differences(kind):
    weights, x, h, c, draw = probe(kind)
    pulls = upstream(kind, draw)

    def loss(weights, x, h, c):
        tape = oracle.forward(weights, x, h, c)
        last = 0.0 if tape.c is None else (tape.c[:, -1] * pulls["c"]).sum()
        return (tape.outputs * pulls["outputs"]).sum() + (tape.h[:, -1] * pulls["h"]).sum() + last

    gradients, step = oracle.backward(oracle.forward(weights, x, h, c), **pulls), 1e-5
    random = np.random.default_rng(3)

    def agrees(moved, gradient, name):
        """The slope of the loss along a random direction is the gradient's component in that direction."""
        direction = random.normal(size=gradient.shape)
        slope = (loss(*moved(step * direction)) - loss(*moved(-step * direction))) / (2 * step)
        assert slope == pytest.approx((gradient * direction).sum(), rel=1e-6, abs=1e-8), name

    for name, gradient in gradients.parameters.items():
        gate, parameter = name.split(".")
        agrees(lambda d, g=gate, p=parameter: (weights.change(g, **{p: lambda a: a + d}), x, h, c), gradient, name)
    agrees(lambda d: (weights, x + d, h, c), gradients.x, "x")
    agrees(lambda d: (weights, x, h + d, c), gradients.h, "h_0")
    if c is not None:
        agrees(lambda d: (weights, x, h, c + d), gradients.c, "C_0")


@pytest.mark.parametrize("kind", KINDS)
def test_oracle_jacobian_agrees_with_finite_differences(kind):
    weights, x, h, c, _ = probe(kind)
    x, h, c = x[:1], h[:1], None if c is None else c[:1]
    tape, step = oracle.forward(weights, x, h, c), 1e-6
    for of in "hc" if c is not None else "h":
        for wrt in "hc" if c is not None else "h":
            columns = []
            for unit in np.eye(5):
                ends = []
                for sign in (step, -step):
                    start = {"h": h, "c": c} | {wrt: {"h": h, "c": c}[wrt] + sign * unit}
                    ends.append(getattr(oracle.forward(weights, x, **start), of)[0, -1])
                columns.append((ends[0] - ends[1]) / (2 * step))
            np.testing.assert_allclose(oracle.jacobian(tape, of, wrt), np.stack(columns, 1), rtol=0, atol=1e-8)


def test_a_finite_difference_notices_a_wrong_gradient():
    """The checker is checked: a gradient with one factor left out lies far outside its tolerance."""
    weights, x, h, c, draw = probe("lstm")
    tape, pulls = oracle.forward(weights, x, h, c), upstream("lstm", draw)
    right = oracle.backward(tape, **pulls).parameters["forget.b_x"]
    for now in tape.steps:
        now.forget = now.forget * 0.999
    wrong = oracle.backward(tape, **pulls).parameters["forget.b_x"]
    assert np.abs(wrong - right).max() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_pinning_and_cutting_change_what_they_say(kind):
    weights = probe(kind)[0]
    gate = next(iter(weights.blocks))
    pinned = weights.pin(**{gate: 3.0})
    np.testing.assert_array_equal(pinned[gate].b, weights[gate].b + 3.0)
    assert all(pinned[other] is weights[other] for other in weights.blocks if other != gate)
    cut = weights.without_recurrence()
    assert not any(np.any(block.W_h) for block in cut.blocks.values())
    assert not any(np.any(block.P) for block in cut.blocks.values() if block.P is not None)
    np.testing.assert_array_equal(cut[gate].W_x, weights[gate].W_x)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rnn"])
def test_gates_frozen_along_a_run_take_the_values_of_the_run(kind):
    weights, x, h, c, _ = probe(kind)
    tape = oracle.forward(weights, x[:1], h[:1], None if c is None else c[:1])
    cs = None if tape.c is None else tape.c[0, :-1]
    frozen = weights.frozen_along(tape.h[0, :-1], cs)
    extended = np.concatenate([x[0], np.eye(6)], axis=1)[:, None]
    again = oracle.forward(frozen, extended, tape.h[0, :-1], cs)
    gate = "forget" if has_cell_state(kind) else "update"
    np.testing.assert_allclose(again.gate(gate)[:, 0], tape.gate(gate)[0], rtol=0, atol=1e-14)


def test_gates_are_named_as_in_the_catalogue_of_kinds():
    for kind in KINDS:
        weights = probe(kind)[0]
        assert tuple(weights.blocks) == GATES[kind]
        assert isinstance(weights, Weights) and weights.input_size == 4 and weights.hidden_size == 5
