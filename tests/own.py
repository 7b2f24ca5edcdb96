"""The real claims over somebody's own cell, as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from mini import PATIENCE, ROOT


def claims(cells: Path, name: str, *arguments: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run claims over the cell `name` of a file, called from the repository's root; what came, and its JSON's place."""
    command = [sys.executable, "-m", "pytest", "--cell", f"{cells}:{name}", f"--report-dir={cells.parent}", *arguments]
    # Where CI is set, pytest's summary repeats whole messages.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "CI"))}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    return run, cells.parent / f"claims-cpu-{name}.json"


def by_id(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A report's claims by id."""
    return {claim["id"]: claim for claim in report["claims"]}
