"""How the mechs of a battle begin, on what ground, around which zone; and the objective that decides the battle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from echelon.rules.catalog import Catalog, Material
from echelon.rules.limits import LARGEST_MAP_VOX
from echelon.rules.specs import Table
from echelon.runtime.errors import require, short_repr
from echelon.runtime.limits import Limits, Settings, typed

USES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "zone": ("control_s",),
        "hold": ("attackers", "seconds", "control_s"),
        "escort": ("mech", "seconds"),
        "breakthrough": ("attackers", "mechs", "seconds"),
        "elimination": (),
        "king_of_two": ("second_zone", "control_s"),
    }
)
"""The fields of an `Objective` that each kind has."""
MOST_RUNNERS, SHORTEST_S, LASTS = 20, 0.001, Limits(0, 1e6, "s")


@dataclass(frozen=True)
class Objective(Settings):
    """What decides a battle beside the death of a whole team. The zone meant is that of the scenario.

    Raises:
        ConfigError: naming a field that is outside its limits, that its kind needs, or that its kind has not.
    """

    kind: Literal["zone", "hold", "escort", "breakthrough", "elimination", "king_of_two"] = "zone"
    """`zone`: who controls it long enough wins; `hold`: so do attackers, and their enemies win when time is up;
    `escort`: a mech reaches the zone, or its enemies win by its death or when time is up; `breakthrough`: so many
    mechs of one team reach it; `elimination`: nothing else decides; `king_of_two`: as `zone`, and of two zones each
    counts half."""
    attackers: Literal["blue", "red"] = "blue"
    """Of `hold` and `breakthrough`: who has to act. Of `escort` it is the team of the mech."""
    seconds: Annotated[float, LASTS] = 0.0
    """Of `hold`, `escort` and `breakthrough`: when the other team wins; 0: when the battle's time is up."""
    control_s: Annotated[float, LASTS] = 0.0
    """Of `zone`, `hold` and `king_of_two`: seconds of zone control that win; 0: `zone_score_to_win_s` of the rules."""
    mech: str = ""
    """Of `escort`: the mech, such as `blue_1`."""
    mechs: Annotated[int, Limits(1, MOST_RUNNERS, "mechs")] = 1
    """Of `breakthrough`: how many mechs have to reach the zone."""
    second_zone: Annotated[tuple[float, ...], Limits(0, LARGEST_MAP_VOX, "vox")] = ()
    """Of `king_of_two`: column x, y of its centre, and its radius, vox."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in {name for names in USES.values() for name in names} - set(USES[self.kind]):
            value = getattr(self, name)
            require(value == getattr(Objective, name), f"Objective.{name}", f"absent from the kind {self.kind}", value)
        counts = self.control_s == 0 or self.control_s >= SHORTEST_S
        require(counts, "Objective.control_s", f"0 or {SHORTEST_S}..1e6 s", self.control_s)
        if self.kind == "escort":
            require(self.mech != "", "Objective.mech of an escort", "a mech, such as blue_1", self.mech)
        if self.kind == "king_of_two":
            require(len(self.second_zone) == 3, "Objective.second_zone", "x, y, radius", self.second_zone)

    @property
    def attacking(self) -> str:
        """The team that has to act, in a `hold`, `escort` or `breakthrough`."""
        return self.mech.partition("_")[0] if self.kind == "escort" else self.attackers

    def check(self, size: tuple[int, int, int], longest_s: float, names: Collection[str]) -> None:
        """Refuse an objective that a battle cannot have.

        Args:
            size: of the map, vox.
            longest_s: when the battle's time is up.
            names: of its mechs.

        Raises:
            ConfigError: naming the field.
        """
        if self.kind == "escort":
            require(self.mech in names, "Objective.mech", f"one of {', '.join(names)}", self.mech)
        if self.kind == "breakthrough":
            count = sum(name.startswith(self.attackers) for name in names)
            require(self.mechs <= count, "Objective.mechs", f"1..{count} mechs of {self.attackers}", self.mechs)
        if self.kind == "king_of_two":
            check_circle("Objective.second_zone", self.second_zone, size)
        limit = f"at most {longest_s:g} s, the longest battle"
        require(self.seconds <= longest_s, "Objective.seconds", limit, self.seconds)


def whole_columns(circle: tuple[float, ...]) -> tuple[int, int, float]:
    """Column x, y of a zone's centre, and its radius, vox."""
    x, y, radius = circle
    return int(x), int(y), float(radius)


def check_circle(name: str, circle: tuple[float, ...], size: tuple[int, int, int]) -> None:
    """Raise `ConfigError` for a zone that is not within a map of `size` vox."""
    x, y, radius = whole_columns(circle)
    nearest = min(x, y, size[0] - 1 - x, size[1] - 1 - y)
    require(1 <= radius <= nearest + 1, f"radius of {name}", f"1..{nearest + 1:g} vox, within the map", radius)


READY: Mapping[str, float] = Table({})
"""`Unit.cooldown_s` of a mech whose weapons are ready."""
ON_GROUND = -1.0
"""`Unit.bottom` of a mech that stands on the highest ground below its hull."""
NOWHERE = -1.0
"""`Unit.x` and `Unit.y` of a mech that begins in an area."""
MOST_PLACES = 256
"""Places of an area that battles draw from; of more, these are as many evenly spread ones."""
PLACE = Limits(0, LARGEST_MAP_VOX, "vox")
SOMEWHERE = Limits(NOWHERE, LARGEST_MAP_VOX, "vox")
OF_HULL = Limits(0, 1, "of the hull's")
MOST_MECHS = 20
TEAMS = ("blue", "red")
WEIGHT = Limits(1, 100, "times as often as one of weight 1")


@dataclass(frozen=True)
class Unit(Settings):
    """A mech at the beginning of a battle.

    Raises:
        ConfigError: a number is outside its limits.
    """

    team: Literal["blue", "red"]
    """Blue mechs are `blue_0`, `blue_1`, ... in the order in which they stand here, and so are red ones."""
    hull: str
    """A row of the catalog."""
    x: Annotated[float, SOMEWHERE] = NOWHERE
    """Centre of the hull, vox; absent of a mech that begins in an area."""
    y: Annotated[float, SOMEWHERE] = NOWHERE
    """The same along y."""
    bottom: Annotated[float, Limits(ON_GROUND, 31, "vox")] = ON_GROUND
    """Height of the hull's underside, vox; -1: on the highest ground below it."""
    facing_deg: Annotated[float, Limits(-360, 360)] = 0.0
    """Heading: 0 is +x, 90 is +y."""
    hp: Annotated[float, OF_HULL] = 1.0
    """Share of the hull's hit points; 0: the mech is absent, as one that died before the battle began."""
    leg_hp: Annotated[float, OF_HULL] = 1.0
    """Share of the hit points of its legs; 0 is legged."""
    heat: Annotated[float, Limits(0, 2)] = 0.0
    """Share of its heat capacity; it is shut down from 1 on."""
    area: Annotated[tuple[float, ...], PLACE] = ()
    """x, y of the lower left corner of a rectangle and of its upper right one, vox, in place of x and y: each battle
    draws where in it the hull's centre is, on level ground, or where it fits above `bottom`."""

    cooldown_s: Mapping[str, float] = READY
    """Seconds until weapons are ready, by name; `ams` is its AMS. Those that share a timer wait for each other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(isinstance(self.cooldown_s, Mapping), "Unit.cooldown_s", "seconds by weapon", self.cooldown_s)
        waits = {name: typed(float, wait, f"cooldown_s: {name}") for name, wait in self.cooldown_s.items()}
        object.__setattr__(self, "cooldown_s", Table(waits))
        if self.area:
            require(len(self.area) == 4, "Unit.area", "x, y, x, y of two corners", self.area)
            require(self.area[0] < self.area[2] and self.area[1] < self.area[3], "Unit.area", "low, high", self.area)
            require(self.x == self.y == NOWHERE, "Unit.x and Unit.y", "absent beside an area", (self.x, self.y))
        else:
            require(min(self.x, self.y) >= 0, "Unit.x and Unit.y", f"{PLACE}, or an area instead", (self.x, self.y))


@dataclass(frozen=True)
class Box(Settings):
    """Voxels of one material, from the corner `low` up to the corner `high`, which is not in it.

    Raises:
        ConfigError: a corner is no three whole numbers of the map's size at most, or there is no such material.
    """

    most_entries: ClassVar[int] = 4000
    """Boxes of a position: imported ground needs many, and the header of a replay holds them all."""
    low: Annotated[tuple[int, ...], PLACE]
    """x, y, z of the first voxel."""
    high: Annotated[tuple[int, ...], PLACE]
    """x, y, z behind the last voxel."""
    material: str = "solid"
    """`air`, `dirt`, `lava`, `water`, `solid`, `debris_field`, `solid_debris`, `glass`, `reinforced` or `foliage`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.low) == len(self.high) == 3, "Box.low and Box.high", "x, y, z", (self.low, self.high))
        is_box = all(low < high for low, high in zip(self.low, self.high, strict=True))
        require(is_box, "Box.high", f"above {self.low} in x, y and z", self.high)
        names = [material.name.lower() for material in Material]
        require(self.material in names, "Box.material", f"one of {', '.join(names)}", self.material)


@dataclass(frozen=True)
class Position(Settings):
    """Ground, zone and mechs of a battle at its beginning: a `Scenario` without its settings.

    Raises:
        ConfigError: a part is of another type, or a number outside its limits.
    """

    units: tuple[Unit, ...]
    """Where mechs begin, 1 to 20 of either team."""
    boxes: tuple[Box, ...] = ()
    """What stands on open ground, later ones in place of earlier ones."""
    zone: Annotated[tuple[float, ...], PLACE] = ()
    """Column x, y of the zone's centre and its radius in vox; by default 7.5 in the middle of the map."""
    objective: Objective = field(default_factory=Objective)
    """What decides the battle beside the death of a team; by default the zone."""
    weight: Annotated[int, WEIGHT] = 1
    """How often battles begin so, beside the weights of the other positions that they may begin in."""

    __repr__ = short_repr

    @property
    def named(self) -> list[tuple[str, Unit]]:
        """The units by the names of their mechs, blue first: `blue_0`, `blue_1`, ..."""
        teams = [[unit for unit in self.units if unit.team == team] for team in TEAMS]
        return [(f"{unit.team}_{i}", unit) for team in teams for i, unit in enumerate(team)]

    @property
    def present(self) -> list[str]:
        """Names of the mechs that are not absent."""
        return [name for name, unit in self.named if unit.hp > 0]

    def of_sizes(self, blue: int, red: int) -> Position:
        """The position with the first mechs of either team alone; the others are absent."""
        present = {f"{team}_{i}" for team, size in (("blue", blue), ("red", red)) for i in range(size)}
        units = tuple(unit if name in present else replace(unit, hp=0.0) for name, unit in self.named)
        return replace(self, units=units)

    @property
    def rosters(self) -> dict[str, tuple[str, ...]]:
        """Hull of each mech, by team."""
        return {team: tuple(unit.hull for unit in self.units if unit.team == team) for team in TEAMS}

    def circle(self, size: tuple[int, int, int]) -> tuple[int, int, float]:
        """Column x, y of the zone's centre, and its radius, vox, on a map of a `WorldConfig.size`."""
        return whole_columns(self.zone or (size[0] // 2, size[1] // 2, 7.5))

    def check(self, size: tuple[int, int, int], catalog: Catalog, longest_s: float) -> None:
        """Refuse a position on a map of `size` vox, with mechs of a catalog, in battles of at most `longest_s`.

        Raises:
            ConfigError: a team without mechs or with too many, an unknown hull, what is beyond the map, or an objective
                that such a battle cannot have.
        """
        for team, roster in self.rosters.items():
            require(1 <= len(roster) <= MOST_MECHS, f"Scenario.units of {team}", f"1..{MOST_MECHS}", len(roster))
            present = any(name.startswith(team) for name in self.present)
            require(present, f"Scenario.units of {team}", "one at least that has hp", "none")
        for name, unit in self.named:
            require(unit.hull in catalog.hulls, f"hull of {name}", f"one of {', '.join(catalog.hulls)}", unit.hull)
            inside = not unit.area or (unit.area[2] <= size[0] and unit.area[3] <= size[1])
            require(inside, f"area of {name}", f"within the map of {size} vox", unit.area)
            check_cooldowns(name, unit, catalog)
        for box in self.boxes:
            inside = all(high <= side for high, side in zip(box.high, size, strict=True))
            require(inside, "Box.high", f"within the map of {size} vox", box.high)
        require(len(self.zone) in (0, 3), "Scenario.zone", "x, y, radius", self.zone)
        check_circle("Scenario.zone", self.circle(size), size)
        self.objective.check(size, longest_s, self.present)


def timers_of(hull: str, catalog: Catalog) -> dict[str, tuple[int, float]]:
    """By name of what a hull fires its timer, and for how many seconds that is set at most."""
    names, spec = catalog.timer_names, catalog.hulls[hull]
    timers = {name: (names.index(weapon.timer), weapon.cooldown_s) for name, weapon in catalog.carried(hull).items()}
    return timers | ({"ams": (len(names), catalog.ams_cooldown_s)} if spec.ams else {})


def check_cooldowns(name: str, unit: Unit, catalog: Catalog) -> None:
    """Raise `ConfigError` for a cooldown of what a mech does not carry, or one that is longer than its weapon's."""
    timers = timers_of(unit.hull, catalog)
    for weapon, seconds in unit.cooldown_s.items():
        where = f"cooldown_s of {name}"
        require(weapon in timers, where, f"of {', '.join(timers)}, those of a {unit.hull}", weapon)
        is_within = 0 <= seconds <= timers[weapon][1]
        require(is_within, f"{weapon} of {where}", f"0..{timers[weapon][1]:g} s", seconds)


def drawn_positions(positions: tuple[Position, ...]) -> list[int]:
    """Indices of positions, each as many times as battles draw it among so many."""
    divisor = gcd(*(position.weight for position in positions))
    return [index for index, position in enumerate(positions) for _ in range(position.weight // divisor)]
