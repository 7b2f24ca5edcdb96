"""What the page shows of a claim: its figures by name with the worst check, its checks as a grid, what went wrong."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from report import notation
from report.sentence import counted, listed

Document = Mapping[str, Any]
Claim = Mapping[str, Any]
Check = Mapping[str, Any]

VERDICTS = {
    "upheld": ("✓", "upheld"),
    "refuted": ("✗", "refuted"),
    "not-applicable": ("–", "not applicable"),
    "missing": ("?", "missing"),
}
OUTCOMES = {
    "passed": ("✓", "passed"),
    "xfailed": ("✗", "refuted as expected"),
    "skipped": ("–", "not applicable"),
    "xpassed": ("!", "passed unexpectedly"),
    "failed": ("!", "failed"),
    "error": ("!", "error"),
    "crashed": ("!", "crashed"),
    "missing": ("?", "never reported"),
}
ALARMING = ("failed", "error", "crashed", "xpassed")
KINDS = {
    "exact": "exact",
    "parity": "parity of two computations",
    "figure": "printed figure",
    "training": "training",
    "cost": "cost",
}
MOST_ROWS, WORST_ROWS = 20, 10
LONGEST_MESSAGE = 4000  # characters; the whole text is in the JSON


def place(check: Check) -> str:
    """Where a check ran: "torch.nn.LSTM, float32"."""
    return ", ".join(word for word in (check["subject"], check["dtype"]) if word)


def subjects(claim: Claim) -> list[str]:
    """The names of what the claim is asked of."""
    return [name for name in dict.fromkeys(check["subject"] for check in claim["checks"]) if name]


def figure_rows(claim: Claim) -> list[dict[str, Any]]:
    """One row per figure name, with the check that comes closest to its limit or misses it most."""
    groups: dict[str, list[tuple[Check, notation.Figure]]] = {}
    for check in claim["checks"]:
        for figure in check["figures"]:
            groups.setdefault(figure["name"], []).append((check, figure))
    worst = [max(group, key=lambda pair: notation.badness(pair[1])) for group in groups.values()]
    shown = [figure for _, figure in worst]
    columns = [notation.column(show, shown) for show in (notation.documented, notation.measured, notation.limit)]
    return [
        {
            "name": name,
            "holds": figure["holds"],
            "miss": notation.miss(figure),
            "documented": documented,
            "measured": measured,
            "limit": limit,
            "distance": notation.distance(figure),
            "failing": sum(not other["holds"] for _, other in group),
            "count": len(group),
            "place": place(check),
            "where": figure["where"],
        }
        for (name, group), (check, figure), documented, measured, limit in zip(
            groups.items(), worst, *columns, strict=True
        )
    ]


def worst_first(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows that do not hold, the largest miss first, then those that hold, the closest to its limit first."""
    return sorted(rows, key=lambda row: (row["holds"], -row["miss"]))


def shortlist(rows: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    """All rows in the order of the check, or the worst ones where there are more than a reader would read."""
    return [*rows] if len(rows) <= MOST_ROWS else worst_first(rows)[:WORST_ROWS]


def deciding(claim: Claim) -> Claim:
    """The claim with the checks that made its verdict: those that passed, where it was expected to be refuted."""
    if claim["verdict"] == "upheld" and claim["expected"] == "refuted":
        return {**claim, "checks": [check for check in claim["checks"] if check["outcome"] in ("passed", "xpassed")]}
    return claim


def decisive(claim: Claim) -> list[Mapping[str, Any]]:
    """The figures that decided: those that miss, or the closest to its limit; for a claim that was expected to be
    refuted and is not, the closest one of the checks that passed.
    """
    ordered = worst_first(figure_rows(deciding(claim)))
    return [row for row in ordered if not row["holds"]] or ordered[:1]


def grids(claim: Claim) -> list[dict[str, Any]]:
    """Per test function its checks: a sentence where all came out alike, otherwise subjects by dtypes."""
    tests: dict[str, list[Check]] = {}
    for check in claim["checks"]:
        tests.setdefault(check["test"].split("[")[0], []).append(check)
    return [_grid(test, checks) for test, checks in tests.items()]


def _grid(test: str, checks: list[Check]) -> dict[str, Any]:
    subjects = list(dict.fromkeys(check["subject"] for check in checks))
    dtypes = list(dict.fromkeys(check["dtype"] for check in checks))
    cells = {
        (subject, dtype): _marks(c for c in checks if (c["subject"], c["dtype"]) == (subject, dtype))
        for subject in subjects
        for dtype in dtypes
    }
    grid: dict[str, Any] = {"test": test, "seconds": f"{sum(check['seconds'] for check in checks):.2g}"}
    if len({check["outcome"] for check in checks}) == 1 and all(cells.values()):
        symbol, word = OUTCOMES[checks[0]["outcome"]]
        names = listed(subject for subject in subjects if subject)
        words = [f"{symbol} {counted(len(checks), 'check')} {word}", f"for {names}" if names else ""]
        words.append(f"in {listed(dtype for dtype in dtypes if dtype)}" if any(dtypes) else "")
        return grid | {"sentence": " ".join(word for word in words if word)}
    rows = [(subject or "no subject", [cells[subject, dtype] for dtype in dtypes]) for subject in subjects]
    return grid | {"columns": [dtype or "any dtype" for dtype in dtypes], "rows": rows}


def _marks(checks: Iterable[Check]) -> list[tuple[str, str]]:
    counts = Counter(check["outcome"] for check in checks)
    return [(key, f"{OUTCOMES[key][0]} {n} {OUTCOMES[key][1]}") for key in OUTCOMES if (n := counts[key])]


def reasons(claim: Claim) -> list[tuple[str, list[str]]]:
    """Why checks were skipped, each reason once, with where it applied."""
    found: dict[str, list[str]] = {}
    for check in claim["checks"]:
        if check["outcome"] == "skipped" and check["message"]:
            found.setdefault(check["message"], []).append(place(check))
    return [(reason, [where for where in dict.fromkeys(places) if where]) for reason, places in found.items()]


def failures(claim: Claim) -> list[dict[str, str]]:
    """The checks that went wrong with what they said."""
    return [
        {
            "test": check["test"],
            "word": OUTCOMES[check["outcome"]][1],
            "place": place(check),
            "message": _short(check["message"] or ""),
        }
        for check in claim["checks"]
        if check["outcome"] in ALARMING
    ]


def _short(message: str) -> str:
    if len(message) <= LONGEST_MESSAGE:
        return message
    half = LONGEST_MESSAGE // 2
    return f"{message[:half]}\n… {len(message) - 2 * half} characters left out, see the JSON …\n{message[-half:]}"


def statistics(claim: Claim) -> list[str]:
    """The training checks in words: k of n seeds, interval, the claimed rate, what n seeds would detect."""
    sentences = []
    for check in claim["checks"]:
        if not (numbers := check["statistics"]):
            continue
        low, high = map(notation.significant, numbers["interval"])
        text = f"{numbers['successes']} of {counted(numbers['seeds'], 'seed')}"
        text += f" ({place(check)})" if place(check) else ""
        text += f"; 95 % interval of the rate {low} to {high} (Clopper–Pearson)"
        claimed = "every seed" if numbers["direction"] == "every" else f"{numbers['direction']} {numbers['rate']:g}"
        text += f"; claimed: {claimed}"
        if numbers["false_failure"] is not None:
            wrong = notation.significant(numbers["false_failure"])
            text += f"; the wrong verdict comes about with probability {wrong}"
        if numbers["detects"] is not None:
            other = "below" if numbers["direction"] == "at least" else "above"
            text += f"; a rate {other} {notation.significant(numbers['detects'])} is found out with probability 0.99"
        sentences.append(f"{text}.")
    return sentences


def is_alarming(claim: Claim) -> bool:
    """Whether a claim is shown opened at the top: its verdict changed, or a check went wrong on the way."""
    if not claim["unexpected"]:
        return False
    return claim["verdict"] != "missing" or any(check["outcome"] in ALARMING for check in claim["checks"])


def severity(claim: Claim) -> tuple[float, str]:
    """Worst first when sorted: NaN and crashes, then the factor by which a figure misses, then the rest."""
    factors = [notation.miss(figure) for check in claim["checks"] for figure in check["figures"] if not figure["holds"]]
    if any(check["outcome"] in ("crashed", "error") for check in claim["checks"]):
        factors.append(math.inf)
    return -max(factors, default=0.0), claim["id"]


def rerun(claim: Claim, document: Document) -> str:
    """The command that repeats the checks that went wrong, or all of the claim's."""
    wrong = [check["test"] for check in claim["checks"] if check["outcome"] in ALARMING]
    tests = wrong or [check["test"] for check in claim["checks"]]
    if len(tests) > 1:
        tests = list(dict.fromkeys(test.split("[")[0] for test in tests))
    words = ["pytest", *map(quoted, tests), "--device", quoted(document["device"])]
    if cell := _cell(document["command"]):
        words += ["--cell", quoted(cell)]
    return " ".join(words)


def quoted(word: str) -> str:
    """`word` as one word of a shell; in double quotes where those suffice, for they work in every shell."""
    if shlex.quote(word) == word and "::" not in word:
        return word
    return shlex.quote(word) if set(word) & set('"$`\\!') else f'"{word}"'


def _cell(command: str) -> str | None:
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word == "--cell":
            return following
        if word.startswith("--cell="):
            return word.removeprefix("--cell=")
    return None
