"""Optimiser state as named tensors, for checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.learn.checkpoint.format import LEARNER
from echelon.learn.models.actor_critic import ActorCritic
from echelon.runtime.files import check_tensors


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

    Raises:
        FileError: names or shapes do not fit the policy.
    """
    if not tensors:
        return
    expected: dict[str, Tensor] = {}
    for name, parameter in policy.named_parameters():
        like = parameter.detach().cpu()
        expected |= {f"optimizer.{name}.{entry}": like for entry in ("exp_avg", "exp_avg_sq")}
        expected[f"optimizer.{name}.step"] = torch.zeros(())
    check_tensors(LEARNER, tensors, expected)
    for name, parameter in policy.named_parameters():
        prefix = f"optimizer.{name}."
        # Fused Adam keeps its step counter beside the parameter, wherever the checkpoint was written.
        optimizer.state[parameter] = {
            "step": tensors[f"{prefix}step"].to(parameter.device),
            "exp_avg": tensors[f"{prefix}exp_avg"].to(parameter.device),
            "exp_avg_sq": tensors[f"{prefix}exp_avg_sq"].to(parameter.device),
        }
