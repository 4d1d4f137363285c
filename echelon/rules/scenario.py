"""An authored battle as data and JSON: terrain, zone, and the start position of each mech.

Terrain may be drawn as rows of text: layers seen from above, whose characters stand for boxes of voxels.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from math import lcm
from pathlib import Path
from typing import Annotated, Any

from echelon.rules.config import ENV_PRESETS, EnvConfig, FeaturesConfig, RewardConfig, WorldConfig
from echelon.rules.config_json import as_json, first_difference, from_json, typed
from echelon.rules.limits import LARGEST_MAP_VOX, MOST_MAPS
from echelon.rules.physics import RulesConfig
from echelon.rules.position import MOST_MECHS, OF_SCENARIO, PLACE, TEAMS, Box, Objective, Position, Unit
from echelon.runtime.errors import ConfigError, require, short_repr
from echelon.runtime.files import MAX_JSON_BYTES, json_bytes, parse_json, read_file, write_whole
from echelon.runtime.limits import Limits, Settings, check_number

NOTHING = ". "
"""Characters that add no box."""


@dataclass(frozen=True)
class Mark:
    """The meaning of a character in a drawing."""

    material: str = "solid"
    """Name of the material, as in `Box`."""
    height: int = 4
    """Height of the voxels above the underside of their layer, vox."""


LEGEND: Mapping[str, Mark] = {"#": Mark(), "=": Mark("reinforced"), "*": Mark("foliage"), "~": Mark("water", 1)}
"""Default meanings of characters. The legend of a scenario may override them."""


@dataclass(frozen=True)
class Layer:
    """A drawing of terrain as rows of characters."""

    rows: tuple[str, ...]
    """Rows of equal length, the upper row first, as on a map. Each character is a column of voxels."""
    low: tuple[int, ...] = (0, 0)
    """x, y of the column of the lower left character."""
    bottom: int = 0
    """Height of the underside of the voxels, vox."""


def boxes_of(layer: Layer, legend: Mapping[str, Mark], where: str) -> list[Box]:
    """Return the boxes of a drawing: one box per run of a character, with equal runs of adjacent rows merged.

    Args:
        layer: the drawing.
        legend: meanings of characters, in addition to `LEGEND`.
        where: prefix of field names in errors.

    Raises:
        ConfigError: if a row differs in length from the first row or contains an unknown character.
    """
    require(len(layer.low) == 2, f"{where}.low", "x, y", layer.low)
    require(1 <= len(layer.rows) <= LARGEST_MAP_VOX, f"{where}.rows", f"1..{LARGEST_MAP_VOX} rows", len(layer.rows))
    width, marks = len(layer.rows[0]), {**LEGEND, **legend}
    runs: dict[tuple[int, int, str], list[int]] = {}
    boxes = []
    for i, row in enumerate(layer.rows):
        spot, y, start = f"{where}.rows[{i}]", layer.low[1] + len(layer.rows) - 1 - i, layer.low[0]
        require(len(row) == width, spot, f"{width} characters long, like the first row", len(row))
        above, runs = runs, {}
        for char, group in groupby(row):
            run = (start, start + len(list(group)), char)
            start = run[1]
            if char in marks:
                runs[run] = rows = above.get(run, [y, y])
                if rows[0] == y:
                    boxes.append((run, rows))
                rows[0] = y
            else:
                require(char in NOTHING, spot, f"made of characters in {''.join(sorted({*marks, *NOTHING}))!r}", char)
    return [
        Box((x0, y0, layer.bottom), (x1, y1 + 1, layer.bottom + marks[char].height), marks[char].material)
        for (x0, x1, char), (y0, y1) in boxes
    ]


def boxes_from_json(layers: Any, legend: Any, where: str) -> tuple[Box, ...]:
    """Return the boxes of the drawings in a scenario file.

    Args:
        layers: a list of objects with the fields of `Layer`.
        legend: an object of objects with the fields of `Mark`, keyed by character.
        where: prefix of field names in errors.

    Raises:
        ConfigError: if a field is unknown, missing, of the wrong type or outside its limits.
    """
    marks = typed(Mapping[str, Mark], legend, f"{where}.legend")
    for char in marks:
        require(len(char) == 1, f"{where}.legend", "keyed by single characters", char)
    boxes: list[Box] = []
    for i, layer in enumerate(typed(tuple[Layer, ...], layers, f"{where}.layers")):
        spot = f"{where}.layers[{i}]"
        try:
            boxes += boxes_of(layer, marks, spot)
        except ConfigError as error:
            raise ConfigError(str(error) if str(error).startswith(spot) else f"{spot}: {error}") from None
    return tuple(boxes)


PARTS = {"world": WorldConfig, "rules": RulesConfig, "reward": RewardConfig, "features": FeaturesConfig}
FROM_UNITS = ("blue", "red", "positions", "catalog", "map_pool", "map_spares", "map_seed")
"""Settings that a scenario file must not contain: the units determine the rosters, and there is only one map."""
SIZES, SIZE = ("blue_sizes", "red_sizes"), Limits(1, MOST_MECHS)
OWN = ("preset", "units", "boxes", "layers", "legend", "zone", "objective", "maps", "opponent", *SIZES)
OTHERS = {"maps": int, "opponent": str}
FIELDS = (*OWN, *(f.name for f in dataclasses.fields(EnvConfig) if f.name not in FROM_UNITS))
"""Fields that a scenario file may contain."""
MAY_DIFFER = dict.fromkeys(("blue", "red", "positions", "map_pool", "map_spares", "map_seed"))
"""Settings in which scenarios of one batch may differ."""
RULES_MAY_DIFFER = dict.fromkeys(("max_episode_s", "zone_score_to_win_s"))
"""Rules in which scenarios of one batch may differ: each position keeps its own."""


@dataclass(frozen=True)
class Scenario(Settings):
    """An authored battle: an initial position and the settings of the battle.

    Raises:
        ConfigError: if a team has no mechs or more than 20, a hull is unknown, or a box or the zone is outside the map.
    """

    units: tuple[Unit, ...]
    """The mechs, 1 to 20 of each team."""
    boxes: tuple[Box, ...] = ()
    """Boxes of voxels on open ground. Later boxes overwrite earlier ones."""
    zone: Annotated[tuple[float, ...], PLACE] = ()
    """x and y of the zone's central column, and its radius, vox. By default a radius of 7.5 at the map's centre."""
    settings: EnvConfig = field(default_factory=EnvConfig.small)
    """World, rules, rewards and other settings. `config` replaces the rosters by those of the units."""
    objective: Objective = field(default_factory=Objective)
    """What decides the battle, besides the death of a team. By default the zone."""
    blue_sizes: Annotated[tuple[int, ...], SIZE] = ()
    """Minimum and maximum number of blue mechs. Each battle draws a number n and uses the first n; by default all."""
    red_sizes: Annotated[tuple[int, ...], SIZE] = ()
    """Minimum and maximum number of red mechs, as `blue_sizes`."""
    maps: Annotated[int, Limits(0, MOST_MAPS)] = 0
    """Number of generated maps of `map_seed`, of which each battle draws one. Their terrain, zone and spawns replace
    those given here. 0: the ones given here."""
    opponent: str = ""
    """Scripted commander that `--opponent scenario:TIER` plays against the learner; empty for that tier."""

    __repr__ = short_repr

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind, entries in ((Unit, self.units), (Box, self.boxes)):
            require(all(isinstance(entry, kind) for entry in entries), f"Scenario of {kind.__name__}", "these", entries)
        settings = self.settings
        for position in self.positions:
            position.check(settings.world.size, settings.catalog, settings.rules)

    @property
    def position(self) -> Position:
        """The initial position with all mechs."""
        return Position(self.units, self.boxes, self.zone, self.objective, opponent=self.opponent)

    @property
    def positions(self) -> list[Position]:
        """The initial positions of the battles: one for each combination of team sizes and each generated map."""
        ranges = []
        for team, roster in self.position.rosters.items():
            count, sizes = len(roster), getattr(self, f"{team}_sizes")
            is_valid = not sizes or (len(sizes) == 2 and sizes[0] <= sizes[1] <= count)
            require(is_valid, f"Scenario.{team}_sizes", f"minimum and maximum number of mechs, at most {count}", sizes)
            ranges.append(range(sizes[0], sizes[1] + 1) if sizes else [count])
        is_fixed = not self.blue_sizes and not self.red_sizes
        sized = [self.position] if is_fixed else [self.position.of_sizes(*sizes) for sizes in product(*ranges)]
        return [replace(one, map_index=i) for one in sized for i in range(self.maps)] if self.maps else sized

    @property
    def config(self) -> EnvConfig:
        """The config of the battle: the settings with the rosters and positions of this scenario."""
        return join([self])

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values: the most similar preset, the differences from it, the terrain and the units.

        Raises:
            ConfigError: if the catalog is not the newest one, because the file does not contain a catalog.
        """
        by_preset = {name: changes(self.settings, preset()) for name, preset in ENV_PRESETS.items()}
        name = min(by_preset, key=lambda each: len(str(by_preset[each])))
        is_newest = self.settings.catalog == ENV_PRESETS[name]().catalog
        require(is_newest, "catalog of a scenario file", "the newest one", "a custom catalog")

        def without_defaults(each: Unit | Box | Objective) -> dict[str, Any]:
            defaults = {f.name: f.default for f in dataclasses.fields(each)}
            return {key: value for key, value in as_json(each).items() if getattr(each, key) != defaults[key]}

        units, boxes = ([without_defaults(each) for each in entries] for entries in (self.units, self.boxes))
        objective = {"objective": own} if (own := without_defaults(self.objective)) else {}
        sizes = {name: list(own) for name in SIZES if (own := getattr(self, name))}
        sizes |= {name: own for name in ("maps", "opponent") if (own := getattr(self, name))}
        layout = {"zone": list(self.zone), **objective, **sizes, "boxes": boxes}
        return {"preset": name, **by_preset[name], **layout, "units": units}

    def save(self, path: Path | str) -> None:
        """Write the scenario to a JSON file.

        Raises:
            FileError: if the file cannot be written.
            ConfigError: see `as_json`.
        """
        write_whole(Path(path), json_bytes(self.as_json()))


def changes(settings: EnvConfig, preset: EnvConfig) -> dict[str, Any]:
    """Return the settings that differ from a preset as JSON values, without rosters and maps."""
    ours, theirs = as_json(settings, whole=True), as_json(preset, whole=True)

    def different(settings: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if value != other[name]}

    flat = {name: value for name, value in different(ours, theirs).items() if name not in (*PARTS, *FROM_UNITS)}
    return flat | {part: difference for part in PARTS if (difference := different(ours[part], theirs[part]))}


def join(scenarios: Sequence[Scenario], weights: Sequence[int] | None = None) -> EnvConfig:
    """Return a config whose battles each start in one of several scenarios, drawn by the seed of the battle.

    Args:
        scenarios: scenarios with the same settings, except for time limit and winning score. A team has all mechs that
            one of the scenarios needs; the others are absent.
        weights: relative frequencies of the scenarios, integers in 1..100; equal by default.

    Raises:
        ConfigError: if a scenario differs in a setting from the first one. The message contains the setting.
    """
    is_list = isinstance(scenarios, Sequence) and len(scenarios) > 0
    require(is_list and all(isinstance(s, Scenario) for s in scenarios), "scenarios", "Scenarios", scenarios)
    shares = [1] * len(scenarios) if weights is None else list(weights)
    require(len(shares) == len(scenarios), "weights", f"{len(scenarios)} numbers, one per scenario", shares)
    for share in shares:
        check_number("Position.weight", share, OF_SCENARIO)
    first = comparable(scenarios[0])
    for i, other in enumerate(scenarios[1:], 1):
        difference = first_difference(first, comparable(other), "settings")
        if difference:
            raise ConfigError(f"scenarios of one batch must have one shape: {difference}, in scenario {i}")
    settings, every = scenarios[0].settings, [s.position.rosters for s in scenarios]
    rules = replace(settings.rules, max_episode_s=max(s.settings.rules.max_episode_s for s in scenarios))
    rosters: dict[str, tuple[str, ...]] = {team: united([each[team] for each in every]) for team in TEAMS}
    position_lists = [s.positions for s in scenarios]
    total = lcm(*map(len, position_lists))
    positions = tuple(
        replace(
            position.decided_by(s.settings.rules, rules).in_roster(rosters),
            weight=share * total // len(group),
        )
        for s, group, share in zip(scenarios, position_lists, shares, strict=True)
        for position in group
    )
    battle = replace(settings, rules=rules, blue=rosters["blue"], red=rosters["red"], map_spares=0, positions=())
    return replace(battle, map_pool=len(positions), positions=positions)


def comparable(scenario: Scenario) -> dict[str, Any]:
    """Return the settings that scenarios of one batch must share, as JSON values."""
    values = as_json(scenario.settings, whole=True)
    return {**values, **MAY_DIFFER, "rules": {**values["rules"], **RULES_MAY_DIFFER}}


def united(rosters: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the longest roster, followed by the mechs that it lacks to contain each of the others."""
    result = [*max(rosters, key=len)]  # type: ignore[arg-type]
    for roster in rosters:
        for hull, count in Counter(roster).items():
            result += [hull] * (count - result.count(hull))
    return tuple(result)


def scenario_from_json(values: Any, where: str = "scenario") -> Scenario:
    """Build a scenario from JSON values.

    Args:
        values: an object, as returned by `Scenario.as_json` or written by a user.
        where: prefix of field names in errors.

    Raises:
        ConfigError: if a field is unknown, missing, of the wrong type or outside its limits.
    """
    require(isinstance(values, dict), where, "an object", values)
    rest = whole_numbers(values)
    for key in FROM_UNITS:
        require(key not in rest, f"{where}.{key}", "absent: units determine the rosters, on one map", rest.get(key))
    for key in rest:
        require(key in FIELDS, f"{where}.{key}", f"one of {', '.join(FIELDS)}", key)
    name = rest.pop("preset", "small")
    is_known = isinstance(name, str) and name in ENV_PRESETS
    require(is_known, f"{where}.preset", f"one of {', '.join(ENV_PRESETS)}", name)
    lists = {"units": tuple[Unit, ...], "boxes": tuple[Box, ...], "zone": tuple[float, ...]}
    lists |= dict.fromkeys(SIZES, tuple[int, ...])
    parts = {key: typed(hint, rest.pop(key, []), f"{where}.{key}") for key, hint in lists.items()}
    parts["boxes"] = boxes_from_json(rest.pop("layers", []), rest.pop("legend", {}), where) + parts["boxes"]
    objective = from_json(Objective, rest.pop("objective", {}), f"{where}.objective", strict=False)
    others = {name: typed(kind, rest.pop(name), f"{where}.{name}") for name, kind in OTHERS.items() if name in rest}
    settings = from_json(EnvConfig, rest, where, ENV_PRESETS[name]())
    return Scenario(**parts, **others, objective=objective, settings=settings)


def whole_numbers(values: Any) -> Any:
    """Return JSON values with integral floats converted to integers, such as 12.0 to 12."""
    if isinstance(values, dict):
        return {name: whole_numbers(value) for name, value in values.items()}
    if isinstance(values, list):
        return [whole_numbers(value) for value in values]
    is_integral = isinstance(values, float) and values.is_integer() and abs(values) <= 2**53
    return int(values) if is_integral else values


def read_scenario(path: Path | str) -> Scenario:
    """Read a scenario from a JSON file. The file cannot cause imports or run code.

    Args:
        path: a file as `Scenario.save` writes it. `units` and `boxes` are lists of objects with the fields of `Unit`
            and `Box`. `layers` are drawings with the fields of `Layer`, and `legend` explains their characters. `zone`
            and `objective` are as in `Scenario`. `preset` is small by default, and `world`, `rules`, `reward`,
            `features` and other settings of `EnvConfig` override it.

    Raises:
        FileError: if the file cannot be read or is not JSON.
        ConfigError: see `scenario_from_json`.
    """
    path = Path(path)
    values = parse_json(path.name, read_file(path, MAX_JSON_BYTES))
    try:
        return scenario_from_json(values, path.name)
    except ConfigError as error:
        if str(error).startswith(path.name):
            raise
        raise ConfigError(f"{path.name}: {error}") from None
