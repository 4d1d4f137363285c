"""A battle whose beginning somebody has written down: ground, zone, and where every mech stands; as JSON too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from echelon.rules.catalog import Material
from echelon.rules.catalog_json import fields_from_json
from echelon.rules.config import ENV_PRESETS, EnvConfig, FeaturesConfig, RewardConfig, RulesConfig, WorldConfig
from echelon.rules.config_json import as_json
from echelon.rules.limits import LARGEST_MAP_VOX
from echelon.rules.objective import Objective, check_circle, whole_columns
from echelon.runtime.errors import require, short_repr
from echelon.runtime.files import MAX_JSON_BYTES, json_bytes, parse_json, read_file, write_whole
from echelon.runtime.limits import Limits, check_settings

ON_GROUND = -1.0
"""`Unit.bottom` of a mech that stands on the highest ground below its hull."""
PARTS = {"world": WorldConfig, "rules": RulesConfig, "reward": RewardConfig, "features": FeaturesConfig}
FROM_UNITS = ("blue", "red", "catalog", "map_pool", "map_spares", "map_seed")
"""Settings of a battle that a scenario's file does not hold: units make the rosters, and there is one map."""
PLACE = Limits(0, LARGEST_MAP_VOX, "vox")
MOST_MECHS = 20


@dataclass(frozen=True)
class Unit:
    """A mech at the beginning of a battle.

    Raises:
        ConfigError: a number is outside its limits.
    """

    team: Literal["blue", "red"]
    """Blue mechs are `blue_0`, `blue_1`, ... in the order in which they stand here, and so are red ones."""
    hull: str
    """A row of the catalog."""
    x: float
    """Centre of the hull, vox."""
    y: float
    """The same along y."""
    bottom: float = ON_GROUND
    """Height of the hull's underside, vox; -1: on the highest ground below it."""
    facing_deg: float = 0.0
    """Heading: 0 is +x, 90 is +y."""
    hp: float = 1.0
    """Share of the hull's hit points."""
    leg_hp: float = 1.0
    """Share of the hit points of its legs; 0 is legged."""
    heat: float = 0.0
    """Share of its heat capacity; it is shut down from 1 on."""

    def __post_init__(self) -> None:
        share = Limits(0, 1, "of the hull's")
        limits = {"x": PLACE, "y": PLACE, "bottom": Limits(ON_GROUND, 31, "vox"), "facing_deg": Limits(-360, 360)}
        check_settings(self, {**limits, "hp": Limits(0.001, 1, share.unit), "leg_hp": share, "heat": Limits(0, 2)})


@dataclass(frozen=True)
class Box:
    """Voxels of one material, from the corner `low` up to the corner `high`, which is not in it.

    Raises:
        ConfigError: a corner is no three whole numbers of the map's size at most, or there is no such material.
    """

    low: tuple[int, ...]
    """x, y, z of the first voxel."""
    high: tuple[int, ...]
    """x, y, z behind the last voxel."""
    material: str = "solid"
    """`air`, `dirt`, `lava`, `water`, `solid`, `debris_field`, `solid_debris`, `glass`, `reinforced` or `foliage`."""

    def __post_init__(self) -> None:
        check_settings(self, dict.fromkeys(("low", "high"), Limits(0, LARGEST_MAP_VOX, "vox")))
        require(len(self.low) == len(self.high) == 3, "Box.low and Box.high", "x, y, z", (self.low, self.high))
        is_box = all(low < high for low, high in zip(self.low, self.high, strict=True))
        require(is_box, "Box.high", f"above {self.low} in x, y and z", self.high)
        names = [material.name.lower() for material in Material]
        require(self.material in names, "Box.material", f"one of {', '.join(names)}", self.material)


@dataclass(frozen=True)
class Scenario:
    """A battle that begins in one position.

    Raises:
        ConfigError: naming what is outside its limits: a team without mechs or with more than 20, an unknown hull, a
            box or a zone beyond the map, an objective that these mechs cannot have.
    """

    units: tuple[Unit, ...]
    """Where mechs begin, 1 to 20 of either team."""
    boxes: tuple[Box, ...] = ()
    """What stands on open ground, later ones in place of earlier ones."""
    zone: tuple[float, ...] = ()
    """Column x, y of the zone's centre and its radius in vox; by default 7.5 in the middle of the map."""
    settings: EnvConfig = field(default_factory=EnvConfig.small)
    """World, rules, rewards and what else a battle has; `config` has the units' rosters in place of its own."""
    objective: Objective = field(default_factory=Objective)
    """What decides the battle beside the death of a team; by default the zone."""

    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_settings(self, {"zone": PLACE})
        for kind, entries in ((Unit, self.units), (Box, self.boxes)):
            require(all(isinstance(each, kind) for each in entries), f"Scenario of {kind.__name__}", "these", entries)
        hulls, world = self.settings.catalog.hulls, self.settings.world
        for team in ("blue", "red"):
            count = sum(unit.team == team for unit in self.units)
            require(1 <= count <= MOST_MECHS, f"Scenario.units of {team}", f"1..{MOST_MECHS}", count)
        for name, unit in self.named:
            require(unit.hull in hulls, f"hull of {name}", f"one of {', '.join(hulls)}", unit.hull)
        size = (world.size_x, world.size_y, world.size_z)
        for box in self.boxes:
            inside = all(high <= side for high, side in zip(box.high, size, strict=True))
            require(inside, "Box.high", f"within the map of {size} vox", box.high)
        require(len(self.zone) in (0, 3), "Scenario.zone", "x, y, radius", self.zone)
        check_circle("Scenario.zone", self.circle, world)
        self.objective.check(world, self.settings.rules, [name for name, _ in self.named])

    @property
    def circle(self) -> tuple[int, int, float]:
        """Column x, y of the zone's centre, and its radius, vox."""
        world = self.settings.world
        return whole_columns(self.zone or (world.size_x // 2, world.size_y // 2, 7.5))

    @property
    def named(self) -> list[tuple[str, Unit]]:
        """The units by the names of their mechs, blue first: `blue_0`, `blue_1`, ..."""
        teams = [[unit for unit in self.units if unit.team == team] for team in ("blue", "red")]
        return [(f"{unit.team}_{number}", unit) for team in teams for number, unit in enumerate(team)]

    @property
    def config(self) -> EnvConfig:
        """The battle's config: the settings with the rosters of the units, on one map."""
        blue, red = (tuple(unit.hull for unit in self.units if unit.team == team) for team in ("blue", "red"))
        return dataclasses.replace(self.settings, blue=blue, red=red, map_pool=1, map_spares=0)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values: the preset that the settings are nearest to, what differs from it, ground and units.

        Raises:
            ConfigError: the catalog is not the newest one, which a file does not hold.
        """
        by_preset = {name: changes(self.settings, preset()) for name, preset in ENV_PRESETS.items()}
        name = min(by_preset, key=lambda each: len(str(by_preset[each])))
        is_newest = self.settings.catalog == ENV_PRESETS[name]().catalog
        require(is_newest, "catalog of a scenario's file", "the newest one", "one of your own")

        def without_defaults(each: Unit | Box | Objective) -> dict[str, Any]:
            defaults = {one.name: one.default for one in dataclasses.fields(each)}
            return {key: value for key, value in as_json(each).items() if getattr(each, key) != defaults[key]}

        units, boxes = ([without_defaults(each) for each in part] for part in (self.units, self.boxes))
        objective = {"objective": own} if (own := without_defaults(self.objective)) else {}
        ground = {"zone": list(self.zone), **objective, "boxes": boxes}
        return {"preset": name, **by_preset[name], **ground, "units": units}

    def save(self, path: Path | str) -> None:
        """Write a JSON file.

        Raises:
            FileError: it cannot be written.
            ConfigError: as `as_json`.
        """
        write_whole(Path(path), json_bytes(self.as_json()))


def changes(settings: EnvConfig, preset: EnvConfig) -> dict[str, Any]:
    """What differs between two battles as JSON values, but for rosters and maps."""
    ours, theirs = as_json(settings, whole=True), as_json(preset, whole=True)

    def different(own: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in own.items() if value != other[name]}

    flat = {name: value for name, value in different(ours, theirs).items() if name not in (*PARTS, *FROM_UNITS)}
    return flat | {part: found for part in PARTS if (found := different(ours[part], theirs[part]))}


def scenario_from_json(values: Any, where: str = "scenario") -> Scenario:
    """A scenario from what `Scenario.as_json` made of it, or somebody wrote.

    Raises:
        ConfigError: naming the field that is unknown, missing, of another type or outside its limits.
    """
    require(isinstance(values, dict), where, "an object", values)
    rest = dict(values)
    name = rest.pop("preset", "small")
    known = isinstance(name, str) and name in ENV_PRESETS
    require(known, f"{where}.preset", f"one of {', '.join(ENV_PRESETS)}", name)

    def entries(kind: Callable[..., Any], key: str) -> tuple[Any, ...]:
        given = rest.pop(key, [])
        require(isinstance(given, list), f"{where}.{key}", "a list", given)
        rows = enumerate(given)
        return tuple(kind(**fields_from_json(kind, row, f"{where}.{key}[{at}]", None, False)) for at, row in rows)

    units, boxes, zone = entries(Unit, "units"), entries(Box, "boxes"), rest.pop("zone", [])
    require(isinstance(zone, list), f"{where}.zone", "a list: x, y, radius", zone)
    given = fields_from_json(Objective, rest.pop("objective", {}), f"{where}.objective", Objective(), False)
    base = ENV_PRESETS[name]()
    parts = {
        part: kind(**fields_from_json(kind, rest.pop(part, {}), f"{where}.{part}", getattr(base, part), False))
        for part, kind in PARTS.items()
    }
    for key in FROM_UNITS:
        require(key not in rest, f"{where}.{key}", "absent: units make the rosters, on one map", rest.get(key))
    flat = fields_from_json(EnvConfig, rest, where, base, False, apart=(*PARTS, "catalog"))
    settings = EnvConfig(**{**flat, **parts, "catalog": base.catalog})
    return Scenario(units, boxes, tuple(zone), settings, Objective(**given))


def read_scenario(path: Path | str) -> Scenario:
    """A scenario from a JSON file; nothing that it names is imported or run.

    Args:
        path: the file, as `Scenario.save` writes it: `units` and `boxes`, lists of objects with the fields of `Unit`
            and `Box`; `zone`; `objective`, the fields of an `Objective`; a `preset` (small by default) and what differs
            from it: `world`, `rules`, `reward`, `features` and other settings of `EnvConfig`.

    Raises:
        FileError: it cannot be read, or is no JSON.
        ConfigError: as `scenario_from_json`.
    """
    path = Path(path)
    return scenario_from_json(parse_json(path.name, read_file(path, MAX_JSON_BYTES)), path.name)
