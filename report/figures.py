"""The curves of a run as small inline SVG that reads in light and dark, in colour and without."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from report.notation import number
from report.panels import INK, Curve, plot

Document = Mapping[str, Any]
BUILT_IN = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")


def chosen(document: Document, figure: str) -> list[Curve]:
    """One curve per series: of `torch.nn`'s layers before others, of float32 before others, then the first reported.

    A series of points joins what all checks of that subject and dtype found.
    """
    joined = any(each["id"] == figure and each.get("style") == "points" for each in document["figures"])
    series: dict[str, dict[tuple[str, str], list[Mapping[str, Any]]]] = {}
    for check, curve in _curves(document):
        if curve["figure"] == figure:
            place = (check["subject"] or "", check["dtype"] or "")
            series.setdefault(curve["series"], {}).setdefault(place, []).append(curve)
    curves = []
    for name, places in series.items():
        best = min(places, key=lambda place: (place[0] not in BUILT_IN, place[1] != "float32"))
        parts = places[best] if joined else places[best][:1]
        curves.append(_join(name, ", ".join(filter(None, best)), parts))
    return curves


def _join(series: str, source: str, parts: list[Mapping[str, Any]]) -> Curve:
    x, y = (_floats([value for part in parts for value in part[axis]]) for axis in "xy")
    printed = dict.fromkeys((_float(x), _float(y)) for part in parts for x, y in part["documented"])
    return Curve(series, source, x, y, list(printed), [_floats(row) for row in parts[0].get("z", [])])


def draw(document: Document, prefix: str = "figure") -> dict[str, str]:
    """The figures that have curves, by id. A figure that cannot be drawn is left out: a picture decides nothing.

    The same document gives the same bytes. Ids within the pictures begin with `prefix`.
    """
    wanted = {curve["figure"] for _, curve in _curves(document)}
    drawings = {}
    for figure in document["figures"]:
        if figure["id"] not in wanted:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # matplotlib's remarks on fonts and limits are nobody's claim
                drawings[figure["id"]] = _clean(plot(figure, chosen(document, figure["id"])), figure, prefix)
        except Exception:
            continue
    return drawings


def _curves(document: Document) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for claim in document["claims"]:
        for check in claim["checks"]:
            for curve in check["curves"]:
                yield check, curve


def _float(x: Any) -> float:
    value = number(x)
    return float("nan") if value is None else value


def _floats(values: list[Any]) -> list[float]:
    return [_float(x) for x in values]


def _clean(svg: str, figure: Mapping[str, Any], prefix: str) -> str:
    """Make matplotlib's file a well-behaved part of a page: no prolog, page colours, ids of its own, a title."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)  # "*" would style the page
    svg = svg.replace(INK, "currentColor").replace("xlink:href", "href")
    svg = re.sub(r" font-family: [^;\"]*;?", "", svg)
    svg = svg.replace("base64,\n", "base64,")
    svg = re.sub(r'matrix[^)]*|(?<=[\s"(,])(-?\d+\.\d\d)\d+', lambda m: m[1] or m[0], svg)  # pixels are many
    used = dict.fromkeys(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    names = {old: f"{prefix}-{figure['id']}-{n}" for n, old in enumerate(used)}
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{names[m[1]]}"' if m[1] in names else "", svg)
    svg = re.sub(r'((?:href="|url\()#)([^")]+)', lambda m: m[1] + names[m[2]], svg)
    svg = re.sub(r' transform="rotate\(-?0 [^"]*"|(?<=[;"]) (?=[;"])', "", svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    title = escape(figure["title"])
    box = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box[0] if box else ""} role="img" aria-label="{title}" '
    head += f'font-family="system-ui, sans-serif" stroke-linejoin="round" stroke-linecap="butt"><title>{title}</title>'
    return re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1).strip()
