"""Are the paths of a gradient the right ones? Against autograd with a copy of the weights per step, and by cutting."""

import numpy as np
import pytest
import torch

from fixtures.plugin import NotApplicable, subjects_of
from fixtures.probes import shares, step_routes, uses_by_step
from fixtures.settings import Draw
from fixtures.subjects import BUILT_IN
from reference import cells, oracle, paths
from reference.weights import GATES

GRAPHS = {"lstm": paths.lstm, "gru": paths.gru}
CELLS = {"lstm": cells.LSTM, "gru": cells.GRU}


def probe(kind, steps=4):
    draw = Draw(11)
    weights, x, h = draw.weights(kind, 3, 4, scale=2.0), draw.inputs(1, steps, 3), np.tanh(draw.state(1, 4))
    return weights, x, h, draw.state(1, 4) if kind == "lstm" else None, draw.upstream(1, 4)


def copies(weights, x, h, c, delta):
    """The gradient of each step's own copy of the candidate's W_x, by autograd, (T, D, H)."""
    own = [CELLS[weights.kind](weights, torch.float64) for _ in range(x.shape[1])]
    state = tuple(torch.tensor(s) for s in (h, c) if s is not None)
    for t, cell in enumerate(own):
        stepped = cell.step(torch.tensor(x[:, t]), *state)
        state = stepped if isinstance(stepped, tuple) else (stepped,)
    (state[0] * torch.tensor(delta)).sum().backward()
    return np.stack([cell.parameters["candidate.W_x"].grad.numpy() for cell in own])


@pytest.mark.parametrize("kind", GRAPHS)
def test_the_paths_to_a_step_sum_to_what_its_copy_of_the_kernel_gets(kind):
    weights, x, h, c, delta = probe(kind)
    found = paths.to_the_kernel(GRAPHS[kind](oracle.forward(weights, x, h, c)), 4, delta[0])
    for t, truth in enumerate(copies(weights, x, h, c, delta), start=1):
        np.testing.assert_allclose(sum(share for _, share in found[t]), truth, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_clock_among_the_inputs_shows_what_each_step_adds(kind):
    weights, x, h, c, delta = probe(kind)
    subject = next(s for s in BUILT_IN if s.kind == kind)
    used = uses_by_step(subject, weights, x, h, c, {"h": delta})
    np.testing.assert_allclose(used, copies(weights, x, h, c, delta), rtol=0, atol=1e-6)


def test_the_share_of_one_path_is_what_is_left_when_all_others_are_cut():
    """h_4 → c_4 → f_4 → h_3 → o_3 → h_2 → c_2 → c̃_2: every other operand is detached."""
    weights, x, h, c, delta = probe("lstm")
    tape = oracle.forward(weights, x, h, c)
    path = (("h", 4), ("c", 4), ("f", 4), ("h", 3), ("o", 3), ("h", 2), ("c", 2), ("c̃", 2))
    f, i, o, g = (torch.tensor(tape.gate(name)[0]) for name in ("forget", "input", "output", "candidate"))
    cs, W_x = torch.tensor(tape.c[0]), torch.tensor(weights["candidate"].W_x, requires_grad=True)
    n = weights["candidate"]
    constant = torch.tensor(tape.h[0, 1] @ n.W_h + n.b)
    c_2 = f[1] * cs[1] + i[1] * torch.tanh(torch.tensor(x[0, 1]) @ W_x + constant)
    h_2 = o[1] * torch.tanh(c_2)
    h_3 = torch.sigmoid(seen(weights["output"], x[0, 2], h_2)) * torch.tanh(cs[3])
    h_4 = o[3] * torch.tanh(torch.sigmoid(seen(weights["forget"], x[0, 3], h_3)) * cs[3] + i[3] * g[3])
    np.testing.assert_allclose(h_4.detach().numpy(), tape.h[0, 4], rtol=0, atol=1e-15)
    (h_4 * torch.tensor(delta[0])).sum().backward()
    found = dict(paths.to_the_kernel(paths.lstm(tape), 4, delta[0])[2])
    np.testing.assert_allclose(found[path], W_x.grad.numpy(), rtol=0, atol=1e-16)
    assert np.abs(found[path]).max() > 1e-5


def seen(block, x, h):
    return torch.tensor(x @ block.W_x + block.b) + h @ torch.tensor(block.W_h)


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_black_box_shows_the_share_of_each_path(kind):
    weights, x, h, c, delta = probe(kind)
    found = paths.to_the_kernel(GRAPHS[kind](oracle.forward(weights, x, h, c)), 4, delta[0])
    every = [pair for pairs in found.values() for pair in pairs]
    subject = next(s for s in BUILT_IN if s.kind == kind)
    shown = shares(subject, weights, x, h, c, delta[0], [path for path, _ in every])
    np.testing.assert_allclose(shown, [share for _, share in every], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["rnn", *GRAPHS])
def test_the_routes_of_a_step_sum_to_its_jacobian(kind):
    weights, x, h, c, _ = probe(kind, steps=1)
    tape = oracle.forward(weights, x, h, c)
    routes = step_routes(next(s for s in BUILT_IN if s.kind == kind), weights, x, h, c)
    for pair in routes[""]:
        total = sum(J[pair] for J in routes.values())
        np.testing.assert_allclose(total, oracle.jacobian(tape, pair[0], pair[1]), rtol=0, atol=1e-6)


def test_the_recurrence_counts_what_a_walk_finds_and_what_a_matrix_power_says():
    weights, x, h, c, delta = probe("lstm", steps=5)
    found = paths.to_the_kernel(paths.lstm(oracle.forward(weights, x, h, c)), 5, delta[0])
    counted = paths.counted(5)
    assert list(counted) == list(found) == [5, 4, 3, 2, 1]
    onward = np.array([[1, 3], [1, 4]])  # paths to h and to c one step further back, from those to h and to c
    for t, number in counted.items():
        assert number == len(found[t]) == (np.linalg.matrix_power(onward, 5 - t) @ [1, 1])[1]


def test_a_path_is_written_as_in_the_article():
    assert paths.written((("h", 4), ("c", 4), ("c̃", 4))) == "h_4 → c_4 → c̃_4"


@pytest.mark.parametrize("kind", ["rnn", "lstm", "lstm-coupled", "gru"])
def test_gates_frozen_at_a_state_take_their_values_there_and_let_the_open_ones_move(kind):
    draw = Draw(3)
    weights, x, h, c = draw.weights(kind), draw.inputs(1, 1), draw.state(1), draw.state(1)
    truth = oracle.forward(weights, x, h, c)
    for open_ in [(), GATES[kind][-1:], GATES[kind]]:
        frozen = weights.frozen_at(h[0], *open_)
        again = oracle.forward(frozen, x, h, c)
        np.testing.assert_allclose(again.h, truth.h, rtol=0, atol=1e-15)
        assert all(np.any(frozen[gate].W_h) == (gate in open_) for gate in GATES[kind])


def test_fixtures_of_one_format_and_of_one_subject(pytestconfig, monkeypatch):
    chosen = subjects_of(pytestconfig, "lstm64")
    assert {subject.dtype for subject in chosen} == {"float64"} and len(chosen) == 3
    assert subjects_of(pytestconfig, "first_lstm64") == chosen[:1]
    assert len(subjects_of(pytestconfig, "lstm")) == 6
    monkeypatch.setattr(pytestconfig.option, "device", "mps")
    assert all(isinstance(subject, NotApplicable) for subject in subjects_of(pytestconfig, "lstm64"))
