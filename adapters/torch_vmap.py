"""torch's layers under vmap over the batch, each sequence on its own.

`aten::lstm` and `aten::lstm_cell` have no batching rule (torch 2.13), so what runs is torch's own decomposition of the
layer's operator, the one that torch.compile and torch.export trace. It is asked for without oneDNN, whose layer has no
batching rule either: vmap would call it sequence by sequence, and of no steps it returns states it has not written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._decomp import decomposition_table

from adapters.torch_modules import initial_state, layers, parameters
from adapters.torch_plain import without_onednn


def _mapped(module: nn.RNNBase, operator: Any, x: Tensor, state: Any) -> Any:
    decomposed: Any = decomposition_table[operator]
    learnt = parameters(module)

    def one(x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """A sequence (T, D) with states (1, H)."""
        layered = [s[:, None] for s in states]
        start = layered if len(layered) == 2 else layered[0]
        outputs, *last = decomposed(x[None], start, learnt, True, 1, 0.0, module.training, False, True)
        return (outputs[0], *(s[:, 0] for s in last))

    mapped = torch.func.vmap(one, in_dims=(0, *(1,) * (2 if isinstance(module, nn.LSTM) else 1)))
    with without_onednn():
        outputs, *last = mapped(x, *initial_state(module, x, state))
    ends = tuple(s.transpose(0, 1) for s in last)
    return outputs, ends if len(ends) == 2 else ends[0]


class MappedRNN(nn.RNN):
    """torch.nn.RNN"""

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        return _mapped(self, torch.ops.aten.rnn_tanh.input, x, state)


class MappedLSTM(nn.LSTM):
    """torch.nn.LSTM"""

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        return _mapped(self, torch.ops.aten.lstm.input, x, state)


class MappedGRU(nn.GRU):
    """torch.nn.GRU"""

    def forward(self, x: Tensor, state: Any = None) -> Any:  # type: ignore[override]
        return _mapped(self, torch.ops.aten.gru.input, x, state)


def RNN(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.RNN under vmap"""
    return MappedRNN(input_size, hidden_size, batch_first=True)


def LSTM(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.LSTM under vmap"""
    return MappedLSTM(input_size, hidden_size, batch_first=True)


def GRU(input_size: int, hidden_size: int) -> nn.Module:
    """torch.nn.GRU under vmap"""
    return MappedGRU(input_size, hidden_size, batch_first=True)


LAYERS = layers(rnn=RNN, lstm=LSTM, gru=GRU)
