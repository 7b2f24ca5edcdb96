"""Faults in how a layer begins; what it computes with the weights that it is given is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from fixtures.subjects import BUILT_IN
from planted.plant import PLANTED

LSTM = next(subject for subject in BUILT_IN if subject.name == "torch.nn.LSTM")


def begun(begin: Callable[[nn.LSTM], None]) -> Callable[[nn.LSTM], None]:
    """Decorator: plant torch.nn's LSTM with weights that are changed once it is built."""

    def build(input_size: int, hidden_size: int) -> nn.Module:
        layer = nn.LSTM(input_size, hidden_size, batch_first=True)
        begin(layer)
        return layer

    PLANTED[begin.__name__] = replace(LSTM, name=f"planted.{begin.__name__}", begin=build)
    return begin


@begun
def BeginsWithinOne(layer):
    """All parameters begin uniform on ±1, however many units there are."""
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -1, 1)


@begun
def BeginsWithForgetBiasInBoth(layer):
    """The forget slices of both biases begin at 1."""
    units = layer.hidden_size
    for bias in (layer.bias_ih_l0, layer.bias_hh_l0):
        nn.init.ones_(bias[units : 2 * units])
