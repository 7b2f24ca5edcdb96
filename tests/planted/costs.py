"""Faults in what a cell costs: right states, by more or less work and memory than the equations need."""

from __future__ import annotations

import torch
from torch import nn

from planted.gru import BrokenGRU
from planted.plant import PATCHES, BrokenNet, plant, plant_as
from reference import networks


@plant
class UnusedOutputGate(BrokenGRU):
    """The GRU computes an output gate, as an LSTM would, and does not use it."""

    def step(self, x, h):
        torch.sigmoid(self.update(x, h))
        return super().step(x, h)


@plant
class DiagonalCandidate(BrokenGRU):
    """Each unit of the GRU's candidate sees its own state alone: no product with a matrix."""

    def written(self, x, h, r):
        n = self.candidate
        return torch.tanh(x @ n.W_x + n.b + r * (h * torch.diagonal(n.W_h) + n.b_h))


@plant
class PlainExponentials(BrokenGRU):
    """The gates are 1 / (1 + exp(-a)), each part of which is kept for the way back."""

    def update_gate(self, x, h):
        return 1 / (1 + torch.exp(-self.update(x, h)))

    def reset_gate(self, x, h):
        return 1 / (1 + torch.exp(-self.reset(x, h)))


@plant
class PaddedTo128(BrokenNet):
    """Every sequence is padded to 128 steps, which are computed and masked."""

    def __call__(self, x, state):
        steps = x.shape[1]
        x = torch.cat([x, x.new_zeros(len(x), 128 - steps, x.shape[2])], 1)
        outputs = []
        for t in range(128):
            stepped = self.cell.step(x[:, t], *state)
            state = tuple(
                torch.where(torch.tensor(t < steps), new, old) for new, old in zip(stepped, state, strict=True)
            )
            outputs.append(state[0])
        return torch.stack(outputs[:steps], 1), state


class _SteppedLSTM(nn.LSTM):
    """An LSTM layer that steps through its sequence, gate by gate."""

    def forward(self, x, state=None):
        h = c = x.new_zeros(len(x), self.hidden_size)
        kernels = zip(self.weight_ih_l0.chunk(4), self.weight_hh_l0.chunk(4), strict=True)
        biases = (self.bias_ih_l0 + self.bias_hh_l0).chunk(4)
        gates = [(W_x.T, W_h.T, b) for (W_x, W_h), b in zip(kernels, biases, strict=True)]
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = (x[:, t] @ W_x + h @ W_h + b for W_x, W_h, b in gates)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs, 1), (h[None], c[None])


def _without_a_kernel_for_a_whole_lstm() -> None:
    """torch.nn.LSTM is stepped through like the others."""
    PATCHES["lstm_without_a_kernel"] = [(networks, "LAYERS", networks.LAYERS | {"LSTM": _SteppedLSTM})]
    plant_as("lstm_without_a_kernel", "lstm", BrokenNet)


_without_a_kernel_for_a_whole_lstm()
