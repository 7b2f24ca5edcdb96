"""Two claim reports side by side: what changed from one run to the next, and whether anything got worse.

Worse is: a claim whose verdict is now another one than expected, a claim that went, a figure that left what is
allowed, a run that did not finish. A figure that is still within its limit *drifts* where it uses FACTOR times as
much of the limit as before, and at least NOTICED of it. Figures that are shown without a limit are not compared:
they are clocks, and trajectories that hang on rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from report import notation, sentence

Document = Mapping[str, Any]

FACTOR = 4.0
NOTICED = 0.25
MATTERS = ("device_name", "torch", "numpy", "scipy", "python", "threads", "tf32", "deterministic")
"""What of a fingerprint can change a number; workers, commit and the kernel's version cannot."""


@dataclass(frozen=True)
class Change:
    """A claim whose verdict changed, and why the new one is what it is."""

    claim: str
    statement: str
    base: str
    new: str
    worse: bool
    because: str


@dataclass(frozen=True)
class Drift:
    """A figure that moved: its measured values, its limit, and the share of the limit that each uses."""

    claim: str
    test: str
    name: str
    base: str
    new: str
    limit: str
    worse: bool
    """Whether it has left what is allowed."""
    times: float
    """How many times as much of the limit it uses."""


@dataclass
class Comparison:
    """Everything that is different, the worst first."""

    base: Document
    new: Document
    changes: list[Change] = field(default_factory=list)
    appeared: list[str] = field(default_factory=list)
    went: list[str] = field(default_factory=list)
    not_asked: list[str] = field(default_factory=list)
    """Claims of the base that the new run was not asked for: nothing is known about them."""
    drifts: list[Drift] = field(default_factory=list)
    fingerprint: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def unfinished(self) -> bool:
        return self.new["ended"] != "finished" or not self.new["complete"]

    @property
    def worse(self) -> bool:
        """Whether anything got worse."""
        moved = any(change.worse for change in self.changes) or any(drift.worse for drift in self.drifts)
        return moved or bool(self.went) or self.unfinished


def compare(base: Document, new: Document) -> Comparison:
    """What is different in a new report."""
    found = Comparison(base, new)
    before, now = ({claim["id"]: claim for claim in document["claims"]} for document in (base, new))
    found.appeared = [name for name in now if name not in before and name not in base["not_asked"]]
    found.not_asked = [name for name in before if name not in now and name in new["not_asked"]]
    found.went = [name for name in before if name not in now and name not in new["not_asked"]]
    for name in (name for name in before if name in now):
        old, claim = before[name], now[name]
        if (old["verdict"], old["unexpected"]) != (claim["verdict"], claim["unexpected"]):
            found.changes.append(_change(old, claim))
        found.drifts += _drifts(old, claim)
    found.changes.sort(key=lambda change: not change.worse)
    found.drifts.sort(key=lambda drift: (not drift.worse, -drift.times))
    found.fingerprint = [
        (key, _word(base["fingerprint"][key]), _word(new["fingerprint"][key]))
        for key in MATTERS
        if base["fingerprint"].get(key) != new["fingerprint"].get(key)
    ]
    for key in ("device", "cell"):
        if base[key] != new[key]:
            found.fingerprint.insert(0, (key, _word(base[key]), _word(new[key])))
    return found


def device_by_device(base: Sequence[Document], new: Sequence[Document]) -> tuple[list[Comparison], list[str]]:
    """Each device and cell of one file with the same of the other, and what only one of the files has, in words.

    Two files of one report each are compared whatever they ran on.

    Raises:
        ValueError: they have no device and cell in common.
    """
    if len(base) == len(new) == 1:
        return [compare(base[0], new[0])], []
    before, now = ({(document["device"], document["cell"]): document for document in each} for each in (base, new))
    found = [compare(before[key], now[key]) for key in now if key in before]
    if not found:
        devices = [sentence.listed(map(sentence.where, each)) for each in (base, new)]
        raise ValueError(f"the reports have no device in common: {devices[0]} before, {devices[1]} now")
    alone = [f"{sentence.where(before[key])}: not run again" for key in before if key not in now]
    return found, alone + [f"{sentence.where(now[key])}: new" for key in now if key not in before]


def _word(value: Any) -> str:
    """A value of a fingerprint in words."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)


def _change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    failed = next((c["message"] for c in new["checks"] if c["message"] and c["outcome"] not in ("xfailed",)), None)
    because = (failed or new["because"] or "").partition("\n")[0] if new["unexpected"] else ""
    worse = bool(new["unexpected"]) and (not old["unexpected"] or old["verdict"] != new["verdict"])
    return Change(new["id"], new["statement"], old["verdict"], new["verdict"], worse, because)


def _drifts(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Drift]:
    """The figures of a claim that moved too far; where a refutation is expected they miss, and none is judged."""
    figures = {(check["test"], figure["name"]): figure for check in old["checks"] for figure in check["figures"]}
    for check in new["checks"]:
        for figure in check["figures"]:
            earlier = figures.get((check["test"], figure["name"]))
            if earlier is None or figure["relation"] != earlier["relation"] or new["expected"] == "refuted":
                continue
            left = earlier["holds"] and not figure["holds"]
            times = float("inf") if left else _times(earlier, figure)
            if times < FACTOR:
                continue
            yield Drift(
                new["id"], check["test"], figure["name"], notation.significant(earlier["measured"]),
                notation.significant(figure["measured"]), notation.limit(figure, False), left, times,
            )  # fmt: skip


def _times(earlier: Mapping[str, Any], figure: Mapping[str, Any]) -> float:
    """How many times as much of its limit a figure uses that holds; 0 where that is too little to be noticed."""
    if not figure["holds"] or (now := share(figure)) is None or now < NOTICED or (before := share(earlier)) is None:
        return 0.0
    return now / max(before, 1e-300)


def share(figure: Mapping[str, Any]) -> float | None:
    """The share of its limit that a figure uses; None where it has none to use."""
    measured, allowed, documented = (notation.number(figure[key]) for key in ("measured", "allowed", "documented"))
    if measured is None or not isfinite(measured) or not allowed:
        return None
    if figure["relation"] == "<=" and allowed > 0:
        return max(measured, 0.0) / allowed
    if figure["relation"] == "≈" and documented is not None:
        return abs(measured - documented) / allowed
    return None


def words(found: Comparison, *, named: bool = False) -> list[str]:
    """The comparison as a person reads it in a terminal; with the device's name where it is one of several."""
    lines = [(f"{sentence.where(found.new)}: " if named else "") + headline(found)]
    for key, old, new in found.fingerprint:
        lines.append(f"  {key}: {old} → {new}")
    for change in found.changes:
        mark = "worse" if change.worse else "changed"
        lines.append(f"  {mark}: {change.claim}: {change.base} → {change.new}")
        if change.because:
            lines.append(f"    {change.because}")
    lines += [f"  gone: {name}" for name in found.went]
    lines += [f"  new: {name}" for name in found.appeared]
    for drift in found.drifts:
        lines.append(f"  {drift.claim}: {drift.name}: {drift.base} → {drift.new}, limit {drift.limit}: {how(drift)}")
        lines.append(f"    {drift.test}")
    if found.not_asked:
        lines.append(f"  {sentence.counted(len(found.not_asked), 'claim')} of the first report not asked for again")
    return lines


def how(drift: Drift) -> str:
    """How far a figure moved."""
    if drift.worse:
        return "beyond its limit"
    return (
        f"{drift.times:.3g} times as much of its limit as before"
        if drift.times < 1e6
        else "it used none of its limit before"
    )


def headline(found: Comparison) -> str:
    """The comparison in one sentence."""
    worse = sum(change.worse for change in found.changes)
    parts = []
    if found.unfinished:
        parts.append("the new run did not finish")
    if worse:
        parts.append(sentence.counted(worse, "claim") + " got worse")
    if found.went:
        parts.append(sentence.counted(len(found.went), "claim") + " went")
    if left := sum(drift.worse for drift in found.drifts):
        parts.append(sentence.counted(left, "figure") + " left what is allowed")
    if parts:
        text = sentence.listed(parts)
        return f"{text[0].upper()}{text[1:]}."
    kept = len(found.new["claims"]) - len(found.appeared) - len(found.changes)
    text = f"Nothing got worse: {sentence.counted(kept, 'claim')} as before"
    counts = {
        "changed for the better": len(found.changes),
        "new": len(found.appeared),
        "figures drifting within their limits": len(found.drifts),
    }
    extra = [f"{n} {word}" for word, n in counts.items() if n]
    return f"{text}{', ' if extra else ''}{sentence.listed(extra) if extra else ''}."
