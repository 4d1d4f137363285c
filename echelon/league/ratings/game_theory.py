"""What a payoff matrix says that one number a commander cannot: who beats whom in circles."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.league.ratings.glicko2 import RATING, SCALE

ITERATIONS = 20_000
PRIOR_GAMES = 0.5
"""Drawn games each pair is taken to have played, so that whoever never lost is not infinitely strong."""


def advantage(score: Tensor, games: Tensor) -> Tensor:
    """`[E, E]` antisymmetric payoff in [-1, 1] from the points `score` that the row took of the column in `games`.

    Pairs that never met are even.
    """
    rate = torch.where(games > 0, score / games.clamp_min(1), 0.5).double()
    return rate - rate.T


def nash(payoff: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """`[E]` a mixture that nobody beats, for an antisymmetric `payoff [E, E]`.

    Regret matching+ against itself with linearly weighted averaging (Tammelin et al. 2015); `exploitability` says how
    near it came.
    """
    count = len(payoff)
    regret = torch.zeros(count, dtype=torch.float64)
    total = torch.zeros(count, dtype=torch.float64)
    for step in range(1, iterations + 1):
        positive = regret.sum()
        mixture = regret / positive if positive > 0 else torch.full_like(regret, 1 / count)
        total += step * mixture
        # A symmetric game is worth 0 to a mixture against itself.
        regret = (regret + payoff @ mixture).clamp_min(0)
    return total / total.sum()


def exploitability(payoff: Tensor, mixture: Tensor) -> float:
    """What the best answer gains against `mixture [E]`: 0 for a Nash mixture."""
    return float((payoff @ mixture).max())


def bradley_terry(score: Tensor, games: Tensor, iterations: int = 2000) -> Tensor:
    """`[E]` the strengths under which all games together are likeliest, on the scale of the ratings, mean 1500.

    By minorisation and maximisation (Hunter 2004, eq. 3); draws count as half a win.

    Args:
        score: `[E, E]` points the row took of the column.
        games: `[E, E]` games of each pair.
    """
    met = 1 - torch.eye(len(games), dtype=torch.float64)
    played = games.double() + PRIOR_GAMES * met
    won = (score.double() + PRIOR_GAMES / 2 * met).sum(1)
    strength = torch.ones(len(games), dtype=torch.float64)
    for _ in range(iterations):
        strength = won / (played / (strength[:, None] + strength[None, :])).sum(1)
        strength = strength / strength.log().mean().exp()
    return RATING + SCALE * strength.log()
