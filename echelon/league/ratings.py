"""Ratings of a league in float64, with Glicko-2 for a period and Bradley-Terry strengths from all games.

Glicko-2: the algorithm of Glickman 2012, 'Example of the Glicko-2 system'. No rating explains intransitive results; for
those see `cyclic_share`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

SCALE = 400 / math.log(10)
"""Rating points per unit of the internal Glicko-2 scale (173.7178)."""
RATING, DEVIATION, VOLATILITY = 1500.0, 350.0, 0.06
"""Initial values of an entry without games. The deviation never exceeds its initial value."""
TOLERANCE = 1e-9
"""Tolerance of the logarithm of the squared volatility (the paper uses 1e-6), and of strengths."""
MOST_STEPS = 200


class Ratings(NamedTuple):
    """Ratings of E entries, `[E]` float64 each."""

    rating: Tensor
    deviation: Tensor
    volatility: Tensor


class Games(NamedTuple):
    """Games of a period, `[G]` each: entry `x` played `y` and scored 1, 0.5 or 0."""

    x: Tensor
    y: Tensor
    score: Tensor


POINTS_OF_BLUE = (0.5, 1.0, 0.0)
"""Points of the blue entry, indexed by the `winner` of a match: draw, blue, red."""


def ratings_of(rows: Sequence[Sequence[float]]) -> Ratings:
    """Create ratings from one row per entry: rating, deviation and volatility."""
    return Ratings(*torch.tensor(rows, dtype=torch.float64, device="cpu").view(-1, 3).unbind(-1))


def games_of(matches: Sequence[tuple[str, str, int]], ids: Sequence[str]) -> Games:
    """Create games from matches (blue's id, red's id, winner); an entry's number is its position in `ids`."""
    index = {entry_id: number for number, entry_id in enumerate(ids)}
    pairs = [(index[blue], index[red]) for blue, red, _ in matches]
    blue, red = torch.tensor(pairs, dtype=torch.int64, device="cpu").view(-1, 2).unbind(-1)
    score = torch.tensor([POINTS_OF_BLUE[winner] for *_, winner in matches], dtype=torch.float64, device="cpu")
    return Games(blue, red, score)


def expected_score(mu: Tensor, mu_other: Tensor, phi_other: Tensor) -> tuple[Tensor, Tensor]:
    """Return the expected score E and the weight g(phi) of the opponent's deviation (step 3 of Glicko-2).

    All values are on Glicko-2's internal scale.
    """
    g = 1 / torch.sqrt(1 + 3 * phi_other**2 / math.pi**2)
    return torch.sigmoid(g * (mu - mu_other)), g


def rate(before: Ratings, games: Games, tau: float = 0.5) -> Ratings:
    """Return the ratings after a period, computed from the ratings before it (steps 2 to 8 of Glicko-2).

    The order of games changes the result only by rounding errors. For entries without games, the deviation grows, at
    most to `DEVIATION`.
    """
    mu, phi, sigma = (before.rating - RATING) / SCALE, before.deviation / SCALE, before.volatility
    # Each game counts once for each of its two entries.
    player, rival = torch.cat((games.x, games.y)), torch.cat((games.y, games.x))
    score = torch.cat((games.score, 1 - games.score)).double()
    expected, g = expected_score(mu[player], mu[rival], phi[rival])
    information = torch.zeros_like(mu).index_add(0, player, g**2 * expected * (1 - expected))
    surprise = torch.zeros_like(mu).index_add(0, player, g * (score - expected))
    played = torch.zeros_like(mu).index_add(0, player, torch.ones_like(score)) > 0
    v = 1 / torch.where(played, information, 1.0)
    sigma_after = torch.where(played, new_volatility(phi, sigma, v, v * surprise, tau), sigma)
    phi_before = torch.sqrt(phi**2 + sigma_after**2)
    phi_after = torch.where(played, 1 / torch.sqrt(1 / phi_before**2 + 1 / v), phi_before)
    mu_after = torch.where(played, mu + phi_after**2 * surprise, mu)
    deviation = (phi_after * SCALE).clamp_max(DEVIATION)
    return Ratings(mu_after * SCALE + RATING, deviation, sigma_after)


def rating_against(others: Ratings, games: Tensor, points: Tensor) -> tuple[float, float]:
    """Return the rating and deviation of a player from its games against opponents whose ratings are fixed.

    The rating is the maximum of the posterior, which is the prior (a normal distribution with `RATING` and `DEVIATION`)
    times Glicko's likelihood. The deviation is that of the normal distribution with the same curvature at the maximum.

    Args:
        others: ratings of O opponents.
        games, points: number of games against each opponent and points in them, `[O]` each; a draw gives 0.5 points.
    """
    mu, phi, prior = (others.rating - RATING) / SCALE, others.deviation / SCALE, (SCALE / DEVIATION) ** 2
    games, points = games.double(), points.double()

    def slope(strength: Tensor) -> Tensor:
        expected, g = expected_score(strength, mu, phi)
        return (g * (points - games * expected)).sum() - prior * strength

    # `slope` decreases and is zero between these limits, so use bisection; a Newton step could overshoot.
    high = games.sum() / prior
    low = -high
    for _ in range(MOST_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if bool(slope(middle) > 0) else (low, middle)
    expected, g = expected_score(low, mu, phi)
    information = (g**2 * games * expected * (1 - expected)).sum() + prior
    return float(RATING + SCALE * low), float(SCALE / information.sqrt())


def new_volatility(phi: Tensor, sigma: Tensor, v: Tensor, delta: Tensor, tau: float) -> Tensor:
    """Return the new volatility `[E]` (step 5 of Glicko-2): the root of f by the Illinois method."""
    a = torch.log(sigma**2)

    def f(x: Tensor) -> Tensor:
        e = torch.exp(x)
        return e * (delta**2 - phi**2 - v - e) / (2 * (phi**2 + v + e) ** 2) - (x - a) / tau**2

    surprised = delta**2 > phi**2 + v
    low = torch.where(surprised, torch.log((delta**2 - phi**2 - v).clamp_min(1e-300)), a - tau)
    for _ in range(MOST_STEPS):
        too_high = ~surprised & (f(low) < 0)
        if not bool(too_high.any()):
            break
        low = torch.where(too_high, low - tau, low)
    big, f_big, f_low = a, f(a), f(low)
    for _ in range(MOST_STEPS):
        if bool(((low - big).abs() <= TOLERANCE).all()):
            break
        slope = torch.where(f_low == f_big, 1.0, f_low - f_big)
        guess = big + (big - low) * f_big / slope
        f_guess = f(guess)
        crosses = f_guess * f_low <= 0
        big, f_big = torch.where(crosses, low, big), torch.where(crosses, f_low, f_big / 2)
        low, f_low = guess, f_guess
    return torch.exp(big / 2)


PRIOR_GAMES = 0.5
"""Virtual drawn games per pair, which keep the strength of undefeated entries finite."""
ROUNDING = 1e-13
"""Relative rounding error of a likelihood."""


def advantage(score: Tensor, games: Tensor) -> Tensor:
    """Return the antisymmetric payoff in [-1, 1], `[E, E]` float64: points per game minus the opponent's.

    The payoff is 0 for pairs without games.

    Args:
        score: points `[E, E]` of the row entry against the column entry.
        games: number of games `[E, E]` of each pair.
    """
    rate = torch.where(games > 0, score / games.clamp_min(1), 0.5).double()
    return rate - rate.T


def cyclic_share(score: Tensor, games: Tensor) -> tuple[float, float]:
    """Return the share (0..1) of the payoff's sum of squares that no rating explains, and its expected value by chance.

    A payoff is split into a transitive part (here the expected scores from Bradley-Terry strengths) and a cyclic rest,
    as in Balduzzi et al. 2018, "Re-evaluating evaluation", which uses mean log odds. The share due to chance is the
    expected size of the rest, for this number of games without draws, if only the strengths determined results.

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
    """Return the maximum likelihood strengths of the Bradley-Terry model, `[E]` float64, as ratings with mean 1500.

    The model is that of Bradley and Terry 1952, with `PRIOR_GAMES` additional drawn games for each pair. The
    log-likelihood is concave in the strengths. Newton's method halves each step that would lower the log-likelihood,
    and ends when no strength changes by more than `TOLERANCE`.

    Args:
        score: points `[E, E]` of the row entry against the column entry, 0.5 for a draw; the points of a pair add up to
            its number of games.
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
    """Return the log-likelihood `[]`, at most 0, of `strength [E]` for the row entries' `points [E, E]`."""
    return -(points * torch.nn.functional.softplus(strength[None, :] - strength[:, None])).sum()


def newton_step(strength: Tensor, points: Tensor) -> Tensor:
    """Return the Newton step `[E]` of `bradley_terry`; its mean is 0, because only differences of strengths matter."""
    loses = torch.sigmoid(strength[None, :] - strength[:, None])
    surprise = points * loses
    weight = (points + points.T) * loses * loses.T
    curvature = weight.sum(1).diag() - weight
    # The added constant makes the singular matrix invertible. It does not change the step: the gradient sums to 0.
    # With only one entry every weight is 0; the minimum `TOLERANCE` then keeps the matrix invertible.
    gradient = surprise.sum(1) - surprise.sum(0)
    return torch.linalg.solve(curvature + weight.mean().clamp_min(TOLERANCE), gradient)
