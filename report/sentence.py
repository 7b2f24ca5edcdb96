"""The verdict of a run in one sentence, as parts: text, and claims a page can link to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

Document = Mapping[str, Any]

NAMED = 5  # more names than this bury the sentence
MANY = 20  # nor does anybody read more numbers than this

BROKEN = {
    "interrupted": "The run was interrupted",
    "internal error": "The run ended with an internal error",
    "stopped early": "The run stopped early",
}


class Ref(NamedTuple):
    """A claim mentioned in a sentence."""

    id: str


Parts = list[str | Ref]


def counted(n: int, noun: str, verb: str = "") -> str:
    """ "1 claim", "2 claims"; with a verb in the singular form ("is", "was", "holds") it agrees too."""
    plural = {"is": "are", "was": "were", "has": "have"}.get(verb, verb.removesuffix("s"))
    return " ".join(word for word in (str(n), noun if n == 1 else f"{noun}s", verb if n == 1 else plural) if word)


def listed(words: Iterable[str]) -> str:
    """ "a, b and c"."""
    *first, last = [*words] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def moment(iso: str) -> str:
    """ "2026-11-30 12:00 UTC"; what is not a time stays as it is."""
    try:
        return f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M %Z}".strip()
    except ValueError:
        return iso


def asked(document: Document) -> list[Mapping[str, Any]]:
    """The claims this run was asked for."""
    left_out = set(document["not_asked"])
    return [claim for claim in document["claims"] if claim["id"] not in left_out]


def where(document: Document) -> str:
    """ "cpu", or "cpu, FastLSTM" with somebody's own cell."""
    return ", ".join(filter(None, [document["device"], document["cell"]]))


def changed(document: Document) -> list[str]:
    """Ids of the claims whose verdict is another one than expected (missing ones apart)."""
    return [claim["id"] for claim in asked(document) if claim["unexpected"] and claim["verdict"] != "missing"]


def missing(document: Document) -> list[str]:
    """Ids of the claims that were asked for and have no verdict."""
    return [claim["id"] for claim in asked(document) if claim["verdict"] == "missing"]


def diagnosis(document: Document) -> list[str]:
    """What explains somebody's own cell, what to change, and what comes closest, a line each."""
    if (found := document["diagnosis"]) is None:
        return []
    words = (
        ("diagnosis", found["sentence"]),
        ("to get the declared cell", found["change"]),
        ("nearest", found["nearest"]),
    )
    return [f"{name}: {said}" for name, said in words if said]


def of_entry(claim: Mapping[str, Any]) -> str | None:
    """What to do about the entry of expectations.toml under which a verdict is unexpected; None where there is none."""
    if not (claim["unexpected"] and (entry := claim.get("entry"))):
        return None
    if claim["verdict"] == claim["expected"]:
        return f"its entry in expectations.toml is about {entry['dtype']} alone, and it misses beyond that"
    if claim["verdict"] == "missing":
        return None
    return f"its entry in expectations.toml no longer holds: take it out ({claim['because']})"


def failures(document: Document) -> list[tuple[str, int]]:
    """What somebody's own cell did in checks that have no measurement, and in how many, the commonest first."""
    messages = Counter(
        check["message"]
        for claim in asked(document)
        for check in claim["checks"]
        if document["cell"] and check["outcome"] in ("error", "crashed")
        if (check["message"] or "").startswith(f"{document['cell']} ")
    )
    return messages.most_common()


def state(document: Document) -> str:
    """One of "running", "broken", "changed", "partial", "good": only the last two may look green."""
    if document["ended"] == "running":
        return "running"
    if document["ended"] != "finished":
        return "broken"
    if changed(document):
        return "changed"
    if document["exit_status"] != 0 or missing(document) or not document["complete"] or not asked(document):
        return "broken"
    return "partial" if document["partial"] else "good"


def plain(parts: Parts) -> str:
    """The sentence without links."""
    return "".join(part.id if isinstance(part, Ref) else part for part in parts)


def verdict(document: Document) -> Parts:
    """What a gatekeeper has to know, broken runs first."""
    parts: Parts = []
    claims, total = asked(document), len(asked(document))
    if document["shard"]:
        parts.append(_shard(document["shard"]))
    if document["partial"]:
        everything = total + len(document["not_asked"])
        parts.append(
            f"Partial run: {total} of {counted(everything, 'claim')} {'was' if total == 1 else 'were'} asked for. "
        )
    if document["cell"]:
        parts.append(f"{document['cell']}: ")
    now = state(document)
    if now == "running":
        return [*parts, *_running(document, total)]
    if now in ("good", "partial"):
        return [*parts, _good(document, claims)]
    return parts + _bad(document, total)


def _shard(shard: Mapping[str, Any]) -> str:
    """Which shards of a run these are, and which are missing once several have been put together."""
    splits, groups = shard["splits"], shard["groups"]
    lost = [str(k) for k in range(1, splits + 1) if k not in groups]
    if len(groups) == 1 < splits:
        return f"Shard {groups[0]} of {splits}. "
    if not lost:
        return ""
    noun, verb = ("Shard", "is") if len(lost) == 1 else ("Shards", "are")
    if len(lost) > MANY:
        return f"{len(lost)} of {splits} shards are missing. "
    return f"{noun} {listed(lost)} of {splits} {verb} missing. "


def _running(document: Document, total: int) -> Parts:
    new, gone = changed(document), missing(document)
    return [
        f"Not finished: the run that started at {moment(document['started'])} on {document['device']} "
        f"has not reported back, and {len(gone)} of {counted(total, 'claim')} "
        f"{'is' if len(gone) == 1 else 'are'} missing. ",
        *([f"{len(new)} changed so far: ", *_names(new), ". "] if new else []),
        "Unless it is still going, it was killed: this is not a pass.",
    ]


def _good(document: Document, claims: list[Mapping[str, Any]]) -> str:
    refuted = sum(claim["verdict"] == "refuted" and not claim.get("entry") for claim in claims)
    known = sum(claim["verdict"] == "refuted" and bool(claim.get("entry")) for claim in claims)
    idle = sum(claim["verdict"] == "not-applicable" for claim in claims)
    total = len(claims)
    where = _where(document)
    if document["cell"] and idle:
        applicable = total - idle
        noun = "claim that applies to it" if applicable == 1 else "claims that apply to it"
        text = f"all {applicable} {noun} {'holds' if applicable == 1 else 'hold'} as expected {where}; "
        text = (text if applicable else "") + f"{counted(idle, 'claim', 'is')} not applicable to it"
    elif total == 1:
        text = f"the one claim holds as expected {where}"
    else:
        noun = "" if document["partial"] else " claims"
        text = f"all {total}{noun} hold as expected {where}"
        text += f"; {counted(idle, 'claim', 'is')} not applicable here" if idle else ""
    if refuted:
        text += (
            f"; {counted(refuted, 'statement')} of the documents {'is' if refuted == 1 else 'are'} refuted as printed"
        )
    if known:
        text += f"; {counted(known, 'claim')} {'is' if known == 1 else 'are'} refuted as expectations.toml says"
    return f"{text if document['cell'] else text[0].upper() + text[1:]}."


def _bad(document: Document, total: int) -> Parts:
    new, gone = changed(document), missing(document)
    of = f"of {counted(total, 'claim')}"
    parts: Parts = []
    if total == 0:
        parts.append("No claim was asked for")
    if document["ended"] in BROKEN:
        parts.append(BROKEN[document["ended"]])
    if new:
        parts += [": " if parts else "", f"{len(new)} {of} changed {_where(document)}: ", *_names(new)]
    if gone:
        parts += [
            "; " if new else ": " if parts else "",
            f"{len(gone)} {of} {'is' if len(gone) == 1 else 'are'} missing: ",
        ]
        parts += _names(gone)
    lost = sum(check["outcome"] == "missing" for claim in document["claims"] for check in claim["checks"])
    if lost and not gone:
        parts.append(f"{'; ' if parts else ''}{counted(lost, 'check', 'was')} never reported")
    elif not document["complete"] and not gone:
        parts.append(f"{'; ' if parts else ''}not every check was reported")
    if not (new or gone):
        what = f"no claim changed {_where(document)}, but " if total and document["ended"] == "finished" else ""
        parts.append(f"{'; ' if parts else ''}{what}exit status {document['exit_status']} is not a pass")
    for message, checks in failures(document)[:1]:
        parts.append(f". {message.splitlines()[0].rstrip('.')}, in {counted(checks, 'check')}")
    text = parts[0]
    parts[0] = text[0].upper() + text[1:] if isinstance(text, str) and text and not document["cell"] else text
    return [*parts, "."]


def _names(ids: list[str]) -> Parts:
    parts: Parts = []
    for id in ids[:NAMED]:
        parts += [", ", Ref(id)] if parts else [Ref(id)]
    return [*parts, f" and {len(ids) - NAMED} more"] if len(ids) > NAMED else parts


def _where(document: Document) -> str:
    dtypes = sorted({check["dtype"] for claim in asked(document) for check in claim["checks"] if check["dtype"]})
    details = ", ".join([f"torch {document['fingerprint']['torch']}", *([listed(dtypes)] if dtypes else [])])
    return f"on {document['device']} ({details})"
