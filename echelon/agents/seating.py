"""Seats policies in the teams of battles: networks of one architecture together, every other policy alone."""

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
"""Teams of a scripted commander in a share of a thread: fewer take hardly less time."""


class RunnerMaker:
    """Makes the runners of batches of battles, and keeps what was compiled for earlier ones.

    Args:
        compiled: whether to compile networks, and on a GPU scripted commanders.
    """

    def __init__(self, device: torch.device, compute: torch.dtype, compiled: bool) -> None:
        self.device, self.compute, self.compiled = device, compute, compiled
        self._forwards: dict[Hashable, StackedForward] = {}
        self._scripted: dict[str, Callable[[TensorDictBase], TensorDictBase]] = {}

    def stacked(
        self, policies: Mapping[str, TeamPolicy], slots: Mapping[str, Sequence[TeamSeat]], mechs: int
    ) -> list[StackedPolicies]:
        """What decides for the networks among the policies, those of each architecture together.

        Args:
            mechs: number of mechs in a team, to which smaller ones are padded.
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
        """What decides for the teams of a policy that is not stacked, those of different size apart: it is shown no
        padding. On a CPU the teams of a scripted commander are parted into shares, for `decide_all`.

        Args:
            sizes: number of mechs in the team of each row of the batch, `2B` of them.
        """
        by_size: dict[int, list[TeamSeat]] = defaultdict(list)
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
        """What decides for the teams of `battles` battles.

        Args:
            seats: by name of a policy, rows b and b + B of the pool for the teams of battle b.
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


def decide_all(threads: int, deciders: Sequence[Decider], observation: TeamObservation) -> list[Tensor]:
    """What each of `deciders` decides, in their order: scripted commanders side by side on the threads of a CPU."""
    shares = [decider for decider in deciders if isinstance(decider, SeatedPolicy) and is_shareable(decider.policy)]
    if min(threads, len(shares)) < 2 or observation.mask.device.type != "cpu":
        return one_by_one(deciders, observation)

    # The mode belongs to a thread.
    @torch.inference_mode()
    def decide(share: SeatedPolicy) -> Tensor:
        return share.decide(observation)

    decided = dict(zip(map(id, shares), workers(threads).map(decide, shares), strict=True))
    return [decided[id(decider)] if id(decider) in decided else decider.decide(observation) for decider in deciders]


def is_shareable(policy: TeamPolicy) -> bool:
    """Whether threads may share the teams of a policy: a scripted commander keeps nothing to itself."""
    return type(policy) is Heuristic and policy.graph_key() is not None


def keeps_memory(decider: Decider) -> bool:
    """Whether all that a decider goes on from is in its memory."""
    return isinstance(decider, StackedPolicies) or (isinstance(decider, SeatedPolicy) and is_shareable(decider.policy))


def check_policy(name: str, policy: TeamPolicy, env: EchelonEnv) -> None:
    if not isinstance(policy, nn.Module):
        return
    module: nn.Module = policy
    check_evaluation_mode(name, policy)
    check_comm_dim(name, policy, env.config.comm_dim)
    # With the index of a GPU, which the device of an env may lack.
    battle_device = torch.empty(0, dtype=torch.float32, device=env.device).device
    for leaf in (*module.parameters(), *module.buffers()):
        fits = fits_device(leaf.device, battle_device, is_copied=is_stackable(policy))
        require(fits, f"{name}: device", f"{battle_device}, the device of the battles", str(leaf.device))


def fits_device(device: torch.device, where: torch.device, is_copied: bool) -> bool:
    """Whether a policy with weights on `device` can play battles on `where`."""
    return device == where or (is_copied and device.type != "meta")
