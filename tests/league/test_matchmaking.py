"""Matchmaking: closed forms, degenerate payoffs, and new entries (R24, R28)."""

import math

import pytest

from echelon.league.config import LeagueConfig
from echelon.league.matchmaking import Opponent, chances, preference, rated_pairs
from echelon.league.records import Standing

RATES, GAPS = [0.0, 0.25, 0.5, 0.9], [0.0, 100.0, -200.0, 400.0]
FORMS = {
    "hard": [1.0, 0.5625, 0.25, 0.01],
    "variance": [0.0, 0.1875, 0.25, 0.09],
    "bell": [1.0, math.exp(-1 / 8), math.exp(-1 / 2), math.exp(-2)],
    "uniform": [1.0, 1.0, 1.0, 1.0],
}


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("weighting", FORMS)
def test_shares_follow_the_closed_form(weighting):
    expected = [w / sum(FORMS[weighting]) for w in FORMS[weighting]]
    assert preference(weighting, RATES, GAPS) == pytest.approx(expected, abs=1e-12)


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("weighting", FORMS)
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_degenerate_payoffs_give_uniform(weighting, rate):
    assert preference(weighting, [rate] * 3, [10.0] * 3) == pytest.approx([1 / 3] * 3)


def test_entry_far_from_all_plays_the_nearest():
    shares = preference("bell", [0.5, 0.5], [9000.0, 12000.0])
    assert shares == pytest.approx([1.0, 0.0])


def pool(*ratings: float) -> list[Opponent]:
    return [Opponent(str(number), rating, 10, 5.0) for number, rating in enumerate(ratings)]


@pytest.mark.requirement("R28")
def test_new_entry_plays_only_similar_or_nearest_ratings():
    config = LeagueConfig(weighting="uniform")
    assert chances(pool(1400, 1500, 1710), 1500, 19, config) == pytest.approx({"0": 0.5, "1": 0.5})
    assert chances(pool(900, 1800, 2000), 1500, 0, config) == {"1": 1.0}
    assert len(chances(pool(900, 1800, 2000), 1500, 20, config)) == 3


def paired(*stands: tuple[float, int]) -> set[tuple[int, ...]]:
    """Return the pairs of indices that may play, for these ratings and numbers of games."""
    rows = [
        Standing(str(n), str(n), "main", rating, 50.0, 0.06, games, 0.0) for n, (rating, games) in enumerate(stands)
    ]
    return {tuple(sorted(map(int, pair))) for pair in rated_pairs(rows, LeagueConfig())}


@pytest.mark.requirement("R28")
def test_rated_matches_of_a_newcomer_are_near_its_rating():
    assert paired((1100, 50), (1400, 50), (1900, 50), (1500, 19)) == {(0, 1), (0, 2), (1, 2), (1, 3)}
    assert paired((1100, 50), (1900, 50), (1500, 20)) == {(0, 1), (0, 2), (1, 2)}
    assert paired((900, 50), (1800, 50), (1500, 0)) == {(0, 1), (1, 2)}, "the nearest if no entry is near"
    assert paired((1000, 0), (1250, 0), (1350, 0)) == {(0, 1), (1, 2)}, "an entry without a pair plays its nearest"
    assert paired((1500, 0)) == set()


def test_newcomer_with_a_near_opponent_plays_no_far_one():
    assert paired((1500, 0), (1450, 200), (1920, 5)) == {(0, 1), (1, 2)}, "the far newcomer plays who has enough games"
    assert paired((1500, 0), (1450, 200), (1920, 5), (2300, 90)) == {(0, 1), (1, 3), (2, 3)}, "the nearest of these"


def test_unknown_win_rate_is_half():
    assert Opponent("x", 1500, 0, 0.0).win_rate == 0.5
    assert Opponent("x", 1500, 9, 9.0).win_rate == 0.95
