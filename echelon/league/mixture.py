"""The Nash mixture of a league's payoffs: the one of greatest entropy among all mixtures that no entry beats."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[np.float64]

RANK = 1e-9
"""Singular values up to this share of the largest one count as 0."""


def nash(payoff: Tensor) -> Tensor:
    """Return the mixture of greatest entropy among all Nash mixtures of a symmetric zero-sum game.

    The value of the game is 0, so a Nash mixture is an x with `payoff @ x <= 0`, `sum(x) = 1` and `x >= 0`. All such x
    form a convex set, on which the entropy has one maximum (Balduzzi et al. 2018, "Re-evaluating evaluation").
    Identical entries therefore have equal shares. If the Nash mixture is unique, adding a copy of an entry changes the
    share of no other entry. A strictly dominated entry has share 0.

    Args:
        payoff: antisymmetric matrix `[E, E]`, the advantage of the row entry over the column entry.

    Returns:
        The share of each entry, `[E]` float64; the shares sum to 1.
    """
    # Imported here, because importing scipy takes more than half a second.
    from scipy.linalg import null_space

    game = payoff.double().numpy()
    inside = interior_solution(game)
    support = inside > 0
    start = inside[support] / inside.sum()
    # All Nash mixtures of the support solve one linear system, so they differ from `start` by null-space vectors.
    even = np.vstack((game[np.ix_(support, support)], np.ones((1, len(start)))))
    free = null_space(even, rcond=RANK)
    shares = np.zeros(len(game))
    shares[support] = start if free.shape[1] == 0 else greatest_entropy(start, free, game[np.ix_(~support, support)])
    mixture = torch.from_numpy(shares).clamp_min(0)
    return mixture / mixture.sum()


def exploitability(payoff: Tensor, mixture: Tensor) -> float:
    """Return the gain of the best response to `mixture [E]`; 0 for a Nash mixture."""
    return float((payoff @ mixture).max())


def interior_solution(game: Array) -> Array:
    """Return a Nash mixture with the largest support, up to a positive factor.

    The multiples of Nash mixtures are the z >= 0 with `game @ z <= 0`. The z that maximizes the sum of min(z, 1) has z
    >= 1 for each entry that is in any Nash mixture, and z = 0 for each other entry.
    """
    from scipy.optimize import linprog

    count = len(game)
    one, zero = np.eye(count), np.zeros((count, count))
    below = np.block([[game, zero], [-one, one]])  # game @ z <= 0 and t <= z
    limits = [(0, None)] * count + [(0, 1)] * count
    solution = linprog(np.repeat((0.0, -1.0), count), below, np.zeros(2 * count), bounds=limits, method="highs")
    assert solution.status == 0, solution.message
    z: Array = np.where(solution.x[count:] > 0.5, solution.x[:count], 0.0)
    return z


def greatest_entropy(start: Array, free: Array, others: Array) -> Array:
    """Return the mixture of greatest entropy among the mixtures `start + free @ w` that no entry outside them beats.

    Args:
        start: a Nash mixture `[S]` whose shares are all positive.
        free: orthonormal directions `[S, F]` that leave all S entries of the support with equal payoffs.
        others: payoffs `[E - S, S]` of the entries outside the support against those in it.
    """
    from scipy.optimize import minimize

    rows = np.vstack((free, -others @ free))
    bounds = np.concatenate((start, -others @ start))
    tiny = np.finfo(np.float64).tiny

    def loss(w: Array) -> tuple[float, Array]:
        """Return the negative entropy of the mixture, and its gradient with respect to `w`."""
        x = np.maximum(start + free @ w, tiny)
        return float(x @ np.log(x)), free.T @ (np.log(x) + 1)

    # Constraint: each share, and the mixture's advantage over each other entry, is at least 0.
    constraint = {"type": "ineq", "fun": lambda w: bounds + rows @ w, "jac": lambda _: rows}
    options = {"ftol": 1e-15, "maxiter": 1000}
    found = minimize(loss, np.zeros(free.shape[1]), jac=True, method="SLSQP", constraints=[constraint], options=options)
    x: Array = start + free @ found.x
    return x
