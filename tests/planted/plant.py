"""How a fault becomes a subject."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from fixtures.subjects import Net, ReferenceNet, Subject
from reference import cells
from reference.weights import Weights

PLANTED: dict[str, Subject] = {}
"""Every fault by the name of its class."""


class BrokenNet(ReferenceNet):
    """A sound cell of class `of` that is called wrongly; faults override what they break."""

    of: ClassVar[type[cells.Cell]] = cells.LSTM

    def __init__(self, weights: Weights, dtype: torch.dtype, device: str) -> None:
        super().__init__(self.of(weights, dtype, device))


def plant(broken: type[Any]) -> type[Any]:
    """Make a broken cell, or a `BrokenNet`, a subject of its name."""
    is_cell = issubclass(broken, cells.Cell)

    def build(weights: Weights, dtype: torch.dtype, device: str) -> Net:
        made = broken(weights, dtype, device)
        return ReferenceNet(made) if is_cell else made

    return plant_as(broken.__name__, broken.kind if is_cell else broken.of.kind, build, broken)


def plant_as(name: str, kind: str, build: Callable[[Weights, torch.dtype, str], Net], broken: Any = None) -> Any:
    """Register a subject that `build` makes."""
    assert name not in PLANTED, f"{name} is planted twice"
    PLANTED[name] = Subject(f"planted.{name}", kind, build)
    return broken


PATCHES: dict[str, list[tuple[Any, str, Any]]] = {}
"""Faults outside the cells, by name: modules, names in them, and what stands there instead. Their subject is sound."""


def plant_in(module: Any, attribute: str, under: type[cells.Cell] = cells.LSTM) -> Callable[[Any], Any]:
    """Decorator: plant a function in the place of a module's, under a sound cell, by default an LSTM."""

    def build(weights: Weights, dtype: torch.dtype, device: str) -> Net:
        return ReferenceNet(under(weights, dtype, device))

    def decorate(broken: Any) -> Any:
        PATCHES[broken.__name__] = [(module, attribute, broken)]
        return plant_as(broken.__name__, under.kind, build, broken)

    return decorate
