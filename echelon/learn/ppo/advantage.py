"""Generalised advantage estimation, with values in real units, and normalisation."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.objectives.value.functional import generalized_advantage_estimate

from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.catalog import Hull
from echelon.runtime.distributed import ALONE, Ranks

EPSILON = 1e-6


@torch.no_grad()
def estimate(
    batch: TensorDict,
    norm: ValueNorm,
    gamma: float,
    gae_lambda: float,
    hull: Tensor | None = None,
    ranks: Ranks = ALONE,
) -> dict[str, Tensor]:
    """Write `advantage` (standardised over living mechs) and `value_target` (normalised), `[T, G, A]`.

    Schulman et al. 2016, "High-dimensional continuous control using generalized advantage estimation". A truncated
    battle bootstraps from its final state, a terminated one does not.

    Args:
        batch: a rollout, see `TeamCollector`.
        hull: `[A]` class of each mech, to standardise advantages within each class; None for over all.
        ranks: processes whose rollouts, of equal size, are normalised together.

    Returns:
        Diagnostics: `explained_variance` of the targets by the values, `target_mean` and `target_std` in real units.
    """
    value = norm.denormalise(batch.get("value"))
    advantage, target = generalized_advantage(
        batch, value, norm.denormalise(batch.get(("next", "value"))), gamma, gae_lambda
    )
    norm.update(target, ranks)
    batch.set("advantage", standardise_by_class(advantage, batch.get("alive"), hull, ranks))
    batch.set("value_target", norm.normalise(target))
    variance = variance_of(target, ranks)
    return {
        "explained_variance": 1 - variance_of(target - value, ranks) / variance.clamp_min(EPSILON),
        "target_mean": ranks.mean(target.mean()),
        "target_std": variance.sqrt(),
    }


def generalized_advantage(
    batch: TensorDict, value: Tensor, next_value: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """Advantage and value target, `[T, G, A]` each, from values `[T, G, A]` in real units."""
    after, shape = batch.get("next"), value.shape
    flags = [after.get(name)[..., None].expand(shape) for name in ("done", "terminated")]
    parts = (value, next_value, after.get("reward"), *flags)
    advantage, target = generalized_advantage_estimate(
        gamma, gae_lambda, *(part.flatten(1)[..., None] for part in parts), time_dim=0
    )
    return advantage.view(shape), target.view(shape)


def standardise_by_class(advantage: Tensor, alive: Tensor, hull: Tensor | None, ranks: Ranks) -> Tensor:
    """`[T, G, A]` advantages standardised over living mechs, within each class `hull [A]` unless that is None."""
    if hull is None:
        return standardise(advantage, alive, ranks)
    scaled = torch.zeros_like(advantage)
    for kind in range(len(Hull)):
        member = hull == kind
        scaled = torch.where(member, standardise(advantage, alive & member, ranks), scaled)
    return scaled


def variance_of(value: Tensor, ranks: Ranks) -> Tensor:
    """`[]` variance over all entries of all processes."""
    return ranks.mean((value - ranks.mean(value.mean())).square().mean())


def standardise(value: Tensor, where: Tensor, ranks: Ranks = ALONE) -> Tensor:
    """Zero mean and unit deviation over the entries with `where`; the others are shifted and scaled alike."""
    weight = where.to(value.dtype)
    count = ranks.sum(weight.sum()).clamp_min(1)
    mean = ranks.sum((value * weight).sum()) / count
    deviation = (ranks.sum(((value - mean).square() * weight).sum()) / count).sqrt()
    return (value - mean) / (deviation + EPSILON)
