"""From a check to its verdict, through a run: expected refutations, errors, figures that arrive as measured."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mini import PASSES, PATIENCE, REFUTED, ROOT, Project, errors, outcomes, verdicts

BODIES = {
    "misses": "evidence.equal('x', 1.0, 2.0)",
    "holds": "evidence.equal('x', 1.0, 1.0)",
    "breaks": "evidence.equal('x', 1.0, 2.0)\n    raise ZeroDivisionError('by accident')",
    "asserts": "evidence.equal('x', 1.0, 1.0)\n    assert False, 'a slip'",
    "is_silent": "pass",
    "skips": "pytest.skip('no such thing here')",
}


def check(claim: str, body: str, name: str) -> str:
    """The text of a check."""
    return f'\n@pytest.mark.claim("{claim}")\ndef test_{name}(evidence):\n    {body}\n'


@pytest.mark.parametrize(
    ("expected", "outcome_of", "verdict_of"),
    [
        (
            "upheld",
            {"misses": "failed", "holds": "passed", "breaks": "error", "asserts": "error", "is_silent": "error"},
            {"misses": "refuted", "holds": "upheld", "skips": "not-applicable"},
        ),
        (
            "refuted",
            {"misses": "xfailed", "holds": "xpassed", "breaks": "error", "asserts": "error", "is_silent": "error"},
            {"misses": "refuted", "holds": "upheld", "skips": "not-applicable"},
        ),
    ],
)
@pytest.mark.parametrize("workers", ["0", "2"])
def test_only_a_figure_that_misses_its_limit_refutes(
    project: Project, expected: str, outcome_of: dict[str, str], verdict_of: dict[str, str], workers: str
) -> None:
    more = REFUTED | {"see": ["toy.misses"]} if expected == "refuted" else {}
    project.catalogue(**dict.fromkeys(BODIES, more))
    project.module("all", "".join(check(f"toy.{name}", body, name) for name, body in BODIES.items()))
    result = project.run("-n", workers)
    report = project.report()
    assert result.ret == report["exit_status"] == 1
    assert outcomes(report) == {
        f"test_{name}": outcome for name, outcome in (outcome_of | {"skips": "skipped"}).items()
    }
    assert verdicts(report) == {f"toy.{name}": verdict_of.get(name, "missing") for name in BODIES}
    surprises = {claim["id"] for claim in report["claims"] if claim["unexpected"]}
    assert surprises == {f"toy.{name}" for name in BODIES if verdict_of.get(name) != expected}
    assert report["complete"], "every check was reported, whatever it said"
    messages = {claim["id"]: claim["checks"][0]["message"] for claim in report["claims"]}
    assert messages["toy.misses"] == "x = 1.0; equality bit for bit is claimed"
    assert messages["toy.breaks"] == "ZeroDivisionError: by accident"
    assert messages["toy.is_silent"] == "NoEvidence: the check recorded no figure"
    assert messages["toy.skips"] == "no such thing here"


def test_a_refutation_that_is_expected_and_comes_is_a_pass(project: Project) -> None:
    project.catalogue(holds={}, wrong=REFUTED)
    project.module("all", check("toy.holds", BODIES["holds"], "a") + check("toy.wrong", BODIES["misses"], "b"))
    assert project.run("-n", "0").ret == project.report()["exit_status"] == 0
    assert project.report()["totals"] == {
        "claims": 2, "upheld": 1, "refuted": 1, "not-applicable": 0, "missing": 0, "unexpected": 0,
    }  # fmt: skip


def test_a_check_of_a_refuted_claim_that_holds_is_news(project: Project) -> None:
    project.catalogue(holds={}, wrong=REFUTED)
    project.module(
        "all",
        check("toy.holds", BODIES["holds"], "a")
        + check("toy.wrong", BODIES["misses"], "b")
        + check("toy.wrong", BODIES["holds"], "c"),
    )
    result = project.run("-n", "0")
    assert result.ret == project.report()["exit_status"] == 1
    assert verdicts(project.report())["toy.wrong"] == "upheld"
    result.stdout.fnmatch_lines(["*toy.wrong: upheld, expected refuted"])


def test_a_device_may_have_an_expectation_of_its_own(project: Project) -> None:
    project.passing("differs")
    project.module("all", check("toy.differs", BODIES["misses"], "more"))
    project.write("claims/test_differs.py", "")
    said = 'expected = "refuted"\nbecause = "It rounds."\nsource = "x"\n'
    entry = '[[expectation]]\nclaim = "toy.differs"\ndevice = "{}"\n' + said
    project.write("fixtures/expectations.toml", entry.format("cuda"))
    assert project.run("-n", "0").ret == 1
    project.write("fixtures/expectations.toml", entry.format("cpu"))
    assert project.run("-n", "0").ret == 0
    [claim] = project.report()["claims"]
    assert (claim["expected"], claim["because"]) == ("refuted", "It rounds. (x)")


IN_FORMATS = """
from types import SimpleNamespace
toys = [SimpleNamespace(name="toy", dtype=dtype) for dtype in ("float32", "float64")]
formats = pytest.mark.parametrize("toy", toys, ids=str)

@formats
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.claim("toy.rounds")
def test_rounds(toy, k, evidence):
    evidence.equal("x", float((toy.dtype, k) in MISSES), 0.0)
"""


@pytest.mark.parametrize(
    ("misses", "says"),
    [
        ([("float32", 1)], None),
        ([("float32", 1), ("float32", 2)], None),
        ([], "*its entry in expectations.toml no longer holds: take it out (It rounds. (x))"),
        (
            [("float32", 1), ("float64", 2)],
            "*its entry in expectations.toml is about float32 alone, and it misses beyond that",
        ),
    ],
)
def test_an_entry_may_be_about_one_number_format(
    project: Project, misses: list[tuple[str, int]], says: str | None
) -> None:
    """There a check has to miss; in the others none may."""
    project.catalogue(rounds={})
    project.module("all", f"MISSES = {misses}\n{IN_FORMATS}")
    said = 'expected = "refuted"\ndtype = "float32"\nbecause = "It rounds."\nsource = "x"\n'
    project.write("fixtures/expectations.toml", f'[[expectation]]\nclaim = "toy.rounds"\ndevice = "cpu"\n{said}')
    result = project.run("-n", "2")
    assert result.ret == project.report()["exit_status"] == (says is not None)
    if says:
        result.stdout.fnmatch_lines([says])
        assert says.lstrip("*i").partition("(")[0].strip() in project.page()
    else:
        assert "1 claim is refuted as expectations.toml says" in result.stdout.str()
    assert project.run("-n", "0", "-k", "2").ret == (("float64", 2) in misses), "what misses may be left out"


def test_an_entry_that_hangs_on_a_devices_name_is_known_before_anything_runs(project: Project) -> None:
    project.passing("holds")
    entry = '[[expectation]]\nclaim = "toy.holds"\ndevice = "cpu"\ndevice_name = "{}"\nexpected = "upheld"\n'
    entry += 'because = "?"\nsource = "?"\n'
    project.write("fixtures/expectations.toml", entry.format("NVIDIA*"))
    assert project.run("-n", "2").ret == 0
    before = project.files()
    project.write("fixtures/expectations.toml", entry.format("CPU, stand*"))
    result = project.run("-n", "2")
    assert result.ret == 4
    assert errors(result) == [
        "ERROR: expectations.toml: the entry for toy.holds changes nothing: the catalogue expects upheld anyway; "
        "take it out"
    ]
    assert project.files() == before


def test_numpy_numbers_nan_and_infinities_arrive_as_measured(project: Project) -> None:
    """A worker that sends anything but builtin types dies of it, and JSON has no NaN."""
    project.catalogue(numbers={})
    project.module(
        "all",
        """
import numpy as np

@pytest.mark.claim("toy.numbers")
def test_numbers(evidence):
    evidence.at_most("float32", np.float32(0.5), np.float64(1))
    evidence.at_least("infinite", np.inf, 0)
    evidence.at_most("nan", np.float64("nan"), 1)
    evidence.exactly("count", np.int64(3), np.int32(3))
    evidence.exactly("flag", np.bool_(True), True)
    evidence.exactly("word", np.str_("σ"), "σ")
    evidence.curve("f", "s", np.arange(2), np.array([np.nan, -np.inf], np.float32), [(np.int64(0), np.float32(0.5))])
""",
    )
    for workers in ("0", "1"):
        assert project.run("-n", workers).ret == 1
        [[check]] = [claim["checks"] for claim in project.report()["claims"]]
        arrived = {figure["name"]: (figure["measured"], figure["holds"]) for figure in check["figures"]}
        assert arrived == {
            "float32": (0.5, True),
            "infinite": ("inf", True),
            "nan": ("nan", False),
            "count": (3, True),
            "flag": (True, True),
            "word": ("σ", True),
        }
        [curve] = check["curves"]
        assert (curve["x"], curve["y"], curve["documented"]) == ([0, 1], ["nan", "-inf"], [[0, 0.5]])
        assert check["message"] == "nan = nan; at most 1 is allowed"


def test_the_same_run_gives_the_same_report_however_many_workers_share_it(project: Project) -> None:
    names = ["first", "second", "wrong", "skips", "third"]
    project.catalogue(**{name: REFUTED | {"see": ["toy.first"]} if name == "wrong" else {} for name in names})
    for name in names:
        body = BODIES.get(name, BODIES["misses" if name == "wrong" else "holds"])
        checks = check(f"toy.{name}", body, name).replace("(evidence)", "(evidence, k)").replace(
            "\ndef", '\n@pytest.mark.parametrize("k", range(5))\ndef'
        )  # fmt: skip
        project.module(name, checks)
    reports = []
    for workers in ("0", "1", "3"):
        assert project.run("-n", workers).ret == 1
        reports.append(without_times(project.report()))
    assert sum(len(claim["checks"]) for claim in reports[0]["claims"]) == 25
    assert reports[0] == reports[1] == reports[2]


def without_times(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what may differ: times, the command and the number of workers."""
    same = copy.deepcopy(document)
    for key in ("started", "seconds", "command"):
        del same[key]
    del same["fingerprint"]["workers"]
    for claim in same["claims"]:
        for check in claim["checks"]:
            del check["seconds"]
    return same


def test_the_real_claims_of_a_chapter_measure_the_same_however_many_workers_share_them(tmp_path: Path) -> None:
    reports = []
    for workers in ("0", "2"):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "claims/test_gru_conventions.py",
            "-n",
            workers,
            f"--report-dir={tmp_path}",
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert run.returncode == 0, run.stdout
        reports.append(json.loads((tmp_path / "claims-cpu.json").read_text(encoding="utf-8")))
    assert [report["fingerprint"]["workers"] for report in reports] == [0, 2]
    assert without_times(reports[0]) == without_times(reports[1])


def test_the_order_of_the_json_is_the_catalogues(project: Project) -> None:
    project.catalogue(z={}, a={}, m={})
    project.module("all", "".join(PASSES.format(claim=f"toy.{name}", name=name) for name in "maz"))
    assert project.run("-n", "2").ret == 0
    assert [claim["id"] for claim in project.report()["claims"]] == ["toy.z", "toy.a", "toy.m"]
