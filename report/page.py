"""The claim report as HTML: a view of the document, in the order in which its readers ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from report import beside, sentence, view
from report.compare import Comparison, headline, how
from report.figures import chosen, draw
from report.mathematics import mathml
from report.notation import significant
from report.sentence import Document, Ref

__all__ = ["fragment", "significant", "standalone", "verdict_sentence"]

PICTURE = ("accuracy-by-gap", "reach")  # the figure that shows the story, the first of these that is there
OPENED = 20  # unexpected claims beyond these stay closed
DIFFERENT = ("torch", "numpy", "scipy", "Python", "threads per worker", "TF32", "deterministic algorithms", "commit")
"""What of `_ran` makes two devices' runs two different gates; what the device is named is no difference."""
BADGES = {
    "good": "✓ As expected",
    "partial": "✓ As expected, in part",
    "changed": "✗ Changed",
    "broken": "✗ Broken run",
    "running": "? No verdict yet",
}


def verdict_sentence(document: Document) -> str:
    """The verdict in one plain sentence."""
    return sentence.plain(sentence.verdict(document))


def fragment(document: Document) -> str:
    """The page's content for pytest-html's summary: style, report, and the heading of pytest-html's own table."""
    return _templates().get_template("fragment.html").render(**_context(document), table=True)


def standalone(document: Document) -> str:
    """The page as one complete file. While the run is going it has no figures and no details, to be cheap."""
    return _templates().get_template("standalone.html").render(**_context(document), table=False)


def compared(found: Sequence[Comparison], alone: Sequence[str] = ()) -> str:
    """Runs compared, as a page: a part for each device, and what only one of the runs has."""
    parts = [
        {"found": each, "name": sentence.where(each.new), "headline": headline(each), "ran": _before_and_now(each)}
        for each in found
    ]
    worse = any(each.worse for each in found)
    render = _templates().get_template("compare.html").render
    return render(parts=parts, alone=alone, worse=worse, marks=view.VERDICTS, how=how)


def _before_and_now(found: Comparison) -> list[tuple[str, ...]]:
    runs = found.base, found.new
    return [
        ("verdict", *map(verdict_sentence, runs)),
        ("started", *(sentence.moment(run["started"]) for run in runs)),
        ("command", *(run["command"] for run in runs)),
        ("exit status", *(str(run["exit_status"]) for run in runs)),
    ]


def merged(documents: Sequence[Document]) -> str:
    """Runs on several devices, beside each other."""
    names = [document["device"] + (f" ({document['cell']})" if document["cell"] else "") for document in documents]
    found = beside.claims(documents)
    runs = [
        {**_headline(document), "name": name, "diagnosis": sentence.diagnosis(document)}
        for document, name in zip(documents, names, strict=True)
    ]
    facts = [dict(_ran(document)) for document in documents]
    chapters = beside.contents(found, documents, lambda each: _beside(each, names, documents))
    cards = [card for chapter in chapters for card in chapter["claims"]]
    verdicts = [each for each in view.VERDICTS if any(each in card["verdict"] for card in cards)]
    choices = _choices(chapters, verdicts, cards)
    if any("different" in card["verdict"] for card in cards):
        choices["verdicts"].insert(1, ("different", "≠ different"))
    alarms = beside.alarms(found, names)
    return (
        _templates()
        .get_template("merged.html")
        .render(
            names=names,
            title=f"Carousel: claims on {sentence.listed(names)}",
            runs=runs,
            ran=[
                (word, values, word in DIFFERENT and len(set(values)) > 1)
                for word in dict.fromkeys(word for each in facts for word in each)
                for values in [[each.get(word, "–") for each in facts]]
            ],
            alarms=alarms,
            opened=OPENED,
            missing=beside.missing(found, names),
            differing=beside.differing(found, names),
            apart=beside.far_apart(found, names),
            chapters=chapters,
            choices=choices,
            pictures=_pictures(documents, names),
            marks=view.VERDICTS,
            columns=beside.columns(found, len(names)),
            known=set(found),
        )
    )


def _headline(document: Document) -> dict[str, Any]:
    """The verdict sentence of a run, whose claims the page links to, and how it is marked."""
    state = sentence.state(document)
    parts = [(part.id, True) if isinstance(part, Ref) else (part, False) for part in sentence.verdict(document)]
    return {"state": state, "badge": BADGES[state], "sentence": parts}


def _beside(found: beside.Found, names: Sequence[str], documents: Sequence[Document]) -> dict[str, Any]:
    return {**beside.card(found, names, documents), "math": _math(beside.first(found)["equation"])}


def _pictures(documents: Sequence[Document], names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """By chapter its figures, each as every device that has curves of it drew them."""
    told: dict[str, dict[str, Any]] = {}
    for k, (document, name) in enumerate(zip(documents, names, strict=True)):
        drawings = draw(document, f"figure-{k}")
        for figure in document["figures"]:
            if (drawn := _figure(document, figure, drawings))["svg"]:
                told.setdefault(figure["id"], {**drawn, "on": []})["on"].append((name, drawn))
    chapters: dict[str, list[dict[str, Any]]] = {}
    for each in told.values():
        chapters.setdefault(each["chapter"], []).append(each)
    return chapters


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    folder = Path(__file__).with_name("templates")
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _context(document: Document) -> dict[str, Any]:
    brief = document["ended"] == "running"
    claims = sentence.asked(document)
    alarming = sorted(filter(view.is_alarming, claims), key=view.severity)
    drawings = {} if brief else draw(document)
    figures = [] if brief else [_figure(document, figure, drawings) for figure in document["figures"]]
    cards = {claim["id"]: _card(claim, document) for claim in (alarming if brief else claims)}
    chapters = [_chapter(chapter, claims, cards, figures) for chapter in document["chapters"]]
    verdicts = [verdict for verdict in view.VERDICTS if any(claim["verdict"] == verdict for claim in claims)]
    return {
        "document": document,
        "brief": brief,
        "title": f"Carousel: claims on {document['device']}",
        **_headline(document),
        "ran": _ran(document),
        "picture": next((each for id in PICTURE for each in figures if each["id"] == id and each["svg"]), None),
        "alarming": [cards[claim["id"]] for claim in alarming],
        "opened": OPENED,
        "chapters": chapters,
        "verdicts": verdicts,
        "choices": _choices(chapters, verdicts, cards.values()),
        "unexpected": any(claim["unexpected"] for claim in claims),
        "marks": view.VERDICTS,
        "errata": [] if brief else sorted(_errata(claims, cards), key=lambda entry: entry["errata"]),
        "documentary": [] if brief else [entry for entry in document["not_checkable"] if entry["errata"]],
        "missing": [] if brief else [loss for claim in claims if (loss := _loss(claim))],
        "known": {claim["id"] for claim in claims},
    }


def _choices(
    chapters: Iterable[Mapping[str, Any]], verdicts: Iterable[str], cards: Iterable[Mapping[str, Any]]
) -> dict[str, list[tuple[str, str]]]:
    """What the filter offers, as pairs of a value and its words."""
    return {
        "chapters": [(chapter["id"], chapter["title"]) for chapter in chapters if chapter["claims"]],
        "verdicts": [("unexpected", "! unexpected"), *((each, " ".join(view.VERDICTS[each])) for each in verdicts)],
        "subjects": [(name, name) for name in sorted({name for card in cards for name in card["subjects"]})],
    }


def _card(claim: Mapping[str, Any], document: Document) -> dict[str, Any]:
    rows = view.figure_rows(claim)
    return {
        **claim,
        "math": _math(claim["equation"]) if document["ended"] != "running" else None,
        "kind": view.KINDS[claim["kind"]],
        "rows": view.shortlist(rows),
        "figures": len(rows),
        "decisive": view.decisive(claim),
        "of_entry": sentence.of_entry(claim),
        "grids": view.grids(claim),
        "reasons": view.reasons(claim),
        "failures": view.failures(claim),
        "statistics": view.statistics(claim),
        "rerun": view.rerun(claim, document),
        "alarming": view.is_alarming(claim),
        "subjects": view.subjects(claim),
        "passed": sum(check["outcome"] in ("passed", "xpassed") for check in claim["checks"]),
    }


def _math(equation: str | None) -> Markup | None:
    return Markup(markup) if equation and (markup := mathml(equation)) else None


def _chapter(
    chapter: Mapping[str, Any], claims: list[Mapping[str, Any]], cards: dict[str, Any], figures: list[Any]
) -> dict[str, Any]:
    own = [claim for claim in claims if claim["chapter"] == chapter["id"]]
    return {
        **chapter,
        "claims": [cards.get(claim["id"], claim) for claim in own],
        "counts": Counter(claim["verdict"] for claim in own),
        "unexpected": sum(claim["unexpected"] for claim in own),
        "figures": [figure for figure in figures if figure["chapter"] == chapter["id"]],
    }


def _figure(document: Document, figure: Mapping[str, Any], drawings: Mapping[str, str]) -> dict[str, Any]:
    curves = chosen(document, figure["id"])
    style = figure.get("style", "line")
    sources: Counter[str] = Counter()
    for curve in filter(lambda curve: curve.source, curves):
        sources[curve.source] += len(curve.x) if style == "points" else 1
    several, noun = len(sources) > 1, {"line": "curve", "points": "point", "map": "panel"}[style]
    drawn = "; ".join(f"{source} ({sentence.counted(n, noun)})" if several else source for source, n in sources.items())
    scales = [index for index, axis in enumerate("xy") if style != "map" and figure[f"{axis}scale"] == "log"]
    return {
        **figure,
        "style": style,
        "svg": Markup(drawings[figure["id"]]) if figure["id"] in drawings else None,
        "curves": bool(curves),
        "drawn": drawn,
        "hidden": any(not value > 0 for curve in curves for index in scales for value in (curve.x, curve.y)[index]),
    }


def _errata(claims: list[Mapping[str, Any]], cards: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What an author would mend: statements that are refuted, and those that hold otherwise than they are printed."""
    return [
        cards[claim["id"]]
        for claim in claims
        if claim["errata"] and ((claim["verdict"] == "refuted" and not claim.get("entry")) or claim["printed"])
    ]


def _loss(claim: Mapping[str, Any]) -> dict[str, Any] | None:
    lost = [check["test"] for check in claim["checks"] if check["outcome"] == "missing"]
    if not lost and claim["verdict"] != "missing":
        return None
    return {"id": claim["id"], "statement": claim["statement"], "lost": lost, "count": len(claim["checks"])}


def _ran(document: Document) -> list[tuple[str, str]]:
    """What ran, as pairs of a word and a value; what is unknown is left out."""
    facts = document["fingerprint"]
    flags = {True: "on", False: "off", None: None}
    seconds = document["seconds"]
    took = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    pairs = [
        ("device", " · ".join(filter(None, dict.fromkeys([document["device"], facts["device_name"]])))),
        ("cell", document["cell"]),
        *[(name, facts[name]) for name in ("torch", "numpy", "scipy")],
        ("Python", facts["python"]),
        ("platform", facts["platform"]),
        ("workers", facts["workers"]),
        ("threads per worker", facts["threads"]),
        ("TF32", flags[facts["tf32"]]),
        ("deterministic algorithms", flags[facts["deterministic"]]),
        ("commit", facts["commit"]),
        ("started", sentence.moment(document["started"])),
        ("took", None if document["ended"] == "running" else took),
        ("exit status", None if document["ended"] == "running" else document["exit_status"]),
        ("command", document["command"]),
    ]
    return [(name, str(value)) for name, value in pairs if value not in (None, "")]
