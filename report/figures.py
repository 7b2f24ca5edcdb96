"""The curves of a run as small inline SVG that reads in light and dark, in colour and without."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

from report.notation import number

Document = Mapping[str, Any]

INK = "#010203"  # what matplotlib draws text and axes in; the page's own text colour replaces it
WIDTH, HEIGHT = 4.6, 2.6  # inches, without legend: at 390 px the 10 pt text is still 10 px
LEGEND_ROW = 0.19  # inches
STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))]
MARKERS = "os^Dv<>P"
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK]  # Okabe and Ito, without the yellow
MARKS_PER_CURVE = 10
LETTER, HANDLE = 5.6, 45  # points: a letter of the legend, and the line with its gaps beside it
RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "carousel",
    "path.simplify": True,
    "path.simplify_threshold": 0.3,
    **dict.fromkeys(
        ["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "legend.labelcolor"], INK
    ),
}


class Curve(NamedTuple):
    """One series of a figure and the check it comes from."""

    series: str
    source: str
    x: list[float]
    y: list[float]
    documented: list[tuple[float, float]]


def chosen(document: Document, figure: str) -> list[Curve]:
    """One curve per series: of `torch.nn`'s layers before others, of float32 before others, then the first reported."""
    best: dict[str, tuple[tuple[int, bool], Curve]] = {}
    for check, curve in _curves(document):
        if curve["figure"] != figure:
            continue
        subject, dtype = check["subject"] or "", check["dtype"]
        rank = (0 if subject in ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU") else 1, dtype != "float32")
        if curve["series"] not in best or rank < best[curve["series"]][0]:
            source = ", ".join(word for word in (subject, dtype) if word)
            points = [(_float(x), _float(y)) for x, y in curve["documented"]]
            best[curve["series"]] = (
                rank,
                Curve(curve["series"], source, _floats(curve["x"]), _floats(curve["y"]), points),
            )
    return [curve for _, curve in best.values()]


def draw(document: Document) -> dict[str, str]:
    """The figures that have curves, by id. A figure that cannot be drawn is left out: a picture decides nothing.

    The same document gives the same bytes.
    """
    wanted = {curve["figure"] for _, curve in _curves(document)}
    drawings = {}
    for figure in document["figures"]:
        if figure["id"] not in wanted:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # matplotlib's remarks on fonts and limits are nobody's claim
                drawings[figure["id"]] = _clean(_plot(figure, chosen(document, figure["id"])), figure)
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


def _plot(figure: Mapping[str, Any], curves: list[Curve]) -> str:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        drawing = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        drawing.patch.set_visible(False)
        axes = drawing.add_subplot()
        axes.patch.set_visible(False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color=INK, alpha=0.15, linewidth=0.6)
        for axis in "xy":
            _scale(axes, axis, figure, curves)
        for n, curve in enumerate(curves):
            look: dict[str, Any] = {"color": COLOURS[n % len(COLOURS)], "marker": MARKERS[n % len(MARKERS)]}
            axes.plot(
                curve.x,
                curve.y,
                linestyle=STYLES[n % len(STYLES)],
                linewidth=1.6,
                markersize=3.5,
                markevery=max(1, len(curve.x) // MARKS_PER_CURVE),
                label=curve.series,
                **look,
            )
            if curve.documented:
                x, y = zip(*curve.documented, strict=True)
                axes.plot(x, y, linestyle="none", markersize=9, markerfacecolor="none", markeredgewidth=1.4, **look)
        handles, labels = axes.get_legend_handles_labels()
        if any(curve.documented for curve in curves):
            hollow: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 9, "markerfacecolor": "none"}
            handles.append(Line2D([], [], color=INK, **hollow))
            labels.append("as documented")
        columns = max(1, int(WIDTH * 72 / (max(map(len, labels)) * LETTER + HANDLE)))
        drawing.set_figheight(HEIGHT + LEGEND_ROW * -(-len(labels) // columns))
        drawing.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        axes.set_xlabel(figure["x"])
        axes.set_ylabel(figure["y"])
        file = io.StringIO()
        drawing.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _scale(axes: Any, axis: str, figure: Mapping[str, Any], curves: list[Curve]) -> None:
    """Set the scale; a log axis needs something positive to show and says 10⁻³ in plain text."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    index = "xy".index(axis)
    drawn = [value for curve in curves for value in (curve.x, curve.y)[index]]
    values = drawn + [point[index] for curve in curves for point in curve.documented]
    if figure[f"{axis}scale"] != "log" or not any(v > 0 for v in values):
        return
    getattr(axes, f"set_{axis}scale")("log", nonpositive="mask")
    ticks = getattr(axes, f"{axis}axis")
    ticks.set_major_locator(LogLocator(numticks=7))
    ticks.set_minor_locator(NullLocator())
    ticks.set_major_formatter(FuncFormatter(power_of_ten))


def power_of_ten(value: float, position: int | None = None) -> str:
    """A tick of a log axis, such as 10⁻⁸, as text that any font of the reader can set."""
    if 0.01 <= value <= 1000:
        return f"{value:g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return power if mantissa == "1" else f"{mantissa}·{power}"


def _clean(svg: str, figure: Mapping[str, Any]) -> str:
    """Make matplotlib's file a well-behaved part of a page: no prolog, page colours, ids of its own, a title."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)  # "*" would style the page
    svg = svg.replace(INK, "currentColor").replace("xlink:href", "href")
    svg = re.sub(r" font-family: [^;\"]*;?", "", svg)
    svg = re.sub(r'(?<=[\s"(,])(-?\d+\.\d\d)\d+', r"\1", svg)
    used = dict.fromkeys(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    names = {old: f"figure-{figure['id']}-{n}" for n, old in enumerate(used)}
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{names[m[1]]}"' if m[1] in names else "", svg)
    svg = re.sub(r'((?:href="|url\()#)([^")]+)', lambda m: m[1] + names[m[2]], svg)
    svg = re.sub(r' transform="rotate\(-?0 [^"]*"|(?<=[;"]) (?=[;"])', "", svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    title = escape(figure["title"])
    box = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box[0] if box else ""} role="img" aria-label="{title}" '
    head += f'font-family="system-ui, sans-serif" stroke-linejoin="round" stroke-linecap="butt"><title>{title}</title>'
    return re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1).strip()
