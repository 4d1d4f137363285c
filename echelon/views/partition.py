"""Partitions of a view's commanded mechs into groups, by a rule or by explicit lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from torchrl.envs import MarlGroupMapType

from echelon.env.observation.layout import GROUPS
from echelon.rules.config import EnvConfig
from echelon.rules.roster import build_formation
from echelon.runtime.errors import ConfigError, quoted, require
from echelon.views.commanded import Side

Partition: TypeAlias = Literal["class", "pack", "mech"] | MarlGroupMapType | Mapping[str, Sequence[str]]
"""A rule (by chassis class, by pack of five, or one group per mech), a rule of TorchRL, or mech names by group."""
RESERVED = (
    *("action", "reward", "observation", "mask", "action_mask", "memory", "reward_terms", "next", "_reset"),
    *("done", "terminated", "truncated", "is_init", "telemetry", "state", "outcome"),
)
"""Keys of a view, which are not allowed as names of groups."""


@dataclass(frozen=True)
class Member:
    """A commanded mech of a view, with the properties by which a rule assigns mechs to groups."""

    name: str
    team: str
    """Prefix of its groups' names; empty if only one team is commanded."""
    hull_class: str
    """`scout`, `light`, `medium` or `heavy`; both classes, as `medium or scout`, if they depend on the side."""
    pack: int
    """Index of its pack in its team."""

    def of_team(self, group: str) -> str:
        """Return the group's name; if both teams are commanded, the name has the team as prefix, such as
        `blue_heavy`."""
        return f"{self.team}_{group}" if self.team else group


def team_members(config: EnvConfig, side: Side, names: Sequence[str], team: str = "") -> list[Member]:
    """Return the mechs of the team on `side`, with the given names; with `both`, of the user's team, whose side
    differs between battles."""
    formation = build_formation(config)
    of_team = {
        group: [n for n in range(formation.num_mechs) if formation.is_red[n] == (group == "red")] for group in GROUPS
    }
    sides = GROUPS if side == "both" else (side,)
    classes = [[formation.classes[n].name.lower() for n in of_team[group]] for group in sides]
    class_names = [" or ".join(dict.fromkeys(pair)) for pair in zip(*classes, strict=True)]
    packs = [formation.pack[n] - formation.pack[of_team[sides[0]][0]] for n in of_team[sides[0]]]
    return [Member(name, team, kind, pack) for name, kind, pack in zip(names, class_names, packs, strict=True)]


PARTITIONS: dict[str, Callable[[Member], str]] = {
    "class": lambda member: member.of_team(member.hull_class),
    "pack": lambda member: member.of_team(f"pack_{member.pack}"),
    "mech": lambda member: member.name,
}
"""By rule: maps a mech to the name of its group."""


def by_team(members: Sequence[Member]) -> dict[str, list[str]]:
    """Return one group per team, with the team's name."""
    return {team: [m.name for m in members if m.team == team] for team in dict.fromkeys(m.team for m in members)}


def groups_of(
    partition: Partition, members: Sequence[Member], argument: str = "groups", also: str = ""
) -> dict[str, list[str]]:
    """Return the mech names of each group, ordered by first mech or as in the user's mapping."""
    names = [member.name for member in members]
    if isinstance(partition, MarlGroupMapType):
        return partition.get_group_map(names)
    if isinstance(partition, str) and partition in PARTITIONS:
        if partition == "class":
            require_known_classes(members, argument)
        result: dict[str, list[str]] = {}
        for member in members:
            result.setdefault(PARTITIONS[partition](member), []).append(member.name)
        return result
    is_map = isinstance(partition, Mapping) and all(isinstance(mechs, list | tuple) for mechs in partition.values())
    limit = f"{also}{', '.join(PARTITIONS)}, a MarlGroupMapType or lists of names by group"
    require(is_map, argument, limit, partition)
    assert isinstance(partition, Mapping)
    require_partition(partition, names, argument)
    return {group: list(mechs) for group, mechs in partition.items()}


def require_known_classes(members: Sequence[Member], argument: str) -> None:
    """Reject grouping by class if a mech's class depends on the side."""
    for member in members:
        if " or " in member.hull_class:
            raise ConfigError(
                f"{argument} expected another rule than 'class' unless side is blue or red, "
                f"got teams that differ: {member.name} is {member.hull_class}, depending on the side"
            )


def require_partition(groups: Mapping[str, Sequence[str]], names: Sequence[str], argument: str) -> None:
    """Reject groups that do not contain each of `names` exactly once, or whose names are keys of a view."""

    def refuse(problem: str) -> NoReturn:
        raise ConfigError(f"{argument} must be each of {', '.join(names)} in one group, got {problem}")

    group_of: dict[str, str] = {}
    for group, mechs in groups.items():
        require_group_name(group, argument)
        if not mechs:
            refuse(f"no mech in {quoted(group)}")
        for mech in mechs:
            if mech not in names:
                refuse(f"{quoted(mech)} in {quoted(group)}")
            if mech in group_of:
                refuse(f"{mech} in {quoted(group_of[mech])} and in {quoted(group)}")
            group_of[mech] = group
    missing = [name for name in names if name not in group_of]
    if missing:
        refuse(f"{', '.join(missing)} in no group")


def require_group_name(name: object, argument: str) -> None:
    """Reject a group name that is no string or is a key of every view."""
    is_name = isinstance(name, str) and name != "" and name not in RESERVED
    require(is_name, f"a group of {argument}", f"a name other than {', '.join(RESERVED)}", name)
