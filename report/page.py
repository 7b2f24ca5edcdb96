"""The claim report as HTML: a view of the document, in the order in which its readers ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from report import sentence, view
from report.compare import Comparison, headline
from report.figures import chosen, draw
from report.mathematics import mathml
from report.merge import side_by_side
from report.notation import significant
from report.sentence import Document, Ref

__all__ = ["fragment", "significant", "standalone", "verdict_sentence"]

PICTURE = ("accuracy-by-gap", "reach")  # the figure that shows the story, the first of these that is there
OPENED = 20  # unexpected claims beyond these stay closed
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


def compared(found: Comparison) -> str:
    """Two runs compared, as a page."""
    ran = [
        (name, str(found.base[key]), str(found.new[key]))
        for name, key in (("started", "started"), ("command", "command"), ("exit status", "exit_status"))
    ]
    ran.insert(0, ("verdict", verdict_sentence(found.base), verdict_sentence(found.new)))
    render = _templates().get_template("compare.html").render
    return render(found=found, headline=headline(found), ran=ran, marks=view.VERDICTS)


def merged(documents: Sequence[Document]) -> str:
    """Runs on several devices, beside each other."""
    runs = [
        {
            "name": sentence.where(document),
            "state": sentence.state(document),
            "badge": BADGES[sentence.state(document)],
            "sentence": verdict_sentence(document),
        }
        for document in documents
    ]
    names = [run["name"] for run in runs]
    return _templates().get_template("merged.html").render(names=names, runs=runs, chapters=side_by_side(documents))


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
    return {
        "document": document,
        "brief": brief,
        "title": f"Carousel: claims on {document['device']}",
        "state": sentence.state(document),
        "badge": BADGES[sentence.state(document)],
        "sentence": [
            (part.id, True) if isinstance(part, Ref) else (part, False) for part in sentence.verdict(document)
        ],
        "ran": _ran(document),
        "picture": next((each for id in PICTURE for each in figures if each["id"] == id and each["svg"]), None),
        "alarming": [cards[claim["id"]] for claim in alarming],
        "opened": OPENED,
        "chapters": [_chapter(chapter, claims, cards, figures) for chapter in document["chapters"]],
        "verdicts": [verdict for verdict in view.VERDICTS if any(claim["verdict"] == verdict for claim in claims)],
        "unexpected": any(claim["unexpected"] for claim in claims),
        "marks": view.VERDICTS,
        "errata": [] if brief else sorted(_errata(claims, cards), key=lambda entry: entry["errata"]),
        "documentary": [] if brief else [entry for entry in document["not_checkable"] if entry["errata"]],
        "missing": [] if brief else [loss for claim in claims if (loss := _loss(claim))],
        "known": {claim["id"] for claim in claims},
    }


def _card(claim: Mapping[str, Any], document: Document) -> dict[str, Any]:
    rows = view.figure_rows(claim)
    equation = claim["equation"] if document["ended"] != "running" else None
    return {
        **claim,
        "math": Markup(markup) if equation and (markup := mathml(equation)) else None,
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
        "passed": sum(check["outcome"] in ("passed", "xpassed") for check in claim["checks"]),
    }


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
