"""The convention matrix of the frameworks that are installed, measured, beside what their documentation says.

`make conventions`, or `python -m adapters.conventions [MODULE …]` for some of the adapters. Each layer is measured by
its own raw parameters (`adapters.measure`), not by way of the adapter that loads canonical weights into it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence

from adapters.documented import DOCUMENTED, Statement
from adapters.measure import Conventions, measure

FRAMEWORKS = {
    "torch_eager": ("torch.nn", ("torch",)),
    "torch_plain": ("torch.nn without oneDNN", ("torch",)),
    "torch_vmap": ("torch.nn under vmap", ("torch",)),
    "torch_compiled": ("torch.nn cells, compiled", ("torch",)),
    "onnx_export": ("torch.nn exported to ONNX", ("onnx", "onnxruntime")),
    "onnx_operators": ("ONNX Runtime", ("onnx", "onnxruntime")),
    "keras3": ("Keras", ("keras",)),
    "flax_linen": ("Flax linen", ("flax", "jax")),
    "equinox_cells": ("Equinox", ("equinox", "jax")),
    "haiku_cells": ("Haiku", ("haiku", "jax")),
}
KINDS = {"lstm": "LSTM", "gru": "GRU", "gru-reset-before": "GRU, reset before", "rnn": "RNN"}
TRAINED_ELSEWHERE = ("onnx_operators",)
"""These have no untrained layers."""

COLUMNS = {
    "lstm": {
        "order": "gates", "biases": "bias vectors", "at_run_time": "f at run time", "initial": "f untrained",
        "kernels": "kernels", "states": "states",
    },
    "gru": {
        "order": "gates", "update": "update gate", "reset": "reset", "biases": "bias vectors", "inner": "inside reset",
        "kernels": "kernels",
    },
    "rnn": {"activation": "activation", "biases": "bias vectors", "kernels": "kernels"},
}  # fmt: skip
SILENT = "·"
NEAR = 0.05
"""The mean of 5 × 64 forget pre-activations from U(±1/8) twice scatters by 0.006."""


def why_not(module: str) -> str | None:
    """Why a framework cannot be measured here, or None."""
    if lacking := [package for package in FRAMEWORKS[module][1] if importlib.util.find_spec(package) is None]:
        return f"not installed: {', '.join(lacking)}"
    if module == "torch_compiled" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        return "not applicable: torch.compile needs a C++ compiler on a CPU"
    return None


def measured(module: str) -> dict[str, Conventions | str]:
    """What was measured of each kind of layer that a module has, or why that failed, in words."""
    if (reason := why_not(module)) is not None:
        return dict.fromkeys((kind for m, kind in DOCUMENTED if m == module), reason)
    found: dict[str, Conventions | str] = {}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            layers = importlib.import_module(f"adapters.{module}").LAYERS
        except Exception as error:
            return dict.fromkeys((kind for m, kind in DOCUMENTED if m == module), _failure(error))
        for kind, make in layers.items():
            try:
                found[kind] = measure(make, kind.split("-")[0], trainable=module not in TRAINED_ELSEWHERE)
            except Exception as error:
                found[kind] = _failure(error)
    return found


def differences(found: Conventions, said: Sequence[Statement]) -> list[Statement]:
    """What is said and not so."""
    return [statement for statement in said if not _agrees(getattr(found, statement.field), statement.value)]


def _agrees(measured: object, said: object) -> bool:
    if isinstance(measured, tuple):
        measured = measured[0]
    if isinstance(measured, float) and isinstance(said, float):
        return abs(measured - said) < NEAR
    return measured == said


def _failure(error: Exception) -> str:
    return f"could not be measured: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple):
        mean, spread = value
        return f"{mean + 0.0:+.2f} ± {spread:.2f}" if spread > 1e-3 else f"{mean + 0.0:+.2f}"
    if isinstance(value, float):
        return f"{value:+.2f}" if abs(value) > 1e-6 else "+0.00"
    return str(value)


def matrix(results: dict[str, dict[str, Conventions | str]]) -> Iterator[str]:
    """The matrix, line by line: a table for each kind of cell, then what differs."""
    different: list[str] = []
    for family, columns in COLUMNS.items():
        rows: list[list[str]] = [[KINDS[family], *columns.values()]]
        for module, by_kind in results.items():
            for kind, found in by_kind.items():
                if kind.split("-")[0] != family:
                    continue
                name = FRAMEWORKS[module][0] + (", reset before" if kind != family else "")
                if isinstance(found, str):
                    rows.append([name, found])
                    continue
                said = DOCUMENTED.get((module, kind), ())
                wrong = differences(found, said)
                off = {statement.field for statement in wrong}
                rows.append([name, *(_cell(getattr(found, c)) + (" ≠" if c in off else "") for c in columns)])
                rows.append(["  documented", *(_said(c, said) for c in columns)])
                different += [_sentence(name, columns.get(s.field, s.field), found, s) for s in wrong]
                if found.unknown:
                    different.append(f"{name}: of no known effect: {', '.join(found.unknown)}")
        yield from _table(rows)
        yield ""
    yield "≠ measured, and documented otherwise:" if different else "Everything measured is as documented."
    yield from (f"- {sentence}" for sentence in different)


def _said(column: str, said: Sequence[Statement]) -> str:
    return " / ".join(_cell(s.value) for s in said if s.field == column) or SILENT


def _sentence(name: str, column: str, found: Conventions, statement: Statement) -> str:
    values = f"{_cell(getattr(found, statement.field))} measured, {_cell(statement.value)} documented"
    return f"{name}, {column}: {values} ({statement.where})" + (f"; {statement.so}" if statement.so else "")


def _table(rows: list[list[str]]) -> Iterator[str]:
    whole = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(len(row[k]) for row in whole) for k in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    for k, row in enumerate(rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        if k == 0:
            yield "  ".join("-" * width for width in widths)


def main(names: Sequence[str]) -> int:
    """Measure the named adapters, or all."""
    if unknown := [name for name in names if name not in FRAMEWORKS]:
        print(f"no adapter {', '.join(unknown)}; there are {', '.join(FRAMEWORKS)}", file=sys.stderr)
        return 4
    results = {}
    for module in names or FRAMEWORKS:
        print(f"measuring {FRAMEWORKS[module][0]} …", file=sys.stderr)
        results[module] = measured(module)
    print("\n".join(matrix(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
