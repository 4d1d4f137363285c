"""Generalised advantage estimation with values in real units, and normalisation of its results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.objectives import value as estimators
from torchrl.objectives.value.functional import generalized_advantage_estimate

from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.padding import EXISTS, mean_of_existing, without_padding
from echelon.rules.catalog import Hull
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.errors import ConfigError
from echelon.runtime.version import version_of

EPSILON = 1e-6
TRAINS_WITH = "0.14"
"""First TorchRL version that supports training here."""
CAN_TRAIN = hasattr(estimators, "MultiAgentGAE")
# Older TorchRL versions lack MultiAgentGAE, but environments and evaluation import this module with them too.
MultiAgentGAE: Any = estimators.MultiAgentGAE if CAN_TRAIN else estimators.GAE


def check_torchrl() -> str:
    """Raise `ConfigError` if TorchRL is too old to train; else return the line that the command `doctor` prints."""
    if not CAN_TRAIN:
        hint = f"pip install 'torchrl>={TRAINS_WITH},<0.15'"
        raise ConfigError(f"training needs TorchRL {TRAINS_WITH} or later, got {version_of('torchrl')}: {hint}")
    return "TorchRL is recent enough for training"


class NormalizedGAE(MultiAgentGAE):
    """Computes the advantages and value targets of a rollout `[G, T]` from its stored values; targets in real and in
    normalised units.

    The method is that of Schulman et al. 2016, "High-dimensional continuous control using generalized advantage
    estimation", with TorchRL's recursion. A truncated battle bootstraps from its final state, a terminated one does
    not. Dead mechs are not masked, because the terminal reward must reach them.

    Reads `state_value` and `("next", "state_value")` in real units and `("next", "reward")`, `[G, T, A, 1]` each,
    `("next", "done")` and `("next", "terminated")` `[G, T, 1]`, and `mask [G, T, A]`. Writes `advantage` (standardised
    over living mechs), `value_target` (real units) and `value_target_normalized`, `[G, T, A, 1]` each, after updating
    the normaliser with the targets. If the batch has `exists [G, T, A]`, padding is excluded from all statistics, and
    its outputs are computed from zeros.

    Args:
        gamma: discount factor.
        lmbda: decay of the exponential average.
        normalizer: running moments of the targets; None for no normalisation.
        hull: class of each mech, `[A]` or `[G, A]`, to standardise advantages within each class; None to standardise
            over all mechs.
        ranks: processes whose rollouts, of equal size, are normalised together.
    """

    def __init__(
        self,
        *,
        gamma: float,
        lmbda: float,
        normalizer: ValueNorm | None = None,
        hull: Tensor | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        check_torchrl()
        with float32_by_default():
            super().__init__(gamma=gamma, lmbda=lmbda, value_network=None, device="cpu")
        self.discount, self.decay = gamma, lmbda
        self.normalizer, self.hull, self.ranks = normalizer, hull, ranks
        self.diagnostics: dict[str, Tensor] = {}
        """Diagnostics of the last call: `explained_variance` of the targets by the values, and `target_mean` and
        `target_std` in real units."""

    @torch.no_grad()
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write `advantage`, `value_target` and `value_target_normalized`."""
        exists, alive = tensordict.get(EXISTS, None), tensordict.get("mask")[..., None]
        value = tensordict.get(self.tensor_keys.value)
        # The GAE recursion treats each mech separately, so padded mechs can be removed after it.
        advantage, target, value = (without_padding(x, exists) for x in (*self.recursion(tensordict), value))
        advantage = standardise_by_class(advantage, alive, self.hull, self.ranks)
        normalized = target
        if self.normalizer is not None:
            self.normalizer.update(target, self.ranks, exists)
            normalized = self.normalizer.normalise(target)
        tensordict.set(self.tensor_keys.advantage, advantage)
        tensordict.set(self.tensor_keys.value_target, target).set("value_target_normalized", normalized)
        variance = variance_of(target, self.ranks, exists)
        unexplained = variance_of(target - value, self.ranks, exists)
        self.diagnostics = {
            "explained_variance": 1 - unexplained / variance.clamp_min(EPSILON),
            "target_mean": self.ranks.mean(mean_of_existing(target, exists)),
            "target_std": variance.sqrt(),
        }
        return tensordict

    def recursion(self, tensordict: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Return advantages and value targets in real units, `[G, T, A, 1]` each.

        The buffers `gamma` and `lmbda` of TorchRL's class are float32. A float32 product of these two buffers would
        change the last digits of most advantages, so Python computes the product.
        """
        next_tensordict, value = tensordict.get("next"), tensordict.get(self.tensor_keys.value)
        signals = (next_tensordict.get(key) for key in (self.tensor_keys.reward, self.tensor_keys.done, "terminated"))
        reward, done, terminated = self._prepare_signals(*signals, value)
        inputs = (value, next_tensordict.get(self.tensor_keys.value), reward, done, terminated)
        with float32_by_default():
            advantage, target = generalized_advantage_estimate(self.discount, self.decay, *inputs, time_dim=1)
        return advantage, target


@contextlib.contextmanager
def float32_by_default() -> Iterator[None]:
    """Set float32 as default dtype in a context, for TorchRL functions that multiply ints by an untyped fraction."""
    previous = torch.get_default_dtype()
    if previous == torch.float32:
        yield
        return
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(previous)


def standardise_by_class(advantage: Tensor, alive: Tensor, hull: Tensor | None, ranks: Ranks) -> Tensor:
    """Standardise advantages `[G, T, A, 1]` over living mechs, or within each class given `hull [A]` or `[G, A]`."""
    if hull is None:
        return standardise(advantage, alive, ranks)
    scaled = torch.zeros_like(advantage)
    for kind in range(len(Hull)):
        member = (hull if hull.dim() == 1 else hull[:, None])[..., None] == kind
        scaled = torch.where(member, standardise(advantage, alive & member, ranks), scaled)
    return scaled


def variance_of(value: Tensor, ranks: Ranks, exists: Tensor | None = None) -> Tensor:
    """Return the variance, as a scalar, over all entries of all processes, or only over existing mechs."""
    mean = ranks.mean(mean_of_existing(value, exists))
    return ranks.mean(mean_of_existing((value - mean).square(), exists))


def standardise(value: Tensor, where: Tensor, ranks: Ranks = ALONE) -> Tensor:
    """Scale `value` to zero mean and unit deviation over the entries in `where`; apply the same scale to all
    entries."""
    weight = where.to(value.dtype)
    count = ranks.sum(weight.sum()).clamp_min(1)
    mean = ranks.sum((value * weight).sum()) / count
    deviation = (ranks.sum(((value - mean).square() * weight).sum()) / count).sqrt()
    return (value - mean) / (deviation + EPSILON)
