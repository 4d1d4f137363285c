"""PPO objective: clipped surrogate, value error and entropy bonus (Schulman et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from tensordict.utils import NestedKey, expand_as_right
from torch import Tensor
from torchrl.objectives import LossModule

from echelon.learn.config import PPOConfig
from echelon.learn.models.keys import IS_INIT, TELEMETRY
from echelon.learn.models.operators import PolicyOperator, ValueHead
from echelon.learn.padding import EXISTS, without_padding
from echelon.rules.actions import CONTROLS, Act

HEADS: dict[str, tuple[int, ...]] = {
    "move": (int(Act.FORWARD), int(Act.STRAFE), int(Act.VERTICAL)),
    "turn": (int(Act.YAW_RATE),),
    "fire": (int(Act.PRIMARY), int(Act.SECONDARY), int(Act.TERTIARY), int(Act.SPECIAL)),
    "vent": (int(Act.VENT),),
    "prefer": tuple(range(Act.PREFER_0, Act.PREFER_4 + 1)),
    "sort": tuple(range(Act.PREFER_4 + 1, CONTROLS)),
}
"""Action columns by purpose, as plain integers for torch.compile; all further columns are the message."""
LOSSES = ("loss_objective", "loss_critic", "loss_entropy")
DIAGNOSTICS = ("kl", "clip_fraction", "entropy", *(f"entropy_{head}" for head in (*HEADS, "message")))
LIVING, DECISIONS = "living", "decisions"
"""Entries `[S, L, 1]`: numbers of decisions of living mechs and of all mechs in the minibatch. They exceed those of the
data with gradient accumulation or several processes; without them the data's own are taken."""
NOT_OF_MECHS = (TELEMETRY, IS_INIT, EXISTS, LIVING, DECISIONS, "enemy")
"""Entries of a minibatch without an axis of the team's own mechs."""


class RecurrentPPOLoss(LossModule):
    """Clipped PPO objective over whole sequences `[S, L]` of S teams of A mechs.

    Policy and entropy terms average over the mechs that were alive at the decision; the value term averages over all,
    because terminal rewards reach dead mechs through it alone (R37). TorchRL's `ClipPPOLoss` has one mask for both,
    reports one entropy for all columns, and includes dead mechs in its diagnostics; without dead mechs both agree.
    Where the minibatch has `exists [S, L, A]`, mechs that do not exist enter no term, whatever they hold.

    Where values are in real units, as from TorchRL's estimators, `set_keys(value="state_value",
    value_target="value_target")` fits the critic to these.

    The result has the scalars `LOSSES`, whose sum is minimised, and the detached `DIAGNOSTICS`.

    Args:
        actor_network: its `get_dist` gives the distribution, for `ActorCritic.get_policy_operator()`.
        critic_network: writes the value; the policy's value head suffices, because the actor has written `embed`.
        clip_epsilon: range of the ratio around 1.
        entropy_coeff: weight of the entropy; a buffer, so that a schedule can set it.
        critic_coeff: weight of the value term.
        clip_value: range around the value of the rollout, in the units of `tensor_keys.value`; 0 for none.
    """

    @dataclass
    class _AcceptedKeys:
        """Entries of the minibatch, see `TeamCollector` and `NormalizedGAE`."""

        advantage: NestedKey = "advantage"
        value_target: NestedKey = "value_target_normalized"
        value: NestedKey = "state_value_normalized"
        sample_log_prob: NestedKey = "pre_tanh_log_prob"
        action: NestedKey = "pre_tanh"
        mask: NestedKey = "mask"

    default_keys = _AcceptedKeys
    actor_network: PolicyOperator
    critic_network: ValueHead | TensorDictModule
    entropy_coeff: Tensor

    def __init__(
        self,
        actor_network: PolicyOperator,
        critic_network: ValueHead | TensorDictModule,
        *,
        clip_epsilon: float = 0.2,
        entropy_coeff: float = 0.01,
        critic_coeff: float = 0.5,
        clip_value: float = 0.0,
    ) -> None:
        super().__init__()
        self.actor_network = actor_network
        self.critic_network = critic_network
        self.clip_epsilon, self.critic_coeff, self.clip_value = clip_epsilon, critic_coeff, clip_value
        device = next(actor_network.parameters()).device
        self.register_buffer("entropy_coeff", torch.tensor(entropy_coeff, dtype=torch.float32, device=device))
        self._set_in_keys()
        self.out_keys = [*LOSSES, *DIAGNOSTICS]

    def _set_in_keys(self) -> None:
        self.in_keys = [*self.actor_network.in_keys, *vars(self.tensor_keys).values(), LIVING, DECISIONS]

    def _forward_value_estimator_keys(self, **kwargs: NestedKey) -> None:
        """Called by `set_keys`; the advantages are estimated outside."""
        self._set_in_keys()

    @classmethod
    def of(cls, actor_network: PolicyOperator, critic_network: ValueHead, config: PPOConfig) -> RecurrentPPOLoss:
        """The loss with the coefficients of a config."""
        return cls(
            actor_network,
            critic_network,
            clip_epsilon=config.clip,
            entropy_coeff=config.entropy_coef.first,
            critic_coeff=config.value_coef,
            clip_value=config.value_clip,
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Scalar losses and diagnostics of a minibatch `[S, L]`."""
        data, keys = without_padded_mechs(tensordict.copy()), self.tensor_keys
        # The actor writes what the value head reads.
        distribution = self.actor_network.get_dist(data)
        old_value = data.get(keys.value, None)
        value = self.critic_network(data).get(keys.value)
        mask, exists = data.get(keys.mask), data.get(EXISTS, None)
        living, decisions = counts(data, mask)

        def mean_of_living(per_decision: Tensor) -> Tensor:
            return summed(torch.where(expand_as_right(mask, per_decision), per_decision, 0.0), mask.dim()) / living

        log_ratio = distribution.log_prob(data.get(keys.action)) - data.get(keys.sample_log_prob)
        ratio = log_ratio.exp()
        advantage = data.get(keys.advantage)[..., 0]
        clipped = ratio.clamp(1 - self.clip_epsilon, 1 + self.clip_epsilon)
        entropies = mean_of_living(distribution.entropies())
        error = value_error(value, old_value, data.get(keys.value_target), self.clip_value)
        error = without_padding(error, exists)
        report: dict[str, Any] = {
            "loss_objective": -mean_of_living(torch.minimum(ratio * advantage, clipped * advantage)),
            "loss_critic": self.critic_coeff * summed(error, error.dim()) / decisions,
            "loss_entropy": -self.entropy_coeff * entropies.mean(),
            # Schulman 2020, "Approximating KL divergence": unbiased and never negative.
            "kl": mean_of_living((ratio - 1 - log_ratio).detach()),
            "clip_fraction": mean_of_living(((ratio - 1).abs() > self.clip_epsilon).float()),
            **entropy_report(entropies.detach()),
        }
        return TensorDict(report)


def without_padded_mechs(data: TensorDictBase) -> TensorDictBase:
    """A minibatch `[S, L]` with zeros in all that belongs to mechs that do not exist: a weight's gradient would be that
    of its input times 0."""
    exists = data.get(EXISTS, None)
    if exists is None:
        return data

    def blank(name: NestedKey, leaf: Tensor) -> Tensor:
        return leaf if name in NOT_OF_MECHS else without_padding(leaf, exists)

    return data.named_apply(blank, nested_keys=True)


def counts(data: TensorDictBase, mask: Tensor) -> tuple[Tensor, Tensor]:
    """`[]` numbers of decisions of living mechs and of all mechs, from the minibatch or counted in `mask [S, L, A]`."""
    if LIVING in data.keys():
        return data.get(LIVING)[0, 0, 0], data.get(DECISIONS)[0, 0, 0]
    return mask.sum().clamp_min(1), count_decisions(data)


def count_decisions(data: TensorDictBase) -> Tensor:
    """`[]` number of decisions of all mechs in a minibatch, padding left out."""
    mask = data.get("mask")
    return data.get(EXISTS).sum() if EXISTS in data.keys() else torch.full((), mask.numel(), device=mask.device)


def summed(value: Tensor, depth: int) -> Tensor:
    """Sum over the first `depth` dimensions of `value [S, L, ...]`, time first, as sequences lie in memory."""
    return value.transpose(0, 1).contiguous().sum(tuple(range(depth)))


def entropy_report(entropies: Tensor) -> Mapping[str, Tensor]:
    """Mean entropy of all columns of the action, of each of `HEADS`, and of the message, from `entropies [D]`."""
    # Indexing by a list would copy it to the device, and wait.
    columns, message = entropies.unbind(), entropies[CONTROLS:]
    return {
        "entropy": entropies.mean(),
        **{f"entropy_{name}": torch.stack([columns[act] for act in acts]).mean() for name, acts in HEADS.items()},
        "entropy_message": message.mean() if len(message) > 0 else entropies.new_zeros(()),
    }


def value_error(value: Tensor, old: Tensor | None, target: Tensor, clip: float) -> Tensor:
    """Squared error; with `clip > 0` the maximum of it and that of the value clipped to `old`. All of one shape."""
    error = (value - target).square()
    if clip > 0:
        assert old is not None
        clipped = old + (value - old).clamp(-clip, clip)
        error = torch.maximum(error, (clipped - target).square())
    return error
