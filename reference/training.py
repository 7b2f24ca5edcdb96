"""Training on the recall task by the documented protocol, and what a run leaves behind (N §1.b, §2.c, §4.d, §7.c).

64 units, a linear read-out of the last hidden state, Adam at 1e-3, gradients clipped to norm 1, fresh batches of 128,
accuracy on 1000 held-out sequences every 25 steps and at the last. Weights and batches come from one stream per seed,
as in the notebook, so that seed 0 is its own run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from reference import cells, recall
from reference.weights import GATES, PEEPHOLES, Block, Weights, has_cell_state

HIDDEN, BATCH, HELD_OUT, EVERY, SOLVED, CLIP = 64, 128, 1000, 25, 0.95, 1.0
CACHED = 250

REFERENCE = {cell.__name__: cell for cell in cells.CELLS}
LAYERS = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}


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
    whole: bool = False
    """Train through all steps, for what a trained net is asked afterwards; otherwise stop where the gap is solved."""


@dataclass
class Run:
    """One training run: accuracy at each evaluated step, the loss of each step, parameters before and after."""

    protocol: Protocol
    seed: int
    evaluated: list[int] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    before: dict[str, Tensor] = field(default_factory=dict)
    after: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    """Processor time that the run took."""

    @property
    def first(self) -> int | None:
        """The first evaluated step with at least 95 % held-out accuracy; None where there is none."""
        return next((s for s, a in zip(self.evaluated, self.accuracy, strict=True) if a >= SOLVED), None)

    @property
    def solved(self) -> bool:
        return self.first is not None


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
        for name, parameter in list(self.cell.parameters.items()):
            self.register_parameter(name.replace(".", "_"), nn.Parameter(parameter.detach()))
        self.rebind()

    def rebind(self) -> None:
        """Let the equations see the module's own parameters, wherever they have moved."""
        for name in self.cell.parameters:
            gate, parameter = name.split(".")
            setattr(getattr(self.cell, gate), parameter, getattr(self, f"{gate}_{parameter}"))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (T, B, H) and the last hidden state (1, B, H)."""
        h = x.new_zeros(x.shape[1], self.units)
        state: tuple[Tensor, ...] = (h, h) if has_cell_state(self.kind) else (h,)
        outputs = []
        for x_t in x:
            stepped = self.cell.step(x_t, *state)  # type: ignore[attr-defined]
            state = stepped if isinstance(stepped, tuple) else (stepped,)
            outputs.append(state[0])
        return torch.stack(outputs), state[0][None]


class Classifier(nn.Module):
    """A recurrent layer and a linear read-out of its last hidden state."""

    def __init__(self, layer: nn.Module, *, batch_first: bool = False) -> None:
        super().__init__()
        self.layer, self.head, self.batch_first = layer, nn.Linear(HIDDEN, recall.KEYS), batch_first

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, 8) for inputs (T, B, 13)."""
        if self.batch_first:
            return self.head(self.layer(x.transpose(0, 1))[0][:, -1])  # type: ignore[no-any-return]
        _, last = self.layer(x)
        return self.head((last[0] if isinstance(last, tuple) else last)[0])  # type: ignore[no-any-return]


Make = Callable[[int, int], nn.Module]


def initial(protocol: Protocol, seed: int, make: Make | None = None) -> tuple[Classifier, torch.Generator]:
    """The network as it starts, on the CPU, and the stream from which its batches come.

    Args:
        protocol: what to build.
        seed: seeds weights and batches.
        make: builds a drop-in (batch first) in the place of torch.nn's layer: `make(input_size, hidden_size)`.
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


def train(protocol: Protocol, seed: int, device: str = "cpu", make: Make | None = None) -> Run:
    """Train one network; it stops where the gap is solved, unless the protocol wants the whole run."""
    began = time.process_time()
    model, stream = initial(protocol, seed, make)
    model.to(device)
    if isinstance(model.layer, ReferenceLayer):
        model.layer.rebind()  # to where the parameters are now
    parameters = list(model.parameters())
    optimiser = torch.optim.Adam(parameters, lr=protocol.learning_rate, fused=True)
    run = Run(protocol, seed, before=_copy(model))
    test = recall.held_out(HELD_OUT, protocol.gap)
    test_x, test_y = recall.inputs(test, device), test[:, 0].to(device)
    losses = []
    for step in range(protocol.steps):
        symbols = recall.tokens(BATCH, protocol.gap, stream)
        loss = cross_entropy(model(recall.inputs(symbols, device)), symbols[:, 0].to(device))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        losses.append(loss.detach())
        if step % EVERY == 0 or step == protocol.steps - 1:
            right = accuracy(model, test_x, test_y)
            run.evaluated.append(step)
            run.accuracy.append(right)
            if right >= SOLVED and not protocol.whole:
                break
    run.loss = torch.stack(losses).tolist()
    run.after = _copy(model)
    run.seconds = time.process_time() - began
    return run


def accuracy(model: Classifier, x: Tensor, y: Tensor) -> float:
    """The share of sequences x (T, n, 13) that are answered rightly, in parts that stay in a processor's cache."""
    with torch.inference_mode():
        parts = zip(torch.split(x, CACHED, dim=1), torch.split(y, CACHED), strict=True)
        right = sum(int((model(some.contiguous()).argmax(1) == keys).sum()) for some, keys in parts)
    return right / len(y)


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().cpu().clone() for name, parameter in model.named_parameters()}
