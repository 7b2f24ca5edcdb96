"""Back-propagation through time of a plain RNN, as the documents write it: a sum over the steps that used a weight.

W «The Building Blocks»: the term of step t is the product of the step Jacobians from the last step back to t, times the
immediate partial ∂⁺h_t/∂W, in which h_{t-1} counts as a constant. Each product is multiplied out by itself, where
`oracle.backward` pulls one gradient through all of them.
"""

from __future__ import annotations

import numpy as np

from reference.weights import Array, Weights


def step_jacobian(weights: Weights, state: Array) -> Array:
    """∂h_t/∂h_{t-1} = diag(1 - h_t²) W, (H, H), at the state h_t (H,)."""
    factor: Array = (1 - state**2)[:, None] * weights["candidate"].W_h.T
    return factor


def chain(weights: Weights, states: Array) -> list[Array]:
    """∂h_T/∂h_t for t = 1 … T, (H, H) each, along the states h_1 … h_T (T, H); the last one is the identity."""
    products = [np.eye(states.shape[1])]
    for state in states[:0:-1]:
        products.append(products[-1] @ step_jacobian(weights, state))
    return products[::-1]


def terms(weights: Weights, x: Array, start: Array, states: Array, upstream: Array) -> dict[str, Array]:
    """What each step's use of the parameters adds to the gradient of upstream · h_T.

    Args:
        weights: of a plain RNN.
        x: inputs (T, D).
        start: the state h_0 (H,).
        states: the states h_1 … h_T (T, H).
        upstream: the gradient of the last state (H,).

    Returns:
        By parameter, such as `candidate.W_h`, the terms of the steps 1 … T, stacked along the first axis.
    """
    before = np.concatenate([start[None], states[:-1]])
    reaching = np.stack([upstream @ product for product in chain(weights, states)])
    pulled = reaching * (1 - states**2)  # through tanh, to the pre-activations a_t
    return {
        "candidate.W_x": x[:, :, None] * pulled[:, None],
        "candidate.W_h": before[:, :, None] * pulled[:, None],
        "candidate.b_x": pulled,
        "candidate.b_h": pulled,
    }
