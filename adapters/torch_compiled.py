"""torch.nn's cells compiled by torch.compile, a step at a time. Needs a C++ compiler on a CPU.

torch.compile leaves torch.nn's layers alone: it breaks the graph before them and runs them eagerly. What it compiles is
the cell. The sizes of input and state are compiled in, so each pair of them is compiled anew, for each number format,
with a gradient and without; some seconds each.
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
    steps, *rest = _alike(x.transpose(0, 1), *parameters(module), *(s[0] for s in initial_state(module, x, state)))
    learnt, states, outputs = rest[:4], tuple(rest[4:]), []
    with warnings.catch_warnings(), torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=1000):
        warnings.simplefilter("ignore")  # the compiler's own
        for x_t in steps:
            states = STEPS[kind](x_t, *states, *learnt)
            outputs.append(states[0])
    layered = tuple(s[None] for s in states)
    return torch.stack(outputs, 1), layered if len(layered) == 2 else layered[0]


def _alike(*tensors: Tensor) -> list[Tensor]:
    """Contiguous copies, all of them or none to be differentiated: what else differs would be compiled anew."""
    copies = [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors]
    if any(copy.requires_grad for copy in copies):
        zero = sum(copy.flatten()[:0].sum() for copy in copies)
        copies = [copy if copy.requires_grad else copy + zero for copy in copies]
    return copies


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
