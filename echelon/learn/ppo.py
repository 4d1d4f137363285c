"""The PPO update: epochs of minibatches of whole sequences."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.objectives import ClipPPOLoss

from echelon.learn.config import PPOConfig
from echelon.learn.policy import MechPolicy

REPORTED = ("loss_objective", "loss_critic", "loss_entropy", "entropy", "kl", "clip_fraction", "gradient_norm")
LEARNT_FROM = ("observation", "memory", "is_init", "alive", "pre_tanh", "log_prob", "advantage", "value_target")


class PPO:
    """Learns from rollouts of `MechPolicy` with TorchRL's clipped loss.

    Policy and entropy losses count the decisions that began alive; the value loss counts all, because a terminal
    reward reaches the dead through them alone. TorchRL's own mask would drop them from both.
    """

    def __init__(self, policy: MechPolicy, config: PPOConfig) -> None:
        self.policy = policy
        self.config = config
        self.loss = ClipPPOLoss(
            policy.actor,
            policy.critic,
            clip_epsilon=config.clip,
            entropy_coeff=1.0,
            critic_coeff=config.value_coef,
            loss_critic_type="l2",
            normalize_advantage=False,
            log_explained_variance=False,
            functional=False,
            reduction="none",
        )
        self.loss.set_keys(action="pre_tanh", sample_log_prob="log_prob", value="state_value")
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate, eps=1e-5)

    def anneal(self, progress: float) -> float:
        """Set and return the learning rate at `progress` 0..1 of the run."""
        first, last = self.config.learning_rate, self.config.final_learning_rate
        rate = first + (last - first) * min(progress, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def update(self, batch: TensorDict) -> dict[str, Tensor]:
        """Learn from one rollout with advantages, `[R, T]`. Returns the mean of each of `REPORTED`.

        The order of the minibatches comes from torch's own generator.
        """
        data = batch.select(*LEARNT_FROM)
        reports = []
        for _ in range(self.config.epochs):
            order = torch.randperm(len(data), device=data.device)
            reports += [self.learn(data[index]) for index in order.tensor_split(self.config.minibatches)]
        return {name: torch.stack([report[name] for report in reports]).mean() for name in REPORTED}

    def learn(self, minibatch: TensorDictBase) -> dict[str, Tensor]:
        """One gradient step on whole sequences `[S, T]`."""
        losses = self.masked_losses(minibatch)
        self.optimizer.zero_grad(set_to_none=True)
        (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.max_grad_norm)
        self.optimizer.step()
        return {**{name: value.detach() for name, value in losses.items()}, "gradient_norm": norm.detach()}

    def masked_losses(self, minibatch: TensorDictBase) -> dict[str, Tensor]:
        """Scalar losses and diagnostics of a minibatch `[S, T]`.

        `kl` and `clip_fraction` are TorchRL's own: they count the dead too.
        """
        each = self.loss(minibatch)
        alive = minibatch.get("alive")
        count = alive.sum().clamp_min(1)

        def over_living(per_decision: Tensor) -> Tensor:
            return torch.where(alive, per_decision.view_as(alive), 0.0).sum() / count

        entropy = -over_living(each["loss_entropy"])
        return {
            "loss_objective": over_living(each["loss_objective"]),
            "loss_entropy": -self.config.entropy_coef * entropy,
            "loss_critic": each["loss_critic"].mean(),
            "entropy": entropy,
            "kl": each["kl_approx"],
            "clip_fraction": each["clip_fraction"],
        }
