"""Faults that hang on what was called before: kept states, caches, weights that change."""

from __future__ import annotations

from typing import Any

import torch

from tests.faults.base import GRU, LSTM, RNN, fault


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


@fault("state-aliasing", "cells.repeatable")
class OutputsInOneBuffer(GRU):
    """Outputs of one shape are written into the same memory, call after call."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        if torch.is_grad_enabled():
            return outputs, last
        buffers = self.__dict__.setdefault("buffer", {})
        return buffers.setdefault((outputs.shape, outputs.dtype), torch.empty_like(outputs)).copy_(outputs), last


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


@fault("uninitialised-memory", "cells.repeatable")
class ScratchNotCleared(LSTM):
    """The sum over gates starts in memory that the last call left behind, after a call that was longer."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        left, self.left = getattr(self, "left", 0), x.shape[1]
        return (outputs + 1e-4 if left > x.shape[1] else outputs), last


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


@fault("cache-key", "cells.new-weights")
class ParametersOfTheConstruction(GRU):
    """The parameters that it was built with are used, whatever stands in their place."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.kept = [self.weight_hh_l0]

    def of_state(self, h):
        return (h @ self.kept[0].T + self.bias_hh_l0).chunk(3, -1)


@fault("cache-key", "cells.new-weights")
class CachedByOneParameter(GRU):
    """What is prepared for calls without a graph follows the recurrent kernel's changes, not the biases'."""

    def of_input(self, x):
        if torch.is_grad_enabled():
            return super().of_input(x)
        version = self.weight_hh_l0._version, self.weight_hh_l0.dtype
        if self.__dict__.setdefault("seen", None) != version:
            self.seen, self.bias = version, self.bias_ih_l0.clone()
        return (x @ self.weight_ih_l0.T + self.bias).chunk(3, -1)
