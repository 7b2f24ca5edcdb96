"""Faults of an LSTM with full peepholes behind an adapter, differentiated by torch."""

from __future__ import annotations

import torch

from tests.faults.base import fault


class Peepholes:
    """A sound peephole LSTM that keeps its weights by gate, in lines that a fault overrides."""

    kind = "lstm-peephole"

    def __init__(self, input_size, hidden_size):
        self.units = hidden_size

    def load(self, weights, dtype):
        self.own = {
            f"{gate}.{name}": torch.tensor(array, dtype=getattr(torch, dtype), requires_grad=True)
            for gate, block in weights.items()
            for name, array in block.items()
        }

    def affine(self, gate, x, h):
        W_x, W_h, b_x, b_h = (self.own[f"{gate}.{name}"] for name in ("W_x", "W_h", "b_x", "b_h"))
        return x @ W_x + b_x + h @ W_h + b_h

    def peep(self, gate, c):
        return c @ self.own[f"{gate}.P"]

    def gate(self, gate, x, h, c):
        return torch.sigmoid(self.affine(gate, x, h) + self.peep(gate, c))

    def output(self, x, h, c, new):
        return self.gate("output", x, h, new)

    def step(self, x, h, c):
        f, i = self.gate("forget", x, h, c), self.gate("input", x, h, c)
        new = f * c + i * torch.tanh(self.affine("candidate", x, h))
        return self.output(x, h, c, new) * torch.tanh(new), new

    def over(self, x, h, c):
        outputs = []
        for x_t in x.unbind(1):
            h, c = self.step(x_t, h, c)
            outputs.append(h)
        return torch.stack(outputs, 1) if outputs else x.new_zeros(len(x), 0, self.units), h, c

    def run(self, x, h, c):
        x, h, c = (torch.zeros(len(x), self.units) if a is None else torch.tensor(a) for a in (x, h, c))
        with torch.no_grad():
            return [end.numpy() for end in self.over(x, h.to(x), c.to(x))]

    def gradients(self, x, h, c, upstream):
        given = zip("xhc", (x, h, c), strict=True)
        leaves = {name: torch.tensor(a, requires_grad=True) for name, a in given} | self.own
        ends = self.over(leaves["x"], leaves["h"], leaves["c"])
        pulls = [torch.tensor(upstream[name]) for name in ("outputs", "h", "c")]
        found = torch.autograd.grad(ends, [*leaves.values()], pulls, allow_unused=True)
        return {
            name: torch.zeros_like(leaf) if gradient is None else gradient
            for (name, leaf), gradient in zip(leaves.items(), found, strict=True)
        }


@fault("peephole-stale-cell", "variants.peephole-equations", "output gate peeping at the old cell")
class OutputPeepsAtTheOldCell(Peepholes):
    """The output gate sees the cell before the step."""

    def output(self, x, h, c, new):
        return self.gate("output", x, h, c)


@fault("peephole-stale-cell", "variants.peephole-equations")
class ForgetGatePeepsAtTheShownCell(Peepholes):
    """The gates see tanh C, as a state that is shown without its output gate."""

    def peep(self, gate, c):
        return super().peep(gate, torch.tanh(c))


@fault("peephole-order", "cells.step-parity", "peepholes of forget and input gate exchanged")
class PeepholesInOnnxOrder(Peepholes):
    """Peepholes are read as i, f, o where they lie as f, i, o."""

    def peep(self, gate, c):
        return super().peep({"forget": "input", "input": "forget"}.get(gate, gate), c)


@fault("weight-transpose", "cells.step-parity", "peepholes transposed")
class PeepholesTransposed(Peepholes):
    """Peepholes are multiplied from the other side."""

    def peep(self, gate, c):
        return c @ self.own[f"{gate}.P"].T


@fault("peephole-order", "cells.step-parity")
class DiagonalOfThePeepholes(Peepholes):
    """Only the diagonals of the peepholes are used."""

    def peep(self, gate, c):
        return c * self.own[f"{gate}.P"].diagonal()


@fault("peephole-placement", "variants.peephole-equations")
class PeepholeAfterTheSigmoid(Peepholes):
    """What the output gate sees is added after its sigmoid."""

    def output(self, x, h, c, new):
        return torch.sigmoid(self.affine("output", x, h)) + self.peep("output", new)


@fault("bwd-peephole", "cells.gradient-parity")
class CellDetachedForThePeepholes(Peepholes):
    """No gradient reaches the cell through the peepholes."""

    def peep(self, gate, c):
        return super().peep(gate, c.detach())


@fault("bwd-peephole", "cells.gradient-parity")
class PeepholesGetNoGradient(Peepholes):
    """The peepholes are never learnt."""

    def peep(self, gate, c):
        return c @ self.own[f"{gate}.P"].detach()


@fault("peephole-placement", "cells.sequence-parity")
class PeepholesFromTheSecondStepOn(Peepholes):
    """In the first step of a sequence of several no gate sees the cell."""

    def over(self, x, h, c):
        self.blind = x.shape[1] > 1
        return super().over(x, h, c)

    def step(self, x, h, c):
        found = super().step(x, h, c)
        self.blind = False
        return found

    def peep(self, gate, c):
        return 0 * c if self.blind else super().peep(gate, c)
