"""How the report's figures are drawn: curves as lines, every seed as a point, or matrices as coloured panels."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

INK = "#010203"  # what matplotlib draws text and axes in; the page's own text colour replaces it
WIDTH, HEIGHT = 4.6, 2.6  # inches, without legend: at 390 px the 10 pt text is still 10 px
POINTS_HEIGHT, PANEL_HEIGHT = 3.0, 2.3  # inches
LEGEND_ROW = 0.19  # inches
STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))]
MARKERS = "os^Dv<>P"
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK]  # Okabe and Ito, without the yellow
MARKS_PER_CURVE = 10
LETTER, HANDLE = 5.6, 45  # points: a letter of the legend, and the line with its gaps beside it
DOT, LEAST_DOT, PITCH = 2.8, 1.6, 3.4  # points: a dot, one in a crowd, and from one to the next where there is room
BESIDE = 0.9  # the share of the distance between two x values over which all series of one x are spread
AXES = 0.8  # the share of a picture that its axes take up, roughly
HOLLOW: dict[str, Any] = {"linestyle": "none", "markersize": 9, "markerfacecolor": "none", "markeredgewidth": 1.4}
SMALL = {"markersize": 7, "markeredgewidth": 1.1}
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
    """One series of a figure and the checks it comes from."""

    series: str
    source: str
    x: list[float]
    y: list[float]
    documented: list[tuple[float, float]]
    z: list[list[float]]
    """Of a map: a row per y, a column per x."""


def plot(figure: Mapping[str, Any], curves: list[Curve]) -> str:
    """The figure as matplotlib's SVG file."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        drawing = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        drawing.patch.set_visible(False)
        {"line": _lines, "points": _points, "map": _maps}[figure.get("style", "line")](drawing, figure, curves)
        file = io.StringIO()
        drawing.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _lines(drawing: Any, figure: Mapping[str, Any], curves: list[Curve]) -> None:
    axes = _axes(drawing, figure)
    for axis in "xy":
        _scale(axes, axis, figure, curves)
    for n, curve in enumerate(curves):
        axes.plot(
            curve.x,
            curve.y,
            linestyle=STYLES[n % len(STYLES)],
            linewidth=1.6,
            markersize=3.5,
            markevery=max(1, len(curve.x) // MARKS_PER_CURVE),
            label=curve.series,
            **_look(n),
        )
        if curve.documented:
            axes.plot(*zip(*curve.documented, strict=True), **HOLLOW, **_look(n))
    _legend(drawing, axes, curves, HEIGHT)


def _points(drawing: Any, figure: Mapping[str, Any], curves: list[Curve]) -> None:
    """A dot per point, beside those it would hide; series side by side; a line through the medians."""
    axes = _axes(drawing, figure)
    for axis in "xy":
        _scale(axes, axis, figure, curves)
    to_x, from_x = _straight(axes.get_xscale())
    to_y, _ = _straight(axes.get_yscale())
    found = [
        [(to_x(x), y, to_y(y)) for x, y in zip(curve.x, curve.y, strict=True) if _shown(axes, x, y)] for curve in curves
    ]
    printed = [[(to_x(x), y, to_y(y)) for x, y in curve.documented if _shown(axes, x, y)] for curve in curves]
    every = [point for points in found + printed for point in points]
    places = sorted({point[0] for point in every})
    step = min((b - a for a, b in pairwise(places)), default=1.0)
    slot = BESIDE * step / len(curves)
    pitch = PITCH * (_span(places) + step) / (AXES * WIDTH * 72)
    level = DOT * (_span(point[2] for point in every) or 1.0) / (AXES * POINTS_HEIGHT * 72)
    for n, curve in enumerate(curves):
        shift = (n - (len(curves) - 1) / 2) * slot
        columns = {x: [point for point in found[n] if point[0] == x] for x in sorted({p[0] for p in found[n]})}
        middle = [(from_x(x + shift), median(p[1] for p in column)) for x, column in columns.items()]
        look = _look(n)
        axes.plot(*_unzip(middle), linestyle=STYLES[n % len(STYLES)], linewidth=0.9, color=look["color"])
        axes.plot(*_unzip([(from_x(p[0] + shift), p[1]) for p in printed[n]]), **HOLLOW | SMALL, **look)
        dots: dict[float, list[tuple[float, float]]] = {}
        for x, column in columns.items():
            placed = _asides([p[2] for p in column], level, pitch, slot)
            for (aside, apart), point in zip(placed, column, strict=True):
                size = max(LEAST_DOT, min(DOT, 1.5 * PITCH * apart / pitch))
                dots.setdefault(size, []).append((from_x(x + shift + aside), point[1]))
        for size, group in dots.items():
            axes.plot(*_unzip(group), linestyle="none", markersize=size, markeredgewidth=0, alpha=0.85, **look)
        axes.plot([], [], label=curve.series, linestyle=STYLES[n % len(STYLES)], linewidth=0.9, markersize=4, **look)
    if axes.get_xscale() == "log":
        _tick_where(axes, [from_x(x) for x in places], to_x)
    _legend(drawing, axes, curves, POINTS_HEIGHT)


def _maps(drawing: Any, figure: Mapping[str, Any], curves: list[Curve]) -> None:
    """A panel per series, at most three in a row, and one colour bar; the matrices go in as pixels."""
    from matplotlib.ticker import MaxNLocator

    values = [value for curve in curves for row in curve.z for value in row if math.isfinite(value)]
    low, high = min(values), max(values)
    if within := low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    titles = max(len(curve.series) for curve in curves) * LETTER + 10
    columns = max(1, min(3, len(curves), int(WIDTH * 72 * 0.9 / titles)))
    rows = -(-len(curves) // columns)
    drawing.set_figheight(PANEL_HEIGHT * rows + 0.5)
    panels = drawing.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    # "none" is nearest without resampling: one pixel per value, which a browser enlarges without smoothing
    look: dict[str, Any] = {"cmap": "viridis", "vmin": low, "vmax": high, "interpolation": "none", "aspect": "auto"}
    for axes in panels.flat[len(curves) :]:
        axes.set_visible(False)
    for axes, curve in zip(panels.flat, curves, strict=False):
        if [len(row) for row in curve.z] != [len(curve.x)] * len(curve.y):
            raise ValueError(f"{curve.series}: the matrix does not go with its axes")
        axes.imshow(curve.z, origin="lower", extent=[*_edges(curve.x), *_edges(curve.y)], **look)
        axes.set_title(curve.series, fontsize=10)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    drawing.supxlabel(figure["x"], fontsize=10)
    drawing.supylabel(figure["y"], fontsize=10)
    bar = drawing.colorbar(panels.flat[0].images[0], ax=panels, fraction=0.06, aspect=30, pad=0.02)
    bar.outline.set_linewidth(0.8)
    if within:
        bar.set_ticks([0, 0.5, 1], labels=["0", "0.5", "1"])


def _axes(drawing: Any, figure: Mapping[str, Any]) -> Any:
    axes = drawing.add_subplot()
    axes.patch.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color=INK, alpha=0.15, linewidth=0.6)
    axes.set_xlabel(figure["x"])
    axes.set_ylabel(figure["y"])
    return axes


def _look(n: int) -> dict[str, Any]:
    return {"color": COLOURS[n % len(COLOURS)], "marker": MARKERS[n % len(MARKERS)]}


def _legend(drawing: Any, axes: Any, curves: list[Curve], height: float) -> None:
    """Below the axes, in as many rows as it takes, which make the picture higher."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    if any(curve.documented for curve in curves):
        handles.append(Line2D([], [], color=INK, marker="o", **HOLLOW | {"markeredgewidth": 1.0}))
        labels.append("as documented")
    columns = max(1, int(WIDTH * 72 / (max(map(len, labels)) * LETTER + HANDLE)))
    drawing.set_figheight(height + LEGEND_ROW * -(-len(labels) // columns))
    drawing.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


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


def _straight(scale: str) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """To coordinates in which the axis is even, and back."""
    return (math.log, math.exp) if scale == "log" else (float, float)


def _shown(axes: Any, x: float, y: float) -> bool:
    """Whether the axes have a place for the point."""
    places = ((x, axes.get_xscale()), (y, axes.get_yscale()))
    return all(math.isfinite(value) and (value > 0 or scale != "log") for value, scale in places)


def _span(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[-1] - ordered[0] if ordered else 0.0


def _asides(values: list[float], level: float, pitch: float, slot: float) -> list[tuple[float, float]]:
    """How far aside each dot of a column goes so that none hides another, and the distance that there is room for.

    In one lane dots are a level apart; lanes fill from the middle, and are closer together where they are too many.
    """
    order = sorted(range(len(values)), key=lambda k: (values[k], k))
    starts = [n for n, k in enumerate(order) if not n or values[k] - values[order[n - 1]] >= level]
    placed = [(0.0, pitch)] * len(values)
    for start, end in pairwise([*starts, len(order)]):  # a crowd, which leaves those far above and below alone
        lanes: list[list[int]] = []
        for k in order[start:end]:
            lane = next((lane for lane in lanes if values[k] - values[lane[-1]] >= level), None)
            lanes.append([k]) if lane is None else lane.append(k)
        apart = min(pitch, 0.9 * slot / len(lanes))
        asides = sorted(((n - (len(lanes) - 1) / 2) * apart for n in range(len(lanes))), key=abs)
        for aside, lane in zip(asides, lanes, strict=True):
            for k in lane:
                placed[k] = (aside, apart)
    return placed


def _unzip(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _tick_where(axes: Any, values: list[float], to_x: Callable[[float], float]) -> None:
    """Ticks at the values that occur, except where a label would run into the one before."""
    apart, kept = 0.07 * _span(map(to_x, values)), values[:1]
    for value in values[1:]:
        if to_x(value) - to_x(kept[-1]) >= apart:
            kept.append(value)
    axes.set_xticks(kept, labels=[power_of_ten(value) for value in kept])


def _edges(centres: list[float]) -> tuple[float, float]:
    """From where to where pixels reach that stand at these places, which have to be even."""
    step = (centres[-1] - centres[0]) / (len(centres) - 1) if len(centres) > 1 else 1.0
    if not all(abs(b - a - step) <= 1e-6 * abs(step) for a, b in pairwise(centres)):
        raise ValueError("a map needs even steps")
    return centres[0] - step / 2, centres[-1] + step / 2
