"""A fault between an LSTM and a residual connection."""

from __future__ import annotations

from planted.lstm import BrokenLSTM
from planted.plant import plant


@plant
class GatesLeftOut(BrokenLSTM):
    """The candidate is added to the cell whole, past both gates, as in a residual connection."""

    def remember(self, f, i, g, c):
        return c + g
