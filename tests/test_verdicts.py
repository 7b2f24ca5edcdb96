"""The verdict of a claim from the outcomes of its checks, and the document from the verdicts."""

from typing import Any

import pytest

from report import verdicts

OUTCOMES = ("passed", "failed", "xfailed", "xpassed", "skipped", "error", "crashed", "missing")
FINGERPRINT = dict.fromkeys(("python", "torch", "numpy", "scipy", "platform"), "?")


@pytest.mark.parametrize(
    ("expected", "outcomes", "verdict"),
    [
        ("upheld", "", "missing"),
        ("upheld", "passed", "upheld"),
        ("upheld", "passed skipped", "upheld"),
        ("upheld", "skipped", "not-applicable"),
        ("upheld", "skipped skipped", "not-applicable"),
        ("upheld", "passed failed", "refuted"),
        ("upheld", "failed missing", "refuted"),
        ("upheld", "passed missing", "missing"),
        ("upheld", "passed crashed", "missing"),
        ("upheld", "passed error", "missing"),
        ("upheld", "skipped error", "missing"),
        ("upheld", "skipped failed", "refuted"),
        ("refuted", "", "missing"),
        ("refuted", "xfailed", "refuted"),
        ("refuted", "failed", "refuted"),  # with --runxfail
        ("refuted", "xfailed skipped", "refuted"),
        ("refuted", "xfailed xpassed", "upheld"),
        ("refuted", "xpassed skipped", "upheld"),
        ("refuted", "xfailed error", "missing"),
        ("refuted", "xfailed crashed", "missing"),
        ("refuted", "xfailed missing", "missing"),
        ("refuted", "xpassed missing", "missing"),
        ("refuted", "skipped", "not-applicable"),
        ("not-applicable", "skipped", "not-applicable"),
        ("not-applicable", "passed", "upheld"),
        ("not-applicable", "failed", "refuted"),
        ("not-applicable", "missing", "missing"),
    ],
)
def test_what_the_checks_of_a_claim_say_together(expected: str, outcomes: str, verdict: str) -> None:
    assert verdicts.verdict(expected, outcomes.split()) == verdict
    assert verdicts.verdict(expected, reversed(outcomes.split())) == verdict


@pytest.mark.parametrize("expected", ["upheld", "refuted", "not-applicable"])
@pytest.mark.parametrize("more", OUTCOMES)
@pytest.mark.parametrize("lost", ["error", "crashed", "missing"])
def test_a_check_without_a_measurement_never_lets_a_claim_be_upheld(expected: str, more: str, lost: str) -> None:
    assert verdicts.verdict(expected, [more, lost]) != "upheld"


def document(claims: dict[str, dict[str, Any]], checks: dict[str, str], **run: Any) -> dict[str, Any]:
    """A document of claims, each `upheld` as expected unless told otherwise, and checks «claim/name: outcome»."""
    blank: dict[str, Any] = {
        "documented": ["N-001"], "errata": [], "printed": None, "section": "N", "kind": "exact", "equation": None,
        "expected": "upheld", "because": None, "instead": None, "see": [], "chapter": "toy", "statement": "It is.",
    }  # fmt: skip
    records = [
        verdicts.record(name, name.split("/")[0], outcome=outcome, message=outcome if outcome == "skipped" else None)
        for name, outcome in checks.items()
    ]
    said = {
        "device": "cpu", "cell": None, "partial": False, "ended": "finished", "exit_status": 0,
        "started": "", "seconds": 0.0, "command": "pytest", "fingerprint": FINGERPRINT,
    }  # fmt: skip
    return verdicts.document(
        {name: blank | {"id": name} | claim for name, claim in claims.items()},
        records,
        asked=run.pop("asked", claims),
        run=said | run,
        chapters=[],
        figures=[],
        not_checkable=[],
    )


@pytest.mark.parametrize(
    ("checks", "run", "status", "complete"),
    [
        ({"a/1": "passed", "b/1": "passed"}, {}, 0, True),
        ({"a/1": "passed", "b/1": "failed"}, {}, 1, True),
        ({"a/1": "passed", "b/1": "error"}, {}, 1, True),
        ({"a/1": "passed", "b/1": "skipped"}, {}, 1, True),
        ({"a/1": "passed", "b/1": "missing"}, {}, 1, False),
        ({"a/1": "passed", "b/1": "crashed"}, {}, 1, False),
        ({"a/1": "passed"}, {}, 1, False),
        ({"a/1": "passed"}, {"asked": ["a"], "partial": True}, 0, True),
        ({"a/1": "passed", "b/1": "passed"}, {"exit_status": 1}, 1, True),
        ({"a/1": "passed", "b/1": "passed"}, {"exit_status": 2, "ended": "interrupted"}, 2, False),
        ({"a/1": "passed", "b/1": "passed"}, {"exit_status": 3, "ended": "internal error"}, 3, False),
        ({"a/1": "passed", "b/1": "passed"}, {"exit_status": None, "ended": "running"}, None, False),
    ],
)
def test_the_gate_is_green_when_every_claim_was_reported_as_expected(
    checks: dict[str, str], run: dict[str, Any], status: int | None, complete: bool
) -> None:
    made = document({"a": {}, "b": {}}, checks, **run)
    assert (made["exit_status"], made["complete"]) == (status, complete)


def test_an_expected_verdict_is_no_surprise() -> None:
    made = document(
        {"a": {"expected": "refuted", "because": "false"}, "b": {"expected": "not-applicable"}},
        {"a/1": "xfailed", "b/1": "skipped"},
    )
    assert made["exit_status"] == 0
    assert made["totals"] == {
        "claims": 2, "upheld": 0, "refuted": 1, "not-applicable": 1, "missing": 0, "unexpected": 0,
    }  # fmt: skip
    assert [claim["because"] for claim in made["claims"]] == ["false", "skipped"]


@pytest.mark.parametrize(
    ("expected", "outcome", "with_cell", "without"),
    [
        ("upheld", "skipped", False, True),
        ("refuted", "xpassed", False, True),
        ("refuted", "skipped", False, True),
        ("upheld", "failed", True, True),
        ("upheld", "missing", True, True),
    ],
)
def test_somebodys_own_cell_may_lack_what_a_claim_is_about_or_keep_more(
    expected: str, outcome: str, with_cell: bool, without: bool
) -> None:
    for cell, unexpected in (("Mine", with_cell), (None, without)):
        made = document({"a": {"expected": expected}}, {"a/1": outcome}, cell=cell)
        assert made["claims"][0]["unexpected"] is unexpected
        assert made["exit_status"] == int(unexpected)


def test_what_was_not_asked_for_is_listed_and_not_judged() -> None:
    made = document({"b": {}, "a": {}, "c": {}}, {"a/1": "passed"}, asked=["a"])
    assert made["not_asked"] == ["b", "c"]
    assert [claim["id"] for claim in made["claims"]] == ["a"]
    assert made["totals"]["claims"] == 1


def test_checks_are_sorted_by_their_ids_and_claims_by_the_catalogue() -> None:
    made = document({"b": {}, "a": {}}, {"a/2": "passed", "b/1": "passed", "a/1": "passed"})
    assert [claim["id"] for claim in made["claims"]] == ["b", "a"]
    assert [check["test"] for check in made["claims"][1]["checks"]] == ["a/1", "a/2"]


@pytest.mark.parametrize(
    ("outcomes", "run", "verdict", "unexpected"),
    [
        ("xfailed", {}, "refuted", False),
        ("xfailed xpassed passed", {}, "refuted", False),
        ("xfailed failed", {}, "refuted", True),  # in a format that the entry is not about
        ("xpassed passed", {}, "upheld", True),
        ("xpassed passed", {"picked": True}, "upheld", False),  # what misses may have been left out
        ("xfailed error", {}, "missing", True),
        ("skipped", {}, "not-applicable", True),
        ("xpassed", {"cell": "Mine"}, "upheld", True),
        ("skipped", {"cell": "Mine"}, "not-applicable", False),
    ],
)
def test_under_an_entry_of_expectations_one_check_has_to_miss(
    outcomes: str, run: dict[str, Any], verdict: str, unexpected: bool
) -> None:
    entry = {"dtype": "float32", "cell": "kit:*" if "cell" in run else None}
    checks = {f"a/{k}": outcome for k, outcome in enumerate(outcomes.split())}
    [claim] = document({"a": {"expected": "refuted", "because": "It rounds.", "entry": entry}}, checks, **run)["claims"]
    assert (claim["verdict"], claim["unexpected"]) == (verdict, unexpected)


def test_a_cell_may_keep_what_an_entry_for_the_device_gives_up() -> None:
    entry = {"dtype": None, "cell": None}
    [claim] = document({"a": {"expected": "refuted", "entry": entry}}, {"a/1": "xpassed"}, cell="Mine")["claims"]
    assert not claim["unexpected"]
