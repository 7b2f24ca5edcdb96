"""A mini-project: the real conftest.py and pytest.ini around a catalogue and claims of its own, run as a process.

No check of a mini-project computes, and importing torch takes each process a second; so a stand-in answers for torch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "report" / "schema.json").read_text(encoding="utf-8"))
PATIENCE = 600.0
"""Seconds after which a process that should long have answered fails the test."""

STAND_IN = """
from types import SimpleNamespace

__version__ = "stand-in"
backends = SimpleNamespace(cpu=SimpleNamespace(get_cpu_capability=lambda: "stand-in"))
cuda = SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)

def device(name):
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda"):
        raise RuntimeError("unknown device")
    return SimpleNamespace(type=kind, index=int(index) if index else None)

def set_num_threads(threads):
    pass

def get_num_threads():
    return 1
"""

REFUTED = {"expected": "refuted", "because": "It is false.", "instead": "The other one.", "see": ["toy.holds"]}
"""What a claim that is expected to be refuted says, next to a claim toy.holds."""

PASSES = """
@pytest.mark.claim("{claim}")
def test_{name}(evidence):
    evidence.equal("x", 1.0, 1.0)
"""

WAITS = """
@pytest.mark.claim("toy.waits")
def test_waits(evidence):
    Path("waiting").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    evidence.equal("x", 1.0, 1.0)
"""
"""A check that hangs until it is told to go on, so that a run can be stopped in its middle."""


class Project:
    """A folder with claims, and how to run them."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester, self.path = pytester, pytester.path
        for name in ("conftest.py", "pytest.ini"):
            self.write(name, (ROOT / name).read_text(encoding="utf-8"))
        self.write("stand_in/torch.py", STAND_IN)
        monkeypatch.setenv("PYTHONPATH", f"{self.path / 'stand_in'}{os.pathsep}{ROOT}")
        for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
            monkeypatch.delenv(name)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def catalogue(self, **claims: dict[str, Any]) -> None:
        """Write claims.toml: the claim `toy.NAME` for each name, with what it says beyond the least."""
        entries = ['[[chapter]]\nid = "toy"\ntitle = "Toys"\n']
        for name, more in claims.items():
            said = {"id": f"toy.{name}", "statement": f"It {name}.", "documented": ["N-001"], "section": "N §1"}
            lines = [f"{key} = {json.dumps(value)}" for key, value in ({"kind": "exact"} | said | more).items()]
            entries.append("\n".join(["[[claim]]", *lines, ""]))
        self.write("fixtures/claims.toml", "\n".join(entries))

    def module(self, name: str, text: str) -> None:
        """Write the module of claims `claims/test_NAME.py`."""
        self.write(f"claims/test_{name}.py", f"import os, time\nfrom pathlib import Path\nimport pytest\n{text}")

    def passing(self, *names: str) -> None:
        """Claims that hold, each in a module of its own."""
        self.catalogue(**{name: {} for name in names})
        for name in names:
            self.module(name, PASSES.format(claim=f"toy.{name}", name=name))

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in the project's folder."""
        return self.pytester.runpytest_subprocess(*arguments, timeout=PATIENCE)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Pytest in a process group of its own, at the moment at which `test_waits` hangs.

        It heeds SIGINT, which a process that was started in the background passes on as one to be ignored.
        """
        command = [sys.executable, "-m", "pytest", *arguments]
        with self.write("output", "").open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=self.path,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )
            try:
                until((self.path / "waiting").exists)
                yield process
            finally:
                (self.path / "go").touch()
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE)

    def report(self, stem: str = "claims-cpu", folder: str = "reports") -> dict[str, Any]:
        """The run's JSON, which is valid by the published schema."""
        document = json.loads((self.path / folder / f"{stem}.json").read_text(encoding="utf-8"))
        jsonschema.validate(document, SCHEMA)
        return document

    def page(self, stem: str = "claims-cpu") -> str:
        """The run's page."""
        return (self.path / "reports" / f"{stem}.html").read_text(encoding="utf-8")

    def journal(self, stem: str = "claims-cpu") -> list[dict[str, Any]]:
        """The run's events."""
        lines = (self.path / "reports" / f"{stem}.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def files(self) -> dict[str, bytes]:
        """Everything in the report folder."""
        return {path.name: path.read_bytes() for path in sorted((self.path / "reports").glob("*"))}


def until(happened: Callable[[], bool]) -> None:
    """Wait for something that happens in another process."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    """Claim to verdict."""
    return {claim["id"]: claim["verdict"] for claim in document["claims"]}


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    """Check to outcome, without the module's name."""
    return {c["test"].partition("::")[2]: c["outcome"] for claim in document["claims"] for c in claim["checks"]}


def errors(result: pytest.RunResult) -> list[str]:
    """The lines that say ERROR."""
    return [line for line in (*result.outlines, *result.errlines) if line.startswith("ERROR")]
