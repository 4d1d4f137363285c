"""The law of a policy's actions."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Independent, Normal
from torch.nn import functional as F

_NODES, _RAW_WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
_QUADRATURE = list(zip(_NODES.tolist(), (_RAW_WEIGHTS / math.sqrt(2 * math.pi)).tolist(), strict=True))
"""Gauss-Hermite nodes and weights of the standard normal law."""


class SquashedNormal(Independent):
    """The law of a = tanh(u) for u ~ Normal(loc, scale), described by u itself.

    TorchRL's `TanhNormal` scores a stored action by inverting the tanh, which fails where it saturates. Here a
    sample is u, so nothing is inverted.

    Args:
        loc, scale: `[..., D]`.
    """

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        super().__init__(Normal(loc, scale, validate_args=False), 1, validate_args=False)

    @property
    def deterministic_sample(self) -> Tensor:
        """`[..., D]` the mean of u."""
        return self.base_dist.loc

    def log_prob(self, value: Tensor) -> Tensor:
        """`[...]` log density of tanh(value): log N(u) - sum log(1 - tanh²u)."""
        return super().log_prob(value) - log_slope(value).sum(-1)

    def entropy(self) -> Tensor:
        """`[...]` entropy of tanh(u), as a mean over the D dimensions so that its weight does not depend on D.

        H[tanh u] = H[u] + E[log(1 - tanh²u)], the expectation by Gauss-Hermite quadrature.
        """
        loc, scale = self.base_dist.loc, self.base_dist.scale
        expected = torch.zeros_like(loc)
        for node, weight in _QUADRATURE:
            expected = expected + weight * log_slope(loc + scale * node)
        return (self.base_dist.entropy() + expected).mean(-1)


def log_slope(u: Tensor) -> Tensor:
    """log(d tanh(u) / du) = 2 (log 2 - u - softplus(-2u)), exact for large |u| too."""
    return 2 * (math.log(2) - u - F.softplus(-2 * u))
