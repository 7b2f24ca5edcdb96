"""Faults in what a cell learns: more or fewer parameters than its equations have."""

from __future__ import annotations

import torch

from planted.plant import BrokenNet, plant
from reference import cells


class _Recounted(BrokenNet):
    """A sound cell that registers parameters which its equations do not use, or leaves some out."""

    def __init__(self, weights, dtype, device):
        super().__init__(weights, dtype, device)
        self.sound = set(self.parameters)
        self.parameters = {n: p.requires_grad_() for n, p in self.recount(dict(self.parameters)).items()}

    def recount(self, parameters):
        raise NotImplementedError

    def canonical(self, gradients):
        return super().canonical({name: gradient for name, gradient in gradients.items() if name in self.sound})


class _SecondBiases(_Recounted):
    """A second bias per gate, declared nowhere."""

    def recount(self, parameters):
        return parameters | {f"{name}_h": torch.zeros_like(p) for name, p in parameters.items() if name.endswith(".b")}


@plant
class LSTMWithSecondBiases(_SecondBiases):
    """An LSTM with a second bias per gate, declared nowhere."""


@plant
class GRUWithSecondBiases(_SecondBiases):
    """A GRU with a second bias per gate, declared nowhere."""

    of = cells.GRU


@plant
class CoupledLSTMWithInputGate(_Recounted):
    """A coupled LSTM that keeps the weights of the input gate it has not."""

    of = cells.CoupledLSTM

    def recount(self, parameters):
        return parameters | {f"input.{p}": torch.zeros_like(parameters[f"forget.{p}"]) for p in ("W_x", "W_h", "b")}


@plant
class GRUWithoutInnerBias(_Recounted):
    """A GRU that does not learn the bias inside the reset product."""

    of = cells.GRU

    def recount(self, parameters):
        return {name: p for name, p in parameters.items() if name != "candidate.b_h"}


@plant
class DiagonalRecurrence(_Recounted):
    """An LSTM that learns one recurrent weight per unit and gate."""

    def recount(self, parameters):
        return {name: torch.diagonal(p) if name.endswith("W_h") else p for name, p in parameters.items()}


@plant
class SquareInputKernels(_Recounted):
    """An LSTM whose input kernels are as large as its recurrent ones, whatever it is given."""

    def recount(self, parameters):
        return {name: torch.zeros_like(parameters[name.replace("W_x", "W_h")]) for name in parameters}


def _without_second_peepholes(parameters):
    return {name: p for name, p in parameters.items() if name not in ("input.P", "output.P")}


@plant
class OnePeepholeMatrix(_Recounted):
    """All gates share one full peephole."""

    of = cells.PeepholeLSTM

    def recount(self, parameters):
        return _without_second_peepholes(parameters)


@plant
class OnePeepholeVector(_Recounted):
    """All gates share one diagonal peephole."""

    of = cells.DiagonalPeepholeLSTM

    def recount(self, parameters):
        return _without_second_peepholes(parameters)


@plant
class DiagonalPeepholesStoredInFull(_Recounted):
    """Diagonal peepholes are learnt as full matrices."""

    of = cells.DiagonalPeepholeLSTM

    def recount(self, parameters):
        return {name: torch.diag(p) if name.endswith(".P") else p for name, p in parameters.items()}
