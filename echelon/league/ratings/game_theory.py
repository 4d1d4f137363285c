"""Game-theoretic analysis of a payoff matrix, which captures intransitive results that ratings cannot."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from echelon.league.ratings.glicko2 import RATING, SCALE

PRIOR_GAMES = 0.5
"""Virtual drawn games per pair, which keep the strength of undefeated entries finite."""
TOLERANCE = 1e-9
"""Tolerance of strengths, in units of `SCALE`."""
MOST_STEPS = 200
ROUNDING = 1e-13
"""Relative error of a likelihood."""


def advantage(score: Tensor, games: Tensor) -> Tensor:
    """`[E, E]` float64 antisymmetric payoff in [-1, 1]; 0 for pairs without games.

    Args:
        score: `[E, E]` points of the row against the column.
        games: `[E, E]` games of each pair.
    """
    rate = torch.where(games > 0, score / games.clamp_min(1), 0.5).double()
    return rate - rate.T


def nash(payoff: Tensor) -> Tensor:
    """`[E]` float64 Nash mixture of the symmetric zero-sum game with antisymmetric `payoff [E, E]`.

    The value of such a game is 0, so that the mixtures are the solutions of the linear programme `payoff @ x <= 0`,
    `sum(x) = 1`, `x >= 0`. Where there are several, one whose largest share is the smallest is chosen: entries that
    are even all along share equally.
    """
    # Takes more than half a second, which programs that solve no game need not spend.
    from scipy.optimize import linprog

    count = len(payoff)
    game, ones = payoff.double().numpy(), np.ones((count, 1))
    # The last variable is the largest share.
    below = np.block([[game, 0 * ones], [np.eye(count), -ones]])
    total = np.append(ones, 0.0)[None]
    solution = linprog(np.eye(count + 1)[-1], below, np.zeros(2 * count), total, [1.0], method="highs")
    assert solution.status == 0, solution.message
    mixture = torch.from_numpy(solution.x[:count]).clamp_min(0) + 0.0  # `+ 0.0` takes the sign off -0.0
    return mixture / mixture.sum()


def exploitability(payoff: Tensor, mixture: Tensor) -> float:
    """Gain of the best response against `mixture [E]`; 0 for a Nash mixture."""
    return float((payoff @ mixture).max())


def cyclic_share(score: Tensor, games: Tensor) -> tuple[float, float]:
    """Share of the payoff's sum of squares that no rating explains, 0..1, and how much of it chance alone would make.

    A payoff is split into a transitive part, here what Bradley-Terry strengths expect, and the rest, which is cyclic
    (Balduzzi et al. 2018, "Re-evaluating evaluation", there by mean log odds). Chance: as large a rest is expected of
    so few games, without draws, if the strengths were all that decides.

    Args:
        score, games: as in `advantage`.
    """
    strength, played = bradley_terry(score) / SCALE, games > 0
    transitive = torch.tanh((strength[:, None] - strength[None, :]) / 2)
    payoff = advantage(score, games)
    whole, pairs = float(payoff.square().sum()), float(played.sum()) / 2
    if whole == 0.0:
        return 0.0, 0.0
    rest = torch.where(played, payoff - transitive, 0.0).square().sum()
    noise = torch.where(played, (1 - transitive.square()) / games.clamp_min(1), 0.0).sum()
    return float(rest) / whole, float(noise) * max(0.0, 1 - (len(score) - 1) / pairs) / whole


def bradley_terry(score: Tensor) -> Tensor:
    """`[E]` float64 maximum likelihood strengths of the Bradley-Terry model on the rating scale, mean 1500.

    Bradley and Terry 1952, with `PRIOR_GAMES` drawn games for each pair. The likelihood is concave in the strengths:
    Newton's method, with steps halved until they do not lower it, ends where no strength changes by `TOLERANCE`.

    Args:
        score: `[E, E]` points of the row against the column; those of a pair add up to its games, a draw is half a win.
    """
    points = score.double() + PRIOR_GAMES / 2 * (1 - torch.eye(len(score), dtype=torch.float64, device="cpu"))
    strength = torch.zeros(len(score), dtype=torch.float64, device="cpu")
    for _ in range(MOST_STEPS):
        step = newton_step(strength, points)
        if bool((step.abs() <= TOLERANCE).all()):
            break
        least = log_likelihood(strength, points) * (1 + ROUNDING)
        while log_likelihood(strength + step, points) < least:
            step = step / 2
        strength = strength + step
    return RATING + SCALE * strength


def log_likelihood(strength: Tensor, points: Tensor) -> Tensor:
    """`[]` of `strength [E]`, given the points `[E, E]` of the row against the column; at most 0."""
    return -(points * torch.nn.functional.softplus(strength[None, :] - strength[:, None])).sum()


def newton_step(strength: Tensor, points: Tensor) -> Tensor:
    """`[E]` Newton step of `bradley_terry`, of mean 0: the likelihood does not depend on the mean strength."""
    loses = torch.sigmoid(strength[None, :] - strength[:, None])
    surprise = points * loses
    weight = (points + points.T) * loses * loses.T
    curvature = weight.sum(1).diag() - weight
    # All ones are its null space, and have no part in the gradient. The weight of a single entry is 0.
    gradient = surprise.sum(1) - surprise.sum(0)
    return torch.linalg.solve(curvature + weight.mean().clamp_min(TOLERANCE), gradient)
