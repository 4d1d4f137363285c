"""Functions that create views of the environment, of one team or a part of it, of both teams, or with each mech as a
batch row.

`versus`, `partners`, `teams` and `mechs` each build an `EchelonEnv` and a view of it, which is a TorchRL environment on
the same device. A view only renames and reshapes entries; the rules of the battle stay the same. Finished battles
restart inside `maybe_reset` without a copy to the host.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Composite
from torchrl.envs import MarlGroupMapType

from echelon.agents.names import resolve
from echelon.agents.team_policy import TeamPolicy, check_comm_dim, check_evaluation_mode, is_policy
from echelon.env.arguments import check_further
from echelon.env.battle_states import require_whole_battles
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import GROUPS
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.limits import whole
from echelon.views.commanded import AllMechs, OneTeam, Side
from echelon.views.group_form import ActionForm, ObservationForm, PerGroup
from echelon.views.partition import Member, Partition, by_team, groups_of, require_group_name, team_members
from echelon.views.view import View


class MechView(View):
    """A view with every commanded mech as a row of the batch `[B, n]`; create it with `mechs`.

    Keys are those of `View` without the group, such as `observation [B, n, F]`, `action [B, n, D]`, `reward [B, n, 1]`
    and `mask [B, n]`. Entries of a battle, such as `telemetry [B, n, 16, 16]` and `done [B, n, 1]`, are expanded to its
    mechs.
    """

    def _batch(self, num_envs: int, count: int) -> torch.Size:
        return torch.Size([num_envs, count])

    def _set_specs(self, observation: Composite, action: Composite, reward: Composite, done: Composite) -> None:
        (group,) = self.forms
        root = {name: observation[name] for name in observation.keys() if name != group}
        merged = observation[group].clone()
        for name, spec in root.items():
            merged[name] = self._expanded(spec)
        flags = Composite({name: self._expanded(done[name]) for name in done.keys()}, shape=self.batch_size)
        super()._set_specs(merged, action[group].clone(), reward[group].clone(), flags.to(self.device))

    def _expanded(self, spec: Any) -> Any:
        """Expand the spec of a battle's entry, `[B, ...]`, to its mechs, `[B, n, ...]`."""
        return spec.unsqueeze(1).expand(*self.batch_size, *spec.shape[1:]).clone()

    def _key(self, group: str, name: str) -> tuple[str, ...]:
        return (name,)

    def _set_group(self, td: TensorDict, group: str, team: TensorDict) -> None:
        td.update(team)

    def _set_root(self, td: TensorDict, name: str, value: Tensor | TensorDictBase) -> None:
        td.set(name, value.unsqueeze(1).expand(*self.batch_size, *value.shape[1:]))

    def _per_battle(self, flag: Tensor) -> Tensor:
        return flag.view(*self.batch_size, 1)[:, 0]

    def _whole_battles(self, name: str, mask: Tensor) -> Tensor:
        require_whole_battles(name, mask)
        return self._per_battle(mask)


Opponent: TypeAlias = "str | os.PathLike[str] | TeamPolicy"


def env_of(
    maker: Callable[..., Any],
    config: EnvConfig,
    num_envs: int,
    device: torch.device | str | None,
    seed: int | Tensor | None,
    settings: Mapping[str, Any],
) -> EchelonEnv:
    """Create the `EchelonEnv` for a view of the function `maker`; reject unknown `settings`."""
    check_further(maker, settings)
    return EchelonEnv(config, num_envs, device, seed, **settings)


def versus(
    config: EnvConfig = EnvConfig(),
    opponent: Opponent = "heuristic:normal",
    num_envs: int = 1,
    device: torch.device | str | None = None,
    seed: int | Tensor | None = None,
    *,
    side: Side = "both",
    groups: Partition | None = None,
    group_map: Partition | None = None,
    observation: PerGroup[ObservationForm] = "flat",
    action: PerGroup[ActionForm] = "continuous",
    state: bool = False,
    memory: PerGroup[Composite] | None = None,
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> View:
    """Create a view in which the user commands one team, and an opponent policy inside the environment commands the
    other team.

    The A mechs of the user's team form one group `agents`, or the given `groups`. A group of k mechs has
    `(group, "action") [B, k, 18 + comm_dim]`, `(group, "observation") [B, k, F]`, `(group, "reward") [B, k, 1]`,
    `(group, "mask") [B, k]` and more; see `echelon.views.view.View`.

    Args:
        config: the battle.
        num_envs: number of parallel battles B.
        device, seed: device and seeds of the battles; see `EchelonEnv`.
        opponent: the other team's policy, given as `heuristic:TIER`, as the path of a checkpoint folder, as
            `package.module:Commander`, or as a team policy (`echelon.views.group_policy.TeamPolicy`). The view stores
            the opponent's memory. A trained opponent samples its actions from the battle's seed.
        side: team that the user commands; with `both`, blue in even battles and red in odd battles.
        groups: groups of the mechs `agent_0` to `agent_{A - 1}`, as a dict of mech names by group, such as
            `dict(scouts=["agent_4"], others=[...])`; "class", "pack" or "mech" for a group of each class (`heavy`), of
            each pack (`pack_0`) or of each mech (`agent_0`); or a `MarlGroupMapType`.
        group_map: the same as `groups`, under the name that TorchRL uses.
        observation, action, state, memory, dtype: see `View`.
        settings: further arguments of `EchelonEnv`, namely `backend`, `maps`, `info`, `observer`, `extra_rewards`.

    Returns:
        The view, batch `[B]`.

    Raises:
        ConfigError: if a setting is out of range, a mech is not in exactly one group, the opponent is a network in
            training mode, or `side` is `both` and the teams differ in size.
        FileError: if the opponent is a path that contains no checkpoint for battles of `config`.
    """
    env = env_of(versus, config, num_envs, device, seed, settings)
    commanded = OneTeam.of(side, env.group_map, env.num_envs, env.device)
    partition = groups_of_team(groups, group_map, team_members(config, side, commanded.names))
    policy = team_policy(opponent, config, env.device)
    return View(env, commanded, policy, partition, observation, action, state, memory, dtype)


def partners(
    config: EnvConfig = EnvConfig(),
    partner: Opponent = "heuristic:normal",
    mine: int | Sequence[int] = 1,
    opponent: Opponent = "heuristic:normal",
    num_envs: int = 1,
    device: torch.device | str | None = None,
    seed: int | Tensor | None = None,
    *,
    side: Side = "both",
    groups: Partition | None = None,
    group_map: Partition | None = None,
    observation: PerGroup[ObservationForm] = "flat",
    action: PerGroup[ActionForm] = "continuous",
    state: bool = False,
    memory: PerGroup[Composite] | None = None,
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> View:
    """Create a view of some mechs of a team, for ad hoc teamwork: a partner policy commands the team's other mechs.

    The view has the entries of a `versus` view, for the user's k mechs. The partner decides for the whole team, and its
    actions for the user's mechs are dropped.

    Args:
        partner: policy of the team's other mechs, in one of the forms of `opponent` in `versus`.
        mine: which mechs the user commands, as a number k for the first k mechs of the team, or as a list of indices in
            the team.
        config, opponent, num_envs, device, seed, side, observation, action, state, memory, dtype, settings: see
            `versus`.
        groups, group_map: see `versus`; mechs are named by their index in the team, such as `agent_3`.

    Returns:
        The view, batch `[B]`.

    Raises:
        ConfigError: in the cases of `versus`, or if `mine` leaves no mech to the user or to the partner.
        FileError: if the partner or the opponent is a path that contains no checkpoint for battles of `config`.
    """
    env = env_of(partners, config, num_envs, device, seed, settings)
    team = OneTeam.of(side, env.group_map, env.num_envs, env.device)
    places = places_of(mine, team.count)
    commanded = team.some(places, env.device)
    members = team_members(config, side, team.names)
    partition = groups_of_team(groups, group_map, [members[index] for index in places])
    policy, friend = team_policy(opponent, config, env.device), team_policy(partner, config, env.device, "partner")
    return View(env, commanded, policy, partition, observation, action, state, memory, dtype, friend)


def places_of(mine: int | Sequence[int], mechs: int) -> list[int]:
    """Return the sorted indices of the user's mechs in a team."""
    limit = f"1..{mechs - 1}, a number of mechs, or different places among 0..{mechs - 1}, not all of them"
    indices: list[int] = []
    with contextlib.suppress(ConfigError):  # The error below is more precise than that of `whole`.
        places = mine if isinstance(mine, Sequence) else range(min(whole("mine", mine), mechs))
        indices = [whole("mine", place) for place in places]
    are_inside = all(0 <= index < mechs for index in indices)
    require(are_inside and 0 < len(set(indices)) == len(indices) < mechs, "mine", limit, mine)
    return sorted(indices)


def teams(
    config: EnvConfig = EnvConfig(),
    num_envs: int = 1,
    device: torch.device | str | None = None,
    seed: int | Tensor | None = None,
    *,
    groups: Sequence[str] | Partition = GROUPS,
    group_map: Partition | None = None,
    observation: PerGroup[ObservationForm] = "flat",
    action: PerGroup[ActionForm] = "continuous",
    state: bool = False,
    memory: PerGroup[Composite] | None = None,
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> View:
    """Create a view of both teams, commanded by the user: one group per team, or any partition of all mechs.

    The view has the entries and shapes of a `versus` view, for the mechs of both teams.

    Args:
        groups: names of the groups of blue and red instead of `("blue", "red")`; or a partition of the mechs `blue_0`,
            `red_0` and so on, as a dict of mech names by group; "class", "pack" or "mech" for a group of each class
            (`blue_heavy`), of each pack (`blue_pack_0`) or of each mech of a team (`blue_0`); or a `MarlGroupMapType`.
        group_map: a partition of the mechs, if `groups` contains team names; mechs are named after their team, as
            `{name}_0` and so on.
        config, num_envs, device, seed, observation, action, state, memory, dtype, settings: see `versus`.

    Returns:
        The view, batch `[B]`.

    Raises:
        ConfigError: if a setting is out of range, or a mech is not in exactly one group.
    """
    names = team_names(groups) if isinstance(groups, list | tuple) else None
    require(names is not None or group_map is None, "group_map", "None, because `groups` lists mechs", group_map)
    env = env_of(teams, config, num_envs, device, seed, settings)
    members = mechs_of_teams(config, names or GROUPS)
    commanded = AllMechs([member.name for member in members], len(config.blue))
    if names is None:
        partition = groups_of(cast(Partition, groups), members, also="two different names, ")
    else:
        partition = groups_of(by_team(members) if group_map is None else group_map, members, "group_map")
    return View(env, commanded, None, partition, observation, action, state, memory, dtype)


def groups_of_team(
    groups: Partition | None, group_map: Partition | None, members: Sequence[Member]
) -> dict[str, list[str]]:
    """Return the groups of one team, given as `groups` or as `group_map`; by default, one group `agents`."""
    require(
        groups is None or group_map is None,
        "group_map",
        "left out if `groups` is given, because both define the groups",
        group_map,
    )
    if groups is not None:
        return groups_of(groups, members)
    return groups_of(MarlGroupMapType.ALL_IN_ONE_GROUP if group_map is None else group_map, members, "group_map")


def mechs_of_teams(config: EnvConfig, names: Sequence[str]) -> list[Member]:
    """Return the mechs of both teams, blue first, named `{name}_0` and so on."""
    sides: tuple[tuple[Side, int], ...] = (("blue", len(config.blue)), ("red", len(config.red)))
    return [
        member
        for (side, count), name in zip(sides, names, strict=True)
        for member in team_members(config, side, [f"{name}_{i}" for i in range(count)], name)
    ]


def team_names(groups: Sequence[str]) -> Sequence[str]:
    are_two = all(isinstance(name, str) for name in groups) and len(groups) == len(set(groups)) == 2
    require(are_two, "groups", "two different names, or a partition of the mechs", groups)
    for name in groups:
        require_group_name(name, "groups")
    return groups


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
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> MechView:
    """Create a view with every commanded mech as a row of the batch `[B, n]`, for single-agent code.

    The view's entries are `action [B, n, 18 + comm_dim]`, `observation [B, n, F]`, `reward [B, n, 1]`, `mask [B, n]`,
    `done [B, n, 1]` and more; see `echelon.views.build.MechView`. The episode ends for all mechs of a battle at the
    same time.

    Args:
        opponent: as in `versus`; None if the user commands both teams, so n = N.
        config, num_envs, device, seed, side, observation, action, state, memory, dtype, settings: see `versus`.

    Returns:
        The view, batch `[B, n]`.

    Raises:
        ConfigError, FileError: in the same cases as `versus`.
    """
    env = env_of(mechs, config, num_envs, device, seed, settings)
    commanded: OneTeam | AllMechs
    if opponent is None:
        commanded = AllMechs(env.agent_names, len(env.group_map[GROUPS[0]]))
        policy = None
    else:
        commanded = OneTeam.of(side, env.group_map, env.num_envs, env.device)
        policy = team_policy(opponent, config, env.device)
    return MechView(env, commanded, policy, {"agents": commanded.names}, observation, action, state, memory, dtype)


def team_policy(opponent: Opponent, config: EnvConfig, device: torch.device, who: str = "opponent") -> TeamPolicy:
    """Return the given policy, or build the policy that the given name or path refers to."""
    if not isinstance(opponent, str | os.PathLike):
        require(is_policy(opponent), who, "a name, a path or a team policy (not a class)", opponent)
        check_evaluation_mode(who, opponent)
        check_comm_dim(who, opponent, config.comm_dim)
        return opponent
    commander = resolve(opponent)
    limit = "one that gives no orders to packs: matches and evaluations carry those out"
    require(not commander.gives_orders, who, limit, opponent)
    return commander.policy(config, device)
