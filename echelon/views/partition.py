"""Which groups the commanded mechs of a view form: by a rule, or as its user lists them."""

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
"""By chassis class, by pack of five or one group a mech, a rule of TorchRL's, or the names of the mechs by group."""
RESERVED = (
    *("action", "reward", "observation", "mask", "action_mask", "memory", "reward_terms", "next", "_reset"),
    *("done", "terminated", "truncated", "is_init", "telemetry", "state", "outcome"),
)
"""Keys of a view, which no group may take for its name."""


@dataclass(frozen=True)
class Member:
    """A mech that the user of a view commands, and what rules sort it by."""

    name: str
    team: str
    """What the names of its groups begin with; empty where one team is commanded."""
    hull_class: str
    """`scout`, `light`, `medium` or `heavy`; of a side that changes from battle to battle, both sides' where they
    differ, as `medium or scout`."""
    pack: int
    """Which pack of its team, counted from 0."""

    def of_team(self, group: str) -> str:
        """`heavy`, or `blue_heavy` where both teams are commanded."""
        return f"{self.team}_{group}" if self.team else group


def team_members(config: EnvConfig, side: Side, names: Sequence[str], team: str = "") -> list[Member]:
    """The mechs of the team on `side`, or of the team that is on either, under the names that a view gives them."""
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
"""The name of a mech's group, by the name of the rule."""


def by_team(members: Sequence[Member]) -> dict[str, list[str]]:
    """A group each team, of the team's name."""
    return {team: [m.name for m in members if m.team == team] for team in dict.fromkeys(m.team for m in members)}


def groups_of(
    partition: Partition, members: Sequence[Member], argument: str = "groups", also: str = ""
) -> dict[str, list[str]]:
    """The mechs of each group by name, groups in the order of their first mech or as the user lists them."""
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
    """Refuse to sort by class a team whose mechs are of another class on the other side."""
    for member in members:
        if " or " in member.hull_class:
            raise ConfigError(
                f"{argument} must be other than 'class' unless side is blue or red: the teams differ, "
                f"{member.name} is {member.hull_class} by the side"
            )


def require_partition(groups: Mapping[str, Sequence[str]], names: Sequence[str], argument: str) -> None:
    """Refuse groups that do not hold each of `names` once, or cannot be told apart from other keys of a view."""

    def refuse(problem: str) -> NoReturn:
        raise ConfigError(f"{argument} must be each of {', '.join(names)} in one group, got {problem}")

    group_of: dict[str, str] = {}
    for group, mechs in groups.items():
        require_group_name(group, argument)
        if not mechs:
            refuse(f"nobody in {quoted(group)}")
        for mech in mechs:
            if mech not in names:
                refuse(f"{quoted(mech)} in {quoted(group)}")
            if mech in group_of:
                refuse(f"{mech} in {quoted(group_of[mech])} and again in {quoted(group)}")
            group_of[mech] = group
    missing = [name for name in names if name not in group_of]
    if missing:
        refuse(f"{', '.join(missing)} in none")


def require_group_name(name: object, argument: str) -> None:
    """Refuse as the name of a group what is no text, or a key of every view."""
    is_name = isinstance(name, str) and name != "" and name not in RESERVED
    require(is_name, f"a group of {argument}", f"a name other than {', '.join(RESERVED)}", name)
