"""An `ActorCritic` as TorchRL's collectors, value estimators and losses call it.

Within `set_recurrent_mode(True)`, which TorchRL's losses enter, the last batch dimension is time and whole sequences
are played through from the memory of their first step; else each call is one decision. The policy operator writes the
`embed` that the heads read, so that a loss with a value head computes encoder and memory once.

TorchRL's `GAE` is called before the loss and outside recurrent mode: it then values each next state from its own
memory. Within recurrent mode, where a loss estimates advantages that its batch lacks, only `shifted=True` is exact,
with a `shifted_budget` above the number of truncations in a row of the batch: `shifted=False` marks next states as
first states of a battle, whose memory is zero here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.modules import recurrent_mode

from echelon.agents.team_policy import entry
from echelon.learn.models.distribution import ActionDistribution
from echelon.learn.models.keys import IS_INIT, WAYS, Layout, TeamKeys
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.runtime.errors import require

if TYPE_CHECKING:
    from echelon.learn.models.actor_critic import ActorCritic


class Operator(TensorDictModuleBase):
    """A part of a policy that reads and writes the entries of one group.

    Args:
        policy: the policy.
        keys: its entries.
    """

    def __init__(self, policy: ActorCritic, keys: TeamKeys) -> None:
        super().__init__()
        self.policy = policy
        self.keys = keys

    def layout(self, data: TensorDictBase) -> Layout:
        """How the entries lie in `data`."""
        return self.keys.layout(data, is_sequence=bool(recurrent_mode()))

    def embed(self, data: TensorDictBase, layout: Layout) -> Tensor:
        """Embeddings as the heads read them: those in `data`."""
        hint = "A policy or value operator writes it; call that before its heads"
        return layout.inward(entry(data, self.keys.embed, hint))


class WholeOperator(Operator):
    """An operator that computes the embeddings, by encoder and memory, and writes them."""

    def embed(self, data: TensorDictBase, layout: Layout) -> Tensor:
        """As in `Operator`; of one decision the next memory is written too."""
        network, inputs = self.policy.network, self.keys.inputs(data, layout)
        if layout.is_sequence:
            keep = (~layout.time_first(entry(data, IS_INIT, WAYS))[..., 0]).float()
            embed = network.unroll(*inputs, keep)
        else:
            output = network(*inputs)
            embed = output.embed
            for name, leaf in output.memory.items():
                data.set(self.keys.next_memory[name], layout.outward(leaf))
        data.set(self.keys.embed, layout.outward(embed))
        return embed


class PolicyHead(Operator):
    """Maps `embed [..., A, hidden]` to `loc` and `scale` `[..., A, D]`."""

    def __init__(self, policy: ActorCritic, keys: TeamKeys) -> None:
        super().__init__(policy, keys)
        self.in_keys, self.out_keys = [keys.embed, keys.ego], [keys.loc, keys.scale]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write `loc` and `scale`."""
        distribution = self.get_dist(tensordict)
        tensordict.set(self.keys.loc, distribution.base_dist.loc)
        return tensordict.set(self.keys.scale, distribution.base_dist.scale)

    def get_dist(self, tensordict: TensorDictBase) -> ActionDistribution:
        """Distribution of the pre-tanh actions."""
        layout = self.layout(tensordict)
        loc, scale = self.policy.network.head(self.embed(tensordict, layout))
        return ActionDistribution(layout.outward(loc), layout.outward(scale))


class PolicyOperator(WholeOperator, PolicyHead):
    """The whole actor: from observations and memory to actions.

    It writes `action`, `pre_tanh`, `pre_tanh_log_prob`, `embed` and the next memory. A loss takes `pre_tanh` as its
    action, because a ratio of densities needs no more and keeps its digits where tanh saturates:
    `ClipPPOLoss(policy.get_policy_operator(), policy.get_value_operator())` with `set_keys(action="pre_tanh",
    sample_log_prob="pre_tanh_log_prob")`.
    """

    def __init__(self, policy: ActorCritic, keys: TeamKeys) -> None:
        super().__init__(policy, keys)
        self.in_keys = [*keys.read, IS_INIT]
        outputs = [keys.action, keys.pre_tanh, keys.pre_tanh_log_prob, keys.embed]
        self.out_keys = [*outputs, *keys.next_memory.values()]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Decide; in recurrent mode only embeddings and the parameters of the distributions are written."""
        return super().forward(tensordict) if recurrent_mode() else self.policy.decide(tensordict, self.keys)


class ValueHead(Operator):
    """Maps `embed` to `state_value_normalized`, the critic's output, and `state_value` in real units `[..., A, 1]`.

    Args:
        normalizer: None for a critic that predicts real units.
    """

    def __init__(self, policy: ActorCritic, keys: TeamKeys, normalizer: ValueNorm | None) -> None:
        super().__init__(policy, keys)
        self.normalizer = normalizer
        self.is_central = policy.critic.gathering is not None
        self.in_keys = [keys.embed, keys.ego, *([keys.enemy] if self.is_central else [])]
        self.out_keys = [keys.state_value, keys.state_value_normalized]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the values."""
        keys, layout, enemy = self.keys, self.layout(tensordict), None
        embed, ego = self.embed(tensordict, layout), layout.inward(entry(tensordict, keys.ego, WAYS))
        if self.is_central:
            limit = "local where every mech is a row of the batch, or where the enemies' state is not shown"
            has_enemy = layout.mech_axis != "none" and keys.enemy in tensordict.keys(include_nested=True)
            require(has_enemy, "--model.critic", limit, "central")
            enemy = layout.inward(tensordict.get(keys.enemy))
        values = self.policy.critic(embed, ego, enemy, self.policy.network.compute)
        value = layout.outward(values).unsqueeze(-1)
        tensordict.set(keys.state_value_normalized, value)
        real = value if self.normalizer is None else self.normalizer.denormalise(value)
        return tensordict.set(keys.state_value, real)


class ValueOperator(WholeOperator, ValueHead):
    """The whole critic: from observations and memory to values."""

    def __init__(self, policy: ActorCritic, keys: TeamKeys, normalizer: ValueNorm | None) -> None:
        super().__init__(policy, keys, normalizer)
        self.in_keys = [*keys.read, IS_INIT, *([keys.enemy] if self.is_central else [])]
