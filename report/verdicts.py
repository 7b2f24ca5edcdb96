"""From the catalogue and the records of the checks to the document that JSON, page and exit status are made of.

Everything here is plain data: a record is a dict as in `schema.json`, under `checks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SCHEMA = 1
FAILED = ("failed", "xfailed")
PASSED = ("passed", "xpassed")
LOST = ("error", "crashed", "missing")


def record(test: str, claim: str, **known: Any) -> dict[str, Any]:
    """The record of a check, pessimistic until evidence arrives: missing."""
    blank: dict[str, Any] = {
        "test": test,
        "claim": claim,
        "subject": None,
        "dtype": None,
        "outcome": "missing",
        "seconds": 0.0,
        "message": None,
        "figures": [],
        "curves": [],
        "statistics": None,
    }
    return blank | known


def verdict(expected: str, outcomes: Iterable[str], *, by_entry: bool = False) -> str:
    """What a claim's checks say together.

    A claim is upheld when every check that applied passed, and refuted when one measured a miss. Where a refutation
    is expected, all of them must miss: one check that holds makes the statement upheld, which is news. Without a
    measurement, be it through an error, a crash or silence, the verdict is missing. Where it is an entry of
    expectations.toml that expects the refutation, one miss is enough: a defect need not show in every check.
    """
    seen = set(outcomes)
    if not seen:
        return "missing"
    if seen == {"skipped"}:
        return "not-applicable"
    if expected == "refuted":
        if seen & set(LOST):
            return "missing"
        holds = not seen & set(FAILED) if by_entry else seen & set(PASSED)
        return "upheld" if holds else "refuted"
    if seen & set(FAILED):
        return "refuted"
    return "missing" if seen & set(LOST) else "upheld"


def document(
    claims: Mapping[str, Mapping[str, Any]],
    checks: Iterable[Mapping[str, Any]],
    *,
    asked: Iterable[str],
    run: Mapping[str, Any],
    chapters: list[dict[str, str]],
    figures: list[dict[str, str]],
    not_checkable: list[dict[str, Any]],
    diagnosis: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The claim report as plain data, in the order of the catalogue, its checks in the order of their ids.

    Args:
        claims: the catalogue's entries by id.
        checks: a record for every check that was collected.
        asked: the claims that the call asked for; the others are listed as not asked for.
        run: device, cell, partial, ended, started, seconds, command, fingerprint, exit_status (pytest's own), shard
            where this is one of several, and picked where single checks of a claim may have been left out.
        diagnosis: what explains the unexpected verdicts of somebody's own cell, where that was asked.
    """
    asked = set(asked)
    of_claim: dict[str, list[dict[str, Any]]] = {}
    for check in sorted(checks, key=lambda c: c["test"]):
        plain = {key: value for key, value in check.items() if key != "claim"}
        of_claim.setdefault(check["claim"], []).append(plain)
    judged = [
        _judge(claim, of_claim.get(identifier, []), with_cell=run["cell"] is not None, picked=run.get("picked", False))
        for identifier, claim in claims.items()
        if identifier in asked
    ]
    complete = run["ended"] == "finished" and all(
        claim["checks"] and all(check["outcome"] not in ("missing", "crashed") for check in claim["checks"])
        for claim in judged
    )
    unexpected = sum(claim["unexpected"] for claim in judged)
    status = run["exit_status"]
    if status in (0, 1):
        status = int(status == 1 or not complete or unexpected > 0)
    totals = {"claims": len(judged)}
    for name in ("upheld", "refuted", "not-applicable", "missing"):
        totals[name] = sum(claim["verdict"] == name for claim in judged)
    return {
        "schema": SCHEMA,
        **{key: run[key] for key in ("device", "cell", "partial")},
        "complete": complete,
        "exit_status": status,
        **{key: run[key] for key in ("ended", "started", "seconds", "command", "fingerprint")},
        "shard": run.get("shard"),
        "totals": totals | {"unexpected": unexpected},
        "diagnosis": diagnosis,
        "statements": {
            "claimed": _statements(name for claim in claims.values() for name in claim["documented"]),
            "not_checkable": _statements(entry["documented"] for entry in not_checkable),
        },
        "chapters": chapters,
        "figures": figures,
        "claims": judged,
        "not_asked": [identifier for identifier in claims if identifier not in asked],
        "not_checkable": not_checkable,
    }


def _statements(names: Iterable[str]) -> int:
    """How many of these ids number statements of the three documents."""
    return len({name for name in names if name.startswith(("N-", "W-", "L-"))})


def _judge(claim: Mapping[str, Any], checks: list[dict[str, Any]], *, with_cell: bool, picked: bool) -> dict[str, Any]:
    entry, outcomes = claim.get("entry"), [check["outcome"] for check in checks]
    found = verdict(claim["expected"], outcomes, by_entry=entry is not None)
    kept = found == "upheld" and claim["expected"] == "refuted"
    # Somebody's own cell may lack what a claim is about, and may keep what the documents promise where others do not;
    # where an entry says that this very cell does not, it has to miss, though maybe in a check that was left out.
    excused = with_cell and (found == "not-applicable" or (kept and not (entry and entry["cell"])))
    excused |= kept and entry is not None and picked
    beyond = bool(entry and entry["dtype"]) and "failed" in outcomes  # a miss that the entry is not about
    because = claim["because"]
    if found == "not-applicable" or (found == "missing" and checks):
        because = next((check["message"] for check in checks if check["message"]), because)
    keys = ("id", "chapter", "statement", "equation", "documented", "errata", "printed", "section", "kind", "expected")
    return {
        **{key: claim[key] for key in keys},
        "verdict": found,
        "unexpected": (found != claim["expected"] and not excused) or beyond,
        "because": because,
        "entry": entry,
        "instead": claim["instead"],
        "see": claim["see"],
        "checks": checks,
    }
