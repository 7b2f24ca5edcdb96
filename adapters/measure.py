"""Which conventions a black box follows, by measurement: a layer with its own parameters, arrays in, arrays out.

Nothing is known but that the layer is an RNN, an LSTM or a GRU of so many inputs and units. With all parameters at zero
every gate stands half open and the candidate at 0. One number is then nudged at a time, over random inputs and states;
how each unit moves says where that number acts, and by what it is multiplied:

- the LSTM's cell moves as the source of the number (a constant, an input, a unit of h) for a candidate, times c for a
  forget gate; h moves while c does not for an output gate; an input gate shows once the candidates are driven;
- the GRU's h moves as the source for a candidate, times h for an update gate, up where it keeps and down where it
  writes; a reset gate shows once the candidates see h: in its own unit alone where it acts after the product, in all
  of them where it acts before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from adapters.layer import Arrays, Floats, Layer, States
from reference.weights import Array

INPUTS, UNITS, ROWS = 2, 3, 24
NUDGE, PUSH = 2.0**-6, 2.0
DRIVE = 0.25
SHUT = -30.0
LETTERS = {
    "lstm": {"input": "i", "forget": "f", "candidate": "g", "output": "o"},
    "gru": {"reset": "r", "update": "z", "candidate": "n"},
    "rnn": {"candidate": "n"},
}


@dataclass(frozen=True)
class Place:
    """Where one number of a layer acts: in a gate's pre-activation of a unit, times its source."""

    gate: str
    unit: int
    source: str
    """`1` for a bias, `x0` … for an input, `h0` … for a unit of the state before."""


@dataclass
class Conventions:
    """What was measured of a layer. An entry is None where there is nothing to measure."""

    kind: str
    order: str = ""
    """Gates in the order in which they are stacked, such as `i f g o`, or `separate` where each has its own arrays."""
    kernels: str = ""
    """`x W` where rows of a kernel are inputs, `W x` where columns are."""
    biases: int = 0
    """How many vectors of biases there are."""
    states: str = ""
    """The order in which states are taken and returned."""
    activation: str | None = None
    """What the candidate's pre-activation goes through."""
    update: str | None = None
    """`keeps` where a GRU's update gate of 1 keeps the state, `writes` where it writes the candidate."""
    reset: str | None = None
    """`after` the product with the recurrent kernel, or `before`."""
    inner: int | None = None
    """Vectors of biases that lie inside the GRU's reset product."""
    at_run_time: float | None = None
    """What is added to the forget gate's pre-activation when all parameters are zero."""
    initial: tuple[float, float] | None = None
    """Mean and deviation of the untrained layer's forget pre-activation where x = h = 0, over units and seeds."""
    unknown: list[str] = field(default_factory=list)
    """Numbers that act as none of the above."""


def measure(make: Callable[[int, int], Layer], kind: str, *, trainable: bool = True, seeds: int = 5) -> Conventions:
    """Measure the layer that `make(input_size, hidden_size)` builds; `kind` is rnn, lstm or gru."""
    box = Box(make(INPUTS, UNITS), kind)
    places = box.places()
    found = Conventions(kind, states=", ".join(box.order()), activation=box.activation(places))
    found.unknown = sorted({name for (name, _), place in places.items() if place is None})
    known = {at: place for at, place in places.items() if place is not None}
    found.order, found.kernels = _order(known, box.shapes, kind), _kernels(known, box.shapes)
    biases = [place for place in known.values() if place.source == "1"]
    found.biases = len(biases) // UNITS
    if kind == "gru":
        found.update, found.reset = box.update or None, box.reset or None
        found.inner = sum(
            box.is_inner(at, known) for at, p in known.items() if p.gate == "candidate" and p.source == "1"
        )
        found.inner //= UNITS
    if kind == "lstm":
        found.at_run_time = float(forget(box, box.zeros(), UNITS).mean())
        if trainable:
            large = Box(make(INPUTS, 64), kind)
            each = np.concatenate([forget(large, large.layer.untrained(seed), 64) for seed in range(seeds)])
            found.initial = float(each.mean()), float(each.std())
    return found


At = tuple[str, tuple[int, ...]]
"""One number: the array's name and the index in it."""

Effect = Callable[[Array, str], Array]
"""How a unit moves over the rows, up to a factor, if the number acts on a gate by a source, given with its name."""


class Box:
    """A layer of one kind, asked one step at a time, in the finest number format that it has."""

    def __init__(self, layer: Layer, kind: str) -> None:
        self.layer, self.kind, self.dtype = layer, kind, layer.dtypes[-1]
        self.shapes = {name: array.shape for name, array in layer.untrained(0).items()}
        self.update = self.reset = ""
        self._order: tuple[str, ...] = ()
        random = np.random.default_rng(5)
        self.x, self.h, self.c = (random.normal(size=(ROWS, n)) for n in (INPUTS, UNITS, UNITS))

    def zeros(self) -> Arrays:
        return {name: np.zeros(shape, self.dtype) for name, shape in self.shapes.items()}

    def order(self) -> tuple[str, ...]:
        """The names of the states in the layer's order; h is the one that is also the last output."""
        if not self._order and self.kind != "lstm":
            self._order = ("h",)
        elif not self._order:
            random = np.random.default_rng(6)
            arrays = {n: random.normal(size=s).astype(self.dtype) for n, s in self.shapes.items()}
            x = np.ascontiguousarray(self.x[:, None], self.dtype)
            outputs, last = self.layer.run(arrays, x, None)
            self._order = ("h", "c") if np.allclose(outputs[:, -1], last[0]) else ("c", "h")
        return self._order

    def step(self, arrays: Mapping[str, Floats], x: Array, h: Array, c: Array) -> dict[str, Array]:
        """The states after one step from h and c, (B, units) each."""
        given = {"h": h, "c": c}
        states: States = tuple(np.ascontiguousarray(given[name], self.dtype) for name in self.order())
        cast = {name: np.asarray(array, self.dtype) for name, array in arrays.items()}
        _, last = self.layer.run(cast, np.ascontiguousarray(x[:, None], self.dtype), states)
        return {name: state.astype(np.float64) for name, state in zip(self.order(), last, strict=True)}

    def numbers(self) -> Iterator[At]:
        for name, shape in self.shapes.items():
            yield from ((name, index) for index in np.ndindex(*shape))

    def moved(self, arrays: Arrays, at: At, by: float = NUDGE) -> Arrays:
        """A copy of the parameters with one number moved."""
        name, index = at
        copy = {n: a.copy() if n == name else a for n, a in arrays.items()}
        copy[name][index] += by
        return copy

    def places(self) -> dict[At, Place | None]:
        """Where each number acts; None where it acts as nothing that is known."""
        found: dict[At, Place | None] = {}
        looks = {"rnn": [self._rnn], "lstm": [self._lstm, self._lstm_input], "gru": [self._gru, self._gru_reset]}
        for look in looks[self.kind]:
            asked = [at for at in self.numbers() if found.get(at) is None]
            found |= look(asked, {at: place for at, place in found.items() if place is not None})
        return found

    def sources(self) -> dict[str, Array]:
        """What a number may be multiplied by, over the rows."""
        columns = {f"x{j}": self.x[:, j] for j in range(INPUTS)} | {f"h{j}": self.h[:, j] for j in range(UNITS)}
        return {"1": np.ones(ROWS)} | columns

    def _rnn(self, asked: list[At], known: Mapping[At, Place]) -> dict[At, Place | None]:
        base = self._here(self.zeros())
        found = {}
        for at in asked:
            dh = self._here(self.moved(self.zeros(), at))["h"] - base["h"]
            smooth = self._match(dh, lambda unit: {"candidate": lambda s, name: s})
            found[at] = smooth or self._match(dh, lambda unit: {"candidate": lambda s, name: np.maximum(s, 0)})
        return found

    def _lstm(self, asked: list[At], known: Mapping[At, Place]) -> dict[At, Place | None]:
        base = self._here(self.zeros())
        found = {}
        for at in asked:
            now = self._here(self.moved(self.zeros(), at))
            dh, dc = now["h"] - base["h"], now["c"] - base["c"]
            if np.any(dc):
                found[at] = self._match(
                    dc, lambda k: {"candidate": lambda s, name: s, "forget": lambda s, name: s * self.c[:, k]}
                )
            else:
                found[at] = self._match(dh, lambda k: {"output": lambda s, name: s * base["h"][:, k]})
        return found

    def _lstm_input(self, asked: list[At], known: Mapping[At, Place]) -> dict[At, Place | None]:
        """With the candidates driven, c moves as what they write."""
        driven = self._driven(known, "candidate")
        base = self._here(driven)
        written = self.step(driven, self.x, self.h, np.zeros_like(self.c))["c"]
        return {
            at: self._match(
                self._here(self.moved(driven, at))["c"] - base["c"],
                lambda k: {"input": lambda s, name: s * written[:, k]},
            )
            for at in asked
        }

    def _gru(self, asked: list[At], known: Mapping[At, Place]) -> dict[At, Place | None]:
        """By a push rather than a nudge: a candidate that sees its own h, and an update gate's bias, begin alike."""

        def candidate(s: Array, name: str) -> Array:
            return np.tanh(PUSH * s * (0.5 if name.startswith("h") else 1.0))  # the reset gate stands half open

        def update(unit: int) -> Effect:
            return lambda s, name: np.tanh(PUSH * s / 2) * self.h[:, unit]

        base = self._here(self.zeros())
        found = {}
        for at in asked:
            dh = self._here(self.moved(self.zeros(), at, PUSH))["h"] - base["h"]
            place = self._match(dh, lambda k: {"candidate": candidate, "update": update(k)})
            if place and place.gate == "update":
                along = self.h[:, place.unit] * self.sources()[place.source]
                self._say("update", "keeps" if along @ dh[:, place.unit] > 0 else "writes")
            found[at] = place
        return found

    def _gru_reset(self, asked: list[At], known: Mapping[At, Place]) -> dict[At, Place | None]:
        """With the candidates seeing h, a gate after the product moves its own unit, as what that unit sees of h.

        A gate before it moves all units, as its own h; candidates that see that unit of h alone show which it is.
        """
        found: dict[At, Place | None] = dict.fromkeys(asked)
        for k in range(UNITS):
            driven = self._driven({at: p for at, p in known.items() if p.source == f"h{k}"}, "candidate")
            base = self._here(driven)["h"]
            slope = 1 - (2 * base - self.h) ** 2
            effect = partial(self._through, k)
            for at in asked:
                dh = (self._here(self.moved(driven, at))["h"] - base) / slope
                units = np.flatnonzero(np.any(dh, axis=0))
                if len(units) == 1 and (place := self._match(dh, lambda _, e=effect: {"reset": e})):  # type: ignore[misc]
                    found[at] = place
                    self._say("reset", "after")
                elif len(units) > 1 and (place := self._match(dh[:, :1], lambda _, e=effect: {"reset": e})):  # type: ignore[misc]
                    found[at] = Place("reset", k, place.source)
                    self._say("reset", "before")
        return found

    def _through(self, unit: int, s: Array, name: str) -> Array:
        return s * self.h[:, unit]

    def _say(self, what: str, found: str) -> None:
        before = getattr(self, what)
        setattr(self, what, found if before in ("", found) else "mixed")

    def _here(self, arrays: Arrays) -> dict[str, Array]:
        return self.step(arrays, self.x, self.h, self.c)

    def _driven(self, known: Mapping[At, Place], gate: str) -> Arrays:
        """Parameters that are zero but for those of a gate."""
        arrays = self.zeros()
        for (name, index), place in known.items():
            if place.gate == gate:
                arrays[name][index] = DRIVE
        return arrays

    def _match(self, moved: Array, effects: Callable[[int], dict[str, Effect]]) -> Place | None:
        """The gate and source that explain how the one unit that moved did so, over the rows; None if none does."""
        if np.any(moved, axis=0).sum() != 1:
            return None
        unit = int(np.argmax(np.abs(moved).max(axis=0)))
        column = moved[:, unit]

        def cosine(seen: Array) -> float:
            return float(abs(column @ seen) / np.linalg.norm(column) / np.linalg.norm(seen))

        cosines = {
            Place(gate, unit, name): cosine(effect(s, name))
            for gate, effect in effects(unit).items() for name, s in self.sources().items()
        }  # fmt: skip
        best = max(cosines, key=lambda place: cosines[place])
        return best if cosines[best] > 0.999 else None

    def is_inner(self, at: At, known: Mapping[At, Place]) -> bool:
        """Whether a bias of a GRU's candidate vanishes when the reset gate shuts."""
        shut = self.zeros()
        for (name, index), place in known.items():
            if (place.gate, place.source) == ("reset", "1"):
                shut[name][index] = SHUT
        dh = self._here(self.moved(shut, at))["h"] - self._here(shut)["h"]
        return bool(np.abs(dh).max() < NUDGE * 1e-3)

    def activation(self, places: Mapping[At, Place | None]) -> str | None:
        """What the candidate goes through, by name, if its slope and its value at ±2 are known ones."""
        if self.kind != "rnn":
            return None
        name, index = next(at for at, p in places.items() if p and p.source == "1")
        shown = []
        for value in (2.0, -2.0):
            arrays = self.zeros()
            arrays[name][index] = value
            moved = self.step(arrays, self.x, self.h, self.c)["h"][0]
            shown.append(float(moved[np.argmax(np.abs(moved))]))
        known = {"tanh": np.tanh((2.0, -2.0)), "ReLU": np.array((2.0, 0.0)), "identity": np.array((2.0, -2.0))}
        return next((name for name, values in known.items() if np.allclose(shown, values, atol=1e-5)), "another")


def forget(box: Box, arrays: Mapping[str, Floats], units: int) -> Array:
    """The forget gate's pre-activation where x = h = 0, by unit: the slope of the new cell in the old, through σ."""
    x, zeros = np.zeros((2, INPUTS)), np.zeros((2, units))
    after = box.step(arrays, x, zeros, np.stack([np.zeros(units), np.ones(units)]))["c"]
    f = after[1] - after[0]
    logit: Array = np.log(f / (1 - f))
    return logit


def _order(places: Mapping[At, Place], shapes: Mapping[str, tuple[int, ...]], kind: str) -> str:
    """The gates of a stacked array, along the axis on which they are stacked; else each gate's own arrays."""
    orders, separate = set(), {}
    for name in shapes:
        own = {index: place for (n, index), place in places.items() if n == name}
        if len({place.gate for place in own.values()}) <= 1:
            separate[name] = next((LETTERS[kind][p.gate] for p in own.values()), "?")
            continue
        for axis in range(len(shapes[name])):
            line = [own[i].gate for i in sorted(own) if all(v == 0 for a, v in enumerate(i) if a != axis)]
            gates = [g for k, g in enumerate(line) if k == 0 or g != line[k - 1]]
            if len(gates) > 1:
                whole = next(n for n in range(1, len(gates) + 1) if gates == (gates[:n] * len(gates))[: len(gates)])
                orders.add(" ".join(LETTERS[kind][g] for g in gates[:whole]))
    if orders:
        return " | ".join(sorted(orders))
    return "–" if kind == "rnn" else "separate"


def _kernels(places: Mapping[At, Place], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Whether the sources of a unit's kernel lie down its columns or along its rows."""
    found = set()
    for name, shape in shapes.items():
        own = {index: place for (n, index), place in places.items() if n == name}
        if any(place.source != "1" for place in own.values()):
            last = [own[i].source for i in sorted(own) if all(v == 0 for v in i[:-1])]
            found.add("W x" if len(set(last)) > 1 or shape[-1] == 1 else "x W")
    return " | ".join(sorted(found))
