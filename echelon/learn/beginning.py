"""The weights that a run begins with: new ones, those of a trained policy, or those of the checkpoint it resumes."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from echelon.learn.checkpoint.format import Checkpoint
from echelon.learn.checkpoint.provenance import NOTHING, Provenance
from echelon.learn.checkpoint.resume import check_start, require_same
from echelon.learn.config import TrainConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import PolicySpecs, model_to_json
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.runtime.errors import require


def begin(
    config: TrainConfig,
    extra_rewards: Mapping[str, float],
    device: torch.device,
    start: Checkpoint | None,
    init: Checkpoint | None,
) -> tuple[ActorCritic, ValueNorm, Provenance]:
    """Make what a run begins with; its optimiser has no state yet.

    The normaliser of a trained policy comes with its weights, whose critic predicts in its units, and so does what they
    were trained against.

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
        return policy.to(device), ValueNorm().to(device), NOTHING
    if start is None:
        # Its battles may be others.
        require_same("--init", "comm_dim", config.env.comm_dim, source.claims["comm_dim"])
        require_same("--init", "model", model_to_json(config.model), model_to_json(source.model))
    else:
        check_start(config, extra_rewards, source)
    return source.policy(device).train(), source.value_norm().to(device), source.provenance
