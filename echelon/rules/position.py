"""The initial position of a battle: terrain, zone and mechs, and the objective that decides the battle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from echelon.rules.catalog import Catalog, Material
from echelon.rules.limits import LARGEST_MAP_VOX, MOST_MAPS
from echelon.rules.physics import RulesConfig
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
"""The fields of `Objective` that each kind uses."""
MOST_RUNNERS, SHORTEST_S, LASTS = 20, 0.001, Limits(0, 1e6, "s")


@dataclass(frozen=True)
class Objective(Settings):
    """What decides a battle, besides the death of a whole team. "The zone" is the zone of the scenario.

    Raises:
        ConfigError: if a field is outside its limits, missing, or not used by this kind of objective.
    """

    kind: Literal["zone", "hold", "escort", "breakthrough", "elimination", "king_of_two"] = "zone"
    """Kind of the objective.

    - `zone`: the first team with enough zone control wins.
    - `hold`: the attackers win by zone control, the defenders win when time is up.
    - `escort`: a team wins if its `mech` reaches the zone, its enemies win if the mech dies or time is up.
    - `breakthrough`: the attackers win if `mechs` of them reach the zone, the defenders win when time is up.
    - `elimination`: only the death of a team decides.
    - `king_of_two`: as `zone`, with two zones that count half each.
    """
    attackers: Literal["blue", "red"] = "blue"
    """`hold` and `breakthrough`: the attacking team. In `escort` it is the team of the mech."""
    seconds: Annotated[float, LASTS] = 0.0
    """`hold`, `escort` and `breakthrough`: time after which the defenders win, s; 0 for the battle's time limit."""
    control_s: Annotated[float, LASTS] = 0.0
    """`zone`, `hold` and `king_of_two`: seconds of zone control that win; 0 for `zone_score_to_win_s` of the rules."""
    mech: str = ""
    """`escort`: name of the mech, such as `blue_1`."""
    mechs: Annotated[int, Limits(1, MOST_RUNNERS, "mechs")] = 1
    """`breakthrough`: number of mechs that must reach the zone."""
    second_zone: Annotated[tuple[float, ...], Limits(0, LARGEST_MAP_VOX, "vox")] = ()
    """`king_of_two`: x and y of the second zone's central column, and its radius, vox."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in {name for names in USES.values() for name in names} - set(USES[self.kind]):
            value = getattr(self, name)
            require(
                value == getattr(Objective, name),
                f"Objective.{name}",
                f"absent, because the kind {self.kind} does not use it",
                value,
            )
        counts = self.control_s == 0 or self.control_s >= SHORTEST_S
        require(counts, "Objective.control_s", f"0 or {SHORTEST_S}..1e6 s", self.control_s)
        if self.kind == "escort":
            require(self.mech != "", "Objective.mech of an escort", "the name of a mech, such as blue_1", self.mech)
        if self.kind == "king_of_two":
            require(len(self.second_zone) == 3, "Objective.second_zone", "x, y, radius", self.second_zone)

    @property
    def attacking(self) -> str:
        """The attacking team of a `hold`, `escort` or `breakthrough`."""
        return self.mech.partition("_")[0] if self.kind == "escort" else self.attackers

    def check(self, size: tuple[int, int, int], longest_s: float, names: Collection[str]) -> None:
        """Check that a battle can have this objective.

        Args:
            size: size of the map, vox.
            longest_s: time limit of the battle, s.
            names: names of the mechs of the battle.

        Raises:
            ConfigError: if a field does not fit the battle.
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
    """Return x and y of a zone's central column as integers, and its radius, vox."""
    x, y, radius = circle
    return int(x), int(y), float(radius)


def check_circle(name: str, circle: tuple[float, ...], size: tuple[int, int, int]) -> None:
    """Raise `ConfigError` if a zone is not inside a map of `size` vox."""
    x, y, radius = whole_columns(circle)
    nearest = min(x, y, size[0] - 1 - x, size[1] - 1 - y)
    require(1 <= radius <= nearest + 1, f"radius of {name}", f"1..{nearest + 1:g} vox, within the map", radius)


READY: Mapping[str, float] = Table({})
"""Default of `Unit.cooldown_s`: all weapons are ready."""
ON_GROUND = -1.0
"""Default of `Unit.bottom`: the mech stands on the highest ground below its hull."""
NOWHERE = -1.0
"""Default of `Unit.x` and `Unit.y`, for a mech that starts in an area."""
ASIDE = 4.0
"""x and y of an absent mech, vox."""
MOST_PLACES = 256
"""Maximum number of places in an area that battles draw from. Larger areas are subsampled evenly."""
PLACE = Limits(0, LARGEST_MAP_VOX, "vox")
SOMEWHERE = Limits(NOWHERE, LARGEST_MAP_VOX, "vox")
OF_HULL = Limits(0, 1, "of the hull's")
MOST_MECHS = 20
TEAMS: tuple[Literal["blue", "red"], ...] = ("blue", "red")
OF_SCENARIO = Limits(1, 100, "times as often as one of weight 1")
"""Weight of a scenario; its positions share it."""
WEIGHT = Limits(1, 100 * MOST_MAPS, "times as often as one of weight 1")


@dataclass(frozen=True)
class Unit(Settings):
    """A mech at the start of a battle.

    Raises:
        ConfigError: if a value is outside its limits.
    """

    team: Literal["blue", "red"]
    """Team of the mech. Mechs of a team are named `blue_0`, `blue_1`, ... in the order of the units."""
    hull: str
    """Name of a hull of the catalog."""
    x: Annotated[float, SOMEWHERE] = NOWHERE
    """x of the hull's centre, vox. Omit it if the mech starts in an `area`."""
    y: Annotated[float, SOMEWHERE] = NOWHERE
    """y of the hull's centre, vox. Omit it if the mech starts in an `area`."""
    bottom: Annotated[float, Limits(ON_GROUND, 31, "vox")] = ON_GROUND
    """Height of the hull's underside, vox; -1 for the highest ground below the hull."""
    facing_deg: Annotated[float, Limits(-360, 360)] = 0.0
    """Heading: 0 is +x, 90 is +y."""
    hp: Annotated[float, OF_HULL] = 1.0
    """Share of the hull's hit points. At 0 the mech is absent, like a mech that died before the battle."""
    leg_hp: Annotated[float, OF_HULL] = 1.0
    """Share of the hit points of the legs; 0 for destroyed legs."""
    heat: Annotated[float, Limits(0, 2)] = 0.0
    """Heat as a share of the heat capacity. Above 1 the mech is shut down."""
    area: Annotated[tuple[float, ...], PLACE] = ()
    """Rectangle in place of `x` and `y`: x, y of its lower left corner and x, y of its upper right corner, vox. Each
    battle draws the hull's centre in it, on level ground, or where the hull fits above `bottom`."""

    cooldown_s: Mapping[str, float] = READY
    """Seconds until each weapon is ready, keyed by name; `ams` is the AMS. Weapons may share a timer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            isinstance(self.cooldown_s, Mapping),
            "Unit.cooldown_s",
            "an object of seconds keyed by weapon",
            self.cooldown_s,
        )
        waits = {name: typed(float, wait, f"cooldown_s: {name}") for name, wait in self.cooldown_s.items()}
        object.__setattr__(self, "cooldown_s", Table(waits))
        if self.area:
            require(len(self.area) == 4, "Unit.area", "x, y, x, y of two corners", self.area)
            require(
                self.area[0] < self.area[2] and self.area[1] < self.area[3],
                "Unit.area",
                "lower corner, upper corner",
                self.area,
            )
            require(self.x == self.y == NOWHERE, "Unit.x and Unit.y", "absent if area is set", (self.x, self.y))
        else:
            require(min(self.x, self.y) >= 0, "Unit.x and Unit.y", f"{PLACE}, or an area instead", (self.x, self.y))


@dataclass(frozen=True)
class Box(Settings):
    """Voxels of one material, from the corner `low` to the corner `high`, exclusive.

    Raises:
        ConfigError: if a corner is not three integers within the limits of a map, or the material is unknown.
    """

    most_entries: ClassVar[int] = 4000
    """Boxes of a position: imported ground needs many, and the header of a replay holds them all."""
    low: Annotated[tuple[int, ...], PLACE]
    """x, y, z of the first voxel."""
    high: Annotated[tuple[int, ...], PLACE]
    """x, y, z after the last voxel."""
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
    """Terrain, zone and mechs at the start of a battle: a `Scenario` without its settings.

    Raises:
        ConfigError: if a field has the wrong type or a value is outside its limits.
    """

    units: tuple[Unit, ...]
    """The mechs, 1 to 20 of each team."""
    boxes: tuple[Box, ...] = ()
    """Boxes of voxels on open ground. Later boxes overwrite earlier ones."""
    zone: Annotated[tuple[float, ...], PLACE] = ()
    """x and y of the zone's central column, and its radius, vox. By default a radius of 7.5 at the map's centre."""
    objective: Objective = field(default_factory=Objective)
    """What decides the battle, besides the death of a team. By default the zone."""
    weight: Annotated[int, WEIGHT] = 1
    """Relative frequency of this position among the positions of a config."""
    longest_s: Annotated[float, LASTS] = 0.0
    """Time limit of the battle, s; 0 for `max_episode_s` of the rules."""
    map_index: Annotated[int, Limits(-1, MOST_MAPS - 1)] = -1
    """Index of a map of `map_seed` whose terrain, zone and spawns replace those of this position; -1 for none."""
    opponent: str = ""
    """Scripted commander that `--opponent scenario` plays against the learner; empty for its default."""

    __repr__ = short_repr

    @property
    def named(self) -> list[tuple[str, Unit]]:
        """Pairs of mech name and unit, blue first: `blue_0`, `blue_1`, ..."""
        teams = [[unit for unit in self.units if unit.team == team] for team in TEAMS]
        return [(f"{unit.team}_{i}", unit) for team in teams for i, unit in enumerate(team)]

    @property
    def present(self) -> list[str]:
        """Names of the mechs that are not absent."""
        return [name for name, unit in self.named if unit.hp > 0]

    def decided_by(self, own: RulesConfig, common: RulesConfig) -> Position:
        """Return the position for battles of the rules `common`, with the time limit and the winning score of `own`."""
        objective, score_s = self.objective, own.zone_score_to_win_s
        has_score = "control_s" in USES[objective.kind] and objective.control_s == 0
        if has_score and score_s != common.zone_score_to_win_s:
            objective = replace(objective, control_s=score_s)
        limit_s = self.limit_s(own)
        return replace(self, objective=objective, longest_s=0.0 if limit_s == common.max_episode_s else limit_s)

    def in_roster(self, rosters: Mapping[str, tuple[str, ...]]) -> Position:
        """Return the position in teams that contain more mechs, which are absent.

        Each unit takes the first free place of its hull.

        Args:
            rosters: hull of each mech, keyed by team.
        """
        if rosters == self.rosters:
            return self
        absent = {
            f"{team}_{i}": Unit(team, hull, ASIDE, ASIDE, bottom=0.0, hp=0.0)
            for team in TEAMS
            for i, hull in enumerate(rosters[team])
        }
        taken: dict[str, tuple[str, Unit]] = {}
        for name, unit in self.named:
            fitting = (slot for slot, other in absent.items() if (other.team, other.hull) == (unit.team, unit.hull))
            taken[next(slot for slot in fitting if slot not in taken)] = name, unit
        names = {name: slot for slot, (name, _) in taken.items()}
        objective = replace(self.objective, mech=names.get(self.objective.mech, ""))
        units = tuple(taken[slot][1] if slot in taken else unit for slot, unit in absent.items())
        return replace(self, units=units, objective=objective)

    def limit_s(self, rules: RulesConfig) -> float:
        """Return the time limit of the battle, s."""
        return self.longest_s or rules.max_episode_s

    def of_sizes(self, blue: int, red: int) -> Position:
        """Return the position with only the first `blue` and `red` mechs; the other mechs are absent."""
        present = {f"{team}_{i}" for team, size in (("blue", blue), ("red", red)) for i in range(size)}
        units = tuple(unit if name in present else replace(unit, hp=0.0) for name, unit in self.named)
        return replace(self, units=units)

    @property
    def rosters(self) -> dict[str, tuple[str, ...]]:
        """Hull of each mech, keyed by team."""
        return {team: tuple(unit.hull for unit in self.units if unit.team == team) for team in TEAMS}

    def circle(self, size: tuple[int, int, int]) -> tuple[int, int, float]:
        """Return x and y of the zone's central column, and its radius, vox, on a map of `size` vox."""
        return whole_columns(self.zone or (size[0] // 2, size[1] // 2, 7.5))

    def check(self, size: tuple[int, int, int], catalog: Catalog, rules: RulesConfig) -> None:
        """Check that a battle can start in this position.

        Args:
            size: size of the map, vox.
            catalog: catalog of the battle.
            rules: rules of the battle.

        Raises:
            ConfigError: if the size of a team, a hull, a cooldown or the objective is invalid, or a part is outside the
                map.
        """
        for team, roster in self.rosters.items():
            require(1 <= len(roster) <= MOST_MECHS, f"Scenario.units of {team}", f"1..{MOST_MECHS}", len(roster))
            present = any(name.startswith(team) for name in self.present)
            require(present, f"Scenario.units of {team}", "at least one mech with hp > 0", "none")
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
        longest = rules.max_episode_s
        is_within = self.longest_s == 0 or (self.longest_s <= longest and rules.decisions(self.longest_s) >= 1)
        require(is_within, "Position.longest_s", f"0 or {rules.decision_s:g}..{longest:g} s", self.longest_s)
        limit = "one zone, because the map is generated"
        require(self.map_index < 0 or not self.objective.second_zone, "Position.objective", limit, self.objective.kind)
        self.objective.check(size, self.limit_s(rules), self.present)


def timers_of(hull: str, catalog: Catalog) -> dict[str, tuple[int, float]]:
    """Return the timer index and the cooldown in seconds of each weapon of a hull, keyed by name, including `ams`."""
    names, spec = catalog.timer_names, catalog.hulls[hull]
    timers = {name: (names.index(weapon.timer), weapon.cooldown_s) for name, weapon in catalog.carried(hull).items()}
    return timers | ({"ams": (len(names), catalog.ams_cooldown_s)} if spec.ams else {})


def check_cooldowns(name: str, unit: Unit, catalog: Catalog) -> None:
    """Raise `ConfigError` for a cooldown of a weapon that the mech does not carry, or above the weapon's cooldown."""
    timers = timers_of(unit.hull, catalog)
    for weapon, seconds in unit.cooldown_s.items():
        where = f"cooldown_s of {name}"
        require(weapon in timers, where, f"keyed by weapons of a {unit.hull}: {', '.join(timers)}", weapon)
        is_within = 0 <= seconds <= timers[weapon][1]
        require(is_within, f"{weapon} of {where}", f"0..{timers[weapon][1]:g} s", seconds)


def drawn_positions(positions: tuple[Position, ...]) -> list[int]:
    """Return indices of positions, repeated in proportion to their weights. Battles draw from this list."""
    divisor = gcd(*(position.weight for position in positions))
    return [index for index, position in enumerate(positions) for _ in range(position.weight // divisor)]
