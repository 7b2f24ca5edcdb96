"""Faults around the hand-worked LSTM: in its arithmetic, its loss, and the loop that trains it."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from planted.lstm import BrokenLSTM
from planted.plant import plant, plant_in
from reference import hand_worked, oracle


@plant
class RoundedAtEveryStep(BrokenLSTM):
    """The states are written down with five decimals and read again from there."""

    def step(self, x, h, c):
        h, c = super().step(x, h, c)
        return torch.round(h, decimals=5), torch.round(c, decimals=5)


@plant_in(hand_worked, "loss")
def loss_in_bits(y, target):
    """The logarithm is to the base of two."""
    return -np.log2(y[target])


@plant_in(hand_worked, "delta_z")
def error_of_the_summed_loss(y, target):
    """The losses of the four steps are summed, not averaged."""
    return y - np.eye(4)[target]


@plant_in(hand_worked, "line_by_line")
def digits_kept_in_the_calculator(steps):
    """Who checks the printed page goes on with what the calculator still holds."""
    tape = oracle.forward(hand_worked.WEIGHTS, hand_worked.WORDS)
    states = [{"h": h, "c": c} for h, c in zip(tape.h[0, 1:], tape.c[0, 1:], strict=True)]
    befores = hand_worked.befores(states)
    lines = [hand_worked.carried_on(state, before) for state, before in zip(states, befores, strict=True)]
    return lines, hand_worked.of_all_steps(lines)


@plant_in(hand_worked, "optimiser")
def weights_decay(matrices):
    """Weight decay is left on."""
    return torch.optim.AdamW(matrices, lr=0.05)


@plant_in(hand_worked, "optimiser")
def learns_at_the_default_rate(matrices):
    """The learning rate is Adam's default, 1e-3."""
    return torch.optim.Adam(matrices)


@plant_in(hand_worked, "train")
def steps_before_it_looks(model, epochs=500):
    """The optimiser steps at the start of each epoch, so the first has no gradient to step along."""
    targets = torch.tensor(hand_worked.TARGETS)
    adam, losses, predictions = hand_worked.optimiser(model.matrices), [], []
    for _ in range(epochs):
        adam.step()
        adam.zero_grad()
        logits = model(hand_worked.INPUTS)
        loss = cross_entropy(logits, targets)
        loss.backward()
        losses.append(loss.item())
        predictions.append(logits.argmax(1).tolist())
    return hand_worked.Training(np.array(losses), predictions)
