"""PPO objective: clipped surrogate, value error and entropy bonus (Schulman et al. 2017)."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from echelon.env.observation.layout import STREAMS
from echelon.learn.config import PPOConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.distribution import SquashedNormal
from echelon.rules.actions import CONTROLS, Act

HEADS = {
    "move": (Act.FORWARD, Act.STRAFE, Act.VERTICAL),
    "turn": (Act.YAW_RATE,),
    "fire": (Act.PRIMARY, Act.SECONDARY, Act.TERTIARY, Act.SPECIAL),
    "vent": (Act.VENT,),
    "prefer": tuple(range(Act.PREFER_0, Act.PREFER_4 + 1)),
    "sort": tuple(range(Act.PREFER_4 + 1, CONTROLS)),
}
"""Action columns by purpose; all further columns are the message."""
LOSSES = ("loss_policy", "loss_value", "loss_entropy")
DIAGNOSTICS = ("kl", "clip_fraction", "entropy", *(f"entropy_{head}" for head in (*HEADS, "message")))


def losses(
    policy: ActorCritic,
    data: TensorDictBase,
    config: PPOConfig,
    entropy_coef: Tensor,
    living: Tensor,
    decisions: int,
) -> dict[str, Tensor]:
    """Scalar `LOSSES`, whose sum is minimised, and detached `DIAGNOSTICS` of whole sequences.

    Policy and entropy terms average over mechs that were alive at the decision; the value term averages over all,
    because terminal rewards reach dead mechs through it alone (R37). TorchRL's `ClipPPOLoss` has one mask for both,
    reports one entropy for all columns, and includes dead mechs in its diagnostics; without dead mechs both agree.

    Args:
        data: sequences `[L, S]` of teams of A mechs, as `PPO` gathers them.
        entropy_coef: `[]` weight of the entropy.
        living, decisions: number of decisions of living mechs and of all mechs in the minibatch, which is more than
            `data` with gradient accumulation or several processes.
    """
    distribution, value = evaluate_actions(policy, data, config.checkpoint_gradients)
    alive = data.get("alive")

    def mean_of_living(per_decision: Tensor) -> Tensor:
        mask = alive.view(*alive.shape, *[1] * (per_decision.dim() - alive.dim()))
        return torch.where(mask, per_decision, 0.0).sum((0, 1, 2)) / living

    log_ratio = distribution.pre_tanh_log_prob(data.get("pre_tanh")) - data.get("log_prob")
    ratio = log_ratio.exp()
    advantage = data.get("advantage")
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    entropies = mean_of_living(distribution.entropies())
    return {
        "loss_policy": -mean_of_living(torch.minimum(ratio * advantage, clipped * advantage)),
        "loss_value": config.value_coef * value_error(value, data, config.value_clip).sum() / decisions,
        "loss_entropy": -entropy_coef * entropies.mean(),
        # Schulman 2020, "Approximating KL divergence": unbiased and never negative.
        "kl": mean_of_living((ratio - 1 - log_ratio).detach()),
        "clip_fraction": mean_of_living(((ratio - 1).abs() > config.clip).float()),
        **entropy_report(entropies.detach()),
    }


def evaluate_actions(
    policy: ActorCritic, data: TensorDictBase, checkpoint_gradients: bool
) -> tuple[SquashedNormal, Tensor]:
    """Action distribution `[L, S, A, D]` and values `[L, S, A]` of whole sequences under the current policy."""
    embed = policy.network.unroll(
        tuple(data.get(("observation", name)) for name in STREAMS),
        data.get("telemetry"),
        data.get(("memory", "h"))[0],
        data.get(("memory", "c"))[0],
        (~data.get("is_init")).float(),
        checkpoint_gradients,
    )
    distribution = SquashedNormal(*policy.network.head(embed))
    return distribution, policy.critic(embed, data.get(("observation", "ego")), data.get("enemy", None))


def entropy_report(entropies: Tensor) -> dict[str, Tensor]:
    """Mean entropy of all columns of the action, of each of `HEADS`, and of the message, from `entropies [D]`."""
    message = entropies[CONTROLS:]
    return {
        "entropy": entropies.mean(),
        **{f"entropy_{name}": entropies[list(columns)].mean() for name, columns in HEADS.items()},
        "entropy_message": message.mean() if len(message) > 0 else entropies.new_zeros(()),
    }


def value_error(value: Tensor, data: TensorDictBase, clip: float) -> Tensor:
    """`[L, S, A]` squared error; with `clip > 0` the maximum of it and that of the value clipped to the old one."""
    target = data.get("value_target")
    error = (value - target).square()
    if clip > 0:
        old = data.get("value")
        clipped = old + (value - old).clamp(-clip, clip)
        error = torch.maximum(error, (clipped - target).square())
    return error


class RecurrentPPOLoss(nn.Module):
    """`losses` as a module, to be wrapped in `DistributedDataParallel`."""

    def __init__(self, policy: ActorCritic, config: PPOConfig) -> None:
        super().__init__()
        self.policy = policy
        self.config = config

    def forward(self, data: TensorDictBase, entropy_coef: Tensor, living: Tensor, decisions: int) -> dict[str, Tensor]:
        """See `losses`."""
        return losses(self.policy, data, self.config, entropy_coef, living, decisions)
