"""Game-theoretic analysis of a payoff matrix, which captures intransitive results that ratings cannot."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.league.ratings.glicko2 import RATING, SCALE

ITERATIONS = 20_000
PRIOR_GAMES = 0.5
"""Virtual drawn games per pair, which keep the strength of undefeated entries finite."""


def advantage(score: Tensor, games: Tensor) -> Tensor:
    """`[E, E]` float64 antisymmetric payoff in [-1, 1]; 0 for pairs without games.

    Args:
        score: `[E, E]` points of the row against the column.
        games: `[E, E]` games of each pair.
    """
    rate = torch.where(games > 0, score / games.clamp_min(1), 0.5).double()
    return rate - rate.T


def nash(payoff: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """`[E]` float64 Nash mixture of the symmetric zero-sum game with antisymmetric `payoff [E, E]`.

    Regret matching+ in self-play with linearly weighted averaging (Tammelin et al. 2015). `exploitability` measures the
    remaining error.
    """
    count = len(payoff)
    regret = torch.zeros(count, dtype=torch.float64)
    total = torch.zeros(count, dtype=torch.float64)
    for step in range(1, iterations + 1):
        positive = regret.sum()
        mixture = regret / positive if positive > 0 else torch.full_like(regret, 1 / count)
        total += step * mixture
        # In a symmetric game the value of a mixture against itself is 0.
        regret = (regret + payoff @ mixture).clamp_min(0)
    return total / total.sum()


def exploitability(payoff: Tensor, mixture: Tensor) -> float:
    """Gain of the best response against `mixture [E]`; 0 for a Nash mixture."""
    return float((payoff @ mixture).max())


def bradley_terry(score: Tensor, games: Tensor, iterations: int = 2000) -> Tensor:
    """`[E]` float64 maximum likelihood strengths of the Bradley-Terry model on the rating scale, mean 1500.

    Computed by the MM algorithm (Hunter 2004, eq. 3); a draw counts as half a win.

    Args:
        score: `[E, E]` points of the row against the column.
        games: `[E, E]` games of each pair.
        iterations: MM steps.
    """
    met = 1 - torch.eye(len(games), dtype=torch.float64)
    played = games.double() + PRIOR_GAMES * met
    won = (score.double() + PRIOR_GAMES / 2 * met).sum(1)
    strength = torch.ones(len(games), dtype=torch.float64)
    for _ in range(iterations):
        strength = won / (played / (strength[:, None] + strength[None, :])).sum(1)
        strength = strength / strength.log().mean().exp()
    return RATING + SCALE * strength.log()
