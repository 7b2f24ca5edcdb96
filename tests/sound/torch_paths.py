"""torch.nn's layers on other paths than the built-in subjects take.

Of torch.func.vmap there is none: it has no batching rule for the kernels of layers and cells (torch 2.13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fixtures.subjects import Net, States, Subject, TorchNet, as_states
from reference.weights import Weights

LAYERS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}

TORCH_PATHS: list[Subject] = []


@contextmanager
def without_onednn() -> Iterator[None]:
    """torch's own kernels; `torch.backends.mkldnn.flags` does the same and warns of TF32 on Intel GPUs."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


class OtherPath(TorchNet):
    """A layer with batch_first=True; what is overridden is how it is called."""

    options: dict[str, Any] = {"batch_first": True}  # noqa: RUF012

    def __init__(self, kind: str, weights: Weights, dtype: torch.dtype, device: str) -> None:
        made = LAYERS[kind](weights.input_size, weights.hidden_size, **self.options)
        super().__init__(made.to(device, dtype), kind, weights)

    def layered(self, state: States | None) -> Any:
        """A state as the layer takes it, (1, B, H) each, a tuple for the LSTM alone."""
        if state is None:
            return None
        layers = tuple(s[None] for s in state)
        return layers if self.kind == "lstm" else layers[0]


def path(of: type[OtherPath]) -> type[OtherPath]:
    """Make one of the ways to call a layer a subject of every kind."""

    def builder(kind: str) -> Callable[[Weights, torch.dtype, str], Net]:
        return lambda weights, dtype, device: of(kind, weights, dtype, device)

    for kind, module in LAYERS.items():
        TORCH_PATHS.append(Subject(f"{module.__name__}.{of.__name__}", kind, builder(kind), biases=2))
    return of


@path
class WithoutOneDNN(OtherPath):
    def __call__(self, x: Tensor, state: States | None) -> tuple[Tensor, States]:
        with without_onednn():
            return super().__call__(x, state)


@path
class TimeFirst(OtherPath):
    options: dict[str, Any] = {}  # noqa: RUF012

    def __call__(self, x: Tensor, state: States | None) -> tuple[Tensor, States]:
        outputs, last = super().__call__(x.transpose(0, 1), state)
        return outputs.transpose(0, 1), last


@path
class Packed(OtherPath):
    """A packed sequence of equal lengths; of no steps it is refused."""

    def __call__(self, x: Tensor, state: States | None) -> tuple[Tensor, States]:
        lengths = torch.full((x.shape[0],), x.shape[1])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        outputs, last = self.module(packed, self.layered(state))
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
        return outputs, tuple(s[0] for s in as_states(last))


@path
class RowByRow(OtherPath):
    """Each sequence of the batch without a batch."""

    def __call__(self, x: Tensor, state: States | None) -> tuple[Tensor, States]:
        rows = [super(RowByRow, self).__call__(x[k : k + 1], self.row(state, k)) for k in range(min(len(x), 300))]
        if len(x) > 300:  # the one batch of thousands goes in two halves
            rows.append(super().__call__(x[300:], self.row(state, slice(300, None))))
        return torch.cat([o for o, _ in rows]), tuple(torch.cat(s) for s in zip(*(s for _, s in rows), strict=True))

    @staticmethod
    def row(state: States | None, k: int | slice) -> States | None:
        return None if state is None else tuple(s[k : k + 1] if isinstance(k, int) else s[k] for s in state)


@path
class StridedParameters(OtherPath):
    """The kernels lie in memory the other way round."""

    def __init__(self, kind: str, weights: Weights, dtype: torch.dtype, device: str) -> None:
        super().__init__(kind, weights, dtype, device)
        for p in self.parameters.values():
            if p.ndim == 2:
                p.data = p.data.T.contiguous().T

    def __call__(self, x: Tensor, state: States | None) -> tuple[Tensor, States]:
        with without_onednn():  # which takes contiguous kernels alone
            return super().__call__(x, state)


@path
class OneBias(OtherPath):
    """All of the bias stands in bias_ih, but for that inside the GRU's reset product."""

    def load(self, weights: Weights) -> None:
        super().load(weights)
        with torch.no_grad():
            kept = weights.hidden_size * 2 if weights.kind == "gru" else len(self.parameters["bias_hh"])
            self.parameters["bias_ih"][:kept] += self.parameters["bias_hh"][:kept]
            self.parameters["bias_hh"][:kept] = 0


@path
class Recomputed(OtherPath):
    """The forward pass is run again for the backward pass (torch.utils.checkpoint)."""

    def __call__(self, x: Tensor, state: States | None) -> tuple[Tensor, States]:
        call = super().__call__
        if not torch.is_grad_enabled():
            return call(x, state)
        return checkpoint(call, x, state, use_reentrant=False)  # type: ignore[no-any-return]
