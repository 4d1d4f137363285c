"""The weights that a run begins with: new ones, those of a trained policy, or those of the checkpoint it resumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from echelon.learn.checkpoint.format import Checkpoint
from echelon.learn.checkpoint.provenance import NOTHING, Provenance
from echelon.learn.checkpoint.resume import check_init, check_start
from echelon.learn.config import TrainConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.runtime.errors import require


class Beginning(NamedTuple):
    """What a run begins with."""

    policy: ActorCritic
    norm: ValueNorm
    """That of a trained policy comes with its weights: its critic predicts in the units of that normaliser."""
    met: Provenance
    """What the weights were trained against."""


def begin(
    config: TrainConfig,
    extra_rewards: Mapping[str, float],
    device: torch.device,
    start: Checkpoint | None,
    init: Checkpoint | None,
) -> Beginning:
    """Make what a run begins with; its optimiser has no state yet.

    Args:
        extra_rewards: weight of each reward term of the user's own, by name.
        start: the checkpoint that it resumes, which counts before `init`.
        init: the trained policy of `TrainConfig.init`.

    Raises:
        ConfigError: a checkpoint is of another network, or `start` of other rules or another environment.
    """
    # Draws as many random numbers whatever the run begins with.
    policy = config.model.build(PolicySpecs(config.env.comm_dim))
    source = init if start is None else start
    if source is None:
        require(config.init == "", "init", f"the checkpoint of {config.init}, which TrainConfig.init names", None)
        return Beginning(policy.to(device), ValueNorm().to(device), NOTHING)
    if start is None:
        check_init(config, source)
    else:
        check_start(config, extra_rewards, source)
    return Beginning(source.policy(device).train(), source.value_norm().to(device), source.provenance)
