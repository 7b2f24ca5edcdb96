"""torch.nn's layers without oneDNN: ATen's own kernels, step by step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from adapters.torch_modules import layers


@contextmanager
def without_onednn() -> Iterator[None]:
    """Choose kernels as a torch built without oneDNN would."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TF32 acceleration on top of oneDNN")  # setting any of the flags says so
        flags = torch.backends.mkldnn.flags(enabled=False, allow_tf32=False)
        flags.__enter__()
        try:
            yield
        finally:
            flags.__exit__(None, None, None)


class PlainRNN(nn.RNN):
    """torch.nn.RNN"""

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        with without_onednn():
            return super().forward(x, state)


class PlainLSTM(nn.LSTM):
    """torch.nn.LSTM"""

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        with without_onednn():
            return super().forward(x, state)


class PlainGRU(nn.GRU):
    """torch.nn.GRU"""

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        with without_onednn():
            return super().forward(x, state)


def RNN(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.RNN without oneDNN"""
    return PlainRNN(input_size, hidden_size, batch_first=True)


def LSTM(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.LSTM without oneDNN"""
    return PlainLSTM(input_size, hidden_size, batch_first=True)


def GRU(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.GRU without oneDNN"""
    return PlainGRU(input_size, hidden_size, batch_first=True)


LAYERS = layers(rnn=RNN, lstm=LSTM, gru=GRU)
