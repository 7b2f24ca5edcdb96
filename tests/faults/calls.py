"""Faults that hang on how a cell is called: how often, after what, in which mode, with which memory."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.faults.backward import as_if_contiguous
from tests.faults.base import GRU, LSTM, RNN, fault

# State


@fault("initial-state-ignored", "cells.step-parity")
class StateIgnored(GRU):
    """The state that is handed in is not used."""

    def unpacked(self, x, state):
        return self.omitted(x)


@fault("initial-state-ignored", "cells.step-parity")
class CellIgnored(LSTM):
    """Of the state that is handed in only h is used."""

    def unpacked(self, x, state):
        h, c = super().unpacked(x, state)
        return h, torch.zeros_like(c)


@fault("initial-state-ignored", "cells.every-size")
class StateIgnoredForOneRow(LSTM):
    """With a batch of one and several steps the state that is handed in is not used."""

    def unpacked(self, x, state):
        return self.omitted(x) if x.shape[0] == 1 and x.shape[1] > 3 else super().unpacked(x, state)


@fault("initial-state-ignored", "cells.step-parity", "states taken in the order C, h")
class StatesExchanged(LSTM):
    """The state is taken as (C, h)."""

    def unpacked(self, x, state):
        return super().unpacked(x, state)[::-1]


@fault("initial-state-ignored", "cells.step-parity", "states returned in the order C, h")
class StatesReturnedExchanged(LSTM):
    """The state is returned as (C, h)."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs, last[::-1]


@fault("state-not-carried", "cells.sequence-parity")
class EveryStepFromTheStart(LSTM):
    """Every step starts from the initial state."""

    def over(self, x, state):
        runs = [super(EveryStepFromTheStart, self).over(x[:, t : t + 1], state) for t in range(x.shape[1])]
        return torch.cat([outputs for outputs, _ in runs], 1), runs[-1][1]


@fault("state-not-carried", "cells.sequence-parity")
class LastStateIsTheFirst(GRU):
    """The state that is returned is that after the first step."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs, (outputs[:, 0],) if x.shape[1] else last


@fault("state-leak", "cells.omitted-state", "state carried from call to call")
class GoesOnWhereItEnded(LSTM):
    """Without a state the last call's is gone on from."""

    def omitted(self, x):
        last = getattr(self, "last", None)
        return last if last and last[0].shape[0] == x.shape[0] and last[0].dtype == x.dtype else super().omitted(x)

    def over(self, x, state):
        outputs, last = super().over(x, state)
        self.last = tuple(s.detach() for s in last)
        return outputs, last


@fault("state-leak", "cells.repeatable")
class LeaksAThousandth(GRU):
    """A thousandth of the last call's state is added to the one that is handed in."""

    def over(self, x, state):
        last = getattr(self, "last", None)
        outputs, ended = super().over(
            x, (state[0] + 1e-3 * last,) if last is not None and last.shape == state[0].shape else state
        )
        self.last = ended[0].detach()
        return outputs, ended


@fault("state-leak", "cells.repeatable")
class ThirdCallDiffers(LSTM):
    """From the third call in evaluation on the outputs are a millionth larger."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        self.calls = getattr(self, "calls", 0) + (not self.training)
        return outputs * (1 + 1e-6 * (self.calls >= 3)), last


@fault("state-leak", "cells.repeatable")
class TwentiethCallDiffers(RNN):
    """From the twentieth call in training on the outputs are zero."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        self.calls = getattr(self, "calls", 0) + self.training
        return outputs * float(self.calls < 20), last


@fault("state-aliasing", "cells.step-parity")
class StateOverwrittenInTheProduct(RNN):
    """Units are computed one after the other into the state that the others still read."""

    def step(self, x, *state):
        (h,), units = state, []
        for k in range(self.hidden_size):
            seen = torch.cat([*units, h[:, k:]], 1)
            units.append(torch.tanh(self.of_input(x)[0][:, k : k + 1] + self.of_state(seen)[0][:, k : k + 1]))
        return (torch.cat(units, 1),)


@fault("state-aliasing", "cells.arguments-untouched")
class LastStateInThePlaceOfTheFirst(LSTM):
    """The last cell is written into the one that was handed in."""

    def over(self, x, state):
        outputs, last = super().over(x, tuple(s.clone() for s in state))
        state[1].data.copy_(last[1].detach())
        return outputs, last


@fault("state-aliasing", "cells.repeatable")
class OutputsInOneBuffer(GRU):
    """Outputs of one shape are written into the same memory, call after call."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        if torch.is_grad_enabled():
            return outputs, last
        buffers = self.__dict__.setdefault("buffer", {})
        return buffers.setdefault((outputs.shape, outputs.dtype), torch.empty_like(outputs)).copy_(outputs), last


@fault("state-aliasing", "cells.repeatable")
class ReturnedStateIsItsOwn(LSTM):
    """The zeros of an omitted state and the state that is returned are the layer's own memory."""

    def omitted(self, x):
        zeros = self.__dict__.setdefault("zeros", {})
        key = (x.shape[0], x.dtype)
        if key not in zeros:
            zeros[key] = super().omitted(x)
        return zeros[key]

    def unpacked(self, x, state):
        blank = self.omitted(x)
        return tuple(s + b for s, b in zip(super().unpacked(x, state), blank, strict=True))

    def over(self, x, state):
        outputs, last = super().over(x, state)
        if not torch.is_grad_enabled():
            self.held = self.__dict__.setdefault("held", {})
            key = (last[1].shape, last[1].dtype)
            last = last[0], self.held.setdefault(key, torch.empty_like(last[1])).copy_(last[1])
        return outputs, last


@fault("batch-mix", "cells.step-parity")
class BatchMeanMixedIn(LSTM):
    """A thousandth of each row's hidden state is the batch's mean."""

    def step(self, x, *state):
        h, c = state
        return super().step(x, 0.999 * h + 0.001 * h.mean(0, keepdim=True), c)


@fault("batch-mix", "cells.sequence-parity")
class RowsExchangedAfterTheFirstStep(GRU):
    """After the first step the first two rows change places."""

    def over(self, x, state):
        first, state = super().over(x[:, :1], state)
        order = [1, 0, *range(2, len(x))] if len(x) > 1 else [0]
        rest, state = super().over(x[:, 1:], (state[0][order],))
        return torch.cat([first, rest], 1), state


@fault("batch-mix", "cells.step-parity")
class FirstRowForAll(RNN):
    """All rows start from the first row's state."""

    def unpacked(self, x, state):
        return tuple(s[:1].expand(len(x), -1) for s in super().unpacked(x, state))


@fault("param-mutation", "cells.arguments-untouched")
class ForgetBiasDrifts(LSTM):
    """Each call in training adds 1e-6 to the forget bias."""

    def over(self, x, state):
        if self.training:
            self.bias_ih_l0.data[self.hidden_size : 2 * self.hidden_size] += 1e-6
        return super().over(x, state)


@fault("param-mutation", "cells.arguments-untouched")
class InputsScaledInPlace(RNN):
    """Inputs are scaled in place and not scaled back to the bit."""

    def over(self, x, state):
        x.data.mul_(1 / 3).mul_(3)
        return super().over(x, state)


@fault("cache-key", "cells.new-weights")
class KernelTransposedOnce(LSTM):
    """The kernels are transposed at the first call and kept, whatever becomes of the parameters."""

    def of_state(self, h):
        if getattr(self, "kept", None) is None or self.training:
            self.kept = self.weight_hh_l0.T
            return super().of_state(h)
        if not hasattr(self, "packed"):
            self.packed = self.kept.detach().clone()
        return (h @ self.packed + self.bias_hh_l0).chunk(4, -1)


@fault("serialization", "cells.new-weights")
class CheckpointInAnotherOrder(GRU):
    """A checkpoint's recurrent kernel is taken for one of z, r, n."""

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        name = f"{prefix}weight_hh_l0"
        r, z, n = state_dict[name].chunk(3)
        super()._load_from_state_dict({**state_dict, name: torch.cat([z, r, n])}, prefix, *rest)


@fault("serialization", "cells.new-weights")
class CheckpointWithoutABias(LSTM):
    """Of a checkpoint the recurrent bias is not taken over."""

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        own = {f"{prefix}bias_hh_l0": self.bias_hh_l0.detach()}
        super()._load_from_state_dict(state_dict | own, prefix, *rest)


@fault("cache-key", "cells.new-weights")
class KernelKeptBetweenGraphs(LSTM):
    """A kernel transposed for calls without a graph is kept until one records."""

    def of_state(self, h):
        if torch.is_grad_enabled():
            self.kept = None
            return super().of_state(h)
        if getattr(self, "kept", None) is None:
            self.kept = self.weight_hh_l0.T.clone()
        return (h @ self.kept + self.bias_hh_l0).chunk(4, -1)


@fault("cache-key", "cells.new-weights")
class KernelOfTheSwitch(GRU):
    """Evaluation without a graph takes the kernel that was there when the layer was switched to it."""

    def train(self, mode=True):
        self.kept = None if mode else self.weight_hh_l0.detach().clone()
        return super().train(mode)

    def of_state(self, h):
        if self.training or torch.is_grad_enabled():
            return super().of_state(h)
        return (h @ self.kept.T + self.bias_hh_l0).chunk(3, -1)


@fault("cache-key", "cells.new-weights")
class BiasesSummedOnce(RNN):
    """The two biases are added up when the layer first evaluates."""

    def of_state(self, h):
        if self.training:
            return super().of_state(h)
        if not hasattr(self, "summed"):
            self.summed = self.bias_hh_l0.detach().clone()
        return (h @ self.weight_hh_l0.T + self.summed,)


@fault("cache-key", "cells.repeatable")
class InstancesShareTheirWeights(GRU):
    """Layers of one size share the weights that were used last by another of them in training."""

    latest: dict[Any, Any] = {}  # noqa: RUF012

    def of_state(self, h):
        key = (self.hidden_size, self.input_size, h.dtype)
        if self.training:
            self.latest[key] = self.weight_hh_l0.detach().clone()
        return (
            (h @ self.latest.get(key, self.weight_hh_l0).T + self.bias_hh_l0).chunk(3, -1)
            if not self.training
            else super().of_state(h)
        )


@fault("cache-key", "cells.repeatable")
class AnswerByAddress(LSTM):
    """Without a state and a graph, inputs at one address have one answer while the parameters stay."""

    def forward(self, x, state=None):
        if state is not None or torch.is_grad_enabled():
            return super().forward(x, state)
        key = (x.data_ptr(), x.shape, x.dtype, *(p._version for p in self.parameters()))
        if getattr(self, "known", (None,))[0] != key:
            self.known = key, super().forward(x), x
        return self.known[1]


@fault("cache-key", "cells.backward-later")
class CachedByShape(RNN):
    """Where a second graph of one shape is recorded, the first one's outputs become constants of the second."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        if not outputs.requires_grad:
            return outputs, last
        self.stamp = getattr(self, "stamp", 0) + 1
        mine = self.stamp
        outputs.register_hook(lambda gradient: gradient if self.stamp == mine else gradient * 0.5)
        return outputs, last


@fault("cache-key", "cells.repeatable")
class MaskOfTheFirstShape(LSTM):
    """A mask of the first batch's size is kept; larger batches have their other rows left out."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        self.rows = getattr(self, "rows", len(x))
        return outputs * (torch.arange(len(x)) < self.rows)[:, None, None], last


@fault("step-vs-sequence", "cells.steps-are-the-sequence")
class SingleStepsAreRounded(LSTM):
    """Calls of one step round the state to 12 bits."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        if x.shape[1] == 1 and not torch.is_grad_enabled():
            last = tuple(torch.round(s * 4096) / 4096 for s in last)
        return outputs, last


@fault("zero-length", "cells.empty-sequence")
class NoStepsNoState(GRU):
    """Without steps the state is zero."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs, last if x.shape[1] else tuple(torch.zeros_like(s) for s in last)


@fault("zero-length", "cells.empty-sequence")
class NoStepsNoGradient(LSTM):
    """Without steps the state is a copy, cut off from the one that was handed in."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs, last if x.shape[1] else tuple(s.detach().clone() for s in last)


@fault("uninitialised-memory", "cells.repeatable")
class ScratchNotCleared(LSTM):
    """The sum over gates starts in memory that the last call left behind, after a call that was longer."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        left, self.left = getattr(self, "left", 0), x.shape[1]
        return (outputs + 1e-4 if left > x.shape[1] else outputs), last


# Memory


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


@fault("cache-key", "cells.repeatable")
class ResultsKeptByAddress(LSTM):
    """Without a graph, results are kept by the address of the inputs."""

    def over(self, x, state):
        if torch.is_grad_enabled():
            return super().over(x, state)
        kept, key = self.__dict__.setdefault("results", {}), (x.data_ptr(), x.shape)
        if key not in kept:
            kept[key] = x, super().over(x, state)
        outputs, last = kept[key][1]
        return outputs.clone(), tuple(s.clone() for s in last)


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


@fault("state-aliasing", "cells.strides")
class OneTensorForBothStates(LSTM):
    """Where C_0 lies in the memory of h_0, the cell begins at 0."""

    def unpacked(self, x, state):
        h, c = super().unpacked(x, state)
        return h, 0 * c if h.data_ptr() == c.data_ptr() else c


@fault("state-leak", "cells.omitted-state")
class ZerosOfTheFirstBatch(LSTM):
    """Zeros are made for the first call's batch; rows beyond it begin with what lies there."""

    def omitted(self, x):
        rows = self.__dict__.setdefault("rows", len(x))
        return tuple(s + 0.1 * (torch.arange(len(x)) >= rows)[:, None] for s in super().omitted(x))


@fault("cache-key", "cells.new-weights")
class ParametersOfTheConstruction(GRU):
    """The parameters that it was built with are used, whatever stands in their place."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.kept = [self.weight_hh_l0]

    def of_state(self, h):
        return (h @ self.kept[0].T + self.bias_hh_l0).chunk(3, -1)
