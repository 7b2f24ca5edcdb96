"""Reports of several devices beside each other: what each says of a claim, and where they differ, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from report import compare, notation, view
from report.sentence import listed

Document = Mapping[str, Any]
Claim = Mapping[str, Any]
Found = Sequence[Claim | None]
"""A claim on each device; None where that run was not asked for it."""
Said = TypeVar("Said", bound=Hashable)
Key = tuple[str, str]
"""A test and the name of a figure."""

NOT_ASKED = ("·", "not asked for")


def claims(documents: Sequence[Document]) -> dict[str, Found]:
    """Every claim by id with what each device says of it, chapter by chapter."""
    by_id = [{claim["id"]: claim for claim in document["claims"]} for document in documents]
    found = {name: [own.get(name) for own in by_id] for own in by_id for name in own}
    order = {name: k for k, name in enumerate(chapters(documents))}
    return dict(sorted(found.items(), key=lambda item: order[first(item[1])["chapter"]]))


def chapters(documents: Sequence[Document]) -> dict[str, str]:
    """The titles of the chapters by id."""
    return {chapter["id"]: chapter["title"] for document in documents for chapter in document["chapters"]}


def first(found: Found) -> Claim:
    return next(claim for claim in found if claim)


def unexpected(found: Found) -> bool:
    return any(claim["unexpected"] for claim in found if claim)


def word(claim: Claim | None) -> tuple[str, str]:
    """A verdict as a mark and a word."""
    return view.VERDICTS[claim["verdict"]] if claim else NOT_ASKED


def grouped(keys: Sequence[Said | None], names: Sequence[str]) -> list[tuple[Said, str]]:
    """What is said, each once, with the devices of which it is said: "cpu and cuda", or nothing where it is all."""
    of: dict[Said, list[str]] = {}
    for key, name in zip(keys, names, strict=True):
        if key is not None:
            of.setdefault(key, []).append(name)
    return [(key, "" if len(where) == len(names) else listed(where)) for key, where in of.items()]


def several(told: Sequence[Iterable[str] | None], names: Sequence[str]) -> list[tuple[str, str]]:
    """`grouped` for several sentences on each device."""
    lists = [list(each or ()) for each in told]
    every = dict.fromkeys(text for each in lists for text in each)
    return [pair for text in every for pair in grouped([text if text in each else None for each in lists], names)]


Seen = tuple[Mapping[str, Any], notation.Figure]
"""A check and one of its figures."""


def figures(claim: Claim | None) -> dict[Key, Seen]:
    """The figures of a claim by test and name, the worst where a check has several of one name."""
    found: dict[Key, Seen] = {}
    for check in claim["checks"] if claim else []:
        for figure in check["figures"]:
            key = check["test"], figure["name"]
            if key not in found or notation.badness(figure) > notation.badness(found[key][1]):
                found[key] = check, figure
    return found


def rows(found: Found, names: Sequence[str]) -> list[dict[str, Any]]:
    """A row per figure name: the check that is worst on any device, and what it measured on each."""
    on = [figures(claim) for claim in found]
    of_name: dict[str, list[Key]] = {}
    for key in dict.fromkeys(key for each in on for key in each):
        of_name.setdefault(key[1], []).append(key)
    worst = [max(keys, key=lambda key: max(_badness(each, key) for each in on)) for keys in of_name.values()]
    told = _rows([[_same(each, key, on) for each in on] for key in worst], [*of_name], names)
    for row, keys in zip(told, of_name.values(), strict=True):
        row["count"] = len(keys)
        for each, cell in zip(on, row["cells"], strict=True):
            own = [each[key][1] for key in keys if key in each]
            failing = sum(not figure["holds"] for figure in own)
            if cell and failing > (not cell["holds"]):
                cell["failing"] = f"fails in {failing} of {len(own)}"
                row["holds"] = False
    return told


def _same(own: Mapping[Key, Seen], key: Key, on: Sequence[Mapping[Key, Seen]]) -> Seen | None:
    """The figure of the same check; of a cell that runs on this device alone, the worst of its like."""
    if key in own:
        return own[key]
    like = next(each[key][0] for each in on if key in each)
    elsewhere = {check["subject"] for each in on if each is not own for check, _ in each.values()}
    alike = [
        (check, figure)
        for (test, name), (check, figure) in own.items()
        if (test.split("[")[0], name, check["dtype"]) == (key[0].split("[")[0], key[1], like["dtype"])
        if check["subject"] not in elsewhere
    ]
    return max(alike, key=lambda seen: notation.badness(seen[1]), default=None)


def _badness(of: Mapping[Key, Seen], key: Key) -> tuple[bool, float, float]:
    return notation.badness(of[key][1]) if key in of else (False, -1.0, 0.0)


def _rows(table: Sequence[Sequence[Seen | None]], titles: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """The same check's figure on each device, a row each; whatever stands in one column has one notation."""
    flat = [pair[1] for row in table for pair in row if pair]
    columns = [iter(notation.column(show, flat)) for show in (notation.documented, notation.measured, notation.limit)]
    told = []
    for title, row in zip(titles, table, strict=True):
        documented, measured, limits = ([next(column) if pair else None for pair in row] for column in columns)
        seen = [pair for pair in row if pair]
        cells = [
            pair and {"measured": text, "holds": pair[1]["holds"], "distance": notation.distance(pair[1])}
            for pair, text in zip(row, measured, strict=True)
        ]
        told.append(
            {
                "name": title,
                "place": view.place(seen[0][0]),
                "documented": [pair for pair in _once(documented, names) if pair[0] != "–"],
                "cells": cells,
                "limits": _once(limits, names),
                "holds": all(figure["holds"] for _, figure in seen),
                "miss": max(notation.miss(figure) for _, figure in seen),
            }
        )
    return told


def _once(texts: Sequence[str | None], names: Sequence[str]) -> list[tuple[str, str]]:
    """`grouped`, without the devices where all that say anything say the same."""
    said = grouped(texts, names)
    return [(said[0][0], "")] if len(said) == 1 else said


def card(found: Found, names: Sequence[str], documents: Sequence[Document]) -> dict[str, Any]:
    """What the page shows of a claim: what is said of it once, and per device what was measured."""
    every = rows(found, names)
    shown = every if len(every) <= view.MOST_ROWS else view.worst_first(every)[: view.WORST_ROWS]
    told = first(found)
    tests: dict[str, list[str | None]] = {}
    for k, claim in enumerate(found):
        for grid in view.grids(claim) if claim else []:
            tests.setdefault(grid["test"], [None] * len(found))[k] = grid.get("sentence") or _outcomes(claim, grid)
    keys = ("id", "chapter", "statement", "equation", "section", "documented", "errata", "instead", "see")
    return {
        **{key: told[key] for key in keys},
        "kind": view.KINDS[told["kind"]],
        "marks": grouped([(*word(claim), _class(claim)) for claim in found], names),
        "verdict": kinds(found),
        "subjects": sorted({name for claim in found if claim for name in view.subjects(claim)}),
        "unexpected": unexpected(found),
        "rows": shown,
        "figures": len(every),
        "verdicts": grouped([_verdict(claim) for claim in found], names),
        "statistics": several([view.statistics(claim) if claim else None for claim in found], names),
        "reasons": several([_reasons(claim) if claim else None for claim in found], names),
        "tests": [(test, grouped(told, names)) for test, told in tests.items()],
        "failures": [
            (name, failure)
            for claim, name in zip(found, names, strict=True)
            for failure in (view.failures(claim)[:3] if claim else [])
            if failure["message"]
        ],
        "reruns": [
            (view.rerun(claim, document), name)
            for claim, name, document in zip(found, names, documents, strict=True)
            if claim and claim["unexpected"]
        ],
    }


def kinds(found: Found) -> list[str]:
    """What the filter finds a claim by: its verdicts, and whether one is unexpected or they differ."""
    verdicts = list(dict.fromkeys(claim["verdict"] if claim else "not-asked" for claim in found))
    return verdicts + ["unexpected"] * unexpected(found) + ["different"] * (len(verdicts) > 1)


def _reasons(claim: Claim) -> list[str]:
    """Why checks were skipped, but for what the verdict says already."""
    return [reason for reason, _ in view.reasons(claim) if reason != claim["because"]]


def _class(claim: Claim | None) -> str:
    """How a mark is coloured."""
    if claim is None:
        return "missing"
    return "unexpected" if claim["unexpected"] else str(claim["verdict"])


def _verdict(claim: Claim | None) -> tuple[str, str, bool]:
    """The verdict in a sentence, why, and whether it is an unexpected one."""
    if claim is None:
        return "Not asked for.", "", False
    measured, expected = word(claim)[1], view.VERDICTS[claim["expected"]][1]
    if claim["unexpected"]:
        text = f"Expected {expected}, measured {measured}."
    elif measured != expected:
        text = f"Expected {expected}, but {measured} to this cell, which is no fault."
    else:
        text = f"Expected and measured: {measured}."
    return text, claim["because"] or "", claim["unexpected"]


def _outcomes(claim: Claim | None, grid: Mapping[str, Any]) -> str:
    """How often a test came out how, where its checks did not all come out alike."""
    checks = claim["checks"] if claim else []
    counts = Counter(check["outcome"] for check in checks if check["test"].split("[")[0] == grid["test"])
    return ", ".join(f"{view.OUTCOMES[key][0]} {n} {view.OUTCOMES[key][1]}" for key, n in counts.most_common())


def alarms(found: Mapping[str, Found], names: Sequence[str]) -> list[dict[str, Any]]:
    """The claims that went wrong on some device, the worst first, each with the figure that decided."""
    worst = [
        (name, min(alarming, key=view.severity))
        for name, each in found.items()
        if (alarming := [claim for claim in each if claim and view.is_alarming(claim)])
    ]
    worst.sort(key=lambda pair: view.severity(pair[1]))
    return [_alarm(found[name], claim, names) for name, claim in worst]


def _alarm(found: Found, worst: Claim, names: Sequence[str]) -> dict[str, Any]:
    of_worst = figures(view.deciding(worst))
    decided = max(of_worst, key=lambda key: _badness(of_worst, key), default=None)
    on = [figures(claim) for claim in found]
    row = _rows([[_same(each, decided, on) for each in on]], [decided[1]], names)[0] if decided else None
    at = [name for claim, name in zip(found, names, strict=True) if claim and claim["unexpected"]]
    return {
        "id": worst["id"],
        "statement": worst["statement"],
        "where": "" if len(at) == len(names) else listed(at),
        "row": row,
        "on": [
            {
                "name": name,
                "mark": word(claim),
                "class": _class(claim),
                "expected": view.VERDICTS[claim["expected"]][1] if claim and claim["unexpected"] else "",
                "cell": row["cells"][k] if row else None,
                "why": _why(claim) if claim else "",
            }
            for k, (claim, name) in enumerate(zip(found, names, strict=True))
        ],
    }


def _why(claim: Claim) -> str:
    """The first line of what went wrong, where no figure says it."""
    if not claim["unexpected"]:
        return ""
    messages = [check["message"] for check in claim["checks"] if check["outcome"] in view.ALARMING and check["message"]]
    return str(next(iter(messages), claim["because"]) or "").partition("\n")[0]


def missing(found: Mapping[str, Found], names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Claims without a verdict on some device, by what is said of them on each."""
    return _kinds({name: each for name, each in found.items() if unexpected(each) and not _alarming(each)}, names)


def differing(found: Mapping[str, Found], names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Claims that have different verdicts, each an expected one, by what is said of them on each device."""
    different = {name: each for name, each in found.items() if len({word(claim) for claim in each}) > 1}
    return _kinds({name: each for name, each in different.items() if not unexpected(each)}, names)


def _alarming(found: Found) -> bool:
    return any(view.is_alarming(claim) for claim in found if claim)


def _kinds(found: Mapping[str, Found], names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Claims by what is said of them, the most frequent first."""
    kinds: dict[str, list[str]] = {}
    for name, each in found.items():
        said = grouped([word(claim)[1] for claim in each], names)
        kinds.setdefault("; ".join(f"{text} on {where or 'all'}" for text, where in said), []).append(name)
    return sorted(kinds.items(), key=lambda kind: -len(kind[1]))


def far_apart(found: Mapping[str, Found], names: Sequence[str]) -> list[dict[str, Any]]:
    """Figures within their limits of which some device uses far more than another, the closest to its limit first.

    As in a comparison of two runs: FACTOR times as much of the limit, and at least NOTICED of it.
    """
    apart = []
    for name, each in found.items():
        asked = [claim for claim in each if claim]
        if unexpected(each) or len(asked) < 2 or any(claim["expected"] == "refuted" for claim in asked):
            continue
        on = [figures(claim) for claim in each]
        best: tuple[float, float, Key] | None = None
        for key in dict.fromkeys(key for own in on for key in own):
            shares = [compare.share(own[key][1]) for own in on if key in own]
            used = [share for share in shares if share is not None]
            if len(used) < 2 or len(used) < len(shares) or max(used) < compare.NOTICED:
                continue
            times = max(used) / max(min(used), 1e-300)
            if times >= compare.FACTOR and (best is None or (max(used), times) > best[:2]):
                best = max(used), times, key
        if best:
            row = _rows([[own.get(best[2]) for own in on]], [best[2][1]], names)[0]
            told = [(device, cell) for device, cell in zip(names, row["cells"], strict=True) if cell]
            apart.append({**row, "id": name, "on": told, "share": best[0]})
    return sorted(apart, key=lambda row: -row["share"])


def columns(found: Mapping[str, Found], devices: int) -> list[list[str]]:
    """Which verdicts there are on each device, and "unexpected" where some are."""
    counts = [_counts(found.values(), k) for k in range(devices)]
    return [[kind for kind in (*view.VERDICTS, "unexpected") if of[kind]] for of in counts]


def contents(found: Mapping[str, Found], documents: Sequence[Document], show: Callable[[Found], Any]) -> list[Any]:
    """The chapters with their counts on each device and what is to be shown of their claims."""
    told = []
    for chapter, title in chapters(documents).items():
        own = [each for each in found.values() if first(each)["chapter"] == chapter]
        if own:
            counts = [_counts(own, k) for k in range(len(documents))]
            told.append({"id": chapter, "title": title, "counts": counts, "claims": [show(each) for each in own]})
    return told


def _counts(found: Iterable[Found], device: int) -> Counter[str]:
    """How many claims have which verdict on one of the devices, and how many of them are unexpected."""
    claims = [claim for each in found if (claim := each[device])]
    return Counter([claim["verdict"] for claim in claims] + ["unexpected" for claim in claims if claim["unexpected"]])
