"""Set pieces: short battles that each ask for one skill, with a scripted line that wins them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from echelon.rules.position import TEAMS
from echelon.rules.scenario import Scenario, scenario_from_json
from echelon.runtime.errors import require
from echelon.runtime.files import MAX_JSON_BYTES, parse_json, read_file
from echelon.scenarios.line import Line, check_weapons, steps_from_json

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
    """Names of the set pieces, sorted; `docs/SCENARIOS.md` tells them."""
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
