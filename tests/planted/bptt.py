"""Faults that show in back-propagation through time: a bounded kernel, and a step too many."""

from __future__ import annotations

import numpy as np
import torch

from planted.plant import BrokenNet, plant
from reference import cells
from reference.weights import Weights


@plant
class SpectrallyBounded(cells.RNN):
    """The recurrent kernel is scaled down to a largest singular value of 0.99, as with spectral normalisation."""

    def __init__(self, weights: Weights, dtype: torch.dtype, device: str) -> None:
        super().__init__(weights.change(W_h=lambda W: W / max(1.0, np.linalg.norm(W, 2) / 0.99)), dtype, device)


@plant
class OneStepTooMany(BrokenNet):
    """Each sequence is padded by a step of zeros, and the state behind the padding is returned."""

    of = cells.RNN

    def __call__(self, x, state):
        outputs, last = super().__call__(torch.cat([x, torch.zeros_like(x[:, :1])], 1), state)
        return outputs[:, :-1], last
