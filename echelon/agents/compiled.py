"""Compile the decisions of commanders with `torch.compile`."""

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
    """Return a callable that decides like the commander and is compiled at its first call.

    Only the network of a `Stackable` policy is compiled. A commander of a user's own class is returned unchanged,
    because `torch.compile` may not support its code.
    """
    if type(commander) is Heuristic:
        return compiled_heuristic(commander, device)
    if is_stackable(commander):
        commander.act = fused(commander.network.forward, device)
    return commander


def compiled_heuristic(commander: Heuristic, device: torch.device) -> Callable[[TensorDictBase], TensorDictBase]:
    """Compile a scripted commander into one graph, which reads the commander's `weapon_use [B, A, 1]` at each call."""

    def decide(weapon_use: Tensor, *read: Tensor) -> tuple[Tensor, ...]:
        commander.weapon_use = weapon_use
        team = TensorDict({}, read[0].shape[:2])
        for name, leaf in zip(commander.in_keys, read, strict=True):
            team.set(name, leaf)
        output = commander(team)
        return tuple(output.get(name) for name in commander.out_keys)

    tier = next((name for name, value in TIERS.items() if value is commander.tier), "custom")
    graph = fused(decide, device, name=f"heuristic:{tier}", exact=True)

    def call(team: TensorDictBase) -> TensorDictBase:
        # Pass a contiguous tensor: torch.compile would recompile for each new Python number, and for other strides.
        weapon_use = torch.as_tensor(commander.weapon_use, device=device).expand(*team.shape, 1).contiguous()
        for name, leaf in zip(commander.out_keys, graph(weapon_use, *map(team.get, commander.in_keys)), strict=True):
            team.set(name, leaf)
        return team

    return call
