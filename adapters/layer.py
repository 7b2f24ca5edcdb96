"""What an adapter is made of: a layer with its own parameters, and where canonical weights stand in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reference import layouts
from reference.layouts import Layout
from reference.weights import Array, Block, Weights, has_cell_state

Floats = NDArray[np.floating]
Arrays = dict[str, Floats]
States = tuple[Floats, ...]


class Layer(Protocol):
    """A layer as its framework has it: parameters under their own names, states in their own order; x is (B, T, D)."""

    dtypes: tuple[str, ...]
    """The number formats that it computes in."""

    def untrained(self, seed: int) -> Arrays:
        """The parameters of a layer that was just built, for any seed; zeros where the framework has no such thing."""
        ...

    def run(self, arrays: Mapping[str, Floats], x: Floats, states: States | None) -> tuple[Floats, States]:
        """Outputs (B, T, H) and last states (B, H), under these parameters, from these states or from none given."""
        ...


class DifferentiableLayer(Layer, Protocol):
    """A layer whose framework differentiates it."""

    def pull(
        self, arrays: Mapping[str, Floats], x: Floats, states: States, outputs: Floats, last: States
    ) -> tuple[Arrays, Floats, States]:
        """Gradients of parameters, inputs and initial states, given those of the outputs and of the last states."""
        ...


Pack = Callable[[dict[str, Array]], dict[str, Array]]


def same(arrays: dict[str, Array]) -> dict[str, Array]:
    """For a layer whose arrays are those of its layout."""
    return arrays


class Adapter:
    """A layer that takes canonical weights.

    `pack` and `unpack` lead from the arrays of `layout` to the layer's own and back, both of them linear, apart from
    constants that `pack` may add. A layer whose states are (c, h) is `cell_first`.
    """

    def __init__(
        self, layer: Any, layout: Layout, pack: Pack = same, unpack: Pack = same, cell_first: bool = False
    ) -> None:
        self.layer, self.layout, self.pack, self.unpack, self.cell_first = layer, layout, pack, unpack, cell_first
        self.kind, self.dtypes = layout.kind, layer.dtypes

    def load(self, weights: Mapping[str, Mapping[str, Array]], dtype: str) -> None:
        """Take canonical weights, gate by gate."""
        canonical = Weights(self.kind, {gate: Block(**block) for gate, block in weights.items()})
        packed = self.pack(layouts.store(canonical, self.layout))
        self.arrays = {name: np.ascontiguousarray(array, dtype) for name, array in packed.items()}

    def run(self, x: Floats, h: Floats | None, c: Floats | None) -> tuple[Floats, Floats, Floats | None]:
        """Outputs (B, T, H) and the last state."""
        outputs, last = self.layer.run(self.arrays, x, self._states(h, c))
        return outputs, *self._named(last)

    def _states(self, h: Floats | None, c: Floats | None) -> States | None:
        if h is None:
            return None
        if c is None:
            return (h,)
        return (c, h) if self.cell_first else (h, c)

    def _named(self, states: States) -> tuple[Floats, Floats | None]:
        if not has_cell_state(self.kind):
            return states[0], None
        return (states[1], states[0]) if self.cell_first else (states[0], states[1])


class Differentiable(Adapter):
    """An adapter for a layer that its framework differentiates."""

    def gradients(self, x: Floats, h: Floats, c: Floats | None, upstream: Mapping[str, Floats]) -> dict[str, Floats]:
        """Gradients of x, h, c and every canonical parameter, from those of "outputs", "h" and "c" that are given."""
        units = h.shape[1]
        outputs = upstream.get("outputs", np.zeros((*x.shape[:2], units), x.dtype))
        last_h = upstream.get("h", np.zeros_like(h))
        last = self._states(last_h, None if c is None else upstream.get("c", np.zeros_like(c)))
        of_arrays, of_x, of_states = self.layer.pull(self.arrays, x, self._states(h, c), outputs, last)
        own = {name: np.asarray(array, np.float64) for name, array in of_arrays.items()}
        blocks = layouts.read(self.unpack(own), self.layout).blocks
        found: dict[str, Floats] = {"x": of_x}
        for gate, block in blocks.items():
            parameters = block.parameters()
            if len(self.layout.biases) == 1 and not (self.layout.inner_bias and gate == "candidate"):
                parameters["b_h"] = parameters["b_x"]  # what acts through a sum has one gradient
            found |= {f"{gate}.{name}": gradient for name, gradient in parameters.items()}
        of_h, of_c = self._named(of_states)
        return found | {"h": of_h} | ({} if of_c is None else {"c": of_c})
