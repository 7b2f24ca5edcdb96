"""The scripts that the workflow and the action run, with a gh that answers from a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from documents import changed_document, sample_document

ROOT = Path(__file__).parents[1]

GH = """#!/usr/bin/env bash
# gh, as far as the script asks: FOLDER/runs.json for `run list`, FOLDER/claims.json for `run download`
printf '%s\\n' "$*" >> "$FOLDER/asked"
case "$1 $2" in
    "run list") [ -f "$FOLDER/runs.json" ] || { echo "HTTP 403: no permission" >&2; exit 1; }
                jq -r "${@: -1}" "$FOLDER/runs.json" ;;
    "run download") [ -f "$FOLDER/claims.json" ] || { echo "no artifact matches" >&2; exit 1; }
                    mkdir -p "${@: -1}" && cp "$FOLDER/claims.json" "${@: -1}" ;;
    *) exit 2 ;;
esac
"""
RUNS = [
    {"databaseId": 9, "event": "pull_request"},
    {"databaseId": 7, "event": "push"},
    {"databaseId": 5, "event": "push"},
]


def compared(folder: Path, new: dict[str, Any], runs: Any, base: Any) -> subprocess.CompletedProcess[str]:
    """What the script says of a new report, where gh knows those runs and has that report of the chosen one."""
    (folder / "bin").mkdir()
    (folder / "bin/gh").write_text(GH, encoding="utf-8")
    (folder / "bin/gh").chmod(0o755)
    (folder / "new").mkdir()
    for path, content in (("runs.json", runs), ("claims.json", base), ("new/claims.json", new)):
        if content is not None:
            (folder / path).write_text(json.dumps(content), encoding="utf-8")
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "PYTHON": sys.executable, "FOLDER": str(folder)}
    script = [str(ROOT / ".ci/compare-with-main"), str(folder / "new/claims.json")]
    return subprocess.run(script, cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("runs", "base", "says"),
    [
        (None, None, "The runs on main could not be listed: HTTP 403: no permission"),
        ([], None, "No earlier report: no run on main has succeeded yet."),
        (RUNS[:1], None, "No earlier report: no run on main has succeeded yet."),
        (RUNS, None, "No earlier report: main's last successful run (7) has none left. no artifact matches"),
        (RUNS, {"schema": 0}, "The reports cannot be compared: ERROR:"),
        (RUNS, sample_document(), "**✓ Not worse** than the run of 2026-11-30 12:00 UTC, commit 0123abcd."),
    ],
)
def test_the_comparison_with_main(runs: Any, base: Any, says: str, tmp_path: Path) -> None:
    run = compared(tmp_path, sample_document(), runs, base)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("## Compared with main\n\n") and says in run.stdout and not run.stderr


def test_what_got_worse_than_main_is_a_warning_and_no_failure(tmp_path: Path) -> None:
    """The claims' own job is red already; the comparison tells."""
    run = compared(tmp_path, changed_document(), RUNS, sample_document())
    assert run.returncode == 0 and "**✗ Worse**" in run.stdout and run.stderr.startswith("::warning ")
    assert "run download 7 --name merged-report" in (tmp_path / "asked").read_text(encoding="utf-8")


SOUND = """
import torch


class Fast(torch.nn.LSTM):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size, batch_first=True)
"""
WRONG = (
    SOUND
    + """
    def forward(self, x, state=None):
        outputs, (h, c) = super().forward(x, state)
        return outputs, (h, 2 * c)
"""
)


@pytest.mark.parametrize(("source", "status"), [(SOUND, 0), (WRONG, 1), ("", 4)])
def test_a_cell_of_another_repository(source: str, status: int, tmp_path: Path) -> None:
    here = tmp_path / "a work space"
    here.mkdir()
    (here / "my cells.py").write_text(source, encoding="utf-8")
    (here / "report.py").write_text("raise SystemExit('not this one')", encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | {
        "GITHUB_WORKSPACE": str(here), "RUNNER_TEMP": str(tmp_path), "PYTHON": sys.executable,
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "GITHUB_OUTPUT": str(tmp_path / "output"),
        "CELL": "my cells.py:Fast", "ARGUMENTS": "-n 0 -k 'preserves_the_cell or keep_the_cell'",
    }  # fmt: skip
    run = subprocess.run([str(ROOT / ".ci/verify-cell")], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.returncode == status, run.stdout + run.stderr
    if status == 4:
        assert not (tmp_path / "output").exists() and not (tmp_path / "summary").exists()
        return
    output = dict(line.split("=", 1) for line in (tmp_path / "output").read_text(encoding="utf-8").splitlines())
    assert output["name"] == "claims-cpu-Fast" and (Path(output["reports"]) / "claims-cpu-Fast.html").is_file()
    assert "### Claims on cpu" in (tmp_path / "summary").read_text(encoding="utf-8")
    assert ("::error file=my cells.py,line=5,title=" in run.stdout) == (status == 1)
