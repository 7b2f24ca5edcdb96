"""Trainable networks for the recall task: a recurrent layer, a linear read-out, and how they start (N §1.b, §4.d)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from reference import cells, recall
from reference.weights import GATES, PEEPHOLES, Block, Weights, has_cell_state

HIDDEN = 64

REFERENCE = {cell.__name__: cell for cell in cells.CELLS}
LAYERS = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}

Make = Callable[[int, int], nn.Module]
"""Builds a drop-in, batch first, in the place of torch.nn's layer: `make(input_size, hidden_size)`."""


@dataclass(frozen=True)
class Protocol:
    """What is trained, on which gap, and from where it starts."""

    net: str
    """`RNN`, `LSTM`, `GRU` for the layers of torch.nn; a name of a reference cell for the variants that torch lacks."""
    gap: int
    keep_bias: float = 0.0
    """Bias of the forget gate, or of the GRU's update gate; 0 leaves the initialisation alone, as the notebook does."""
    write_bias: float | None = None
    """Bias of the LSTM's input gate, where it is set."""
    recurrent: str = "default"
    """How the recurrent weights of a plain RNN start: `default`, `orthogonal` or `identity`."""
    steps: int = 800
    learning_rate: float = 1e-3
    task: str = "recall"
    """`recall`, or `gap-length`, in which the answer is how long ago a mark was."""
    whole: bool = False
    """Train through all steps, for what a trained net is asked afterwards; otherwise stop where the gap is solved."""


class _Fed(cells.Gate):
    """A gate whose input shares are known for all steps: it takes a step's shares by name in the place of x."""

    def __init__(self, name: str, **parameters: Tensor) -> None:
        super().__init__(**parameters)
        self.name = name

    def __call__(self, shares: Any, h: Tensor) -> Tensor:
        return torch.addmm(shares[self.name], h, self.W_h)

    def of_input(self, shares: Any) -> Tensor:
        return shares[self.name]  # type: ignore[no-any-return]


class ReferenceLayer(nn.Module):
    """A reference cell as a trainable layer, time first; every parameter starts uniform on ±1/√H, as torch.nn's do."""

    forget_b: Tensor
    update_b: Tensor

    def __init__(self, cell: type[cells.Cell], features: int, units: int) -> None:
        super().__init__()
        self.kind, self.units = cell.kind, units

        def uniform(*shape: int) -> Tensor:
            return torch.empty(*shape).uniform_(-1 / math.sqrt(units), 1 / math.sqrt(units))

        blocks = {}
        for gate in GATES[cell.kind]:
            peeps = gate in PEEPHOLES.get(cell.kind, ())
            P = uniform(units, units) if cell.kind == "lstm-peephole" else uniform(units)
            drawn = uniform(features, units), uniform(units, units), uniform(units), torch.zeros(units)
            W_x, W_h, b_x, b_h = (tensor.double().numpy() for tensor in drawn)
            blocks[gate] = Block(W_x, W_h, b_x, b_h, P.double().numpy() if peeps else None)
        self.cell = cell(Weights(cell.kind, blocks), torch.float32)
        for name, parameter in self.cell.parameters.items():
            self.register_parameter(name.replace(".", "_"), nn.Parameter(parameter.detach()))

    def forward(self, x: Tensor) -> Tensor:
        """The last hidden state (B, H) of inputs (T, B, D)."""
        shares = {}
        for gate in GATES[self.kind]:
            named = [name for name in self.cell.parameters if name.startswith(f"{gate}.")]
            own = {name.partition(".")[2]: getattr(self, name.replace(".", "_")) for name in named}
            setattr(self.cell, gate, _Fed(gate, **own))
            shares[gate] = torch.addmm(own["b"], x.flatten(0, 1), own["W_x"]).view(*x.shape[:2], self.units).unbind()
        h = x.new_zeros(x.shape[1], self.units)
        state: tuple[Tensor, ...] = (h, h) if has_cell_state(self.kind) else (h,)
        for step in zip(*shares.values(), strict=True):
            stepped = self.cell.step(dict(zip(shares, step, strict=True)), *state)  # type: ignore[attr-defined]
            state = stepped if isinstance(stepped, tuple) else (stepped,)
        return state[0]


class Classifier(nn.Module):
    """A recurrent layer and a linear read-out of its last hidden state."""

    def __init__(self, layer: nn.Module, *, batch_first: bool = False) -> None:
        super().__init__()
        self.layer, self.head, self.batch_first = layer, nn.Linear(HIDDEN, recall.KEYS), batch_first

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, 8) for inputs (T, B, 13)."""
        return self.head(self._last(x))  # type: ignore[no-any-return]

    def _last(self, x: Tensor) -> Any:
        if self.batch_first:
            return self.layer(x.transpose(0, 1))[0][:, -1]
        if isinstance(self.layer, ReferenceLayer):
            return self.layer(x)
        _, last = self.layer(x)
        return (last[0] if isinstance(last, tuple) else last)[0]


def initial(protocol: Protocol, seed: int, make: Make | None = None) -> tuple[Classifier, torch.Generator]:
    """The network as it starts, on the CPU, and the stream from which its batches come.

    Weights and batches come from one stream per seed, as in the notebook, so that seed 0 is its own run.

    Args:
        protocol: what to build.
        seed: seeds weights and batches.
        make: builds a drop-in in the place of torch.nn's layer.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if make is not None:
            layer: nn.Module = make(recall.WIDTH, HIDDEN)
        elif protocol.net in LAYERS:
            layer = LAYERS[protocol.net](recall.WIDTH, HIDDEN)
        else:
            layer = ReferenceLayer(REFERENCE[protocol.net], recall.WIDTH, HIDDEN)
        model = Classifier(layer, batch_first=make is not None)
        stream = torch.Generator()
        stream.set_state(torch.get_rng_state())
    with torch.no_grad():
        _start(layer, protocol, seed)
    return model, stream


def _start(layer: Any, protocol: Protocol, seed: int) -> None:
    """Set what the protocol sets: the keep bias, the input gate's bias, the recurrent weights of a plain RNN."""
    if isinstance(layer, ReferenceLayer):
        if protocol.keep_bias:
            (layer.forget_b if has_cell_state(layer.kind) else layer.update_b).fill_(protocol.keep_bias)
        return
    rows = {"forget": slice(HIDDEN, 2 * HIDDEN), "input": slice(0, HIDDEN)}
    gated = layer.weight_hh_l0.shape[0] > HIDDEN
    for gate, bias in (("forget", protocol.keep_bias or None), ("input", protocol.write_bias)):
        if bias is not None and gated:
            layer.bias_ih_l0[rows[gate]].fill_(bias)
            layer.bias_hh_l0[rows[gate]].zero_()
    if protocol.recurrent == "identity":
        layer.weight_hh_l0.copy_(torch.eye(HIDDEN))
    elif protocol.recurrent == "orthogonal":
        square = torch.randn(HIDDEN, HIDDEN, generator=torch.Generator().manual_seed(seed))
        layer.weight_hh_l0.copy_(torch.linalg.qr(square)[0])


class Together:
    """Networks of one kind, side by side: logits (S, B, 8) for inputs (S, T, B, 13). Several are one tensor.

    Args:
        models: S networks, on the CPU.
        device: where they are to compute.
    """

    def __init__(self, models: Sequence[Classifier], device: str) -> None:
        self.models = [model.to(device) for model in models]
        named = dict(self.models[0].named_parameters())
        if len(models) > 1:
            named = {name: p.detach().requires_grad_() for name, p in stack_module_state(self.models)[0].items()}
        self.named = named

    def __len__(self) -> int:
        return len(self.models)

    def __call__(self, x: Tensor) -> Tensor:
        if len(self) == 1:
            return self.models[0](x[0])[None]  # type: ignore[no-any-return]
        return vmap(partial(functional_call, self.models[0]))(self.named, x)  # type: ignore[no-any-return]

    def copy(self, k: int) -> dict[str, Tensor]:
        """The parameters of the k-th network, on the CPU."""
        return {name: (p[k] if len(self) > 1 else p).detach().cpu().clone() for name, p in self.named.items()}
