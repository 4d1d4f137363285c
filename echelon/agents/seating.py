"""Assigns policies to the teams of battles: networks of one architecture run together, other policies alone."""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from echelon.agents.compiled import compiled_heuristic
from echelon.agents.heuristic import Heuristic
from echelon.agents.runner import Decider, SeatedPolicy, TeamObservation, TeamRunner, TeamSeat, one_by_one
from echelon.agents.stacked import Stackable, StackedForward, StackedPolicies, is_stackable
from echelon.agents.team_policy import TeamPolicy, check_comm_dim, check_evaluation_mode
from echelon.env.blocks import workers
from echelon.env.env import EchelonEnv
from echelon.runtime.errors import require

LEAST_TEAMS = 32
"""Smallest chunk of a scripted commander's teams per thread: smaller chunks save almost no time."""


class RunnerMaker:
    """Builds runners for batches of battles, and caches compiled code across them.

    Args:
        compiled: whether to compile networks and, on a GPU, also scripted commanders.
    """

    def __init__(self, device: torch.device, compute: torch.dtype, compiled: bool) -> None:
        self.device, self.compute, self.compiled = device, compute, compiled
        self._forwards: dict[Hashable, StackedForward] = {}
        self._scripted: dict[str, Callable[[TensorDictBase], TensorDictBase]] = {}

    def stacked(
        self, policies: Mapping[str, TeamPolicy], slots: Mapping[str, Sequence[TeamSeat]], mechs: int
    ) -> list[StackedPolicies]:
        """Build the deciders for the networks among the policies, one per architecture.

        Args:
            mechs: mechs per team, to which smaller teams are padded.
        """
        by_model: dict[Hashable, dict[str, Stackable]] = defaultdict(dict)
        for name, policy in policies.items():
            if is_stackable(policy):
                by_model[policy.architecture][name] = policy
        return [
            StackedPolicies(
                self._forward_of(next(iter(networks.values()))),
                list(networks.values()),
                [slots[name] for name in networks],
                mechs,
            )
            for networks in by_model.values()
        ]

    def alone(
        self, name: str, policy: TeamPolicy, slots: Sequence[TeamSeat], sizes: Sequence[int]
    ) -> list[SeatedPolicy]:
        """Build the deciders of a policy that is not stacked, one per team size, because such a policy receives teams
        without padding.

        On a CPU the teams of a scripted commander are split into chunks for `decide_all`.

        Args:
            sizes: number of mechs of the team in each of the 2B rows of the pool.
        """
        by_size: dict[int, list[TeamSeat]] = defaultdict(list)
        for slot in slots:
            by_size[sizes[slot.row]].append(slot)
        call, battles = self.call_of(name, policy), len(sizes) // 2
        # A compiled policy has a fixed batch shape: it decides for one team of each battle, or for both teams.
        least = 0 if call is policy else battles
        groups = []
        for mechs, teams in by_size.items():
            is_shared = call is policy and is_shareable(policy) and self.device.type == "cpu"
            shares = max(1, min(torch.get_num_threads(), len(teams) // LEAST_TEAMS)) if is_shared else 1
            capacity = least * -(-len(teams) // battles)
            groups += [
                SeatedPolicy(policy, teams[k::shares], mechs, self.device, call, capacity) for k in range(shares)
            ]
        return groups

    def runner(
        self,
        policies: Mapping[str, TeamPolicy],
        seats: Mapping[str, Sequence[TeamSeat]],
        sizes: tuple[int, int],
        battles: int,
    ) -> TeamRunner:
        """Build the runner for the teams of `battles` battles.

        Args:
            seats: seats of each policy, by name; rows b and b + B of the pool are the teams of battle b.
            sizes: number of mechs of blue and of red.
        """
        rows = [size for size in sizes for _ in range(battles)]
        deciders: dict[str, Decider] = {}
        for name, policy in policies.items():
            if not is_stackable(policy):
                for number, decider in enumerate(self.alone(name, policy, seats[name], rows)):
                    deciders[f"{name} {number}"] = decider
        stacks = self.stacked(policies, seats, max(sizes))
        deciders |= {f"networks {number}": stack for number, stack in enumerate(stacks)}
        return TeamRunner(deciders, functools.partial(decide_all, torch.get_num_threads()))

    def _forward_of(self, policy: Stackable) -> StackedForward:
        architecture = policy.architecture
        if architecture not in self._forwards:
            # Leave inference mode, because inference tensors would trigger a recompilation in later calls.
            with torch.inference_mode(False), torch.no_grad():
                self._forwards[architecture] = StackedForward(policy, self.device, self.compute, self.compiled)
        return self._forwards[architecture]

    def call_of(self, name: str, policy: TeamPolicy) -> Callable[[TensorDictBase], TensorDictBase]:
        """Return the function that runs a policy: the policy itself or, for a scripted commander on a GPU, its
        cached compiled graph."""
        if not self.compiled or self.device.type != "cuda" or type(policy) is not Heuristic:
            return policy
        if name not in self._scripted:
            twin = copy.deepcopy(policy)
            # Store the weapon use on the GPU, because a host number would be copied to the GPU at each call.
            weapon_use = torch.full((), float(policy.weapon_use), device=self.device)
            graph = compiled_heuristic(twin, self.device)

            def call(team: TensorDictBase) -> TensorDictBase:
                twin.weapon_use = weapon_use
                return graph(team)

            self._scripted[name] = call
        return self._scripted[name]


def decide_all(threads: int, deciders: Sequence[Decider], observation: TeamObservation) -> list[Tensor]:
    """Run each of `deciders` and return the actions in order; scripted commanders run in parallel CPU threads."""
    shares = [decider for decider in deciders if isinstance(decider, SeatedPolicy) and is_shareable(decider.policy)]
    if min(threads, len(shares)) < 2 or observation.mask.device.type != "cpu":
        return one_by_one(deciders, observation)

    # torch's inference mode applies to one thread only, so each worker thread must enter it.
    @torch.inference_mode()
    def decide(share: SeatedPolicy) -> Tensor:
        return share.decide(observation)

    decided = dict(zip(map(id, shares), workers(threads).map(decide, shares), strict=True))
    return [decided[id(decider)] if id(decider) in decided else decider.decide(observation) for decider in deciders]


def is_shareable(policy: TeamPolicy) -> bool:
    """Return whether several threads can run a policy at once, which requires a scripted commander without internal
    state."""
    return type(policy) is Heuristic and policy.graph_key() is not None


def keeps_memory(decider: Decider) -> bool:
    """Return whether the attribute `memory` of a decider holds its whole state."""
    return isinstance(decider, StackedPolicies) or (isinstance(decider, SeatedPolicy) and is_shareable(decider.policy))


def check_policy(name: str, policy: TeamPolicy, env: EchelonEnv) -> None:
    if not isinstance(policy, nn.Module):
        return
    module: nn.Module = policy
    check_evaluation_mode(name, policy)
    check_comm_dim(name, policy, env.config.comm_dim)
    # Get a device with an index, such as cuda:0; the environment's device may be just cuda.
    battle_device = torch.empty(0, dtype=torch.float32, device=env.device).device
    for leaf in (*module.parameters(), *module.buffers()):
        fits = fits_device(leaf.device, battle_device, is_copied=is_stackable(policy))
        require(fits, f"{name}: device", f"{battle_device}, the device on which the battles run", str(leaf.device))


def fits_device(device: torch.device, where: torch.device, is_copied: bool) -> bool:
    """Return whether a policy with weights on `device` can play battles on `where`."""
    return device == where or (is_copied and device.type != "meta")
