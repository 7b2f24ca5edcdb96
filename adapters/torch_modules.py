"""torch.nn, by several ways: as it is, without oneDNN, by its decomposition under vmap, and with compiled cells.

Each is a drop-in for a one-layer torch.nn.RNN, LSTM or GRU with batch_first=True: `--cell=adapters.torch_eager:LSTM`
and so on. LAYERS of each way shows the module's own parameters, for `make conventions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adapters.layer import Arrays, Floats, States


class TorchLayer:
    """A drop-in module, with its own parameters as arrays."""

    dtypes: tuple[str, ...] = ("float32", "float64")

    def __init__(self, make: Callable[[int, int], nn.Module], input_size: int, hidden_size: int) -> None:
        self._make, self._sizes = make, (input_size, hidden_size)

    def make(self) -> nn.Module:
        """A module, just built."""
        return self._make(*self._sizes)

    def untrained(self, seed: int) -> Arrays:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return {name: p.detach().numpy() for name, p in self.make().named_parameters()}

    def run(self, arrays: Mapping[str, Floats], x: Floats, states: States | None) -> tuple[Floats, States]:
        module = self.make().to(getattr(torch, x.dtype.name)).eval()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(torch.from_numpy(np.asarray(arrays[name])))
            outputs, last = module(torch.from_numpy(x), None if states is None else _layered(states))
        return outputs.numpy(), tuple(s[0].numpy() for s in (last if isinstance(last, tuple) else (last,)))


def _layered(states: States) -> Any:
    tensors = tuple(torch.from_numpy(s)[None] for s in states)
    return tensors if len(tensors) == 2 else tensors[0]


def layers(**makers: Callable[[int, int], nn.Module]) -> dict[str, Callable[[int, int], TorchLayer]]:
    """LAYERS of a way: by kind, what builds the layer."""

    def builder(make: Callable[[int, int], nn.Module]) -> Callable[[int, int], TorchLayer]:
        return lambda input_size, hidden_size: TorchLayer(make, input_size, hidden_size)

    return {kind: builder(make) for kind, make in makers.items()}


def initial_state(module: nn.RNNBase, x: Tensor, state: Any) -> tuple[Tensor, ...]:
    """The state (1, B, H) as a tuple, zeros where it is omitted."""
    if state is None:
        zeros = x.new_zeros(1, x.shape[0], module.hidden_size)
        return (zeros, zeros) if isinstance(module, nn.LSTM) else (zeros,)
    return tuple(state) if isinstance(state, tuple | list) else (state,)


def parameters(module: nn.RNNBase) -> list[Tensor]:
    """The parameters of the one layer, in torch's order: kernels, then biases."""
    return [getattr(module, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
