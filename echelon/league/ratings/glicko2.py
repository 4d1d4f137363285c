"""Glicko-2 ratings (Glickman 2012, 'Example of the Glicko-2 system'), all entries of a period at once, in float64."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

SCALE = 400 / math.log(10)
"""Rating points per unit of the internal Glicko-2 scale (173.7178)."""
RATING, DEVIATION, VOLATILITY = 1500.0, 350.0, 0.06
"""Initial values of an entry without games. The deviation never exceeds its initial value."""
TOLERANCE = 1e-9
"""Tolerance of the logarithm of the squared volatility; the paper uses 1e-6."""
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


def expected_score(mu: Tensor, mu_other: Tensor, phi_other: Tensor) -> tuple[Tensor, Tensor]:
    """Expected score E and the weight g(phi) of the opponent's deviation (step 3), on the internal scale."""
    g = 1 / torch.sqrt(1 + 3 * phi_other**2 / math.pi**2)
    return torch.sigmoid(g * (mu - mu_other)), g


def rate(before: Ratings, games: Games, tau: float = 0.5) -> Ratings:
    """Ratings after a period, all computed from the ratings before it (steps 2 to 8).

    The order of games matters only up to rounding. The deviation of entries without games grows, up to `DEVIATION`.
    """
    mu, phi, sigma = (before.rating - RATING) / SCALE, before.deviation / SCALE, before.volatility
    # Each game counts for both sides.
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


def new_volatility(phi: Tensor, sigma: Tensor, v: Tensor, delta: Tensor, tau: float) -> Tensor:
    """`[E]` new volatility (step 5): the root of f by the Illinois method, vectorized over entries."""
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
