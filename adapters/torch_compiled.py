"""torch.nn's cells compiled by torch.compile, a step at a time. Needs a C++ compiler on a CPU.

torch.compile leaves torch.nn's layers alone: it breaks the graph before them and runs them eagerly. What it compiles is
the cell. Each combination of size 1, number format and "needs a gradient" is compiled anew, some seconds each.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
from torch import Tensor, nn

from adapters.torch_modules import initial_state, layers, parameters


def _rnn(x: Tensor, h: Tensor, *learnt: Tensor) -> tuple[Tensor, ...]:
    return (torch.rnn_tanh_cell(x, h, *learnt),)


def _lstm(x: Tensor, h: Tensor, c: Tensor, *learnt: Tensor) -> tuple[Tensor, ...]:
    return torch.lstm_cell(x, (h, c), *learnt)


def _gru(x: Tensor, h: Tensor, *learnt: Tensor) -> tuple[Tensor, ...]:
    return (torch.gru_cell(x, h, *learnt),)


torch._functorch.config.donated_buffer = False
"""A graph of compiled steps may be differentiated more than once."""

STEPS: dict[type[nn.RNNBase], Any] = {
    layer: torch.compile(step, dynamic=True, fullgraph=True)
    for layer, step in ((nn.RNN, _rnn), (nn.LSTM, _lstm), (nn.GRU, _gru))
}


def _stepped(module: nn.RNNBase, kind: type[nn.RNNBase], x: Tensor, state: Any) -> Any:
    states, learnt, outputs = tuple(s[0] for s in initial_state(module, x, state)), parameters(module), []
    with warnings.catch_warnings(), torch._dynamo.config.patch(recompile_limit=64):
        warnings.simplefilter("ignore")  # the compiler's own
        for t in range(x.shape[1]):
            states = STEPS[kind](x[:, t], *states, *learnt)
            outputs.append(states[0])
    layered = tuple(s[None] for s in states)
    return torch.stack(outputs, 1), layered if len(layered) == 2 else layered[0]


class CompiledRNN(nn.RNN):
    """torch.nn.RNN"""

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        return _stepped(self, nn.RNN, x, state)


class CompiledLSTM(nn.LSTM):
    """torch.nn.LSTM"""

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        return _stepped(self, nn.LSTM, x, state)


class CompiledGRU(nn.GRU):
    """torch.nn.GRU"""

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        return _stepped(self, nn.GRU, x, state)


def RNN(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.RNNCell, compiled"""
    return CompiledRNN(input_size, hidden_size, batch_first=True)


def LSTM(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.LSTMCell, compiled"""
    return CompiledLSTM(input_size, hidden_size, batch_first=True)


def GRU(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.GRUCell, compiled"""
    return CompiledGRU(input_size, hidden_size, batch_first=True)


LAYERS = layers(rnn=RNN, lstm=LSTM, gru=GRU)
