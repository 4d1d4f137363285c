"""Selection of opponents: prioritized fictitious self-play (PFSP; Vinyals et al. 2019, Methods, eq. 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from echelon.league.config import LeagueConfig, Weighting
from echelon.league.records import Standing

BELL_WIDTH = 200.0
"""Standard deviation of the `bell` weighting, in rating points."""


class Opponent(NamedTuple):
    """A potential opponent and the results of the learner against it."""

    id: str
    rating: float
    games: int
    """Number of games of the learner against it."""
    score: float
    """Points of the learner in these games: 1 for a win, 0.5 for a draw."""

    @property
    def win_rate(self) -> float:
        """x: points per game of the learner, smoothed by one drawn game, so 0.5 without games."""
        return (self.score + 0.5) / (self.games + 1)


def probabilities(weights: Sequence[float]) -> list[float]:
    """Normalize weights to sum 1; uniform if all are zero."""
    total = sum(weights)
    return [w / total for w in weights] if total > 0 else [1 / len(weights)] * len(weights)


def preference(
    weighting: Weighting, win_rates: Sequence[float], gaps: Sequence[float], hardness: float = 2.0
) -> list[float]:
    """Probability of each opponent.

    Args:
        weighting: `hard` (1 - x)^p prefers opponents one loses to, `variance` x (1 - x) prefers equal ones, `bell`
            exp(-gap² / (2 200²)) prefers a similar rating, `uniform` prefers none.
        hardness: exponent p of `hard`.
    """
    match weighting:
        case "hard":
            return probabilities([(1 - x) ** hardness for x in win_rates])
        case "variance":
            return probabilities([x * (1 - x) for x in win_rates])
        case "bell":
            nearest = min(abs(gap) for gap in gaps)
            # Relative to the smallest gap, so that the weights do not all underflow to 0.
            return probabilities([math.exp((nearest**2 - gap**2) / (2 * BELL_WIDTH**2)) for gap in gaps])
        case "uniform":
            return probabilities([1.0] * len(win_rates))


def within_reach(pool: Sequence[Opponent], rating: float, games: int, config: LeagueConfig) -> list[Opponent]:
    """Opponents allowed after `games` games.

    Below `cold_games` games those within `cold_gap` rating points, or else the nearest one; then all.
    """
    if games >= config.cold_games:
        return list(pool)
    near = [other for other in pool if abs(other.rating - rating) <= config.cold_gap]
    return near or [min(pool, key=lambda other: abs(other.rating - rating))]


def rated_pairs(stands: Sequence[Standing], config: LeagueConfig) -> set[frozenset[str]]:
    """Pairs of ids that may play rated matches: each is `within_reach` of the other.

    Who is within reach of nobody that is within its own, as among three newcomers 200 points apart, plays its nearest.
    """
    rivals = {one.id: [Opponent(o.id, o.rating, 0, 0.0) for o in stands if o.id != one.id] for one in stands}
    reach = {
        one.id: {other.id for other in within_reach(rivals[one.id], one.rating, one.games, config)}
        for one in stands
        if rivals[one.id]
    }
    pairs = {frozenset((x, y)) for x, near in reach.items() for y in near if x in reach[y]}
    alone = reach.keys() - frozenset().union(*pairs)
    return pairs | {frozenset((x, y)) for x in alone for y in reach[x]}


def chances(pool: Sequence[Opponent], rating: float, games: int, config: LeagueConfig) -> dict[str, float]:
    """Probability of each opponent, by id, for a learner with this rating and number of games."""
    reach = within_reach(pool, rating, games, config)
    rates, gaps = [other.win_rate for other in reach], [rating - other.rating for other in reach]
    shares = preference(config.weighting, rates, gaps, config.hardness)
    return {other.id: share for other, share in zip(reach, shares, strict=True)}
