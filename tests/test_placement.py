"""Cells compute where they are put: checked without a GPU, on tensors that know their device but hold no numbers.

Forward on a pretended GPU, whose tensors mix with nothing else; autograd asks for a real device, so backward runs on
torch's `meta` device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fixtures.settings import Draw
from reference.cells import CELLS, LSTM, Cell
from reference.weights import has_cell_state


class ForgetsTheDevice(LSTM):
    """A cell that makes a tensor of its own and forgets where its input lives."""

    def step(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h, c = super().step(x, h, c)
        return h + torch.zeros(h.shape), c


class LeavesAWeightBehind(LSTM):
    """A cell one of whose weights is not moved to its device."""

    def __init__(self, weights: Any, dtype: torch.dtype, device: str) -> None:
        super().__init__(weights, dtype, device)
        self.forget.W_h = torch.empty(7, 7, dtype=dtype)


@pytest.fixture
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A GPU for machines that have none."""

    def tensor(data: Any, *, dtype: torch.dtype, device: str, requires_grad: bool) -> torch.Tensor:
        return torch.empty(np.shape(data), dtype=dtype, device=device, requires_grad=requires_grad)

    with FakeTensorMode(), torch.no_grad():
        monkeypatch.setattr(torch, "tensor", tensor)  # it would copy numbers to a real device
        yield "cuda"


def run(kind: type[Cell], device: str) -> tuple[Cell, list[torch.Tensor], torch.Tensor]:
    """A cell over a sequence on a device: the cell, the leaves that it was given, and its outputs (B, T, H)."""
    cell = kind(Draw(0).weights(kind.kind), torch.float32, device)
    x = torch.empty(3, 5, 4, device=device, requires_grad=True)
    start = [torch.empty(3, 7, device=device, requires_grad=True) for _ in range(1 + has_cell_state(kind.kind))]
    state, outputs = tuple(start), []
    for x_t in x.unbind(1):
        returned = cell.step(x_t, *state)  # type: ignore[attr-defined]
        state = returned if isinstance(returned, tuple) else (returned,)
        outputs.append(state[0])
    return cell, [x, *start], torch.stack(outputs, 1)


@pytest.mark.parametrize("kind", CELLS, ids=lambda kind: kind.__name__)
def test_a_cell_runs_on_its_gpu(pretended_gpu: str, kind: type[Cell]) -> None:
    cell, _, outputs = run(kind, pretended_gpu)
    assert (outputs.device.type, outputs.shape) == ("cuda", (3, 5, 7))
    assert {parameter.device.type for parameter in cell.parameters.values()} == {"cuda"}


@pytest.mark.parametrize("kind", CELLS, ids=lambda kind: kind.__name__)
def test_its_gradients_come_back_there(kind: type[Cell]) -> None:
    cell, leaves, outputs = run(kind, "meta")
    gradients = torch.autograd.grad(outputs.sum(), [*leaves, *cell.parameters.values()])
    assert {gradient.device.type for gradient in gradients} == {"meta"}
    assert [gradient.shape for gradient in gradients] == [leaf.shape for leaf in [*leaves, *cell.parameters.values()]]


@pytest.mark.parametrize("kind", [ForgetsTheDevice, LeavesAWeightBehind])
def test_a_tensor_left_on_the_cpu_shows(pretended_gpu: str, kind: type[Cell]) -> None:
    with pytest.raises(RuntimeError, match=r"cuda:0.*cpu|cpu.*cuda:0"):
        run(kind, pretended_gpu)
