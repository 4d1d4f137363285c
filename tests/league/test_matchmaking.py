"""Who meets whom: the closed forms, degenerate payoffs, and newcomers (R24, R28)."""

import math
import random
from collections import Counter

import pytest

from echelon.league.config import LeagueConfig
from echelon.league.matchmaking import Opponent, chances, draw, preference

RATES, GAPS = [0.0, 0.25, 0.5, 0.9], [0.0, 100.0, -200.0, 400.0]
FORMS = {
    "hard": [1.0, 0.5625, 0.25, 0.01],
    "variance": [0.0, 0.1875, 0.25, 0.09],
    "bell": [1.0, math.exp(-1 / 8), math.exp(-1 / 2), math.exp(-2)],
    "uniform": [1.0, 1.0, 1.0, 1.0],
}
CHI2_999 = {1: 10.828, 2: 13.816, 3: 16.266}
"""Quantiles of chi-squared by degrees of freedom, 99.9 %."""


@pytest.mark.parametrize("weighting", FORMS)
def test_draws_follow_the_closed_form(weighting):
    expected = [w / sum(FORMS[weighting]) for w in FORMS[weighting]]
    shares = preference(weighting, RATES, GAPS)
    assert shares == pytest.approx(expected, abs=1e-12)
    chance, draws = random.Random(0), 20_000
    named = dict(zip("abcd", shares, strict=True))
    counts = Counter(draw(named, chance) for _ in range(draws))
    possible = [(counts[name], draws * p) for name, p in zip("abcd", expected, strict=True) if p > 0]
    assert sum(count for count, _ in possible) == draws
    statistic = sum((count - mean) ** 2 / mean for count, mean in possible)
    assert statistic < CHI2_999[len(possible) - 1]


@pytest.mark.parametrize("weighting", FORMS)
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_degenerate_payoffs_give_uniform(weighting, rate):
    assert preference(weighting, [rate] * 3, [10.0] * 3) == pytest.approx([1 / 3] * 3)


def test_somebody_far_from_all_still_meets_the_nearest():
    shares = preference("bell", [0.5, 0.5], [9000.0, 12000.0])
    assert shares == pytest.approx([1.0, 0.0])


def pool(*ratings: float) -> list[Opponent]:
    return [Opponent(str(number), rating, 10, 5.0) for number, rating in enumerate(ratings)]


def test_a_newcomer_meets_the_near_or_the_nearest_only():
    config = LeagueConfig(weighting="uniform")
    assert chances(pool(1400, 1500, 1710), 1500, 19, config) == pytest.approx({"0": 0.5, "1": 0.5})
    assert chances(pool(900, 1800, 2000), 1500, 0, config) == {"1": 1.0}
    assert len(chances(pool(900, 1800, 2000), 1500, 20, config)) == 3


def test_what_is_unknown_is_even():
    assert Opponent("x", 1500, 0, 0.0).win_rate == 0.5
    assert Opponent("x", 1500, 9, 9.0).win_rate == 0.95
