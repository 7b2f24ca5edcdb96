"""Faults that hang on where arguments lie in memory, and on the mode in which a cell is called."""

from __future__ import annotations

import random

import torch

from tests.faults.base import GRU, LSTM, RNN, fault

# Memory


def as_if_contiguous(a):
    """What a kernel reads that counts on from a tensor's first element, around the end of its memory."""
    memory = a.as_strided((a.untyped_storage().nbytes() // a.element_size() - a.storage_offset(),), (1,))
    return memory.repeat(-(-a.numel() // len(memory)))[: a.numel()].reshape(a.shape)


@fault("noncontiguous-input", "cells.strides")
class StepsAlikeReadOnce(LSTM):
    """Of an input that is expanded over the steps the first step alone is read."""

    def over(self, x, state):
        once = x.shape[1] > 1 and x.stride(1) == 0
        return super().over(torch.cat([x[:, :1], torch.zeros_like(x[:, 1:])], 1) if once else x, state)


@fault("noncontiguous-input", "cells.strides")
class InputStridesIgnored(LSTM):
    """Inputs are read as if they were contiguous."""

    def over(self, x, state):
        return super().over(as_if_contiguous(x), state)


@fault("noncontiguous-input", "cells.strides")
class StateStridesIgnored(GRU):
    """States are read as if they were contiguous."""

    def unpacked(self, x, state):
        return tuple(as_if_contiguous(s) for s in super().unpacked(x, state))


@fault("noncontiguous-input", "cells.strides")
class TimeFirstIfItLooksLikeIt(RNN):
    """Inputs whose steps lie further apart than their rows are taken for time first."""

    def over(self, x, state):
        looks = x.shape[0] > 1 and x.shape[1] > 1 and x.stride(0) < x.stride(1)
        return super().over(x.flip(1) if looks else x, state)


@fault("shape-stride", "cells.sequence-parity")
class OutputsLaidOutTimeFirst(LSTM):
    """The outputs' memory is time first and read batch first."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs.transpose(0, 1).reshape(outputs.shape), last


@fault("batch_first", "cells.every-size", "batch and time exchanged")
class TimeFirstWhereSquare(GRU):
    """With as many rows as steps the batch is taken for the time."""

    def over(self, x, state):
        if x.shape[0] != x.shape[1]:
            return super().over(x, state)
        outputs, last = super().over(x.transpose(0, 1), state)
        return outputs.transpose(0, 1), last


@fault("reverse-direction", "cells.sequence-parity", "sequence run backwards")
class RunBackwards(LSTM):
    """The sequence is run from its end."""

    def over(self, x, state):
        outputs, last = super().over(x.flip(1), state)
        return outputs.flip(1), last


@fault("noncontiguous-input", "cells.strides")
class InputsFromWhereTheirMemoryBegins(LSTM):
    """Inputs that are a part of a longer tensor are read from its beginning."""

    def over(self, x, state):
        return super().over(x - x.detach() + x.detach().as_strided(x.shape, x.stride(), 0), state)


@fault("noncontiguous-input", "cells.strides")
class StateFromWhereItsMemoryBegins(GRU):
    """A state that is a part of a longer tensor is read from its beginning."""

    def unpacked(self, x, state):
        (h,) = super().unpacked(x, state)
        return (h - h.detach() + h.detach().as_strided(h.shape, h.stride(), 0),)


@fault("shape-stride", "cells.strides")
class KernelsReadAsContiguous(LSTM):
    """The recurrent kernel is read as if it lay row by row."""

    def of_state(self, h):
        W = as_if_contiguous(self.weight_hh_l0)
        return (h @ W.T + self.bias_hh_l0).chunk(4, -1)


@fault("noncontiguous-input", "cells.strides")
class CellStridesIgnored(LSTM):
    """C_0 is read as contiguous where h_0 is."""

    def unpacked(self, x, state):
        h, c = super().unpacked(x, state)
        return h, as_if_contiguous(c) if h.is_contiguous() else c


@fault("noncontiguous-input", "cells.strides")
class PartOfARowReadAsWhole(RNN):
    """One row's steps that are parts of longer rows are read as if nothing lay between them."""

    def over(self, x, state):
        apart = x.shape[0] == 1 and x.stride(-1) == 1 and x.stride(1) > x.shape[2]
        return super().over(x.detach().as_strided(x.shape, (0, x.shape[2], 1)) if apart else x, state)


# Modes


@fault("dropout-semantics", "cells.sequence-parity")
class TrainingScales(GRU):
    """In training the outputs are a hundredth larger, as by a dropout that was left on."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs * (1.01 if self.training else 1), last


@fault("dropout-semantics", "cells.modes")
class EvaluationWithAGraph(LSTM):
    """In evaluation with a graph the state is rounded to bfloat16."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        odd = torch.is_grad_enabled() and not self.training
        return (outputs.bfloat16().to(outputs.dtype) if odd else outputs), last


@fault("dtype-dispatched-path", "cells.sequence-parity")
class FasterWithoutGraph(LSTM):
    """Without a graph sigmoids are taken in float16."""

    def sigma(self, a):
        return torch.sigmoid(a) if torch.is_grad_enabled() else torch.sigmoid(a.half()).to(a.dtype)


@fault("dtype-dispatched-path", "cells.modes")
class OtherPathWhereXAsks(GRU):
    """Where x asks for a gradient, outputs are computed by another path that is off by 1e-3; gradients are right."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return (outputs + (1e-3 * outputs).detach() if x.requires_grad else outputs), last


@fault("nondeterminism", "cells.repeatable")
class LastBitsNoisy(LSTM):
    """The last bits differ from call to call."""

    def show(self, o, c):
        return super().show(o, c) * (1 + torch.finfo(c.dtype).eps * torch.randint_like(c, -1, 2))


@fault("nondeterminism", "cells.arguments-untouched")
class DrawsFromTheGlobalStream(RNN):
    """Each call draws a random number and has no use for it."""

    def over(self, x, state):
        torch.rand(1)
        return super().over(x, state)


@fault("nondeterminism", "cells.arguments-untouched")
class SeedsTheGlobalStream(GRU):
    """Each call seeds Python's random numbers."""

    def over(self, x, state):
        random.seed(0)
        return super().over(x, state)


@fault("param-mutation", "cells.arguments-untouched")
class DefaultFormatChanged(LSTM):
    """The first call makes float64 the default number format; the next one puts it back."""

    def over(self, x, state):
        double = torch.get_default_dtype() == torch.float64
        torch.set_default_dtype(torch.float32 if double else torch.float64)
        return super().over(x, state)


@fault("detached-path", "cells.modes")
class EvaluationCutsTheGraph(GRU):
    """In evaluation no gradient comes back."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return (outputs, last) if self.training else (outputs.detach(), tuple(s.detach() for s in last))


@fault("missing-bias", "cells.modes")
class InferenceWithoutABias(LSTM):
    """In torch's inference mode the recurrent bias is left out."""

    def of_state(self, h):
        biases = 0 * self.bias_hh_l0 if torch.is_inference_mode_enabled() else self.bias_hh_l0
        return (h @ self.weight_hh_l0.T + biases).chunk(4, -1)


@fault("dtype-dispatched-path", "cells.modes")
class LateStepsOfTrainingWithoutAGraph(LSTM):
    """In training without a graph, steps beyond the eighth read the input of the eighth."""

    def over(self, x, state):
        if self.training and not torch.is_grad_enabled() and x.shape[1] > 8:
            x = torch.cat([x[:, :8], x[:, 7:8].expand(-1, x.shape[1] - 8, -1)], 1)
        return super().over(x, state)
