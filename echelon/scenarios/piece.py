"""Set pieces: short battles that each test one skill, with a scripted plan that wins.

The plan is the `line` of a piece: a list of steps for each mech. In each decision, a mech executes the first step whose
conditions hold.
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

ANY_HULL = "any"
"""`Step.target` of a mech that attacks the nearest enemy."""
FOREVER_S = 1000.0
FAR_VOX = 1000.0
MOST_STEPS = 16
VOX = Limits(0, FAR_VOX, "vox")
SECONDS = Limits(0, FOREVER_S, "s")
HEAT = Limits(0, 2, "of the hull's")


@dataclass(frozen=True)
class Step(Settings):
    """Conditions and actions for one mech: it executes the actions while all conditions hold.

    The first eight fields are conditions, the other fields are actions.

    Raises:
        ConfigError: if a field has another type or is out of range.
    """

    from_s: Annotated[float, SECONDS] = 0.0
    """Earliest time since the start of the battle, s."""
    until_s: Annotated[float, SECONDS] = FOREVER_S
    """Latest time since the start of the battle, s."""
    heat_above: Annotated[float, HEAT] = 0.0
    """Minimum heat, as a fraction of the hull's heat capacity."""
    heat_below: Annotated[float, HEAT] = 2.0
    """Maximum heat, as a fraction of the hull's heat capacity."""
    range_above: Annotated[float, VOX] = 0.0
    """Minimum distance of the target, vox; an unknown target counts as far away."""
    range_below: Annotated[float, VOX] = FAR_VOX
    """Maximum distance of the target, vox."""
    target_is: Literal["", "known", "clear", "painted"] = ""
    """Required kind of target: any contact, a contact with a clear line, or a contact painted by the mech's pack. The
    condition fails if there is no such hostile."""
    inside: Annotated[tuple[float, ...], PLACE] = ()
    """x, y, radius in vox of a circle that contains the mech."""
    target: str = ANY_HULL
    """The target is the nearest such hostile of `any` class, or of `scout`, `light`, `medium` or `heavy`."""
    to: Annotated[tuple[float, ...], PLACE] = ()
    """x, y in vox of a destination: the mech walks straight to it, and stays."""
    keep: Annotated[float, Limits(-1, LARGEST_MAP_VOX, "vox")] = -1.0
    """Distance in vox to keep from the target, instead of `to`; -1 for none."""
    rear: bool = False
    """Keep that distance behind the target's back; the mech walks around the target to get there."""
    face: Annotated[tuple[float, ...], PLACE] = ()
    """x, y in vox of a point to face, by default the target."""
    fire: tuple[str, ...] = ()
    """Weapons whose triggers are held. A weapon that needs no target fires only while the mech faces its goal."""
    vent: bool = False
    jets: Annotated[float, SHARE] = 0.0
    """Jet thrust, as a fraction of the maximum."""
    emit: Literal["", "ecm", "eccm"] = ""
    """Mode of the emitter, if the hull has one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("inside", "x, y, radius"), ("to", "x, y"), ("face", "x, y")):
            values, count = getattr(self, name), len(least.split())
            require(len(values) in (0, count), f"Step.{name}", least, values)
        targets = (ANY_HULL, *(hull.name.lower() for hull in Hull))
        require(self.target in targets, "Step.target", f"one of {', '.join(targets)}", self.target)
        require(not self.to or self.keep < 0, "Step.keep", "absent beside to", self.keep)
        require(not self.rear or self.keep >= 0, "Step.rear", "beside keep", self.rear)


Line = tuple[Step, ...]
"""Steps of one mech."""


def steps_from_json(values: Any, where: str) -> Line:
    """Parse the steps of a mech from JSON values.

    Raises:
        ConfigError: if a field is unknown, has another type or is out of range; the message names the step and the
            field.
    """
    steps: Line = typed(Line, values, where)
    require(1 <= len(steps) <= MOST_STEPS, where, f"1..{MOST_STEPS} steps", len(steps))
    return steps


def weapons_on(hull: str, config: EnvConfig) -> dict[str, tuple[Trigger, WeaponSpec]]:
    """Return the weapons that a hull carries, by name, each with its trigger."""
    weapons = config.catalog.carried(hull)
    return {name: (Trigger[weapon.mounts[hull].upper()], weapon) for name, weapon in weapons.items()}


def check_weapons(line: Line, hull: str, config: EnvConfig, where: str) -> None:
    """Raise `ConfigError` if a step fires a weapon that the hull does not carry."""
    weapons = weapons_on(hull, config)
    for index, step in enumerate(line):
        for name in step.fire:
            require(
                name in weapons, f"{where}[{index}].fire", f"one of {', '.join(weapons)}, weapons of a {hull}", name
            )


PIECES = "pieces-v1"
"""Name of the set, for papers and files."""
FOLDER = Path(__file__).with_name("pieces")
LONGEST_S = 20.0
"""Maximum duration of a piece, s."""
TEXTS = ("skill", "side", "opponent")


@dataclass(frozen=True)
class Piece:
    """A set piece: a battle that can be won by one skill."""

    name: str
    skill: str
    """The skill, in one sentence."""
    side: str
    """The evaluated team, `blue` or `red`."""
    opponent: str
    """Name of the other team's commander."""
    scenario: Scenario
    line: tuple[Line, ...]
    """The winning steps of each mech of `side`."""

    @property
    def hulls(self) -> tuple[str, ...]:
        """Hull names of `side`."""
        return self.scenario.position.rosters[self.side]


def piece_from_json(values: Any, name: str) -> Piece:
    """Parse a set piece from JSON values: the fields of a scenario, and `skill`, `side`, `opponent` and `line`.

    Args:
        values: JSON object; its `line` contains the steps of every mech of `side`, keyed by the mech's name, such as
            `blue_0`.
        name: name of the piece, for error messages.

    Raises:
        ConfigError: if a field is unknown, missing, of another type or out of range; the message names the field.
    """
    file_name = f"{name}.json"
    require(isinstance(values, dict), file_name, "an object", values)
    rest = dict(values)
    texts = {key: rest.pop(key, None) for key in TEXTS}
    for key, text in texts.items():
        require(isinstance(text, str) and text != "", f"{file_name}.{key}", "a non-empty text", text)
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
    """Return the sorted names of the set pieces, which `docs/SET_PIECES.md` lists."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def find_piece(name: str) -> Piece:
    """Return the set piece with this name.

    Raises:
        ConfigError: if the name is unknown, or a field in the piece's file is invalid.
    """
    by_name = pieces()
    require(name in by_name, "a piece", f"one of {', '.join(by_name)}", name)
    path = FOLDER / f"{name}.json"
    return piece_from_json(parse_json(path.name, read_file(path, MAX_JSON_BYTES)), name)
