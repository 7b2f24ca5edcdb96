"""Figures and their limits: what holds, what misses, which of several under one name is kept, and how a miss reads."""

from typing import Any

import numpy as np
import pytest

from fixtures.evidence import ClaimFailed, Evidence, NoEvidence, describe, half_unit, to_plain

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def record() -> Evidence:
    return Evidence()


def only(record: Evidence) -> dict[str, Any]:
    """The one figure that was recorded."""
    [figure] = record.figures
    return figure


@pytest.mark.parametrize(
    ("printed", "unit"),
    [
        ("0.168", 5e-4), ("-0.168", 5e-4), ("1.000000", 5e-7), ("1.23e-08", 5e-11), ("5.1e-17", 5e-19), ("20", 0.5),
        ("1e5", 5e4), ("20.0", 0.05), ("4.248e-18", 5e-22),
    ],
)  # fmt: skip
def test_half_a_unit_in_the_last_printed_digit(printed: str, unit: float) -> None:
    assert half_unit(printed) == pytest.approx(unit, rel=1e-12)


@pytest.mark.parametrize(
    ("measured", "document", "holds"),
    [
        (0.1684, "0.168", True), (0.1685, "0.168", True), (0.16851, "0.168", False), (0.1675, "0.168", True),
        (5.14e-17, "5.1e-17", True), (5.16e-17, "5.1e-17", False), (-0.168, "0.168", False), (NAN, "0.168", False),
        (INF, "0.168", False), (np.float32(0.168), "0.168", True),
    ],
)  # fmt: skip
def test_a_printed_figure_is_met_to_half_a_unit(record: Evidence, measured: float, document: str, holds: bool) -> None:
    record.printed("figure", measured, document)
    assert only(record)["holds"] is holds


@pytest.mark.parametrize(
    ("a", "b", "holds"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0], [1.0, np.nextafter(2.0, 3.0)], False),
        ([1.0], 1.0, False),
        ([[1.0]], [1.0], False),
        ([1.0, 1.0], [1.0], False),
        ([NAN], [NAN], False),
        ([INF, -INF], [INF, -INF], True),
        ([INF], [-INF], False),
        ([], [], True),
        (np.float32(0.1), np.float64(0.1), False),
        (True, True, True),
        (np.zeros((2, 0)), np.zeros((0, 2)), False),
    ],
)
def test_equal_is_bit_for_bit_and_of_one_shape(record: Evidence, a: Any, b: Any, holds: bool) -> None:
    record.equal("x", a, b)
    assert only(record)["holds"] is holds


def test_a_difference_of_shape_reads_as_one(record: Evidence) -> None:
    record.equal("x", np.zeros((2, 3)), np.zeros(3))
    assert describe(only(record)) == "x = inf at shapes (2, 3) and (3,); equality bit for bit is claimed"


@pytest.mark.parametrize(
    ("measured", "truth", "holds"),
    [
        ([1.0, 1.09], [1.0, 1.0], True),
        ([1.0, 1.11], [1.0, 1.0], False),
        ([10.0, 0.9], [10.0, 0.0], True),  # relative to the largest entry
        ([1.0], [[1.0]], False),
        ([NAN], [1.0], False),
        ([1.0], [NAN], False),
        ([1.0], [INF], False),
        ([0.0, INF], [5.0, INF], False),
        ([0.0], [0.0], True),
    ],
)
@pytest.mark.parametrize("method", ["close", "close_gradient"])
def test_close_is_relative_to_the_truths_largest_entry(
    record: Evidence, method: str, measured: Any, truth: Any, holds: bool
) -> None:
    getattr(record, method)("x", measured, truth, within=0.1)
    assert only(record)["holds"] is holds


def test_a_state_is_of_order_one_and_a_gradient_of_its_own_size(record: Evidence) -> None:
    record.close("state", [1e-3], [0.0], within=0.1)
    record.close_gradient("gradient", [1e-3], [1.2e-3], within=0.1)
    record.close_gradient("gradient on a scale", [1e-3], [1.2e-3], within=0.1, scale=0.01)
    assert [figure["holds"] for figure in record.figures] == [True, False, True]


def test_close_says_where_it_is_worst(record: Evidence) -> None:
    record.close("x", [[0.0, 0.0], [0.25, 0.0]], np.full((2, 2), 2.0) * [[0, 0], [0, 1]], within=0.1, at="step 3")
    assert describe(only(record)) == "x = 2.0 at (1, 1), step 3; at most 0.2 is allowed"
    record.close_gradient("y", [0.1, NAN], [0.0, 0.0], within=0.1, scale=2.0)
    assert record.figures[1]["where"] == "(1,)", "a NaN is worse than any number"


def test_nan_never_holds(record: Evidence) -> None:
    record.equal("equal", NAN, NAN)
    record.close("close", NAN, NAN, within=INF)
    record.close_gradient("close gradient", NAN, NAN, within=1.0)
    record.printed("printed", NAN, "1.0")
    record.at_most("at most", NAN, 1.0)
    record.at_most("at most NaN", 1.0, NAN)
    record.at_most("at most anything", NAN, INF)
    record.at_least("at least", NAN, 1.0)
    record.at_least("at least NaN", 1.0, NAN)
    record.exactly("exactly", NAN, NAN)
    assert [figure["name"] for figure in record.figures if figure["holds"]] == []
    with pytest.raises(ClaimFailed) as failed:
        record.verify()
    assert len(str(failed.value).splitlines()) == 10


@pytest.mark.parametrize("limits", [(1.0, 2.0, 3.0), (3.0, 2.0, 1.0), (2.0, 1.0, 3.0)])
def test_of_figures_under_one_name_the_worst_is_kept(limits: tuple[float, ...]) -> None:
    """Whatever their order: the one closest to its limit, or furthest beyond."""
    record = Evidence()
    for limit in limits:
        record.at_most("holds", 0.5, limit)
        record.at_most("misses", 30.0, limit)
        record.at_least("reached", 30.0, limit)
        record.at_least("not reached", 0.5, limit)
        record.equal("unequal", limit, 0.0)
        record.printed("printed", 3.0 + 0.01 * limit, "3.0")
        record.at_most("of zero", limit, 0.0)
        record.exactly("count", 3 if limit < 3 else 4, 3)
    assert [figure["name"] for figure in record.figures] == [
        "holds", "misses", "reached", "not reached", "unequal", "printed", "of zero", "count",
    ]  # fmt: skip
    kept = {figure["name"]: (figure["measured"], figure["allowed"]) for figure in record.figures}
    assert kept == {
        "holds": (0.5, 1.0),
        "misses": (30.0, 1.0),
        "reached": (30.0, 3.0),
        "not reached": (0.5, 3.0),
        "unequal": (3.0, 0.0),
        "printed": (3.03, half_unit("3.0")),
        "of zero": (3.0, 0.0),
        "count": (4, None),
    }


@pytest.mark.parametrize("bad", [NAN, INF, 2.0])
@pytest.mark.parametrize("first", [True, False])
def test_no_figure_that_holds_hides_one_that_misses(record: Evidence, bad: float, first: bool) -> None:
    for value in (bad, 0.99) if first else (0.99, bad):
        record.at_most("x", value, 1.0)
    assert only(record)["measured"] == to_plain(bad)
    with pytest.raises(ClaimFailed, match=f"x = {bad}; at most 1.0 is allowed"):
        record.verify()


def test_every_miss_has_a_line_and_one_hides_no_other(record: Evidence) -> None:
    record.at_most("a", 2, 1)
    record.at_least("b", 0.5, 0.75)
    record.printed("c", 0.2, "0.168")
    record.exactly("d", "forget", "forget", at="a place where it holds")
    record.exactly("d", "forget", "input", at="unit 3")
    record.equal("e", [0.0, 1.0], [0.0, 0.0])
    record.at_most("fine", 0.0, 1.0)
    with pytest.raises(ClaimFailed) as failed:
        record.verify()
    assert str(failed.value).splitlines() == [
        "a = 2; at most 1 is allowed",
        "b = 0.5; at least 0.75 is claimed",
        "c = 0.2; the document prints 0.168, give or take 0.0005",
        "d = forget at unit 3; input is claimed",
        "e = 1.0 at (1,); equality bit for bit is claimed",
    ]


def test_a_record_without_a_figure_shows_nothing(record: Evidence) -> None:
    record.curve("f", "s", [1], [2])
    with pytest.raises(NoEvidence):
        record.verify()


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.5), 0.5), (np.float64(NAN), "nan"), (-INF, "-inf"), (np.int64(3), 3), (np.bool_(True), True),
        (np.str_("σ"), "σ"), (None, None), (np.array(2.5), 2.5), (True, True),
    ],
)  # fmt: skip
def test_only_builtin_types_leave_a_record(value: Any, plain: Any) -> None:
    found = to_plain(value)
    assert found == plain
    assert type(found) in (bool, int, float, str, type(None))
