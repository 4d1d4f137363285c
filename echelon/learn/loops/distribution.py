"""Action distribution on a CPU: one loop computes log-probabilities and their derivatives, another loop computes
entropies and their derivatives.

The dense form in `echelon.learn.models.distribution` defines the results, but takes about eighty tensor operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from echelon.learn.loops.arithmetic import ONE, TWO, ZERO, array, compiled, exponential, logarithm, polynomial
from echelon.runtime import jit

TILE = 416
"""Number of elements per tile, so that the entropies of a tile fit into the caches."""
HALF, SQRT_HALF = np.float32(0.5), np.float32(math.sqrt(0.5))
LOG_SQRT_2_PI, PER_SQRT_2_PI = np.float32(math.log(2 * math.pi) / 2), np.float32(1 / math.sqrt(2 * math.pi))
ENTROPY_OF_ONE, LOG_4 = np.float32(0.5 + math.log(2 * math.pi) / 2), np.float32(2 * math.log(2))
ERFC = tuple(
    np.float32(c)
    for c in (
        *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
        *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
    )
)
"""Coefficients of log(erfc(a) / t) + a^2 in powers of t = 1 / (1 + a / 2), highest power first (Press et al. 1992,
"Numerical Recipes", `erfcc`): relative error of erfc 1.2e-7."""


@jit.device_function
def log_tails(x: Any) -> Any:
    """Compute log Φ(x), log Φ(-x) and φ(x) / Φ(x) of a float32 for the standard normal CDF Φ and density φ."""
    a = abs(x) * SQRT_HALF
    t = ONE / (ONE + HALF * a)
    p = polynomial(ERFC, t)
    # Compute the logarithm of the tail probability beyond |x|, which is accurate even for very small tails.
    log_tail = logarithm(HALF * t) + p - a * a
    rest = ONE - exponential(log_tail)
    log_rest = logarithm(rest)
    of_tail, of_rest = PER_SQRT_2_PI * exponential(-p) / (HALF * t), PER_SQRT_2_PI * exponential(-a * a) / rest
    if x < ZERO:
        return log_tail, log_rest, of_tail
    return log_rest, log_tail, of_rest


@compiled
def log_prob_all(
    loc: Any, scale: Any, value: Any, first: int, after: int, emitter: int, edge: Any, least: Any, terms: Any, to: Any
) -> None:
    """Write the log-probability of each row of `value [N, D]` and its derivatives with respect to loc and scale.

    Args:
        loc, scale: parameters of the normal distribution of u, `[N, D]` each.
        first, after: bounds of the range of trigger columns, of which the game reads only whether u > 0.
        emitter: column of the trigger that has a third reading, u > `edge`.
        edge: lower bound of u for the third reading.
        least: lower clamp of the middle reading's probability before its logarithm.
        terms: scratch memory `[D]`.
        to: output arrays for the log-probability `[N]` and its two derivatives, `[N, D]` each.
    """
    total, by_loc, by_scale = to
    for n in range(len(total)):
        for d in range(len(terms)):
            per = ONE / scale[n, d]
            z = (value[n, d] - loc[n, d]) * per
            terms[d] = -HALF * z * z - logarithm(scale[n, d]) - LOG_SQRT_2_PI
            by_loc[n, d] = z * per
        for d in range(len(terms)):
            per = ONE / scale[n, d]
            z = (value[n, d] - loc[n, d]) * per
            by_scale[n, d] = (z * z - ONE) * per
        for d in range(first, after):
            sign = ONE if value[n, d] > ZERO else -ONE
            per = ONE / scale[n, d]
            x = sign * loc[n, d] * per
            log_read, _, ratio = log_tails(x)
            terms[d] = log_read
            by_loc[n, d] = sign * ratio * per
            by_scale[n, d] = -x * ratio * per
        if value[n, emitter] > ZERO:
            per = ONE / scale[n, emitter]
            beyond = (loc[n, emitter] - edge) * per
            log_beyond, _, ratio = log_tails(beyond)
            if value[n, emitter] > edge:
                terms[emitter] = log_beyond
                by_loc[n, emitter], by_scale[n, emitter] = ratio * per, -beyond * ratio * per
            else:
                # P(0 < u <= edge) = P(u > 0) - P(u > edge).
                held, above = exponential(terms[emitter]), exponential(log_beyond)
                between = max(held - above, least)
                per_between = ONE / between if held - above >= least else ZERO
                terms[emitter] = np.float32(math.log(between))
                slope = above * ratio * per * per_between
                share = held * per_between
                by_loc[n, emitter] = share * by_loc[n, emitter] - slope
                by_scale[n, emitter] = share * by_scale[n, emitter] + beyond * slope
        total[n] = ZERO
        for d in range(len(terms)):
            total[n] += terms[d]


@compiled
def entropies_all(
    loc: Any, scale: Any, first: int, after: int, nodes: Any, weights: Any, decayed: Any, to: Any
) -> None:
    """Write the entropy of each column and its derivatives with respect to loc and scale.

    Args:
        loc, scale: parameters of the normal distribution of u, `[N, D]` each.
        first, after: bounds of the range of trigger columns; their entropy is that of the two states held and released.
        nodes, weights: positive half of the quadrature; the negative half is symmetric.
        decayed: scratch memory `[2, K]` for K elements at a time.
        to: output arrays for the entropy and its two derivatives, `[N, D]` each.
    """
    entropy, by_loc, by_scale = to[0].reshape(-1), to[1].reshape(-1), to[2].reshape(-1)
    locs, scales, e_up, e_down = loc.reshape(-1), scale.reshape(-1), decayed[0], decayed[1]
    for start in range(0, len(locs), len(e_up)):
        m, s = locs[start : start + len(e_up)], scales[start : start + len(e_up)]
        out, to_loc = entropy[start : start + len(e_up)], by_loc[start : start + len(e_up)]
        to_scale = by_scale[start : start + len(e_up)]
        # Each loop writes one array, because LLVM vectorises only such loops.
        for i in range(len(m)):
            out[i] = ENTROPY_OF_ONE + LOG_4 + logarithm(s[i])
        for i in range(len(m)):
            to_loc[i] = ZERO
        for i in range(len(m)):
            to_scale[i] = ONE / s[i]
        for k in range(len(nodes)):
            node, weight = nodes[k], TWO * weights[k]
            for i in range(len(m)):
                e_up[i] = exponential(-TWO * abs(m[i] + node * s[i]))
            for i in range(len(m)):
                e_down[i] = exponential(-TWO * abs(m[i] - node * s[i]))
            # log(1 - tanh²u) = 2 (log 2 - |u| - log(1 + e)) and tanh |u| = (1 - e) / (1 + e) with e = e^(-2 |u|).
            for i in range(len(m)):
                distance = abs(m[i] + node * s[i]) + abs(m[i] - node * s[i])
                out[i] -= weight * (distance + logarithm((ONE + e_up[i]) * (ONE + e_down[i])))
            for i in range(len(m)):
                per = weight / ((ONE + e_up[i]) * (ONE + e_down[i]))
                tanh_up = math.copysign((ONE - e_up[i]) * (ONE + e_down[i]) * per, m[i] + node * s[i])
                tanh_down = math.copysign((ONE - e_down[i]) * (ONE + e_up[i]) * per, m[i] - node * s[i])
                to_loc[i] -= tanh_up + tanh_down
            for i in range(len(m)):
                per = weight / ((ONE + e_up[i]) * (ONE + e_down[i]))
                tanh_up = math.copysign((ONE - e_up[i]) * (ONE + e_down[i]) * per, m[i] + node * s[i])
                tanh_down = math.copysign((ONE - e_down[i]) * (ONE + e_up[i]) * per, m[i] - node * s[i])
                to_scale[i] -= node * (tanh_up - tanh_down)
    for n in range(len(loc)):
        for d in range(first, after):
            per = ONE / scale[n, d]
            x = loc[n, d] * per
            log_held, log_released, ratio = log_tails(x)
            held, released = exponential(log_held), exponential(log_released)
            to[0][n, d] = -(held * log_held + released * log_released)
            slope = ratio * held * (log_released - log_held) * per
            to[1][n, d], to[2][n, d] = slope, -x * slope


class TriggerColumns(NamedTuple):
    """The columns of an action that are triggers, and how the game reads them."""

    first: int
    """First trigger column."""
    after: int
    """First column after the triggers."""
    emitter: int
    """The trigger with a third reading."""
    edge: float
    """Lower bound of u for the third reading."""
    least: float
    """Lower clamp of probabilities before the logarithm."""


def rows_of(values: Sequence[Tensor]) -> tuple[list[int], list[Tensor]]:
    """Return the memory order of the batch dimensions of `values[0]`, and all `values [..., D]` as contiguous `[N, D]`
    in that order. A tensor that already has this layout is not copied.
    """
    strides = values[0].stride()[:-1]
    order = sorted(range(len(strides)), key=lambda dim: -strides[dim])
    return order, [leaf.detach().permute(*order, -1).reshape(-1, leaf.shape[-1]).contiguous() for leaf in values]


def shaped(rows: Tensor, order: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Undo `rows_of`: return `rows [N, ...]` as `[*shape, ...]`, given the memory order `order` of the dimensions."""
    whole = rows.view((*(shape[dim] for dim in order), *rows.shape[1:]))
    back = sorted(range(len(order)), key=lambda dim: order[dim])
    return whole.permute((*back, *range(len(order), whole.dim())))


class LogProb(torch.autograd.Function):
    """`ActionDistribution.log_prob` for float32 on a CPU."""

    @staticmethod
    def forward(ctx: Any, loc: Tensor, scale: Tensor, value: Tensor, triggers: TriggerColumns) -> Tensor:
        """Return the log-probabilities `[...]`; every input tensor is `[..., D]`."""
        order, rows = rows_of((loc, scale, value))
        total, by_loc, by_scale = rows[0].new_empty(len(rows[0])), torch.empty_like(rows[0]), torch.empty_like(rows[0])
        edge, least = np.float32(triggers.edge), np.float32(triggers.least)
        terms, written = np.empty(loc.shape[-1], np.float32), tuple(map(array, (total, by_loc, by_scale)))
        log_prob_all(*map(array, rows), triggers.first, triggers.after, triggers.emitter, edge, least, terms, written)
        ctx.save_for_backward(*(shaped(slope, order, loc.shape[:-1]) for slope in (by_loc, by_scale)))
        return shaped(total, order, loc.shape[:-1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Return the gradients with respect to loc and scale."""
        by_loc, by_scale = ctx.saved_tensors
        return by_loc * grad[..., None], by_scale * grad[..., None], None, None


class Entropies(torch.autograd.Function):
    """`ActionDistribution.entropies` for float32 on a CPU."""

    @staticmethod
    def forward(ctx: Any, loc: Tensor, scale: Tensor, triggers: TriggerColumns, quadrature: np.ndarray) -> Tensor:
        """Return the entropies `[..., D]` for loc and scale `[..., D]`; `quadrature [K, 2]` holds nodes and weights."""
        order, rows = rows_of((loc, scale))
        found = [torch.empty_like(rows[0]) for _ in range(3)]
        nodes, weights = quadrature.T.copy()
        read, scratch = map(array, rows), np.empty((2, TILE), np.float32)
        entropies_all(*read, triggers.first, triggers.after, nodes, weights, scratch, tuple(map(array, found)))
        entropy, *slopes = (shaped(leaf, order, loc.shape[:-1]) for leaf in found)
        ctx.save_for_backward(*slopes)
        return entropy

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Return the gradients with respect to loc and scale."""
        by_loc, by_scale = ctx.saved_tensors
        return by_loc * grad, by_scale * grad, None, None
