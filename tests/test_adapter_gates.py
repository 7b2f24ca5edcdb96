"""Is the quick gate green for each shipped adapter? What its framework does otherwise stands in expectations.toml.

A framework that is not installed is skipped; `.ci/run` installs all of requirements-adapters.txt.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from mini import ROOT
from test_adapters import ADAPTERS

from adapters import conventions

COMPILE = ("torch_compiled", "flax_linen", "haiku_cells", "equinox_cells")
"""Compile each of some hundred sizes anew, and take the longest."""

XLA = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false"
"""jax compiles in a quarter of the time with these. Parity itself is tested without them."""

GATES = sorted(ADAPTERS, key=lambda gate: gate[0] not in COMPILE)
PATIENCE = 1800.0


@pytest.mark.parametrize(("module", "name"), GATES)
def test_the_quick_gate_is_green(module: str, name: str, tmp_path: Path) -> None:
    if (reason := conventions.why_not(module)) is not None:
        pytest.skip(reason)
    command = [sys.executable, "-m", "pytest", "-n", "0", f"--cell=adapters.{module}:{name}", "-m", "not training"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "CI"))}
    environment.setdefault("XLA_FLAGS", XLA)
    run = subprocess.run(
        [*command, f"--report-dir={tmp_path}"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    said = run.stdout.partition("= claims =")[2] or run.stdout + run.stderr
    assert run.returncode == 0, said
    report = json.loads((tmp_path / f"claims-cpu-{name}.json").read_text(encoding="utf-8"))
    verdicts = {claim["id"]: claim["verdict"] for claim in report["claims"]}
    assert report["complete"] and verdicts["cells.step-parity"] == verdicts["cells.sequence-parity"] == "upheld"


def test_every_expectation_of_a_cell_is_about_a_shipped_one() -> None:
    """One that names no cell would never be found unused."""
    entries = tomllib.loads((ROOT / "fixtures" / "expectations.toml").read_text(encoding="utf-8"))["expectation"]
    specs = [f"adapters.{module}:{name}" for module, name in ADAPTERS]
    assert [e for e in entries if "cell" in e and not any(fnmatchcase(spec, e["cell"]) for spec in specs)] == []
