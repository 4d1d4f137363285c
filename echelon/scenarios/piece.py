"""Set pieces: short battles that each ask for one skill, with a scripted line that wins them.

A line is a list of steps for each mech. A mech takes the first step whose conditions hold.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from echelon.rules.catalog import Hull, Trigger
from echelon.rules.config import EnvConfig
from echelon.rules.config_json import typed
from echelon.rules.limits import LARGEST_MAP_VOX
from echelon.rules.position import PLACE, TEAMS
from echelon.rules.scenario import Scenario, scenario_from_json
from echelon.rules.specs import WeaponSpec
from echelon.runtime.errors import require
from echelon.runtime.files import MAX_JSON_BYTES, parse_json, read_file
from echelon.runtime.limits import SHARE, Limits, Settings

ANYBODY = "any"
"""`Step.target` of a mech that fights the nearest enemy."""
FOREVER_S = 1000.0
FAR_VOX = 1000.0
MOST_STEPS = 16
VOX = Limits(0, FAR_VOX, "vox")
SECONDS = Limits(0, FOREVER_S, "s")
HEAT = Limits(0, 2, "of the hull's")


@dataclass(frozen=True)
class Step(Settings):
    """What a mech does while all of its conditions hold: the first eight fields are these, the others are deeds.

    Raises:
        ConfigError: a field is of another type or outside its limits.
    """

    from_s: Annotated[float, SECONDS] = 0.0
    """Seconds since the battle began, from which it holds."""
    until_s: Annotated[float, SECONDS] = FOREVER_S
    """The same, before which it holds."""
    heat_above: Annotated[float, HEAT] = 0.0
    """Share of its heat capacity that its heat is at least."""
    heat_below: Annotated[float, HEAT] = 2.0
    """Share that its heat is at most."""
    range_above: Annotated[float, VOX] = 0.0
    """Distance of its target, vox, at least; a target that it does not know is far away."""
    range_below: Annotated[float, VOX] = FAR_VOX
    """The same, at most."""
    target_is: Literal["", "known", "clear", "painted"] = ""
    """Which hostiles it may mean, one of whom there must be: contacts of any kind, on a clear line, painted by its
    pack."""
    inside: Annotated[tuple[float, ...], PLACE] = ()
    """x, y, radius in vox of a circle that it stands in."""
    target: str = ANYBODY
    """Which of these it selects: the nearest one of `any` class, or of `scout`, `light`, `medium` or `heavy`."""
    to: Annotated[tuple[float, ...], PLACE] = ()
    """x, y in vox to which it walks straight, and stays."""
    keep: Annotated[float, Limits(-1, LARGEST_MAP_VOX, "vox")] = -1.0
    """Distance in vox that it keeps to its target instead, -1 for none."""
    rear: bool = False
    """It keeps that distance behind its target's back, to which it goes around the target."""
    face: Annotated[tuple[float, ...], PLACE] = ()
    """x, y in vox to which it turns; by default to its target."""
    fire: tuple[str, ...] = ()
    """Weapons whose triggers it holds. One that would fire without a target waits until it faces where it should."""
    vent: bool = False
    jets: Annotated[float, SHARE] = 0.0
    """Share of the thrust of its jets."""
    emit: Literal["", "ecm", "eccm"] = ""
    """What its emitter does, where its hull has one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("inside", "x, y, radius"), ("to", "x, y"), ("face", "x, y")):
            values, count = getattr(self, name), len(least.split())
            require(len(values) in (0, count), f"Step.{name}", least, values)
        targets = (ANYBODY, *(hull.name.lower() for hull in Hull))
        require(self.target in targets, "Step.target", f"one of {', '.join(targets)}", self.target)
        require(not self.to or self.keep < 0, "Step.keep", "absent beside to", self.keep)
        require(not self.rear or self.keep >= 0, "Step.rear", "beside keep", self.rear)


Line = tuple[Step, ...]
"""The steps of one mech."""


def steps_from_json(values: Any, where: str) -> Line:
    """The steps of a mech from JSON values.

    Raises:
        ConfigError: naming the step and its field that is unknown, of another type or outside its limits.
    """
    steps: Line = typed(Line, values, where)
    require(1 <= len(steps) <= MOST_STEPS, where, f"1..{MOST_STEPS} steps", len(steps))
    return steps


def weapons_on(hull: str, config: EnvConfig) -> dict[str, tuple[Trigger, WeaponSpec]]:
    """By name the weapons of a hull, and the triggers that they hang on."""
    weapons = config.catalog.carried(hull)
    return {name: (Trigger[weapon.mounts[hull].upper()], weapon) for name, weapon in weapons.items()}


def check_weapons(line: Line, hull: str, config: EnvConfig, where: str) -> None:
    """Raise `ConfigError` for a weapon that a step fires and the hull does not carry."""
    weapons = weapons_on(hull, config)
    for index, step in enumerate(line):
        for name in step.fire:
            require(name in weapons, f"{where}[{index}].fire", f"one of {', '.join(weapons)}, those of a {hull}", name)


PIECES = "pieces-v1"
"""Name of the set, for papers and files."""
FOLDER = Path(__file__).with_name("pieces")
LONGEST_S = 20.0
"""How long a piece lasts at most."""
TEXTS = ("skill", "side", "opponent")


@dataclass(frozen=True)
class Piece:
    """A battle that is won by one skill."""

    name: str
    skill: str
    """The skill, in a sentence."""
    side: str
    """The team that is to be commanded, `blue` or `red`."""
    opponent: str
    """Name of the commander of the other team."""
    scenario: Scenario
    line: tuple[Line, ...]
    """The steps of each mech of the side that win it."""

    @property
    def hulls(self) -> tuple[str, ...]:
        """Hull names of the side."""
        return self.scenario.position.rosters[self.side]


def piece_from_json(values: Any, name: str) -> Piece:
    """A piece from JSON values: a scenario's, with `skill`, `side`, `opponent` and `line` beside them.

    Args:
        values: `line` is an object: the steps of every mech of the side by its name, such as `blue_0`.

    Raises:
        ConfigError: naming the field that is unknown, missing, of another type or outside its limits.
    """
    file_name = f"{name}.json"
    require(isinstance(values, dict), file_name, "an object", values)
    rest = dict(values)
    texts = {key: rest.pop(key, None) for key in TEXTS}
    for key, text in texts.items():
        require(isinstance(text, str) and text != "", f"{file_name}.{key}", "a text", text)
    side, lines = texts["side"], rest.pop("line", None)
    require(side in TEAMS, f"{file_name}.side", "blue or red", side)
    scenario = scenario_from_json(rest, file_name)
    longest = scenario.settings.rules.max_episode_s
    require(longest <= LONGEST_S, f"{file_name}.rules.max_episode_s", f"at most {LONGEST_S:g} s", longest)
    mechs = {mech: unit.hull for mech, unit in scenario.position.named if unit.team == side}
    require(isinstance(lines, dict), f"{file_name}.line", f"an object of steps for {', '.join(mechs)}", lines)
    for mech in lines:
        require(mech in mechs, f"{file_name}.line.{mech}", f"one of {', '.join(mechs)}", mech)
    parsed = []
    for mech, hull in mechs.items():
        require(mech in lines, f"{file_name}.line", f"with steps of {mech}", list(lines))
        steps = steps_from_json(lines[mech], f"{file_name}.line.{mech}")
        check_weapons(steps, hull, scenario.config, f"{file_name}.line.{mech}")
        parsed.append(steps)
    return Piece(name, texts["skill"], side, texts["opponent"], scenario, tuple(parsed))


def pieces() -> list[str]:
    """Names of the set pieces, sorted; `docs/SET_PIECES.md` lists them."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def find_piece(name: str) -> Piece:
    """The set piece of a name.

    Raises:
        ConfigError: there is none of that name, or its file is at fault, with the field.
    """
    by_name = pieces()
    require(name in by_name, "a piece", f"one of {', '.join(by_name)}", name)
    path = FOLDER / f"{name}.json"
    return piece_from_json(parse_json(path.name, read_file(path, MAX_JSON_BYTES)), name)
