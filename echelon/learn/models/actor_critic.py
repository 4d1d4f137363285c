"""The policy of a mech: encoder, memory, actor head, value head. All mechs of a team share the weights.

The end of the module defines operators of these parts for TorchRL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torchrl.data import Composite
from torchrl.envs.utils import ExplorationType, exploration_type
from torchrl.modules import recurrent_mode

from echelon.agents.team_policy import entry
from echelon.learn.loops.arithmetic import uses_loops
from echelon.learn.models.distribution import ActionDistribution
from echelon.learn.models.encoder import BattlePooling, Encoder, new_layer, orthogonal
from echelon.learn.models.keys import INPUT_HINT, IS_INIT, Layout, TeamKeys
from echelon.learn.models.memory import Memory, MemoryState, as_float32
from echelon.learn.models.policy_layout import ColumnReader
from echelon.learn.models.precision import autocast, resolve_precision
from echelon.learn.models.specs import ModelSizes, PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.runtime.compile import fused
from echelon.runtime.errors import require


class PolicyOutput(NamedTuple):
    """Output of an `ActorNetwork` for one decision."""

    loc: Tensor
    """`[..., A, D]` mean of the pre-tanh actions."""
    scale: Tensor
    """`[..., A, D]` standard deviation of the pre-tanh actions."""
    embed: Tensor
    """`[..., A, hidden]` embedding, the input of the critic."""
    memory: MemoryState
    """Next recurrent memory, `[..., A, *shape]` each."""


class ActorNetwork(nn.Module):
    """Maps observations and memory to the parameters of the action distribution."""

    def __init__(self, encoder: nn.Module, memory: Memory, head: nn.Module, specs: PolicySpecs) -> None:
        super().__init__()
        self.streams: tuple[str, ...] = getattr(encoder, "streams", None) or specs.columns.observed_streams
        """Names of the input streams, in the order of the encoder's arguments."""
        self.columns = ColumnReader(specs.columns, specs.today, self.streams, new_layer()["device"])
        self.encoder = encoder
        self.memory = memory
        self.head = head
        self.compute = torch.float32
        """Dtype of matrix products, see `echelon.learn.models.precision`; memory and heads stay float32."""
        self.recomputes_encoder = False
        """Whether the backward pass recomputes the encoder instead of storing its activations (activation
        checkpointing)."""

    def forward(self, streams: tuple[Tensor, ...], telemetry: Tensor, memory: MemoryState) -> PolicyOutput:
        """Compute one decision.

        Args:
            streams: the observation streams named in `self.streams`, in that order, with the columns of this version,
                `[..., A, *]` each.
            telemetry: top-down map of each battle, `[..., 16, 16]`.
            memory: recurrent memory of the mechs, `[..., A, *shape]` each.
        """
        streams = self.columns(*streams)
        with autocast(self.compute, telemetry.device):
            embed, memory = self.memory.step(self.encoder(*streams, telemetry), memory)
        embed = embed.float()
        loc, scale = self.head(embed)
        return PolicyOutput(loc, scale, embed, as_float32(memory))

    def unroll(self, streams: tuple[Tensor, ...], telemetry: Tensor, memory: MemoryState, keep: Tensor) -> Tensor:
        """Return the embeddings of sequences, `[T, S, A, hidden]`, from streams `[T, S, A, *]` and `telemetry [T, S,
        16, 16]`.

        Args:
            memory: recurrent memory before the first decision, `[S, A, *shape]` each.
            keep: 0 at the first decision of a battle, where the memory is reset, else 1; `[T, S]`.
        """
        streams = self.columns(*streams)
        with autocast(self.compute, telemetry.device):
            if self.recomputes_encoder:
                features = checkpoint(self.encoder, *streams, telemetry, use_reentrant=False)
            else:
                features = self.encoder(*streams, telemetry)
            keep_rows = keep[..., None].expand(*features.shape[:3]).flatten(1)[..., None]
            rows = {name: leaf.flatten(0, 1) for name, leaf in memory.items()}
            embed = self.memory.unroll(features.flatten(1, 2), rows, keep_rows)
        return embed.float().view(*features.shape[:3], -1)


@dataclass(frozen=True)
class ModelConfig(ModelSizes):
    """Architecture of a policy; a subclass adds its own settings and builds the policy.

    A subclass must be a frozen dataclass of plain values (numbers, strings, bools, tuples of these), because
    checkpoints store it as JSON.
    """

    def build(self, specs: PolicySpecs) -> ActorCritic:
        """Build the policy with random weights."""
        raise NotImplementedError(f"{type(self).__name__}.build must return an ActorCritic")


class ActorCritic(TensorDictModuleBase):
    """Policy of a team (see `echelon.views.group_policy`): encoder, memory and heads, with shared weights for all
    mechs.

    Reads `("observation", stream)`, `telemetry` and `("memory", name)`; writes `action` in [-1, 1], `pre_tanh`,
    `pre_tanh_log_prob`, `embed` and `("next", "memory", name)`. Actions are sampled with the standard normal numbers
    `noise [B, A, D]` if the input contains them, else with torch's generator. Inside
    `set_exploration_type(ExplorationType.DETERMINISTIC)` the mean action is used.

    TorchRL's collectors and losses use `get_policy_operator` and `get_value_operator`; see `Operator`.

    Args:
        model: settings, from which a checkpoint rebuilds the policy.
        specs: columns of the input and the action.
        encoder: maps the streams and the telemetry map to features `[..., A, F]`.
        memory: recurrent part between decisions.
        head: maps embeddings to `loc` and `scale`; by default an `ActorHead`.
        critic: maps embeddings to values; by default a `Critic`.
    """

    draws_actions = True

    def __init__(
        self,
        model: ModelConfig,
        specs: PolicySpecs,
        encoder: Encoder | nn.Module,
        memory: Memory,
        head: nn.Module | None = None,
        critic: Critic | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.specs = specs
        self.network = ActorNetwork(encoder, memory, head or ActorHead(model, specs.action_width), specs)
        self.critic = critic or Critic(model, specs)
        self.act: Callable[..., PolicyOutput] = self.network.forward
        """Forward pass for one decision; the trainer may replace it by a compiled one."""
        self.keys = TeamKeys(list(memory.spec().keys()), self.network.streams)
        self.in_keys, self.out_keys = self.keys.read, [self.keys.action, *self.keys.next_memory.values()]

    def graph_key(self) -> Hashable | None:
        """Key under which a CUDA graph is reused: class and exploration mode. Weights are not part of the key, because
        they change in place.
        """
        return type(self), exploration_type()

    @property
    def architecture(self) -> Hashable | None:
        """Key that is equal for networks that can share one forward pass over stacked weights, see
        `echelon.agents.stacked`; None for a subclass, which may override `forward`.
        """
        return (self.model, self.specs) if type(self) is ActorCritic else None

    def frozen_network(self, device: torch.device) -> ActorNetwork:
        """Return a network of the same architecture with its own weights, in evaluation mode, without gradients."""
        return self.model.build(self.specs).to(device).requires_grad_(False).eval().network

    @staticmethod
    def actions(loc: Tensor, scale: Tensor, normals: Tensor) -> Tensor:
        """Return actions `[..., D]`, sampled with the standard normal numbers `normals`."""
        return (loc + scale * normals).tanh()

    @property
    def comm_dim(self) -> int:
        """Length of a message, as in `EnvConfig.comm_dim`."""
        return self.specs.comm_dim

    def memory_spec(self) -> Composite:
        """Spec of one mech's recurrent memory."""
        return self.network.memory.spec()

    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for every mech of a team; batch `[..., A]` with any batch dimensions before A."""
        return self.decide(team, self.keys)

    def decide(self, team: TensorDictBase, keys: TeamKeys) -> TensorDictBase:
        """Like `forward`, with custom keys; the entries may have a mech axis after the batch dimensions, or none."""
        layout = keys.layout(team, is_sequence=False)
        streams, telemetry, memory = keys.inputs(team, layout)
        # `ActorNetwork.compute` sets the precision of matrix products, so disable the caller's autocast.
        with torch.autocast(telemetry.device.type, enabled=False):
            output = self.act(streams, telemetry, memory)
        distribution = ActionDistribution(layout.outward(output.loc), layout.outward(output.scale))
        pre_tanh = sample(distribution, team.get("noise", None))
        team.set(keys.pre_tanh, pre_tanh).set(keys.action, pre_tanh.tanh())
        team.set(keys.embed, layout.outward(output.embed))
        team.set(keys.pre_tanh_log_prob, distribution.log_prob(pre_tanh))
        for name, leaf in output.memory.items():
            team.set(keys.next_memory[name], layout.outward(leaf))
        return team

    def get_policy_operator(self, group: str | None = None) -> PolicyOperator:
        """Return an operator of the whole policy for TorchRL; it has the method `get_dist`.

        Args:
            group: the group of an `echelon.versus` view whose entries are used; None for entries at the root, as in
                `echelon.mechs`.
        """
        return PolicyOperator(self, self.keys.of_group(group))

    def get_value_operator(self, group: str | None = None, normalizer: ValueNorm | None = None) -> ValueOperator:
        """Return an operator of the whole critic, including encoder and memory.

        Args:
            group: as in `get_policy_operator`.
            normalizer: converts predictions to real units; None if they are in real units.
        """
        return ValueOperator(self, self.keys.of_group(group), normalizer)

    def get_policy_head(self, group: str | None = None) -> PolicyHead:
        """Return an operator of the actor head alone, which reads `embed`."""
        return PolicyHead(self, self.keys.of_group(group))

    def get_value_head(self, group: str | None = None, normalizer: ValueNorm | None = None) -> ValueHead:
        """Return an operator of the value head alone, which reads the `embed` written by the policy operator."""
        return ValueHead(self, self.keys.of_group(group), normalizer)

    def num_parameters(self) -> int:
        """Number of learnable parameters."""
        return sum(p.numel() for p in self.parameters())


def sample(distribution: ActionDistribution, noise: Tensor | None) -> Tensor:
    """Return pre-tanh actions `[..., D]`, sampled with the standard normal `noise` if given."""
    if noise is not None:
        return (distribution.base_dist.loc + distribution.base_dist.scale * noise).detach()
    if exploration_type() == ExplorationType.DETERMINISTIC:
        return distribution.deterministic_sample
    return distribution.rsample().detach()


LOG_STD_RANGE = (-3.0, 0.5)
ACTION_GAIN = 0.01
"""Gain of the actor's last layer; small, so that initial actions hardly depend on the observation."""


class FixedStd(nn.Module):
    """State-independent log standard deviation: one learnable parameter per action column."""

    def __init__(self, width: int, initial_std: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.full((width,), math.log(initial_std), **new_layer()))

    def forward(self, embed: Tensor) -> Tensor:
        """Return the log standard deviation `[..., D]` for `embed [..., hidden]`."""
        return self.bias.expand(*embed.shape[:-1], -1)


class ActorHead(nn.Module):
    """Mean and standard deviation of the pre-tanh actions; evaluation mode scales the standard deviation."""

    def __init__(self, model: ModelSizes, width: int) -> None:
        super().__init__()
        self.loc = orthogonal(nn.Linear(model.hidden, width, **new_layer()), ACTION_GAIN)
        self.log_std: nn.Module
        if model.std == "state":
            self.log_std = orthogonal(nn.Linear(model.hidden, width, **new_layer()), ACTION_GAIN)
            nn.init.constant_(self.log_std.bias, math.log(model.initial_std))
        else:
            self.log_std = FixedStd(width, model.initial_std)
        self.eval_std_scale = model.eval_std_scale

    def forward(self, embed: Tensor) -> tuple[Tensor, Tensor]:
        """Return `loc` and `scale`, `[..., D]` each, for `embed [..., hidden]`."""
        if isinstance(self.log_std, nn.Linear) and uses_loops(embed, self.loc.weight):
            # On a CPU one matrix product for both heads is faster.
            weight = torch.cat((self.loc.weight, self.log_std.weight))
            loc, log_std = F.linear(embed, weight, torch.cat((self.loc.bias, self.log_std.bias))).chunk(2, -1)
        else:
            loc, log_std = self.loc(embed), self.log_std(embed)
        scale = log_std.clamp(*LOG_STD_RANGE).exp()
        return loc, scale if self.training else scale * self.eval_std_scale


class Critic(nn.Module):
    """Value head, in normalised units (see `ValueNorm`); a central critic also reads the state of all mechs.

    Args:
        specs: columns of the ego streams for a central critic; by default those of this version.
    """

    def __init__(self, model: ModelSizes, specs: PolicySpecs | None = None) -> None:
        super().__init__()
        specs = specs or PolicySpecs(0)
        central = model.critic == "central"
        self.columns = ColumnReader(specs.columns, specs.today, ("ego",), new_layer()["device"])
        self.gathering = BattlePooling(model.body_width, specs.columns) if central else None
        if self.gathering is not None:
            self.mix = orthogonal(nn.Linear(model.hidden + 4 * model.body_width, model.hidden, **new_layer()))
        self.value = orthogonal(nn.Linear(model.hidden, 1, **new_layer()), gain=1.0)

    def forward(self, embed: Tensor, own: Tensor, enemy: Tensor | None, compute: torch.dtype = torch.float32) -> Tensor:
        """Return the values `[..., A]` of the mechs.

        Args:
            embed: embeddings `[..., A, hidden]`.
            own: ego streams of the team, `[..., A, F]`, with the columns of this version.
            enemy: ego streams of the enemy team, `[..., E, F]`; read by a central critic only.
            compute: dtype of the products that encode ego streams, as in `ActorNetwork.compute`.
        """
        if self.gathering is not None:
            assert enemy is not None
            # Multiply both parts of the input separately: the battle part is equal for all mechs and is computed once.
            of_embed, of_battle = self.mix.weight.split((embed.shape[-1], self.mix.in_features - embed.shape[-1]), 1)
            with autocast(compute, embed.device):
                own, enemy = (self.columns(ego)[0].to(compute) for ego in (own, enemy))
                pooled = self.gathering(own, enemy).float()
            battle = F.linear(pooled, of_battle, self.mix.bias)
            embed = F.relu(F.linear(embed, of_embed) + battle[..., None, :])
        return self.value(embed).squeeze(-1)


def configure_policy(policy: ActorCritic, precision: str, compiled: str, device: torch.device) -> None:
    """Set the precision of a policy's matrix products, and compile its forward pass for one decision.

    Learning and acting both use `policy.network`. The attribute `policy.network.compute` is the dtype of autocast;
    memory, heads, distributions and losses stay float32. If `compiled` is `all`, `PPO` also compiles its loss,
    including the forward pass over sequences.

    Args:
        precision, compiled: values of `TrainConfig.precision` and `TrainConfig.compile_policy`.
        device: device of the policy; `auto` selects bfloat16 if the device has native support.
    """
    network = policy.network
    network.compute = resolve_precision(precision, device)
    if compiled != "off":
        policy.act = fused(network.forward, device, on_cpu=None)


class Operator(TensorDictModuleBase):
    """A part of an `ActorCritic` as a module for TorchRL's collectors, value estimators and losses.

    Inside `set_recurrent_mode(True)`, which TorchRL's losses enter, the last batch dimension is time, and whole
    sequences are unrolled from the memory of their first step. Outside recurrent mode, each call is one decision. The
    policy operator writes the `embed` that the heads read, so a loss with a value head computes encoder and memory
    once.

    Call TorchRL's `GAE` before the loss and outside recurrent mode, so that each next state is evaluated from its own
    memory. A loss that estimates missing advantages in recurrent mode is exact only with `shifted=True` and a
    `shifted_budget` above the number of truncations in a row of the batch. With `shifted=False`, TorchRL marks next
    states as first states of a battle, so their memory would be zero.

    Args:
        policy: the policy.
        keys: the entries that it reads and writes.
    """

    def __init__(self, policy: ActorCritic, keys: TeamKeys) -> None:
        super().__init__()
        self.policy = policy
        self.keys = keys

    def layout(self, data: TensorDictBase) -> Layout:
        """Return the layout of the entries in `data`."""
        return self.keys.layout(data, is_sequence=bool(recurrent_mode()))

    def embed(self, data: TensorDictBase, layout: Layout) -> Tensor:
        """Read the embeddings in `data`."""
        hint = "Call a policy or value operator before its heads; it writes this entry"
        return layout.inward(entry(data, self.keys.embed, hint))


class WholeOperator(Operator):
    """An operator that computes the embeddings with encoder and memory, and writes them."""

    def embed(self, data: TensorDictBase, layout: Layout) -> Tensor:
        """Compute the embeddings; for one decision also write the next memory."""
        network, inputs = self.policy.network, self.keys.inputs(data, layout)
        if layout.is_sequence:
            keep = (~layout.time_first(entry(data, IS_INIT, INPUT_HINT))[..., 0]).float()
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

    Writes `action`, `pre_tanh`, `pre_tanh_log_prob`, `embed` and the next memory. Losses use `pre_tanh` as their
    action, because ratios of densities are the same for pre-tanh actions and stay precise where tanh saturates. Build
    `ClipPPOLoss(policy.get_policy_operator(), policy.get_value_operator())` and call its method
    `set_keys(action="pre_tanh", sample_log_prob="pre_tanh_log_prob")`.
    """

    def __init__(self, policy: ActorCritic, keys: TeamKeys) -> None:
        super().__init__(policy, keys)
        self.in_keys = [*keys.read, IS_INIT]
        outputs = [keys.action, keys.pre_tanh, keys.pre_tanh_log_prob, keys.embed]
        self.out_keys = [*outputs, *keys.next_memory.values()]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write a decision; in recurrent mode, write only embeddings and distribution parameters."""
        return super().forward(tensordict) if recurrent_mode() else self.policy.decide(tensordict, self.keys)


class ValueHead(Operator):
    """Maps `embed` to `state_value_normalized`, the critic's output, and `state_value` in real units `[..., A, 1]`.

    Args:
        normalizer: converts values to real units; None if the critic predicts real units.
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
        embed, ego = self.embed(tensordict, layout), layout.inward(entry(tensordict, keys.ego, INPUT_HINT))
        if self.is_central:
            limit = "local if every mech is a row of the batch, or if the enemies' state is not in the data"
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
