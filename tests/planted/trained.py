"""Faults of training: networks that never learn, learn at once, or end where no trained network would.

They stand in the place of `reference.training.train` and cost nothing; the claims judge their runs as they judge real
ones.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

import fixtures.trained
from fixtures.subjects import BUILT_IN
from planted.plant import PATCHES, PLANTED, BrokenNet, plant_as, plant_in
from reference import networks, recall, training
from reference.networks import HIDDEN
from reference.training import Protocol, Run

_initial = networks.initial


def a_run(protocol: Protocol, seed: int, *, solved: bool) -> Run:
    """A run that is solved at its second evaluation, or stays at chance to its end; its weights do not move."""
    model, _ = _initial(protocol, seed)
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    steps = 26 if solved else protocol.steps
    evaluated = [0, 25] if solved else [*range(0, steps, 25), steps - 1]
    accuracy = [0.125, 1.0] if solved else [0.125] * len(evaluated)
    return Run(protocol, seed, evaluated, accuracy, [math.log(8)] * steps, weights, dict(weights))


def plant_training(broken):
    """Decorator: plant what happens to each seed in the place of training."""

    def train(protocol, seeds, *_):
        return [broken(protocol, seed) for seed in seeds]

    PATCHES[broken.__name__] = [(training, "train", train)]
    return plant_as(broken.__name__, "lstm", BrokenNet, broken)


@plant_training
def never_learns(protocol, seed):
    """Every network stays at chance."""
    return a_run(protocol, seed, solved=False)


@plant_training
def learns_at_once(protocol, seed):
    """Every network is solved after 25 steps."""
    return a_run(protocol, seed, solved=True)


@plant_training
def gated_cells_never_learn(protocol, seed):
    """Plain RNNs learn at once, gated cells never."""
    return a_run(protocol, seed, solved=protocol.net == "RNN")


@plant_training
def learns_sooner_at_low_bias(protocol, seed):
    """Networks with a keep bias below 5 learn at once, others never."""
    return a_run(protocol, seed, solved=protocol.keep_bias < 5)


@plant_training
def unlearns_everything(protocol, seed):
    """Training ends with weights of zero."""
    run = a_run(protocol, seed, solved=True)
    return replace(run, after={name: torch.zeros_like(p) for name, p in run.after.items()})


@plant_training
def undoes_the_forget_bias(protocol, seed):
    """Training takes the keep bias back."""
    run = a_run(protocol, seed, solved=True)
    after = {name: p.clone() for name, p in run.after.items()}
    after["layer.bias_ih_l0"][HIDDEN : 2 * HIDDEN] = 0.0
    return replace(run, after=after)


@plant_training
def becomes_an_isometry(protocol, seed):
    """Training ends with the identity as recurrent matrix, and small inputs."""
    run = a_run(protocol, seed, solved=True)
    after = {name: 0.01 * p for name, p in run.after.items()}
    after["layer.weight_hh_l0"] = torch.eye(HIDDEN)
    return replace(run, after=after)


@plant_in(recall, "tokens")
def fillers_drawn_first(n, gap, generator):
    """The recall task draws its fillers before its keys."""
    filler = torch.randint(recall.KEYS, recall.KEYS + recall.FILLERS, (n, gap), generator=generator)
    key = torch.randint(0, recall.KEYS, (n,), generator=generator)
    return torch.cat([key[:, None], filler, torch.full((n, 1), recall.QUERY)], dim=1)


@plant_in(networks, "initial")
def biases_start_at_zero(protocol, seed, make=None):
    """All biases start at zero."""
    model, stream = _initial(protocol, seed, make)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name:
                parameter.zero_()
    return model, stream


@plant_in(networks, "initial")
def forget_bias_starts_at_one(protocol, seed, make=None):
    """The forget gate's first bias starts at 1, as in Keras."""
    model, stream = _initial(protocol, seed, make)
    with torch.no_grad():
        model.layer.bias_ih_l0[HIDDEN : 2 * HIDDEN] = 1.0
    return model, stream


def _without_clipping() -> None:
    """Gradients are as large as they come."""
    PATCHES["gradients_not_clipped"] = [(training, "CLIP", math.inf)]
    plant_as("gradients_not_clipped", "lstm", BrokenNet)


def _with_broken_layers() -> None:
    """Trained weights run in an LSTM without output tanh, and a GRU whose update gate writes, for torch.nn's layers."""
    broken = {"torch.nn.LSTM": PLANTED["NoOutputTanh"], "torch.nn.GRU": PLANTED["UpdateWrites"]}
    subjects = tuple(replace(broken[s.name], name=s.name) if s.name in broken else s for s in BUILT_IN)
    PATCHES["broken_layers"] = [(fixtures.trained, "BUILT_IN", subjects), *PATCHES["learns_at_once"]]
    plant_as("broken_layers", "lstm", BrokenNet)


_without_clipping()
_with_broken_layers()
