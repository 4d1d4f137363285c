"""Whom somebody should meet: prioritised fictitious self-play (Vinyals et al. 2019, Methods, eq. 1)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from echelon.league.config import LeagueConfig, Weighting

Who = TypeVar("Who")
BELL_WIDTH = 200.0
"""Standard deviation of the bell, in points of rating."""


class Opponent(NamedTuple):
    """What matchmaking knows of somebody."""

    id: str
    rating: float
    games: int
    """Games they played against the one who asks."""
    score: float
    """Points the one who asks took of them in these games."""

    @property
    def win_rate(self) -> float:
        """x: the share of points taken of them, even where nothing is known (one drawn game is taken for granted)."""
        return (self.score + 0.5) / (self.games + 1)


def probabilities(weights: Sequence[float]) -> list[float]:
    """Weights as shares; uniform where all are zero."""
    total = sum(weights)
    return [w / total for w in weights] if total > 0 else [1 / len(weights)] * len(weights)


def preference(
    weighting: Weighting, win_rates: Sequence[float], gaps: Sequence[float], hardness: float = 2.0
) -> list[float]:
    """Chance of each opponent.

    Args:
        weighting: `hard` (1 - x)^p prefers whom one loses to, `variance` x (1 - x) equals, `bell` exp(-gap² / (2
            200²)) the near in rating, `uniform` nobody.
        win_rates: x, own share of the points against each.
        gaps: own rating less theirs.
        hardness: p.
    """
    match weighting:
        case "hard":
            return probabilities([(1 - x) ** hardness for x in win_rates])
        case "variance":
            return probabilities([x * (1 - x) for x in win_rates])
        case "bell":
            nearest = min(abs(gap) for gap in gaps)
            # Measured from the nearest: the same shares, and somebody far from all meets the nearest of them.
            return probabilities([math.exp((nearest**2 - gap**2) / (2 * BELL_WIDTH**2)) for gap in gaps])
        case "uniform":
            return probabilities([1.0] * len(win_rates))


def within_reach(pool: Sequence[Opponent], rating: float, games: int, config: LeagueConfig) -> list[Opponent]:
    """Those a newcomer of fewer than `cold_games` games may meet: within `cold_gap` points, or the nearest."""
    if games >= config.cold_games:
        return list(pool)
    near = [other for other in pool if abs(other.rating - rating) <= config.cold_gap]
    return near or [min(pool, key=lambda other: abs(other.rating - rating))]


def chances(pool: Sequence[Opponent], rating: float, games: int, config: LeagueConfig) -> dict[str, float]:
    """The chance of meeting each of a pool, for somebody of this rating who has played so many games."""
    reach = within_reach(pool, rating, games, config)
    rates, gaps = [other.win_rate for other in reach], [rating - other.rating for other in reach]
    shares = preference(config.weighting, rates, gaps, config.hardness)
    return {other.id: share for other, share in zip(reach, shares, strict=True)}


def draw(shares: dict[Who, float], chance: random.Random) -> Who:
    """One of them."""
    return chance.choices(list(shares), list(shares.values()))[0]
