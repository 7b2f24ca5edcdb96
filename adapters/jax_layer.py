"""A layer that JAX computes and differentiates, on the processor.

Importing this lets jax have 64-bit numbers where they are asked for, in the whole process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from adapters.layer import Arrays, Floats, States

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")


class JaxLayer:
    """A layer from two functions: `call(arrays, x, states)` gives outputs and states, `untrained(key)` gives arrays."""

    dtypes: tuple[str, ...] = ("float32", "float64")

    def __init__(self, call: Callable[..., Any], untrained: Callable[[Any], Mapping[str, Any]]) -> None:
        self._untrained = jax.jit(untrained)
        self._call = jax.jit(call)

        def pull(arrays: Any, x: Any, states: Any, ends: Any) -> Any:
            _, back = jax.vjp(call, arrays, x, states)
            return back(ends)

        self._pull = jax.jit(pull)

    def untrained(self, seed: int) -> Arrays:
        return {name: np.asarray(a) for name, a in self._untrained(jax.random.key(seed)).items()}

    def run(self, arrays: Mapping[str, Floats], x: Floats, states: States | None) -> tuple[Floats, States]:
        outputs, last = self._call(dict(arrays), x, states)
        return np.asarray(outputs), tuple(np.asarray(s) for s in last)

    def pull(
        self, arrays: Mapping[str, Floats], x: Floats, states: States, outputs: Floats, last: States
    ) -> tuple[Arrays, Floats, States]:
        of_arrays, of_x, of_states = self._pull(dict(arrays), x, states, (outputs, last))
        own = {name: np.asarray(a) for name, a in of_arrays.items()}
        return own, np.asarray(of_x), tuple(np.asarray(s) for s in of_states)
