"""Two runs give the same figures, whatever random numbers their processes begin with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from documents import environment

ROOT = Path(__file__).parents[1]


def run(folder: Path) -> dict[tuple[str, str], object]:
    """What the checks of calls that leave no trace measured."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "claims/test_cells_calls.py",
        "-k",
        "arguments",
        "-n",
        "0",
        "-q",
        f"--report-dir={folder}",
    ]
    subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True)
    claims = json.loads((folder / "claims-cpu.json").read_text(encoding="utf-8"))["claims"]
    checks = [check for claim in claims for check in claim["checks"]]
    return {(check["test"], figure["name"]): figure["measured"] for check in checks for figure in check["figures"]}


def test_the_figures_of_two_runs_are_the_same(tmp_path: Path) -> None:
    first, second = run(tmp_path / "first"), run(tmp_path / "second")
    assert len(first) > 100 and first == second
