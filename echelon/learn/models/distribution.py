"""Action distribution of the policy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from echelon.learn.loops import distribution as loops
from echelon.learn.loops.arithmetic import uses_loops
from echelon.rules.actions import Act
from echelon.rules.catalog import ECCM_TRIGGER

TRIGGERS = slice(int(Act.PRIMARY), int(Act.SPECIAL) + 1)
"""Action columns that the game reads as on above 0, else off: the triggers and the vent."""
EMITTER = int(Act.SECONDARY) - int(Act.PRIMARY)
"""The trigger with a third reading, above `ECCM_TRIGGER`, for hulls with emitters."""
EMITTER_EDGE = math.atanh(ECCM_TRIGGER)
SMALLEST = 1e-30
"""Lower clamp of probabilities before the logarithm."""
READINGS = loops.TriggerColumns(TRIGGERS.start, TRIGGERS.stop, int(Act.SECONDARY), EMITTER_EDGE, SMALLEST)
_NODES, _RAW_WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
_QUADRATURE = list(zip(_NODES.tolist(), (_RAW_WEIGHTS / math.sqrt(2 * math.pi)).tolist(), strict=True))
"""Gauss-Hermite nodes and weights of the standard normal distribution."""
QUADRATURE = np.array([pair for pair in _QUADRATURE if pair[0] > 0], np.float32)
"""`[4, 2]` positive nodes of `_QUADRATURE` with their weights; the negative half is symmetric."""


def uses_float32_loops(*values: Tensor) -> bool:
    """Return whether numba loops process these tensors, as in `uses_loops`, and all are float32."""
    return uses_loops(*values) and all(value.dtype == torch.float32 for value in values)


class SquashedNormal(Independent):
    """Distribution of a = tanh(u) for u ~ Normal(loc, scale), parametrised by u.

    TorchRL's `TanhNormal` computes the density of a stored action by inverting tanh, which fails where tanh saturates.
    In this class samples are u, so nothing is inverted. `log_prob` is the density of u: ratios of densities are equal
    for u and tanh(u), but in u they stay precise where tanh saturates, because the log slopes of tanh sum to hundreds
    there. The method `entropy` returns the entropy of tanh(u).
    Args:
        loc, scale: parameters of the normal distribution, `[..., D]` each.
    """

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        super().__init__(Normal(loc, scale, validate_args=False), 1, validate_args=False)

    @property
    def deterministic_sample(self) -> Tensor:
        """`[..., D]` mean of u."""
        return self.base_dist.loc

    def log_probs(self, value: Tensor) -> Tensor:
        """Return the log density of u per dimension, `[..., D]`."""
        return self.base_dist.log_prob(value)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the sum of `log_probs` over dimensions, `[...]`."""
        return self.log_probs(value).sum(-1)

    def entropies(self) -> Tensor:
        """Return the entropy of tanh(u) per dimension, `[..., D]`.

        The entropy is H[tanh u] = H[u] + E[log(1 - tanh²u)], where Gauss-Hermite quadrature computes the expectation.
        The error is below 0.001 for standard deviations up to 1, and 0.012 at 1.65.
        """
        normal = self.base_dist
        return normal.entropy() + ExpectedSlope.apply(normal.loc, normal.scale)[0]

    def entropy(self) -> Tensor:
        """Return the mean of `entropies`, `[...]`, so that the weight of the entropy term does not depend on D."""
        return self.entropies().mean(-1)


class ActionDistribution(SquashedNormal):
    """Distribution of a mech's action; its `D` columns are listed in `echelon.rules.actions.Act`.

    The game reads a trigger only as held or released, so `log_probs` of triggers are the log-probabilities of these
    readings: u <= 0, u > 0 and, for emitters, u > `EMITTER_EDGE`. The distance of u from a threshold has no effect; its
    density would add only noise to the policy gradient, without changing its mean (Eisenach et al. 2019, "Marginal
    Policy Gradients"; Fujita & Maeda 2018, "Clipped Action Policy Gradient"). The entropy of a trigger is the entropy
    of the two states held and released, at most log 2. All other columns are as in `SquashedNormal`.
    """

    def log_probs(self, value: Tensor) -> Tensor:
        """Return the log density of u, `[..., D]`; for triggers, the log-probability of the game's reading."""
        density = self.base_dist.log_prob(value)
        triggers = self._trigger_log_probs(value[..., TRIGGERS])
        return torch.cat((density[..., : TRIGGERS.start], triggers, density[..., TRIGGERS.stop :]), -1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the sum of `log_probs` over dimensions, `[...]`."""
        loc, scale = self.base_dist.loc, self.base_dist.scale
        if uses_float32_loops(loc, scale, value):
            return loops.LogProb.apply(loc, scale, value, READINGS)
        return super().log_prob(value)

    def _trigger_log_probs(self, value: Tensor) -> Tensor:
        """Return the log-probabilities of the game's readings of the columns `TRIGGERS`, `[..., 5]`."""
        loc, scale = self.base_dist.loc[..., TRIGGERS], self.base_dist.scale[..., TRIGGERS]
        is_held = value > 0
        log_prob = torch.special.log_ndtr(torch.where(is_held, loc, -loc) / scale)
        log_probs, edge = log_prob[..., EMITTER], (loc[..., EMITTER] - EMITTER_EDGE) / scale[..., EMITTER]
        # P(0 < u <= edge) = P(u > 0) - P(u > edge).
        between = (log_probs.exp() - torch.special.ndtr(edge)).clamp_min(SMALLEST).log()
        above = torch.where(value[..., EMITTER] > EMITTER_EDGE, torch.special.log_ndtr(edge), between)
        emitter = torch.where(is_held[..., EMITTER], above, log_probs)
        parts = log_prob[..., :EMITTER], emitter[..., None], log_prob[..., EMITTER + 1 :]
        return torch.cat(parts, -1)

    def entropies(self) -> Tensor:
        """Return the entropy of tanh(u) per column, `[..., D]`; for triggers, the entropy of the two states held and
        released.
        """
        if uses_float32_loops(self.base_dist.loc, self.base_dist.scale):
            return loops.Entropies.apply(self.base_dist.loc, self.base_dist.scale, READINGS, QUADRATURE)
        squashed = super().entropies()
        odds = self.base_dist.loc[..., TRIGGERS] / self.base_dist.scale[..., TRIGGERS]
        held, released = torch.special.log_ndtr(odds), torch.special.log_ndtr(-odds)
        triggers = -(held.exp() * held + released.exp() * released)
        return torch.cat((squashed[..., : TRIGGERS.start], triggers, squashed[..., TRIGGERS.stop :]), -1)


class ExpectedSlope(torch.autograd.Function):
    """E[log(1 - tanh²u)] for u = loc + scale * z, z ~ Normal(0, 1), by Gauss-Hermite quadrature.

    The derivatives with respect to loc and scale, E[-2 tanh u] and E[-2 z tanh u], use the same nodes. Autograd would
    save the terms of every node, which took longer than the LSTM on a CPU.
    """

    @staticmethod
    def forward(loc: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the expectation, and its derivatives with respect to loc and scale for the backward pass, `[..., D]`
        each.
        """
        expected, by_loc, by_scale = (torch.zeros_like(loc) for _ in range(3))
        for node, weight in _QUADRATURE:
            u = torch.add(loc, scale, alpha=node)
            logistic = torch.sigmoid(2 * u)
            # log(1 - tanh²u) = 2 (log 2 - |u| + log s(2|u|)) and tanh u = 2 s(2u) - 1 with the logistic function s.
            larger = torch.maximum(logistic, 1 - logistic).log_()
            expected.add_(larger.sub_(u.abs_()), alpha=2 * weight)
            squashed = logistic.mul_(2).sub_(1)
            by_loc.add_(squashed, alpha=-2 * weight)
            by_scale.add_(squashed, alpha=-2 * weight * node)
        return expected.add_(2 * math.log(2)), by_loc, by_scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Save the derivatives."""
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the gradients with respect to loc and scale."""
        by_loc, by_scale = ctx.saved_tensors
        return grad * by_loc, grad * by_scale
