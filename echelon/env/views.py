"""The environment as other programs expect it: one team, both teams, or every mech as a row of the batch.

`versus`, `teams` and `mechs` each build an `EchelonEnv` and a view of it, itself a TorchRL environment on the same
device. A view renames and reshapes; it adds no rule. Battles that end restart inside `maybe_reset` without a host read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torchrl.data import Composite
from torchrl.envs import MarlGroupMapType

from echelon.env.commanded import AllMechs, OneTeam, Side
from echelon.env.env import EchelonEnv
from echelon.env.group_policy import TeamPolicy
from echelon.env.observation.layout import GROUPS
from echelon.env.team_view import ActionForm, MechView, ObservationForm, View
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require

GroupMap: TypeAlias = MarlGroupMapType | Mapping[str, Sequence[str]]
Opponent: TypeAlias = str | TeamPolicy


def versus(
    config: EnvConfig = EnvConfig(),
    opponent: Opponent = "heuristic:normal",
    num_envs: int = 1,
    device: torch.device | str | None = None,
    seed: int | Tensor | None = None,
    *,
    side: Side = "both",
    group_map: GroupMap = MarlGroupMapType.ALL_IN_ONE_GROUP,
    observation: ObservationForm = "flat",
    action: ActionForm = "continuous",
    state: bool = False,
    memory: Composite | None = None,
    **settings: Any,
) -> View:
    """One team against an opponent that the environment commands: one group `agents` of A mechs.

    Args:
        config: the battle; see `EnvConfig.small`, `.standard` and `.large`.
        opponent: `heuristic:TIER`, the path of a checkpoint folder, `package.module:Commander`, or a policy of a team
            (`echelon.env.group_policy.TeamPolicy`). It keeps its own memory, and a trained one draws its actions from
            the seed of the battle.
        num_envs: battles, B.
        device, seed: as in `EchelonEnv`.
        side: team that the user commands; with `both`, blue in battles 0, 2, ... and red in battles 1, 3, ....
        group_map: groups of the mechs `agent_0` to `agent_{A - 1}`.
        observation, action, state, memory: see `View`.
        settings: further arguments of `EchelonEnv`: `compiled`, `maps`, `info`, `observer`.

    Raises:
        ConfigError: a setting is out of range, or `side` is `both` and the teams differ in size.
        FileError: the opponent is a path without a checkpoint for such battles.
    """
    env = EchelonEnv(config, num_envs, device, seed, **settings)
    commanded = OneTeam.of(side, env.group_map, env.num_envs, env.device)
    groups = resolve_group_map(group_map, commanded.names)
    policy = team_policy(opponent, config, env.device)
    return View(env, commanded, policy, groups, observation, action, state, memory)


def teams(
    config: EnvConfig = EnvConfig(),
    num_envs: int = 1,
    device: torch.device | str | None = None,
    seed: int | Tensor | None = None,
    *,
    groups: tuple[str, str] = GROUPS,
    group_map: GroupMap | None = None,
    observation: ObservationForm = "flat",
    action: ActionForm = "continuous",
    state: bool = False,
    memory: Composite | None = None,
    **settings: Any,
) -> View:
    """Both teams, commanded by the user.

    Args:
        groups: names of the blue and the red team as groups; mechs are `{group}_0` and so on.
        group_map: other groups of these mechs.
        config, num_envs, device, seed, observation, action, state, memory, settings: see `versus`.
    """
    names = [group for group in groups if isinstance(group, str)] if isinstance(groups, list | tuple) else []
    require(len(names) == len(set(names)) == 2, "groups", "two different names", groups)
    env = EchelonEnv(config, num_envs, device, seed, **settings)
    sizes = [len(names) for names in env.group_map.values()]
    named = {group: [f"{group}_{i}" for i in range(size)] for group, size in zip(groups, sizes, strict=True)}
    commanded = AllMechs([name for names in named.values() for name in names], sizes[0])
    chosen = named if group_map is None else resolve_group_map(group_map, commanded.names)
    return View(env, commanded, None, chosen, observation, action, state, memory)


def mechs(
    config: EnvConfig = EnvConfig(),
    opponent: Opponent | None = "heuristic:normal",
    num_envs: int = 1,
    device: torch.device | str | None = None,
    seed: int | Tensor | None = None,
    *,
    side: Side = "both",
    observation: ObservationForm = "flat",
    action: ActionForm = "continuous",
    state: bool = False,
    memory: Composite | None = None,
    **settings: Any,
) -> MechView:
    """Every commanded mech as a row of the batch `[B, n]`, for single-agent code; all mechs of a battle end together.

    Args:
        opponent: as in `versus`; None for a user who commands both teams, so that n = N.
        config, num_envs, device, seed, side, observation, action, state, memory, settings: see `versus`.
    """
    env = EchelonEnv(config, num_envs, device, seed, **settings)
    commanded: OneTeam | AllMechs
    if opponent is None:
        commanded = AllMechs(env.agent_names, len(env.group_map[GROUPS[0]]))
        policy = None
    else:
        commanded = OneTeam.of(side, env.group_map, env.num_envs, env.device)
        policy = team_policy(opponent, config, env.device)
    return MechView(env, commanded, policy, {"agents": commanded.names}, observation, action, state, memory)


def team_policy(opponent: Opponent, config: EnvConfig, device: torch.device) -> TeamPolicy:
    """The policy itself, or the one that a name means."""
    if not isinstance(opponent, str):
        return opponent
    # A lazy import: names mean scripted commanders and checkpoints, which live above the environment.
    from echelon.arena.resolve import resolve

    return resolve(opponent).policy(config, device)


def resolve_group_map(group_map: GroupMap, names: Sequence[str]) -> dict[str, list[str]]:
    """Groups of the mechs `names`, each in exactly one.

    Raises:
        ConfigError: a group is empty, or a mech is in none, in several, or unknown.
    """
    if isinstance(group_map, MarlGroupMapType):
        return group_map.get_group_map(list(names))
    is_map = isinstance(group_map, Mapping) and all(isinstance(members, list | tuple) for members in group_map.values())
    require(is_map, "group_map", "a MarlGroupMapType or lists of names by group", group_map)
    chosen = {group: list(members) for group, members in group_map.items()}
    flat = [name for members in chosen.values() for name in members]
    is_partition = sorted(map(str, flat)) == sorted(names) and all(chosen.values())
    require(is_partition, "group_map", f"each of {', '.join(names)} in one group", chosen)
    return chosen
