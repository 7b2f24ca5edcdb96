"""Reports as Markdown, for the summary of a CI job. All that comes from a report is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from report import compare, sentence
from report.page import verdict_sentence

Document = Mapping[str, Any]

MOST_ROWS = 50  # a job's summary holds a megabyte


def summary(document: Document) -> str:
    """The verdict, the chapters' counts and the unexpected claims of a report."""
    lines = [f"### Claims on {escaped(document['device'])}", "", escaped(verdict_sentence(document)), ""]
    for line in sentence.diagnosis(document):
        lines += [escaped(line), ""]
    lines += ["| chapter | claims | as expected |", "|---|---:|---:|"]
    for chapter in document["chapters"]:
        claims = [claim for claim in document["claims"] if claim["chapter"] == chapter["id"]]
        if claims:
            expected = sum(not claim["unexpected"] for claim in claims)
            lines.append(f"| {escaped(chapter['title'])} | {len(claims)} | {expected} |")
    unexpected = [claim for claim in document["claims"] if claim["unexpected"]]
    rows = [
        (f"`{claim['id']}`", claim["expected"], claim["verdict"], escaped(claim["statement"])) for claim in unexpected
    ]
    return "\n".join(lines + table(("claim", "expected", "measured", "what is claimed"), rows))


def comparison(found: Sequence[compare.Comparison], alone: Sequence[str]) -> str:
    """What changed, device by device: verdicts, figures, claims that went or are new, and what ran differently."""
    parts = [_compared(each, named=len(found) > 1 or bool(alone)) for each in found]
    return "\n\n".join([*parts, *map(escaped, alone)])


def _compared(found: compare.Comparison, *, named: bool) -> str:
    base = found.base
    commit = f", commit {base['fingerprint']['commit']}" if base["fingerprint"]["commit"] else ""
    lines = [f"### {escaped(sentence.where(found.new))}", ""] if named else []
    lines += [
        f"**{'✗ Worse' if found.worse else '✓ Not worse'}** than the run of "
        f"{escaped(sentence.moment(base['started']) + commit)}. {escaped(compare.headline(found))}"
    ]
    rows: list[Sequence[str]]
    rows = [(f"`{change.claim}`", change.base, change.new, escaped(change.because)) for change in found.changes]
    lines += table(("verdict changed", "before", "now", "why"), rows)
    rows = [
        (f"`{drift.claim}`", *map(escaped, (drift.name, drift.base, drift.new, drift.limit, compare.how(drift))))
        for drift in found.drifts
    ]
    lines += table(("figure moved", "figure", "before", "now", "limit", "how far"), rows)
    rows = [tuple(map(escaped, difference)) for difference in found.fingerprint]
    lines += table(("ran differently", "before", "now"), rows)
    for title, names in (("Gone", found.went), ("New", found.appeared)):
        if names:
            more = f" and {len(names) - MOST_ROWS} more" if len(names) > MOST_ROWS else ""
            lines += ["", f"{title}: {', '.join(f'`{name}`' for name in names[:MOST_ROWS])}{more}."]
    if found.not_asked:
        lines += ["", f"{sentence.counted(len(found.not_asked), 'claim')} of that run not asked for again."]
    return "\n".join(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table after a blank line, of as many rows as a reader reads; nothing where there are none."""
    if not rows:
        return []
    lines = ["", _row(head), _row("---" for _ in head), *map(_row, rows[:MOST_ROWS])]
    return lines + (["", f"{len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else [])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Text of a report as text: no markup of Markdown's, HTML's or mathematics'."""
    for character in "\\`*_<>|[]$#&":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
