"""Correct cells written by hand: drop-ins for torch.nn's layers, and the reference equations rounded otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn, sigmoid, tanh

from fixtures.subjects import Net, ReferenceNet, States, Subject, TorchNet, copy_into, step_through
from reference import cells, oracle
from reference.weights import GATES, Array, Block, Weights, has_cell_state

EQUATIONS: list[Subject] = []


class DropIn(nn.Module):
    """A one-layer nn.RNN, LSTM or GRU with batch_first=True, step by step; ways to sum override `affine`."""

    def __init__(self, kind: str, input_size: int, hidden_size: int) -> None:
        super().__init__()
        rows, self.kind = len(GATES[kind]) * hidden_size, kind
        self.weight_ih_l0 = nn.Parameter(torch.zeros(rows, input_size))
        self.weight_hh_l0 = nn.Parameter(torch.zeros(rows, hidden_size))
        self.bias_ih_l0, self.bias_hh_l0 = nn.Parameter(torch.zeros(rows)), nn.Parameter(torch.zeros(rows))

    def affine(self, x: Tensor, h: Tensor, rows: slice = slice(None)) -> Tensor:
        """Pre-activations x W_x + h W_h + b_x + b_h of some rows."""
        return (
            torch.einsum("bd,gd->bg", x, self.weight_ih_l0[rows])
            + torch.einsum("bh,gh->bg", h, self.weight_hh_l0[rows])
            + (self.bias_ih_l0[rows] + self.bias_hh_l0[rows])
        )

    def sigma(self, a: Tensor) -> Tensor:
        return sigmoid(a)

    def mean(self, z: Tensor, h: Tensor, n: Tensor) -> Tensor:
        return n + z * (h - n)

    def step(self, x: Tensor, state: States) -> States:
        h, units = state[0], state[0].shape[1]
        if self.kind == "rnn":
            return (tanh(self.affine(x, h)),)
        if self.kind == "lstm":
            i, f, g, o = self.affine(x, h).chunk(4, 1)
            c = self.sigma(f) * state[1] + self.sigma(i) * tanh(g)
            return self.sigma(o) * tanh(c), c
        r, z = self.sigma(self.affine(x, h, slice(2 * units))).chunk(2, 1)
        last = slice(2 * units, None)
        inner = nn.functional.linear(h, self.weight_hh_l0[last], self.bias_hh_l0[last])
        n = tanh(nn.functional.linear(x, self.weight_ih_l0[last], self.bias_ih_l0[last]) + r * inner)
        return (self.mean(z, h, n),)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        if state is None:
            zeros = x.new_zeros(1, x.shape[0], self.weight_hh_l0.shape[1])
            state = (zeros, zeros) if self.kind == "lstm" else zeros
        start = tuple(s[0] for s in state) if self.kind == "lstm" else (state[0],)
        outputs, last = step_through(lambda x_t, s: self.step(x_t, s), x, start)
        return outputs, tuple(s[None] for s in last) if self.kind == "lstm" else last[0][None]


class Einsum(DropIn):
    """Products by einsum; the GRU's mean is n + z (h - n)."""


class Fused(DropIn):
    """One product of [x, h] with all gates' kernels."""

    def affine(self, x: Tensor, h: Tensor, rows: slice = slice(None)) -> Tensor:
        W = torch.cat([self.weight_ih_l0[rows], self.weight_hh_l0[rows]], 1)
        return torch.addmm(self.bias_ih_l0[rows] + self.bias_hh_l0[rows], torch.cat([x, h], 1), W.T)


class BiasFirst(DropIn):
    """(x W_x + b_x) + (h W_h + b_h), and h + (1 - z) (n - h)."""

    def affine(self, x: Tensor, h: Tensor, rows: slice = slice(None)) -> Tensor:
        of_x = nn.functional.linear(x, self.weight_ih_l0[rows], self.bias_ih_l0[rows])
        return of_x + nn.functional.linear(h, self.weight_hh_l0[rows], self.bias_hh_l0[rows])

    def mean(self, z: Tensor, h: Tensor, n: Tensor) -> Tensor:
        return h + (1 - z) * (n - h)


class InputsAtOnce(BiasFirst):
    """The inputs' share of the whole sequence is computed before the first step."""

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        whole = nn.functional.linear(x.reshape(-1, x.shape[2]), self.weight_ih_l0, self.bias_ih_l0)
        return super().forward(whole.reshape(*x.shape[:2], -1), state)

    def affine(self, x: Tensor, h: Tensor, rows: slice = slice(None)) -> Tensor:
        return x[:, rows] + nn.functional.linear(h, self.weight_hh_l0[rows], self.bias_hh_l0[rows])

    def step(self, x: Tensor, state: States) -> States:
        if self.kind != "gru":
            return super().step(x, state)
        h, units = state[0], state[0].shape[1]
        of_h = nn.functional.linear(h, self.weight_hh_l0, self.bias_hh_l0)
        r, z = sigmoid(x[:, : 2 * units] + of_h[:, : 2 * units]).chunk(2, 1)
        return (self.mean(z, h, tanh(x[:, 2 * units :] + r * of_h[:, 2 * units :])),)


class SigmaByTanh(DropIn):
    """σ(a) = (1 + tanh(a / 2)) / 2: as good as any near 1, and 0 from -37 downwards (in float32 from -18)."""

    def sigma(self, a: Tensor) -> Tensor:
        return 0.5 + 0.5 * tanh(0.5 * a)


class Vmapped(DropIn):
    """One sequence's computation under torch.func.vmap over the batch."""

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        if state is None:
            zeros = x.new_zeros(1, x.shape[0], self.weight_hh_l0.shape[1])
            state = (zeros, zeros) if self.kind == "lstm" else zeros
        one = super().forward
        each = torch.func.vmap(lambda row, s: one(row[None], s), in_dims=(0, 1), out_dims=(0, 1))
        layered = tuple(s[:, :, None] for s in state) if self.kind == "lstm" else state[:, :, None]
        outputs, last = each(x, layered)
        return outputs[:, 0], tuple(s[:, :, 0] for s in last) if self.kind == "lstm" else last[:, :, 0]


def _drop_in(of: type[DropIn], kind: str) -> Callable[[Weights, torch.dtype, str], Net]:
    def build(weights: Weights, dtype: torch.dtype, device: str) -> Net:
        return TorchNet(of(kind, weights.input_size, weights.hidden_size).to(device, dtype), kind, weights)

    return build


for _of in (Einsum, Fused, BiasFirst, InputsAtOnce, SigmaByTanh, Vmapped):
    for _kind in ("rnn", "lstm", "gru"):
        if not (_of is SigmaByTanh and _kind == "rnn"):
            EQUATIONS.append(Subject(f"by-hand.{_of.__name__}-{_kind}", _kind, _drop_in(_of, _kind), biases=2))


class BiasLast(cells.Gate):
    """(h W_h + x W_x) + b"""

    def __call__(self, x: Tensor, h: Tensor) -> Tensor:
        return (h @ self.W_h + x @ self.W_x) + self.b


class InBlocks(cells.Gate):
    """Products summed in two halves, the second half first."""

    def __call__(self, x: Tensor, h: Tensor) -> Tensor:
        terms = [a[..., part] @ W[part] for a, W in ((h, self.W_h), (x, self.W_x)) for part in halves(len(W))]
        return sum(terms) + self.b


def halves(n: int) -> tuple[slice, slice]:
    return slice((n + 1) // 2, None), slice(0, (n + 1) // 2)


class Lerp(cells.GRU):
    def step(self, x: Tensor, h: Tensor) -> Tensor:
        n_ = self.candidate
        n = tanh(n_.of_input(x) + sigmoid(self.reset(x, h)) * (h @ n_.W_h + n_.inner_bias))
        return n + sigmoid(self.update(x, h)) * (h - n)


class LerpBefore(cells.ResetBeforeGRU):
    def step(self, x: Tensor, h: Tensor) -> Tensor:
        n = tanh(self.candidate(x, sigmoid(self.reset(x, h)) * h))
        return n + sigmoid(self.update(x, h)) * (h - n)


class LerpDeck(cells.DeckGRU):
    """z writes: h + z (n - h)."""

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        n = tanh(self.candidate(x, sigmoid(self.reset(x, h)) * h))
        return h + sigmoid(-self.update(x, h)) * (n - h)


class ReferenceOtherwise(ReferenceNet):
    """A reference cell whose gates sum in another order."""

    def __init__(self, cell: cells.Cell, gate: type[cells.Gate]) -> None:
        super().__init__(cell)
        for value in vars(cell).values():
            if isinstance(value, cells.Gate):
                value.__class__ = gate


class WideSteps(ReferenceNet):
    """Every step is computed in float64, its state rounded."""

    def __call__(self, x: Tensor, state: States | None) -> tuple[Tensor, States]:
        if state is None:
            zeros = x.new_zeros(x.shape[0], self.cell.candidate.W_h.shape[0])
            state = (zeros, zeros) if has_cell_state(self.cell.kind) else (zeros,)

        def step(x_t: Tensor, s: States) -> States:
            found = self.cell.step(x_t.double(), *(part.double() for part in s))  # type: ignore[attr-defined]
            return tuple(f.to(x.dtype) for f in (found if isinstance(found, tuple) else (found,)))

        return step_through(step, x, state)


class WideRun(ReferenceNet):
    """The whole run is computed in float64 and rounded at its end."""

    def __call__(self, x: Tensor, state: States | None) -> tuple[Tensor, States]:
        outputs, last = super().__call__(x.double(), state and tuple(s.double() for s in state))
        return outputs.to(x.dtype), tuple(s.to(x.dtype) for s in last)


class _ByTheOracle(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, net: OracleNet, x: Tensor, h: Tensor, c: Tensor, *parameters: Tensor) -> Any:
        ctx.net, ctx.dtype = net, x.dtype
        ctx.tape = oracle.forward(net.weights(), x.numpy(), h.numpy(), c.numpy())
        tape, cell = ctx.tape, ctx.tape.c if ctx.tape.c is not None else np.zeros_like(ctx.tape.h)
        return tuple(torch.tensor(a, dtype=x.dtype) for a in (tape.outputs, tape.h[:, -1], cell[:, -1]))

    @staticmethod
    def backward(ctx: Any, outputs: Tensor, h: Tensor, c: Tensor) -> Any:
        g = oracle.backward(ctx.tape, outputs.numpy().astype(float), h.numpy().astype(float), c.numpy().astype(float))
        own = [g.parameters[name] for name in ctx.net.parameters]
        given = [g.x, g.h, np.zeros_like(g.h) if g.c is None else g.c]
        return None, *(torch.tensor(a, dtype=ctx.dtype) for a in (*given, *own))


class OracleNet:
    """numpy in float64 with a backward pass written by hand, as a torch function."""

    def __init__(self, weights: Weights, dtype: torch.dtype, device: str) -> None:
        self.kind = weights.kind
        self.parameters: dict[str, Tensor] = {
            name: torch.tensor(p, dtype=dtype, requires_grad=True) for name, p in weights.parameters().items()
        }

    def load(self, weights: Weights) -> None:
        for name, array in weights.parameters().items():
            copy_into(self.parameters[name], torch.tensor(array))

    def weights(self) -> Weights:
        return self.canonical({name: p.detach().double().numpy() for name, p in self.parameters.items()})

    def canonical(self, gradients: Any) -> Weights:
        blocks: dict[str, dict[str, Array]] = {}
        for name, value in gradients.items():
            gate, parameter = name.split(".")
            blocks.setdefault(gate, {})[parameter] = value
        return Weights(self.kind, {gate: Block(**own) for gate, own in blocks.items()})

    def __call__(self, x: Tensor, state: States | None) -> tuple[Tensor, States]:
        zeros = x.new_zeros(x.shape[0], self.parameters["candidate.W_h"].shape[0])
        h, c = (*(state or ()), zeros, zeros)[:2]
        outputs, h, c = _ByTheOracle.apply(self, x, h, c, *self.parameters.values())
        return outputs, (h, c) if has_cell_state(self.kind) else (h,)

    def train(self, mode: bool) -> None:
        """The same in both."""


def _summed(gate: type[cells.Gate], of: type[cells.Cell]) -> Callable[[Weights, torch.dtype, str], Net]:
    return lambda weights, dtype, device: ReferenceOtherwise(of(weights, dtype, device), gate)


def _as(net: type[ReferenceNet], of: type[cells.Cell], wide: bool) -> Callable[[Weights, torch.dtype, str], Net]:
    class Wide(net):  # type: ignore[misc,valid-type]
        """Holds float64 copies of parameters in the number format asked for."""

    return lambda weights, dtype, device: Wide(of(weights, torch.float64 if wide else dtype, device))


for _cell in cells.CELLS:
    for _gate in (BiasLast, InBlocks):
        EQUATIONS.append(Subject(f"equations.{_cell.__name__}.{_gate.__name__}", _cell.kind, _summed(_gate, _cell)))
    for _net in (WideSteps, WideRun):
        EQUATIONS.append(Subject(f"equations.{_cell.__name__}.{_net.__name__}", _cell.kind, _as(_net, _cell, True)))
    EQUATIONS.append(Subject(f"oracle.{_cell.kind}", _cell.kind, OracleNet, biases=2))
for _cell in (Lerp, LerpBefore, LerpDeck):
    EQUATIONS.append(Subject(f"equations.{_cell.__name__}", _cell.kind, _as(ReferenceNet, _cell, False)))
