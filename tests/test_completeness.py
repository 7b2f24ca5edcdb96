"""Nothing that the documents say is left out silently: the catalogue against the list of ids."""

from __future__ import annotations

import tomllib
from pathlib import Path

from planted.run import the_catalogue

DOCUMENTED = tomllib.loads((Path(__file__).parents[1] / "fixtures" / "documented.toml").read_text(encoding="utf-8"))


def listed():
    """The ids that there are: N-001 … of the statements, E01 … of what was found."""
    ids = {f"{letter}-{k:03}" for letter, n in DOCUMENTED["statements"].items() for k in range(1, n + 1)}
    found = {f"{letter}{k:02}" for letter, n in DOCUMENTED["findings"].items() for k in range(1, n + 1)}
    return ids | found


def used():
    """The ids that claims verify or show wrong, and those for which no claim can: two sets."""
    catalogue = the_catalogue()
    claimed = {name for claim in catalogue.claims.values() for name in (*claim["documented"], *claim["errata"])}
    reasoned = {name for entry in catalogue.not_checkable for name in (entry["documented"], *entry["errata"])}
    return claimed, reasoned


def test_every_statement_erratum_and_conflict_occurs():
    claimed, reasoned = used()
    assert sorted(listed() - claimed - reasoned) == []


def test_no_id_is_unknown():
    claimed, reasoned = used()
    ours = {name for name in claimed | reasoned if not name.startswith("B-")}
    assert sorted(ours - listed()) == []


def test_nothing_is_both_claimed_and_not_checkable():
    claimed, reasoned = used()
    assert sorted(claimed & reasoned) == []


def test_an_erratum_is_told_as_one():
    """Of the claims about an erratum one is refuted as printed, or says what is printed."""
    claims = the_catalogue().claims.values()
    told = {name for claim in claims if claim["expected"] == "refuted" or claim["printed"] for name in claim["errata"]}
    assert sorted({name for claim in claims for name in claim["errata"]} - told) == []
