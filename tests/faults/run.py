"""Run the real claims over cells of this package, in this process, and read the claim report."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Collection, Iterable
from contextlib import redirect_stdout
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures import catalogue, own_cell
from tests.faults import FAULTS, SOUND, spec

ROOT = Path(__file__).parents[2]

Said = dict[str, dict[str, str]]
"""By cell, what each claim that is expected to hold says of it: a verdict or, where there is none, an outcome."""

OUTCOMES = {"passed": "upheld", "failed": "refuted", "skipped": "not applicable"}


class _Instead:
    """A plugin that puts cells in the place of the built-in subjects, and asks of each only some claims."""

    def __init__(self, cells: Collection[type], asked: Callable[[str, str], bool], formats: Collection[str]) -> None:
        self.subjects = tuple(own_cell.load(spec(cell)) for cell in cells)
        self.asked, self.formats = asked, formats

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        from fixtures.plugin import SUBJECTS  # pytest wants to be the first who imports its plugins

        config.stash[SUBJECTS] = self.subjects

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        from fixtures.plugin import CATALOGUE

        catalogue = config.stash[CATALOGUE]
        items[:] = [item for item in items if self._asks(item, catalogue.claim_of(item.nodeid), catalogue.claims)]

    def _asks(self, item: pytest.Item, claim: str | None, claims: dict[str, Any]) -> bool:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        subject = next((value for value in parameters.values() if hasattr(value, "dtype")), None)
        if claim is None or subject is None or claims[claim]["expected"] != "upheld":
            return False
        return subject.dtype in self.formats and self.asked(subject.name, claim)


def said(
    cells: Collection[type],
    asked: Callable[[str, str], bool] = lambda cell, claim: True,
    formats: Collection[str] = ("float32", "float64"),
    where: Iterable[str] = ("claims",),
) -> Said:
    """What the claims of the quick gate say of each cell; `asked(cell, claim)` chooses among them, by names."""
    handler, here = signal.getsignal(signal.SIGTERM), os.getcwd()
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        options = ["-c", str(ROOT / "pytest.ini"), "-q", "-n0", "-m", "not training", "--report-dir", folder]
        options += ["-p", "no:cacheprovider", "-p", "no:unraisableexception", "--tb=no"]
        try:
            os.chdir(ROOT)
            pytest.main([*options, *(str(ROOT / path) for path in where)], plugins=[_Instead(cells, asked, formats)])
        finally:
            os.chdir(here)
            torch.set_default_dtype(torch.float32)  # which one of the faults changes
            signal.signal(signal.SIGTERM, handler)
        document = json.loads((Path(folder) / "claims-cpu.json").read_text(encoding="utf-8"))
    found: Said = {cell.__name__: {} for cell in cells}
    for claim in document["claims"]:
        for check in claim["checks"]:
            if (own := found.get(check["subject"])) is not None:
                # What cannot be measured, such as a wrong shape, is told in the cell's name: missing, and as red.
                told = check["outcome"] == "error" and (check["message"] or "").startswith(f"{check['subject']} ")
                said = "refuted" if told else OUTCOMES.get(check["outcome"], check["outcome"])
                heard = {own.get(claim["id"], "upheld"), said}
                own[claim["id"]] = "refuted" if "refuted" in heard else min(heard - {"upheld"}, default="upheld")
    return found


def row(name: str, pattern: str) -> tuple[str, dict[str, str]]:
    """What the claims of a pattern, such as `cells.*`, say of one cell."""
    cell = {**SOUND, **FAULTS}[name]
    return name, said([cell], lambda _, claim: fnmatchcase(claim, pattern))[name]


def refuted_by_their_claims(cells: Collection[Any]) -> Said:
    """What each fault's own claim says of it, in float32 and, where that does not refute it, in float64."""
    found: Said = {}
    for dtype in ("float32", "float64"):
        if left := [cell for cell in cells if "refuted" not in found.get(cell.__name__, {}).values()]:
            by = {cell.__name__: cell.fault.by for cell in left}
            tests = catalogue.load(ROOT).tests
            files = sorted({test.partition("::")[0] for test, claim in tests.items() if claim in by.values()})
            found |= said(left, lambda cell, claim, by=by: by[cell] == claim, (dtype,), files)  # type: ignore[misc]
    return found
