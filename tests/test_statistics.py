"""Claims about rates: how many seeds must agree, what that finds out, and when so few decide nothing."""

import pytest
from scipy.stats import binom

from fixtures import statistics
from fixtures.evidence import ClaimFailed, Evidence, Undecided


@pytest.mark.parametrize("n", [5, 10, 16, 34, 52])
@pytest.mark.parametrize("claimed", [0.8, 0.97, 0.99])
def test_a_true_claim_fails_less_than_once_in_a_thousand(n, claimed):
    design = statistics.design(n, claimed, at_least=True)
    assert design.false_failure == pytest.approx(binom.cdf(design.limit - 1, n, claimed))
    assert design.false_failure < 1e-3
    assert binom.cdf(design.limit, n, claimed) >= 1e-3, "one more success could have been asked for"


@pytest.mark.parametrize("n", [10, 16, 52])
def test_the_detected_rate_is_found_out_with_probability_099(n):
    design = statistics.design(n, 0.99, at_least=True)
    assert binom.cdf(design.limit - 1, n, design.detects) == pytest.approx(0.99)


def test_at_most_mirrors_at_least():
    low, high = statistics.design(16, 0.01, at_least=False), statistics.design(16, 0.99, at_least=True)
    assert (low.limit, low.detects) == (16 - high.limit, pytest.approx(1 - high.detects))
    assert low.holds(low.limit) and not low.holds(low.limit + 1)


def test_the_interval_is_clopper_and_pearsons():
    assert statistics.interval(0, 16) == pytest.approx((0.0, 0.2059), abs=1e-4)
    assert statistics.interval(14, 16) == pytest.approx((0.6165, 0.9845), abs=1e-4)


def test_a_rate_records_what_it_rests_on():
    evidence = Evidence()
    evidence.rate("solved", [True] * 15 + [False], at_least=0.99)
    evidence.verify()
    assert evidence.statistics is not None
    assert (evidence.statistics["successes"], evidence.statistics["seeds"]) == (15, 16)
    assert evidence.statistics["false_failure"] < 1e-3 and evidence.statistics["detects"] > 0.5
    assert evidence.figures[0]["measured"] == 15 / 16


def test_a_rate_that_is_too_low_refutes():
    evidence = Evidence()
    evidence.rate("solved", [True] * 7 + [False] * 3, at_least=0.99)
    with pytest.raises(ClaimFailed, match=r"share of seeds: solved = 0\.7"):
        evidence.verify()


def test_few_seeds_decide_nothing():
    with pytest.raises(Undecided, match="2 seeds cannot decide"):
        Evidence().rate("solved", [True, True], at_least=0.99)
    with pytest.raises(Undecided, match="16 seeds cannot be relied on"):
        Evidence().every("solved", [True] * 16, rate=0.87, most=16)


def test_one_seed_against_refutes_every_seed():
    evidence = Evidence()
    evidence.every("solved", [True] * 11 + [False], rate=0.87, most=52)
    with pytest.raises(ClaimFailed, match="seeds against: solved = 1"):
        evidence.verify()


def test_shown_figures_are_no_evidence():
    evidence = Evidence()
    evidence.shown("first step", 75, "50")
    with pytest.raises(Exception, match="no figure"):
        evidence.verify()
