"""Confidence intervals of win rates where each seed is played from both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z_95 = 1.959964
"""Quantile of the standard normal distribution for a 95 % interval."""


def win_rate_interval(shares: Sequence[float]) -> tuple[float, float]:
    """95 % confidence interval (low, high) of a mean win rate.

    Battles of one seed have the same ground and the same spawns, so that they are not independent, but seeds are: the
    sample is the share of its battles that was won on each seed. The adjusted Wald interval for paired data (Bonett
    and Price 2012): one seed that was won and one that was lost are added, then mean and deviation are those of
    the sample. With two independent battles a seed it is as wide as Wilson's interval over battles; where each side
    wins one battle of every seed, it shrinks with the number of seeds, not with its root.

    Args:
        shares: a number within 0 .. 1 for each seed.
    """
    sample = [*shares, 0.0, 1.0]
    mean = math.fsum(sample) / len(sample)
    variance = math.fsum((share - mean) ** 2 for share in sample) / len(sample)
    half = Z_95 * math.sqrt(variance / len(sample))
    return max(0.0, mean - half), min(1.0, mean + half)
