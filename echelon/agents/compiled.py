"""Commanders as compiled graphs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.agents.heuristic import Heuristic
from echelon.agents.stacked import is_stackable
from echelon.agents.team_policy import TeamPolicy
from echelon.agents.tiers import TIERS
from echelon.runtime.compile import fused


def compiled_commander(commander: TeamPolicy, device: torch.device) -> Callable[[TensorDictBase], TensorDictBase]:
    """What decides as a commander does, compiled when it is first called.

    Of a policy that is `Stackable` its network is compiled. A class of the user's own is returned as it is: what it
    does may not fit into a graph.
    """
    if type(commander) is Heuristic:
        return compiled_heuristic(commander, device)
    if is_stackable(commander):
        commander.act = fused(commander.network.forward, device)
    return commander


def compiled_heuristic(commander: Heuristic, device: torch.device) -> Callable[[TensorDictBase], TensorDictBase]:
    """A scripted commander as one graph; its `weapon_use [B, A, 1]` is read at each call."""

    def decide(weapon_use: Tensor, *read: Tensor) -> tuple[Tensor, ...]:
        commander.weapon_use = weapon_use
        team = TensorDict({}, read[0].shape[:2])
        for name, leaf in zip(commander.in_keys, read, strict=True):
            team.set(name, leaf)
        output = commander(team)
        return tuple(output.get(name) for name in commander.out_keys)

    tier = next((name for name, value in TIERS.items() if value is commander.tier), "of your own")
    graph = fused(decide, device, name=f"heuristic:{tier}", exact=True)

    def call(team: TensorDictBase) -> TensorDictBase:
        # A number would be a constant of the graph, and another one would compile it again; so would other strides.
        weapon_use = torch.as_tensor(commander.weapon_use, device=device).expand(*team.shape, 1).contiguous()
        for name, leaf in zip(commander.out_keys, graph(weapon_use, *map(team.get, commander.in_keys)), strict=True):
            team.set(name, leaf)
        return team

    return call
