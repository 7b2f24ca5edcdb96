"""torch.nn's layers as they are, on a CPU by way of oneDNN where torch chooses it."""

from __future__ import annotations

from torch import nn

from adapters.torch_modules import layers


def RNN(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.RNN"""
    return nn.RNN(input_size, hidden_size, batch_first=True)


def LSTM(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.LSTM"""
    return nn.LSTM(input_size, hidden_size, batch_first=True)


def GRU(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.GRU"""
    return nn.GRU(input_size, hidden_size, batch_first=True)


LAYERS = layers(rnn=RNN, lstm=LSTM, gru=GRU)
