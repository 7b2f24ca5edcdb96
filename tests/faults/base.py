"""Sound drop-ins for one-layer `torch.nn` layers, in parts that a fault overrides one by one.

`RNN`, `LSTM` and `GRU` leave the backward pass to autograd; `HandRNN`, `HandLSTM` and `HandGRU` bring their own, a
method for each line of it. Shapes: x (B, T, D), states (1, B, H) as torch.nn has them, gates (B, H).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Fault:
    """What is wrong with a cell."""

    kind: str
    """The kind of real fault, one of FAULTS.md's."""
    by: str
    """The claim that must be refuted."""
    convention: str | None
    """What a diagnosis should say where the cell follows another convention; None where the fault is no convention."""


def fault(kind: str, by: str, convention: str | None = None) -> Callable[[Any], Any]:
    """Decorator: this cell is faulty."""

    def decorate(cell: Any) -> Any:
        cell.fault = Fault(kind, by, convention)
        return cell

    return decorate


class Layer(nn.Module):
    """One layer of weights under torch.nn's names, begun as torch.nn does."""

    blocks: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        rows, bound = self.blocks * hidden_size, hidden_size**-0.5
        shapes = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, hidden_size),
            "bias_ih": (rows,),
            "bias_hh": (rows,),
        }
        for name, shape in shapes.items():
            self.register_parameter(f"{name}_l0", nn.Parameter(torch.empty(shape).uniform_(-bound, bound)))

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        outputs, last = self.over(x, self.unpacked(x, state))
        return outputs, tuple(s[None] for s in last) if self.states == 2 else last[0][None]

    def unpacked(self, x: Tensor, state: Any) -> tuple[Tensor, ...]:
        """The initial state as a tuple of (B, H), zeros where it was left out."""
        if state is None:
            return self.omitted(x)
        return tuple(s[0] for s in (state if self.states == 2 else (state,)))

    def omitted(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.new_zeros(x.shape[0], self.hidden_size) for _ in range(self.states))

    def over(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Outputs (B, T, H) and the last state, each (B, H)."""
        outputs = []
        for t in range(x.shape[1]):
            state = self.step(x[:, t], *state)
            outputs.append(state[0])
        return torch.stack(outputs, 1) if outputs else x.new_zeros(x.shape[0], 0, self.hidden_size), state

    def step(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def of_input(self, x: Tensor) -> tuple[Tensor, ...]:
        """The input's share of each block's pre-activation."""
        return (x @ self.weight_ih_l0.T + self.bias_ih_l0).chunk(self.blocks, -1)

    def of_state(self, h: Tensor) -> tuple[Tensor, ...]:
        """The state's share of each block's pre-activation."""
        return (h @ self.weight_hh_l0.T + self.bias_hh_l0).chunk(self.blocks, -1)

    def sigma(self, a: Tensor) -> Tensor:
        return torch.sigmoid(a)

    def tanh(self, a: Tensor) -> Tensor:
        return torch.tanh(a)


class RNN(Layer):
    """A plain RNN."""

    blocks = 1

    def step(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        return (self.tanh(self.of_input(x)[0] + self.of_state(state[0])[0]),)


class LSTM(Layer):
    """An LSTM."""

    blocks, states = 4, 2

    def pre_activations(self, x: Tensor, h: Tensor) -> list[Tensor]:
        """Of the input gate, the forget gate, the candidate and the output gate."""
        return [a + b for a, b in zip(self.of_input(x), self.of_state(h), strict=True)]

    def gates(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        a_i, a_f, a_g, a_o = self.pre_activations(x, h)
        return self.sigma(a_i), self.sigma(a_f), self.tanh(a_g), self.sigma(a_o)

    def remember(self, i: Tensor, f: Tensor, g: Tensor, c: Tensor) -> Tensor:
        return f * c + i * g

    def show(self, o: Tensor, c: Tensor) -> Tensor:
        return o * torch.tanh(c)

    def step(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        h, c = state
        i, f, g, o = self.gates(x, h, c)
        c = self.remember(i, f, g, c)
        return self.show(o, c), c


class GRU(Layer):
    """A GRU with the reset gate after the recurrent product."""

    blocks = 3

    def candidate(self, a_x: Tensor, a_h: Tensor, r: Tensor, h: Tensor) -> Tensor:
        return self.tanh(a_x + r * a_h)

    def blend(self, z: Tensor, n: Tensor, h: Tensor) -> Tensor:
        return z * h + (1 - z) * n

    def step(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        (h,) = state
        (x_r, x_z, x_n), (h_r, h_z, h_n) = self.of_input(x), self.of_state(h)
        r, z = self.sigma(x_r + h_r), self.sigma(x_z + h_z)
        return (self.blend(z, self.candidate(x_n, h_n, r, h), h),)


class _ByHand(torch.autograd.Function):
    """A whole sequence whose backward pass is the layer's own."""

    @staticmethod
    def forward(ctx: Any, layer: Hand, x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        states, parameters = rest[: layer.states], rest[layer.states :]
        ctx.layer = layer
        outputs, last, kept = layer.forwards(x, states, parameters)
        ctx.x, ctx.parameters, ctx.kept = x, parameters, kept
        return outputs, *last

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        outputs, *last = upstream
        return None, *ctx.layer.backwards(ctx.x, ctx.parameters, ctx.kept, outputs, last)


class Hand(Layer):
    """A layer with a backward pass of its own, in lines that a fault overrides."""

    def over(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        parameters = (self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0)
        outputs, *last = _ByHand.apply(self, x, *state, *parameters)
        return outputs, tuple(last)

    def forwards(self, x: Tensor, states: Any, parameters: Any) -> tuple[Tensor, tuple[Tensor, ...], list[Any]]:
        """Outputs, the last state, and what each step keeps for the way back."""
        outputs, kept = [], []
        for t in range(x.shape[1]):
            s = self.once(x[:, t], states, parameters)
            s.before, s.t, s.T = states, t, x.shape[1]
            states = s.after
            outputs.append(states[0])
            kept.append(s)
        shown = torch.stack(outputs, 1) if outputs else x.new_zeros(x.shape[0], 0, self.hidden_size)
        return shown, tuple(s.clone() for s in states), kept

    def once(self, x: Tensor, states: Any, parameters: Any) -> SimpleNamespace:
        """One step: its new state, `after`, and its gates."""
        raise NotImplementedError

    def backwards(self, x: Tensor, parameters: Any, kept: list[Any], outputs: Tensor, last: Any) -> list[Tensor]:
        """Gradients of x, the states and the four parameters."""
        W_x, W_h = parameters[:2]
        reaching = self.ends(*last)
        dW_x, dW_h, db_x, db_h = (torch.zeros_like(p) for p in parameters)
        dx = torch.zeros_like(x)
        for s in self.order(kept):
            reaching = (reaching[0] + self.arriving(outputs, s.t), *reaching[1:])
            da_x, da_h, carried = self.pulled(s, W_h, *reaching)
            dx[:, s.t] = self.to_input(da_x, W_x)
            dW_x += self.to_input_kernel(da_x, x[:, s.t])
            dW_h += self.to_recurrent_kernel(da_h, s)
            db_x, db_h = self.to_biases(db_x, db_h, da_x, da_h, s)
            reaching = (carried[0] + self.through_kernel(da_h, W_h, s), *carried[1:])
        return [self.given_out(g) for g in (dx, *self.begun(*reaching), dW_x, dW_h, db_x, db_h)]

    def ends(self, *last: Tensor) -> tuple[Tensor, ...]:
        """What reaches the last state from outside."""
        return last

    def order(self, kept: list[Any]) -> Iterator[Any]:
        return reversed(kept)

    def arriving(self, outputs: Tensor, t: int) -> Tensor:
        return outputs[:, t]

    def pulled(self, s: SimpleNamespace, W_h: Tensor, dh: Tensor, dc: Any = None) -> tuple[Tensor, Tensor, Any]:
        """Gradients of the input's and the state's share of the pre-activations, and what goes past the kernels."""
        raise NotImplementedError

    def to_input(self, da: Tensor, W_x: Tensor) -> Tensor:
        return da @ W_x

    def through_kernel(self, da: Tensor, W_h: Tensor, s: SimpleNamespace) -> Tensor:
        return da @ W_h

    def to_input_kernel(self, da: Tensor, x: Tensor) -> Tensor:
        return da.T @ x

    def to_recurrent_kernel(self, da: Tensor, s: SimpleNamespace) -> Tensor:
        return da.T @ s.before[0]

    def to_biases(self, db_x: Tensor, db_h: Tensor, da_x: Tensor, da_h: Tensor, s: SimpleNamespace) -> Any:
        return db_x + da_x.sum(0), db_h + da_h.sum(0)

    def begun(self, *reaching: Tensor) -> tuple[Tensor, ...]:
        """What reaches the initial state."""
        return reaching

    def given_out(self, gradient: Tensor) -> Tensor:
        return gradient


class HandRNN(Hand):
    """A plain RNN with its own backward pass."""

    blocks = 1

    def once(self, x, states, parameters):
        W_x, W_h, b_x, b_h = parameters
        return SimpleNamespace(after=(torch.tanh(x @ W_x.T + b_x + states[0] @ W_h.T + b_h),))

    def pulled(self, s, W_h, dh, dc=None):
        da = self.of_tanh(dh, s)
        return da, da, (torch.zeros_like(dh),)

    def of_tanh(self, dh: Tensor, s: SimpleNamespace) -> Tensor:
        return dh * (1 - s.after[0] ** 2)


class HandLSTM(Hand):
    """An LSTM with its own backward pass."""

    blocks, states = 4, 2

    def once(self, x, states, parameters):
        W_x, W_h, b_x, b_h = parameters
        h, c = states
        i, f, g, o = (x @ W_x.T + b_x + h @ W_h.T + b_h).chunk(4, -1)
        i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
        c = f * c + i * g
        return SimpleNamespace(i=i, f=f, g=g, o=o, tanh_c=torch.tanh(c), after=(o * torch.tanh(c), c))

    def pulled(self, s, W_h, dh, dc=None):
        do = self.do(s, dh)
        dc = self.dc(s, dh, dc)
        da = torch.cat([self.di(s, dc), self.df(s, dc), self.dg(s, dc), do], -1)
        return da, da, (torch.zeros_like(dh), self.past(s, dc))

    def dc(self, s: SimpleNamespace, dh: Tensor, dc: Tensor) -> Tensor:
        return dc + dh * s.o * (1 - s.tanh_c**2)

    def di(self, s: SimpleNamespace, dc: Tensor) -> Tensor:
        return dc * s.g * s.i * (1 - s.i)

    def df(self, s: SimpleNamespace, dc: Tensor) -> Tensor:
        return dc * s.before[1] * s.f * (1 - s.f)

    def dg(self, s: SimpleNamespace, dc: Tensor) -> Tensor:
        return dc * s.i * (1 - s.g**2)

    def do(self, s: SimpleNamespace, dh: Tensor) -> Tensor:
        return dh * s.tanh_c * s.o * (1 - s.o)

    def past(self, s: SimpleNamespace, dc: Tensor) -> Tensor:
        return dc * s.f


class HandGRU(Hand):
    """A GRU with its own backward pass."""

    blocks = 3

    def once(self, x, states, parameters):
        W_x, W_h, b_x, b_h = parameters
        (h,) = states
        (x_r, x_z, x_n), (h_r, h_z, h_n) = (x @ W_x.T + b_x).chunk(3, -1), (h @ W_h.T + b_h).chunk(3, -1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * h_n)
        return SimpleNamespace(r=r, z=z, n=n, h_n=h_n, after=(z * h + (1 - z) * n,))

    def pulled(self, s, W_h, dh, dc=None):
        dn, dz = self.dn(s, dh), self.dz(s, dh)
        dr = self.dr(s, dn)
        return torch.cat([dr, dz, dn], -1), torch.cat([dr, dz, self.inner(s, dn)], -1), (self.past(s, dh),)

    def dn(self, s: SimpleNamespace, dh: Tensor) -> Tensor:
        return dh * (1 - s.z) * (1 - s.n**2)

    def dz(self, s: SimpleNamespace, dh: Tensor) -> Tensor:
        return dh * (s.before[0] - s.n) * s.z * (1 - s.z)

    def dr(self, s: SimpleNamespace, dn: Tensor) -> Tensor:
        return dn * s.h_n * s.r * (1 - s.r)

    def inner(self, s: SimpleNamespace, dn: Tensor) -> Tensor:
        """The gradient of h W_h + b_h inside the reset product."""
        return dn * s.r

    def past(self, s: SimpleNamespace, dh: Tensor) -> Tensor:
        return dh * s.z
