"""Sample claim reports, a page read back, and a page on top of pytest-html's."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema

from report import page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
"""A Chromium of the machine's own, for tests that look at a page in it."""
NO_CHROMIUM = f"no Chromium on this machine: none of {', '.join(BROWSERS)}"

SUBJECTS = ("reference.LSTM", "torch.nn.LSTM")
DTYPES = ("float32", "float64")
LSTM_REACH = {0: ("5.28e-01", "1.93e-06", "9.27e-10"), 2: ("8.85e-01", "9.77e-01", "1.20e+00")}


def figure(name: str, measured: Any, allowed: Any, relation: str = "<=", **more: Any) -> dict[str, Any]:
    """A figure of a check; it holds unless told otherwise."""
    blank = {"documented": None, "holds": True, "where": None}
    return {"name": name, "measured": measured, "allowed": allowed, "relation": relation, **blank, **more}


def check(test: str, subject: str | None = None, dtype: str | None = None, **more: Any) -> dict[str, Any]:
    """A check that passed, unless told otherwise."""
    blank = {"outcome": "passed", "seconds": 0.01, "message": None, "figures": [], "curves": [], "statistics": None}
    return {"test": f"claims/test_{test}", "subject": subject, "dtype": dtype, **blank, **more}


def claim(id: str, statement: str, checks: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A claim that is upheld as expected, unless told otherwise."""
    blank = {
        "equation": None, "documented": ["N-072"], "errata": [], "printed": None, "section": "N §3", "kind": "exact",
        "expected": "upheld", "verdict": "upheld", "unexpected": False, "because": None, "instead": None, "see": [],
    }  # fmt: skip
    return {"id": id, "chapter": id.split(".")[0], "statement": statement, "checks": checks, **blank, **more}


def everywhere(test: str, **more: Any) -> list[dict[str, Any]]:
    """The same check for every subject and dtype."""
    return [check(f"{test}[{s}-{d}]", s, d, **copy.deepcopy(more)) for s in SUBJECTS for d in DTYPES]


def reach(bias: int, printed: tuple[str, str, str]) -> dict[str, Any]:
    """A curve through the three printed points, straight between them on a log axis."""
    a, b, c = map(float, printed)
    y = [a * (b / a) ** ((t - 1) / 29) if t < 30 else b * (c / b) ** ((t - 30) / 30) for t in range(1, 61)]
    points = [[1, a], [30, b], [60, c]]
    return {
        "figure": "reach",
        "series": f"LSTM, forget bias {bias}",
        "x": list(range(1, 61)),
        "y": y,
        "documented": points,
    }


def sample_document() -> dict[str, Any]:
    """A small green run with every kind of verdict that is expected."""
    carousel = everywhere("carousel.py::test_keeps", figures=[figure("max |C_T - C_0|", 0.0, 0.0, documented=0.0)])
    drift = figure("max |C_T - C_0|, C_0 = 0", 1.2e-15, 0.0, holds=False, where="(0, 5)", documented="0.0e+00")
    refuted = everywhere("carousel.py::test_indefinitely", outcome="xfailed", figures=[drift])
    printed = [
        figure(f"reach at T={t}, b={b}", float(p) * 1.001, 5e-3 * float(p), "≈", documented=p)
        for b, points in LSTM_REACH.items()
        for t, p in zip((1, 30, 60), points, strict=True)
    ]
    curves = [reach(b, points) for b, points in LSTM_REACH.items()]
    curves.append(
        {"figure": "reach", "series": "RNN, scale 1.0", "x": [1, 30, 60], "y": [0.9, 1e-9, 0.0], "documented": []}
    )
    reaches = everywhere("reach.py::test_reach", figures=printed, curves=curves)
    skipped = everywhere("carousel.py::test_float16", outcome="skipped", message="no half precision on this device")
    trained = {
        "successes": 16,
        "seeds": 16,
        "interval": [0.794, 1.0],
        "direction": "at least",
        "rate": 0.9,
        "false_failure": 1e-3,
        "detects": 0.5,
    }
    recall = [check("recall.py::test_recall", "torch.nn.LSTM", "float32", statistics=trained, seconds=41.0)]
    claims = [
        claim(
            "carousel.preserves-cell",
            "With f = 1 and i = 0 the cell state after 1000 steps equals the first one, bit for bit.",
            carousel,
            equation=r"C_t = f_t \odot C_{t-1} + i_t \odot \tilde{C}_t",
        ),
        claim(
            "carousel.indefinitely",
            "The cell state is preserved indefinitely.",
            refuted,
            documented=["N-075"],
            errata=["E02"],
            expected="refuted",
            verdict="refuted",
            because="A shut input gate leaks 4e-18.",
            instead="It drifts by rounding when C_0 is small.",
            see=["carousel.preserves-cell"],
        ),
        claim(
            "carousel.half",
            "The same in half precision.",
            skipped,
            expected="not-applicable",
            verdict="not-applicable",
            because="no half precision on this device",
        ),
        claim(
            "reach.printed",
            "The gradient reaches back as printed.",
            reaches,
            kind="figure",
            documented=["N-099", "N-100"],
            section="N §4.b",
            equation=r"\left\lVert \frac{\partial C_T}{\partial C_0} \right\rVert",
        ),
        claim("reach.recall", "The LSTM learns to recall over a gap of 40.", recall, kind="training"),
    ]
    return {
        "schema": 1, "device": "cpu", "cell": None, "partial": False, "complete": True, "exit_status": 0,
        "ended": "finished", "started": "2026-11-30T12:00:00+00:00", "seconds": 64.2,
        "command": "pytest -n auto --device cpu",
        "fingerprint": {
            "python": "3.11.9", "torch": "2.13.0", "numpy": "2.4.1", "scipy": "1.17.0",
            "platform": "Linux x86_64", "device_name": "Some CPU", "threads": 1, "workers": 2,
            "tf32": False, "deterministic": True, "commit": "0123abcd",
        },
        "totals": {"claims": 5, "upheld": 3, "refuted": 1, "not-applicable": 1, "missing": 0, "unexpected": 0},
        "statements": {"claimed": 320, "not_checkable": 1}, "shard": None, "diagnosis": None,
        "chapters": [{"id": "carousel", "title": "The constant error carousel"}, {"id": "reach", "title": "Reach"}],
        "figures": [{"id": "reach", "chapter": "reach", "title": "How far the gradient reaches", "x": "steps T",
                     "y": "‖∂C_T/∂C_0‖", "xscale": "linear", "yscale": "log", "caption": "Hidden size 32."}],
        "claims": claims, "not_asked": [],
        "not_checkable": [{"documented": "N-009", "errata": [], "because": "About language, not about cells."}],
    }  # fmt: skip


def changed_document() -> dict[str, Any]:
    """The sample with one claim off by a factor of 320, one that is NaN, and one that holds although it should not."""
    document = sample_document()
    kept, indefinitely, _, printed, _ = document["claims"]
    kept |= {"verdict": "refuted", "unexpected": True}
    kept["checks"][2] |= {
        "outcome": "failed",
        "message": "max |C_T - C_0| is 3.2e-04",
        "figures": [figure("max |C_T - C_0|", 3.2e-4, 1e-6, documented=0.0, holds=False, where="(2, 0, 5)")],
    }
    indefinitely |= {"verdict": "upheld", "unexpected": True}
    for each in indefinitely["checks"]:
        each |= {"outcome": "xpassed", "figures": [figure("max |C_T - C_0|, C_0 = 0", 0.0, 0.0, documented=0.0)]}
    printed |= {"verdict": "refuted", "unexpected": True}
    printed["checks"][0]["figures"][0] |= {"measured": "nan", "holds": False}
    printed["checks"][0]["outcome"] = "failed"
    return document | {"exit_status": 1, "totals": document["totals"] | {"unexpected": 3}}


def large_document(claims: int) -> dict[str, Any]:
    """Claims of eight checks with five figures each."""
    document = sample_document()
    rows = [
        figure(f"max |Δh| after {n} steps", 3.1e-8 * n, 1e-6, documented=f"{n}.5e-08", where="(2, 0, 5)")
        for n in range(1, 6)
    ]
    document["claims"] = [
        claim(
            f"carousel.claim-{n}",
            f"Statement {n} of the document about the cell state, long enough to wrap on a phone.",
            everywhere(f"carousel.py::test_number_{n}", figures=rows) * 2,
            equation=f"C_t = f_t C_{{t-{n}}}",
        )
        for n in range(claims)
    ]
    return document


def work(function: Callable[[], object]) -> int:
    """How many calls a function makes, Python's and C's: what it costs, whatever else the machine does."""
    made = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    function()  # what is cached from now on
    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(before)
    return made


class Page(HTMLParser):
    """A parsed page: its ids, its links, what it would fetch, its text by element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.blob = ""
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif name == "data-jsonblob":
                self.blob = value or ""
            elif name in ("src", "href", "data", "poster", "srcset"):
                self.fetched.append(value or "")

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] not in (["style"], ["script"]):
            self.words.append(data)


def parsed(document: dict[str, Any]) -> Page:
    return Page(page.standalone(document))


def validate(document: dict[str, Any]) -> None:
    schema = json.loads((Path(page.__file__).parent / "schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)


CONFTEST = """
import json, pathlib
import pytest

pytest_plugins = ["report.pytest_html"]

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if item.name != "test_plain":
        subject = "Cell" if item.name == "test_named" else "<Cell>"
        report.evidence = {"claim": "carousel.half", "subject": subject, "dtype": "float32"}
    return report

def pytest_sessionfinish(session):
    from report.pytest_html import DOCUMENT
    session.config.stash[DOCUMENT] = json.loads(pathlib.Path("document.json").read_text("utf-8"))
"""
TESTS = """
import pytest
def test_plain(): print("chatter")
def test_passes(): print("chatter")
def test_named(): pass
def test_fails(): assert 1 < 0, "one isn't <below> \\"zero\\" & that's it"
def test_skips(): pytest.skip("not here")
@pytest.mark.xfail(reason="refuted <as printed>")
def test_refuted(): assert False
"""


def environment() -> dict[str, str]:
    """That of a pytest which is started from within pytest."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return inherited | {"PYTHONPATH": str(Path(page.__file__).parents[1])}


def in_pytest_html(folder: Path, document: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a handful of tests in `folder` and writes the document on top of their pytest-html page, page.html."""
    files = {"conftest.py": CONFTEST, "test_it.py": TESTS, "document.json": json.dumps(document)}
    files["pytest.ini"] = "[pytest]\nfilterwarnings = error\n"
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", *options, "--html=page.html", "--self-contained-html"]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
