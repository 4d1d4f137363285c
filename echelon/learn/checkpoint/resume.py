"""Whether a run may resume from a checkpoint, and the optimiser's state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from echelon.learn.checkpoint.format import LEARNER, Checkpoint
from echelon.learn.config import TrainConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import model_to_json
from echelon.rules.config_json import first_difference
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError
from echelon.runtime.tensor_files import check_tensors


def check_start(config: TrainConfig, extra_rewards: Mapping[str, float], start: Checkpoint) -> None:
    """Check that a checkpoint has the rules, the env and the network of a run.

    Args:
        extra_rewards: weight of each reward term of the user's own, by name.
    """
    ours, theirs = current_versions().rules, start.versions.rules
    if ours != theirs:
        hint = "play it as it is (arena.py play), or train a new run"
        raise ConfigError(f"--resume: rules_version must be {ours} to go on with a run, got {theirs}: {hint}")
    pairs = {
        "env": (config.env.signature(extra_rewards), start.env.signature(start.extra_rewards)),
        "model": (model_to_json(config.model), model_to_json(start.model)),
    }
    for name, (here, there) in pairs.items():
        difference = first_difference(here, there, name)
        if difference:
            raise ConfigError(f"--resume: {difference}, in the checkpoint: choose the flags it was trained with")


def optimizer_tensors(policy: ActorCritic, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as named tensors, `optimizer.<parameter>.<entry>`."""
    return {
        f"optimizer.{name}.{entry}": value
        for name, parameter in policy.named_parameters()
        for entry, value in optimizer.state[parameter].items()
    }


def restore_optimizer(policy: ActorCritic, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the state saved by `optimizer_tensors`, on each parameter's device.

    No tensors are a valid state: an optimiser has none before its first step.
    """
    if not tensors:
        return
    expected: dict[str, Tensor] = {}
    for name, parameter in policy.named_parameters():
        like = parameter.detach().cpu()
        expected |= {f"optimizer.{name}.{entry}": like for entry in ("exp_avg", "exp_avg_sq")}
        expected[f"optimizer.{name}.step"] = torch.zeros((), dtype=torch.float32, device="cpu")
    check_tensors(LEARNER, tensors, expected)
    for name, parameter in policy.named_parameters():
        prefix = f"optimizer.{name}."
        # Fused Adam keeps its step counter beside the parameter, wherever the checkpoint was written.
        optimizer.state[parameter] = {
            "step": tensors[f"{prefix}step"].to(parameter.device),
            "exp_avg": tensors[f"{prefix}exp_avg"].to(parameter.device),
            "exp_avg_sq": tensors[f"{prefix}exp_avg_sq"].to(parameter.device),
        }
