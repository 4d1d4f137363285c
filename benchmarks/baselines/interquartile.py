"""Interquartile means with bootstrap intervals over training seeds (Agarwal et al. 2021, "Deep Reinforcement Learning
at the Edge of the Statistical Precipice", the paper of rliable)."""

from __future__ import annotations

import numpy as np

from echelon.reports.run_groups import interquartile_mean

RESAMPLES, CONFIDENCE = 10_000, 0.95


def bootstrap(scores: np.ndarray) -> tuple[float, float, float]:
    """Return the interquartile mean over runs and opponents, and the ends of its 95 % percentile bootstrap interval.

    Runs are resampled with replacement, each with all of its opponents, because the scores of one policy are not
    independent. The paper resamples within each task, where each run belongs to one task.

    Args:
        scores: `[runs, opponents]`.
    """
    runs = len(scores)
    indices = np.random.default_rng(0).integers(runs, size=(RESAMPLES, runs))
    resampled = interquartile_mean(scores[indices].reshape(RESAMPLES, -1), axis=1)
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(interquartile_mean(scores.reshape(-1))), float(low), float(high)
