"""What a call asks for: wrong calls say in one line what would be right and touch no report; partial ones say so."""

import pytest
from mini import PASSES, REFUTED, Project, errors, verdicts

EARLIER = {"claims-cpu.html": "earlier", "claims-cpu.json": "earlier", "claims-cpu.jsonl": "earlier"}


def catalogue_that_does_not_parse(project: Project) -> None:
    project.write("fixtures/claims.toml", '[[claim]\nid = "toy.holds"')


def test_without_a_claim(project: Project) -> None:
    project.module("stray", "def test_stray(evidence):\n    evidence.equal('x', 1, 1)")


def claim_without_a_test(project: Project) -> None:
    project.catalogue(holds={}, other={}, untested={})


def claim_that_is_unknown(project: Project) -> None:
    project.module("stray", PASSES.format(claim="toy.hodls", name="stray"))


def module_that_does_not_parse(project: Project) -> None:
    project.module("stray", "def test_stray(:")


def nothing(project: Project) -> None:
    """The project is fine, the call is not."""


for prepare in (test_without_a_claim,):
    prepare.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("prepare", "call", "says"),
    [
        (nothing, "--device cdua", "--device cdua: torch knows no such device; try cpu, cuda, cuda:1, mps or xpu"),
        (nothing, "--device cuda", "--device cuda: torch * sees no CUDA device here; --device cpu runs anywhere"),
        (nothing, "--device cuda:1 -n 2", "--device cuda:1: torch * sees no CUDA device here; *"),
        (nothing, "--seeds 0", "--seeds 0: at least 1 seed is needed"),
        (nothing, "-k nonsense", "the call matches no claim; see the ids in fixtures/claims.toml"),
        (nothing, "-k nonsense -n 2", "the call matches no claim; see the ids in fixtures/claims.toml"),
        (nothing, "claims/test_none.py", "file or directory not found: claims/test_none.py"),
        (nothing, "claims/test_holds.py::test_none", "not found: *test_none"),
        (nothing, "claims/test_holds.py::test_none -n 2", "the call matches no claim; see the ids in *"),
        (catalogue_that_does_not_parse, "", "claims.toml does not parse: *line 1*"),
        (catalogue_that_does_not_parse, "-n 2", "claims.toml does not parse: *line 1*"),
        (test_without_a_claim, "", "claims/test_stray.py::test_stray (line 4) says 0 claims; a test verifies one"),
        (claim_without_a_test, "", "claims.toml: claim toy.untested has no test *"),
        (
            claim_that_is_unknown,
            "",
            "*::test_stray verifies 'toy.hodls', which is not in claims.toml",
        ),
        (module_that_does_not_parse, "", "claims/test_stray.py does not parse: line 4: *"),
    ],
)
def test_a_wrong_call_says_in_one_line_what_is_wrong(project: Project, prepare, call: str, says: str) -> None:
    project.passing("holds", "other")
    prepare(project)
    for name, text in EARLIER.items():
        project.write(f"reports/{name}", text)
    result = project.run(*(call.split() or ["-n", "0"]))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert len(errors(result)) == 1, errors(result)
    result.stderr.fnmatch_lines([f"ERROR: {says}"])
    assert project.files() == {name: text.encode() for name, text in EARLIER.items()}


@pytest.mark.parametrize(
    "call",
    [
        ["-k", "holds"],
        ["-k", "holds", "-n", "2"],
        ["-m", "not training"],
        ["claims/test_holds.py"],
        ["claims/test_holds.py::test_holds", "-n", "2"],
        ["--deselect", "claims/test_other.py"],
        ["--ignore", "claims/test_other.py"],
    ],
    ids=" ".join,
)
def test_a_partial_run_says_so_and_lists_what_was_not_asked_for(project: Project, call: list[str]) -> None:
    project.passing("holds", "other")
    text = (project.path / "claims" / "test_other.py").read_text(encoding="utf-8")
    project.write("claims/test_other.py", text.replace("@pytest", "@pytest.mark.training\n@pytest"))
    result = project.run(*call)
    report = project.report()
    assert result.ret == report["exit_status"] == 0
    assert report["partial"] and report["complete"]
    assert verdicts(report) == {"toy.holds": "upheld"}
    assert report["not_asked"] == ["toy.other"]
    result.stdout.fnmatch_lines(["Partial run: 1 of 2 claims was asked for.*"])
    assert "Partial run" in project.page()


@pytest.mark.parametrize("call", [["claims"], ["."], ["./claims/"], ["claims", "--maxfail", "3"]], ids=" ".join)
def test_a_call_that_names_all_claims_is_not_partial(project: Project, call: list[str]) -> None:
    project.passing("holds", "other")
    assert project.run(*call).ret == 0
    assert not project.report()["partial"]
    assert project.report()["not_asked"] == []


def test_what_a_partial_run_was_asked_for_has_to_hold(project: Project) -> None:
    project.catalogue(holds={}, wrong=REFUTED)
    project.module("all", "".join(PASSES.format(claim=f"toy.{name}", name=name) for name in ("holds", "wrong")))
    assert project.run("-k", "holds").ret == 0
    assert project.run("-k", "wrong").ret == 1
    assert verdicts(project.report()) == {"toy.wrong": "upheld"}


@pytest.mark.parametrize("call", [["--collect-only"], ["tests"], ["tests", "-n", "1"], ["--help"]], ids=" ".join)
def test_a_call_that_runs_no_claims_leaves_the_report_alone(project: Project, call: list[str]) -> None:
    project.passing("holds", "other")
    project.write("tests/test_own.py", "def test_own():\n    pass\n")
    project.write("reports/claims-cpu.json", "earlier")
    assert project.run(*call).ret == 0
    assert project.files() == {"claims-cpu.json": b"earlier"}


@pytest.mark.parametrize("folder", ["my reports", "reports", "deep/er"])
@pytest.mark.parametrize("exists", [True, False])
def test_reports_go_where_the_call_says(project: Project, folder: str, exists: bool) -> None:
    """Pytest takes the value of an option of ours for a path to search, as long as it has not read conftest.py."""
    project.passing("holds")
    if exists:
        (project.path / folder).mkdir(parents=True)
    assert project.run("-n", "0", "--report-dir", folder, "--device", "cpu").ret == 0
    report = project.report(folder=folder)
    assert verdicts(report) == {"toy.holds": "upheld"}
    assert not report["partial"]
    assert sorted(path.suffix for path in (project.path / folder).iterdir()) == [".html", ".json", ".jsonl"]


def test_reports_may_go_outside_of_the_repository(project: Project) -> None:
    """With «=»: the value on its own, of a folder that exists, would be pytest's root."""
    project.passing("holds")
    outside = project.path.parent / f"{project.path.name}-reports"
    outside.mkdir()
    assert project.run("-n", "0", f"--report-dir={outside}").ret == 0
    assert project.run("-n", "0", "claims", "--report-dir", str(outside)).ret == 0
    assert (outside / "claims-cpu.html").is_file()


def test_pytests_own_reports_keep_their_place(project: Project) -> None:
    project.passing("holds", "other")
    project.module("other", PASSES.format(claim="toy.other", name="other").replace("1.0, 1.0", "1.0, 2.0"))
    assert project.run("-n", "2", "--junitxml", "junit.xml", "--html", "own.html").ret == 1
    junit = (project.path / "junit.xml").read_text(encoding="utf-8")
    assert 'tests="2"' in junit and 'failures="1"' in junit and "toy.other is refuted" in junit
    assert "toy.other" in (project.path / "own.html").read_text(encoding="utf-8")
    assert "toy.other" in project.page()
