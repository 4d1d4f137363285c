"""What decides for the teams of a batch of battles: networks of one architecture together, every other policy alone."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeGuard

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from echelon.agents.heuristic import Heuristic
from echelon.agents.team_policy import TeamPolicy, check_evaluation_mode
from echelon.arena.stacked_policies import (
    BatchObservation,
    BatchSlot,
    PolicySlots,
    StackedForward,
    StackedPolicies,
)
from echelon.env.blocks import workers
from echelon.env.env import EchelonEnv
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import ModelConfig, PolicySpecs
from echelon.learn.opponents.named import compiled_heuristic
from echelon.runtime.errors import require

LEAST_TEAMS = 32
"""Teams of a scripted commander in a share of a thread: fewer take hardly less time."""
Decider = PolicySlots | StackedPolicies


class DeciderMaker:
    """Makes what decides for the teams of batches, and keeps what was compiled for earlier ones.

    Args:
        compiled: whether to compile networks, and on a GPU scripted commanders.
    """

    def __init__(self, device: torch.device, compute: torch.dtype, compiled: bool) -> None:
        self.device, self.compute, self.compiled = device, compute, compiled
        self._forwards: dict[tuple[ModelConfig, PolicySpecs], StackedForward] = {}
        self._scripted: dict[str, Callable[[TensorDictBase], TensorDictBase]] = {}

    def stacked(
        self, policies: Mapping[str, TeamPolicy], slots: Mapping[str, Sequence[BatchSlot]], mechs: int
    ) -> list[tuple[StackedPolicies, list[ActorCritic]]]:
        """Of each architecture among the policies what decides for its networks, and these networks.

        Args:
            mechs: number of mechs in a team, to which smaller ones are padded.
        """
        by_model: dict[Hashable, list[tuple[ActorCritic, Sequence[BatchSlot]]]] = defaultdict(list)
        for name, policy in policies.items():
            if is_stackable(policy):
                by_model[policy.model, policy.specs].append((policy, slots[name]))
        stacks = []
        for members in by_model.values():
            networks = [policy for policy, _ in members]
            teams = [commanded for _, commanded in members]
            stacks.append((StackedPolicies(self._forward_of(networks[0]), networks, teams, mechs), networks))
        return stacks

    def alone(
        self, name: str, policy: TeamPolicy, slots: Sequence[BatchSlot], sizes: Sequence[int]
    ) -> list[PolicySlots]:
        """What decides for the teams of a policy that is not stacked, those of different size apart: it is shown no
        padding. On a CPU the teams of a scripted commander are parted into shares, for `decide_all`.

        Args:
            sizes: number of mechs in the team of each row of the batch, `2B` of them.
        """
        by_size: dict[int, list[BatchSlot]] = defaultdict(list)
        for slot in slots:
            by_size[sizes[slot.row]].append(slot)
        call, battles = self.call_of(name, policy), len(sizes) // 2
        # A graph decides for one team of every battle, or for both.
        least = 0 if call is policy else battles
        groups = []
        for mechs, teams in by_size.items():
            is_shared = call is policy and is_shareable(policy) and self.device.type == "cpu"
            shares = max(1, min(torch.get_num_threads(), len(teams) // LEAST_TEAMS)) if is_shared else 1
            capacity = least * -(-len(teams) // battles)
            groups += [PolicySlots(policy, teams[k::shares], mechs, self.device, call, capacity) for k in range(shares)]
        return groups

    def _forward_of(self, policy: ActorCritic) -> StackedForward:
        architecture = policy.model, policy.specs
        if architecture not in self._forwards:
            # Inference tensors would trigger a recompilation in later calls.
            with torch.inference_mode(False), torch.no_grad():
                self._forwards[architecture] = StackedForward(policy, self.device, self.compute, self.compiled)
        return self._forwards[architecture]

    def call_of(self, name: str, policy: TeamPolicy) -> Callable[[TensorDictBase], TensorDictBase]:
        """What decides as the policy of a name does: on a GPU a graph of a scripted commander, cached."""
        if not self.compiled or self.device.type != "cuda" or type(policy) is not Heuristic:
            return policy
        if name not in self._scripted:
            twin = copy.deepcopy(policy)
            # A number that the host knows would be copied to the device at each call.
            weapon_use = torch.full((), float(policy.weapon_use), device=self.device)
            graph = compiled_heuristic(twin, self.device)

            def call(team: TensorDictBase) -> TensorDictBase:
                twin.weapon_use = weapon_use
                return graph(team)

            self._scripted[name] = call
        return self._scripted[name]


def decide_all(deciders: Sequence[Decider], observation: BatchObservation, threads: int) -> list[Tensor]:
    """What each of `deciders` decides, in their order: scripted commanders side by side on the threads of a CPU."""
    shares = [decider for decider in deciders if isinstance(decider, PolicySlots) and is_shareable(decider.policy)]
    if min(threads, len(shares)) < 2 or observation.mask.device.type != "cpu":
        return [decider.decide(observation) for decider in deciders]

    # The mode belongs to a thread.
    @torch.inference_mode()
    def decide(share: PolicySlots) -> Tensor:
        return share.decide(observation)

    decided = dict(zip(map(id, shares), workers(threads).map(decide, shares), strict=True))
    return [decided[id(decider)] if id(decider) in decided else decider.decide(observation) for decider in deciders]


def command_packs(env: EchelonEnv, orders: Tensor, td: TensorDictBase, decision: Tensor | int) -> None:
    """Write what recorded commanders say before a decision into `td`.

    Args:
        orders: `[K, P, D]`, as `BatchArena.orders`.
        decision: a number, or `[B]`, which decision of the battle it is.
    """
    number = torch.as_tensor(decision, device=env.device).expand(env.num_envs) // env.config.command.period
    silence = torch.zeros_like(orders[:1])
    team_orders = torch.cat((orders, silence))[number.clamp_max(len(orders))]
    sizes = [len(packs) for packs in env.command_map.values()]
    for group, group_orders in zip(env.command_map, team_orders.split(sizes, 1), strict=True):
        td.set((group, "action"), group_orders[..., : env.action_spec[group, "action"].shape[-1]])


def is_shareable(policy: TeamPolicy) -> bool:
    """Whether threads may share the teams of a policy: a scripted commander keeps nothing to itself."""
    return type(policy) is Heuristic and policy.graph_key() is not None


def is_stackable(policy: TeamPolicy) -> TypeGuard[ActorCritic]:
    """Whether a policy is an `ActorCritic` itself: a subclass may override `forward`."""
    return type(policy) is ActorCritic


def check_policy(name: str, policy: TeamPolicy, env: EchelonEnv) -> None:
    if not isinstance(policy, nn.Module):
        return
    check_evaluation_mode(name, policy)
    if is_stackable(policy):
        comm_dim = env.config.comm_dim
        require(policy.comm_dim == comm_dim, f"{name}: comm_dim", f"{comm_dim} for this battle", policy.comm_dim)
    # With the index of a GPU, which the device of an env may lack.
    battle_device = torch.empty(0, dtype=torch.float32, device=env.device).device
    for leaf in (*policy.parameters(), *policy.buffers()):
        fits = fits_device(leaf.device, battle_device, is_copied=is_stackable(policy))
        require(fits, f"{name}: device", f"{battle_device}, the device of the battles", str(leaf.device))


def fits_device(device: torch.device, where: torch.device, is_copied: bool) -> bool:
    """Whether a policy with weights on `device` can play battles on `where`."""
    return device == where or (is_copied and device.type != "meta")
