"""What a computation costs: work, operations and memory counted operator by operator, and seconds side by side.

A count is the same on every machine, as long as the operators can be seen: oneDNN and cuDNN run a whole layer as one,
so counts are taken with torch's own kernels (`own_kernels`). Seconds are not; they are measured in turn and compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

Result = TypeVar("Result")
Name = TypeVar("Name", bound=Hashable)

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
ACTIVATIONS = ("sigmoid", "sigmoid_", "tanh", "tanh_")


@dataclass
class Work:
    """What torch ran: `multiply_adds` in matrix products, by torch's own table of FLOPs (two each).

    `products` and `activations` count the numbers that matrix products, and σ and tanh, gave out, so that one product
    of three gates counts like three of one; `operators` counts calls of any kind.
    """

    multiply_adds: int = 0
    products: int = 0
    activations: int = 0
    operators: int = 0


class _Watch(TorchDispatchMode):
    """Adds up the work of every operator that reaches torch's kernels."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.work = Work()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; protecting the watch from torch's compiler would load it, which takes a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        operator, work = func.overloadpacket, self.work
        work.operators += 1
        if operator in flop_registry:
            work.multiply_adds += flop_registry[operator](*args, **kwargs, out_val=out) // 2
        if operator.__name__ in PRODUCTS:
            work.products += out.numel()
        if operator.__name__ in ACTIVATIONS:
            work.activations += out.numel()
        return out


@contextmanager
def own_kernels() -> Iterator[None]:
    """Within, torch computes recurrent layers with kernels of its own, one operator after the other."""
    backends: tuple[Any, ...] = (torch.backends.mkldnn, torch.backends.cudnn)
    before = [backend.enabled for backend in backends]
    try:
        for backend in backends:
            backend.enabled = False
        yield
    finally:
        for backend, enabled in zip(backends, before, strict=True):
            backend.enabled = enabled


def count(compute: Callable[[], Result]) -> tuple[Result, Work]:
    """What a computation returns, and the work that it was."""
    with _Watch() as watch:
        result = compute()
    return result, watch.work


def kept(compute: Callable[[], Any], *but: Tensor) -> int:
    """The bytes that a forward pass keeps for its backward pass, each storage once, those of the tensors `but` not."""
    own = {tensor.untyped_storage().data_ptr() for tensor in but}
    alive: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        alive[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no later tensor takes its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = compute()
    total = sum(tensor.untyped_storage().nbytes() for address, tensor in alive.items() if address not in own)
    del result  # the graph lives on until here
    return total


def products_in_sequence(end: Tensor, start: Tensor) -> int:
    """How many matrix products follow one on another, at most, on the way from the leaf `start` to `end`.

    Raises:
        ValueError: no way leads there.
    """
    longest: dict[Any, float] = {}

    def length(node: Any) -> float:
        if node not in longest:
            here = any(word in type(node).__name__ for word in ("MmBackward", "mmBackward", "LinearBackward"))
            before = [length(earlier) for earlier, _ in node.next_functions if earlier is not None]
            longest[node] = 0 if getattr(node, "variable", None) is start else here + max(before, default=-torch.inf)
        return longest[node]

    found = length(end.grad_fn)
    if found < 0:
        raise ValueError("no way leads from the leaf to the end")
    return int(found)


def seconds_in_turn(works: Mapping[Name, Callable[[], Any]], times: int) -> dict[Name, list[float]]:
    """The seconds that each of these takes, run in turn so that all see the same machine, after a run that warms up."""
    seconds: dict[Name, list[float]] = {name: [] for name in works}
    for turn in range(times + 1):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            if turn:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def times_as_long(this: list[float], that: list[float]) -> float:
    """How many times as long one took as the other, measured in turn: the median over the turns."""
    return statistics.median(a / b for a, b in zip(this, that, strict=True))
