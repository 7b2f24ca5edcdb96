"""The diagnosis of gradients that are clipped on their way, and of those that are too large or too small for it."""

from __future__ import annotations

import pytest

from fixtures import own_cell
from fixtures.diagnosis import diagnose
from tests.faults import backward, pulls
from tests.faults.base import HandGRU, HandLSTM, HandRNN


class CellPassedOnClipped(HandLSTM):
    def past(self, s, dc):
        return super().past(s, dc).clamp(-0.3, 0.3)


class StatePassedOnClipped(HandLSTM):
    def through_kernel(self, da, W_h, s):
        return super().through_kernel(da, W_h, s).clamp(-0.25, 0.25)


class ReachingStateClipped(HandGRU):
    def pulled(self, s, W_h, dh):
        return super().pulled(s, W_h, dh.clamp(-0.37, 0.37))


class PreActivationsClipped(HandRNN):
    def pulled(self, s, W_h, dh):
        da_x, da_h, carried = super().pulled(s, W_h, dh)
        return da_x.clamp(-0.2, 0.2), da_h.clamp(-0.2, 0.2), carried


class ClippedAndTruncated(backward.CellGradientClippedAtOne):
    def order(self, kept):
        return reversed(kept[-20:])


class ClippedAnew(HandRNN):
    """Clipped to another bound at each step, which no bound explains."""

    def pulled(self, s, W_h, dh):
        return super().pulled(s, W_h, dh.clamp(-0.1 * (s.t + 1), 0.1 * (s.t + 1)))


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (backward.CellGradientClippedAtOne, ["what is passed on to C clipped to ±1 at every step"]),
        (CellPassedOnClipped, ["what is passed on to C clipped to ±0.3 at every step"]),
        (StatePassedOnClipped, ["what is passed on to h clipped to ±0.25 at every step"]),
        (ReachingStateClipped, ["what reaches h clipped to ±0.37 at every step"]),
        (PreActivationsClipped, ["what reaches a pre-activation clipped to ±0.2 at every step"]),
        (ClippedAndTruncated, ["what is passed on to C clipped to ±1", "the last 20 steps alone pulled back"]),
        (backward.GradientsClippedAtTen, ["clipped to ±10"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_place_and_the_bound_are_named(cell, words):
    found = diagnose(own_cell.subject(cell.__name__, cell))
    assert all(word in found["sentence"] for word in words)
    assert found["explains"] < 1e-5


def test_a_bound_that_changes_is_given_no_name():
    found = diagnose(own_cell.subject("ClippedAnew", ClippedAnew))
    assert "clipped" not in found["sentence"]
    assert "no fault known here explains it" in found["sentence"]
    assert found["explains"] is None


@pytest.mark.parametrize(
    ("cell", "power"),
    [(pulls.GradientsUpToAMillion, 20), (backward.SmallGradientsFlushed, -20), (pulls.SmallestGradientsFlushed, -70)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_happens_to_large_and_to_small_gradients_alone_is_told(cell, power):
    found = diagnose(own_cell.subject(cell.__name__, cell))
    assert "its gradient does not grow and shrink with what arrives" in found["sentence"]
    assert found["departs"] == f"where a gradient 2^{power} times as large arrives"
