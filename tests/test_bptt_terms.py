"""The terms of back-propagation through time, against autograd with a copy of every parameter per step."""

import numpy as np
import torch

from fixtures.settings import Draw
from reference import bptt, oracle

STEPS = 6


def probe():
    draw = Draw(11)
    weights, x, start = draw.weights("rnn", 4, 5, scale=1.5), draw.inputs(1, STEPS, 4), np.tanh(draw.state(1, 5))
    return weights, x, start, draw.upstream(5)


def test_each_term_is_the_gradient_of_that_steps_own_copy():
    weights, x, start, upstream = probe()
    names = ("W_x", "W_h", "b_x", "b_h")
    copies = [
        {n: torch.tensor(getattr(weights["candidate"], n), requires_grad=True) for n in names} for _ in range(STEPS)
    ]
    h = torch.tensor(start)
    for t, own in enumerate(copies):
        h = torch.tanh(torch.tensor(x[:, t]) @ own["W_x"] + h @ own["W_h"] + own["b_x"] + own["b_h"])
    (h * torch.tensor(upstream)).sum().backward()
    found = bptt.terms(weights, x[0], start[0], oracle.forward(weights, x, start).outputs[0], upstream)
    for name in names:
        own = np.stack([copy[name].grad.numpy() for copy in copies])
        np.testing.assert_allclose(found[f"candidate.{name}"], own, rtol=0, atol=1e-14, err_msg=name)


def test_the_terms_add_up_to_the_oracles_gradient():
    weights, x, start, upstream = probe()
    tape = oracle.forward(weights, x, start)
    whole = oracle.backward(tape, h=upstream[None]).parameters
    for name, each in bptt.terms(weights, x[0], start[0], tape.outputs[0], upstream).items():
        np.testing.assert_allclose(each.sum(0), whole[name], rtol=0, atol=1e-14, err_msg=name)


def test_the_chain_is_the_oracles_jacobian():
    weights, x, start, _ = probe()
    states = oracle.forward(weights, x, start).outputs[0]
    for t, product in enumerate(bptt.chain(weights, states)):
        rest = oracle.forward(weights, x[:, t + 1 :], states[None, t])
        np.testing.assert_allclose(product, oracle.jacobian(rest, "h", "h"), rtol=0, atol=1e-14)
