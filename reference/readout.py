"""W's read-out: logits z_t = h_t W_hy, softmax, cross-entropy, and the error of the logits.

W «Calculate Cross-Entropy Loss», «Calculate Output Gradient». Shapes: hidden
states h (T, H), W_hy (H, V), targets (T,), places in the vocabulary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from reference.weights import Array


def losses(h: Array, W_hy: Array, targets: NDArray[np.intp]) -> Array:
    """L_t = -ln ŷ_t[target], the cross-entropy of each step, (T,)."""
    chosen: Array = log_softmax(h @ W_hy, axis=1)[np.arange(len(h)), targets]
    return -chosen


def errors(h: Array, W_hy: Array, targets: NDArray[np.intp]) -> Array:
    """δ^z_t = (ŷ_t - y_t) / T, the gradient (T, V) of the mean of the losses with respect to the logits."""
    off: Array = softmax(h @ W_hy, axis=1)
    off[np.arange(len(h)), targets] -= 1
    return off / len(h)
