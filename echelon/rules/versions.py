"""Versions of the rules and of the map generator, which files contain, and the changes of each rules version."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from echelon.runtime.errors import ConfigError, require

RULES_VERSION = 3
"""Increased if the same seeds and actions give a different battle, or a scripted commander decides differently."""
MAP_MAKER_VERSION = 2
"""Increased if a seed gives a different map."""
RULES, MAP_MAKER = "rules_version", "map_maker"
"""Keys of the versions in files."""
FIRST_RULES = 3
"""Rules version of the first release. Files of earlier versions, which were never published, are not supported."""


@dataclass(frozen=True)
class Change:
    """Changes of one rules version."""

    title: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Previous defaults of the settings of `EnvConfig` whose default changed, as JSON values keyed by their dotted name
    in a signature: `{"rules.step_up_vox": 1.1}`. For a new setting, the value in `ADDED`; for a new row of the catalog,
    None."""
    echelon: str = ""
    """First version of Echelon with these rules."""


CHANGES: dict[int, Change] = {FIRST_RULES: Change("the rules of the first release", echelon="1.0.0")}
"""Changes keyed by rules version."""


ADDED: dict[str, dict[str, Any]] = {
    "EnvConfig": {"command": {}, "positions": [], "split": None},
    "CommandConfig": {
        "enabled": False,
        "period": 8,
        "delay_s": 0.0,
        "range_vox": 30.0,
        "jam_limit": 0.5,
        "reach_vox": 6.0,
        "steers": True,
        "drill_s": 0.0,
    },
    "RulesConfig": {
        "legged_unsteadiness": 0.5,
        "walking_unsteadiness": 0.5,
        "suppressed_unsteadiness": 0.75,
        "least_regeneration": 0.1,
        "steady_vox_per_s": 1.0,
        "legged_stability": 0.5,
        "risen_stability": 0.5,
        "leg_hit_share": 0.5,
        "jam_loss": 0.85,
        "eccm_gain": 0.65,
        "blind_quality": 0.25,
        "best_quality": 1.5,
        "bloom_heat": 0.8,
        "muffled_noise": 0.2,
        "contested_share": 0.25,
    },
    "TrainConfig": {
        "allow_test": False,
        "init_from": "",
        "dashboard": False,
        "dashboard_host": [],
        "dashboard_port": 0,
    },
    "EvalConfig": {"pieces": 0, "video": 0},
    "Unit": {"area": [], "cooldown_s": {}},
    "Position": {"longest_s": 0.0, "map_index": -1, "opponent": ""},
    "LeagueConfig": {"equal_rating": 0.0, "commander_points": 0.0},
}
"""Settings added after the first release, keyed by class name and field, with the JSON value that earlier versions used
implicitly: `{"RulesConfig": {"wind_vox_per_s": 0.0}}`.

If a file or task lacks such a setting, it has this value, regardless of the current default. A setting with this value
is not written. So an added setting does not change the meaning, signature or fingerprint of existing files. Any other
missing setting is an error.
"""


def completed(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON settings of a class, with missing settings filled in from `ADDED`."""
    return {**ADDED.get(kind.__name__, {}), **values}


def without_added(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON settings of a class without settings that `completed` would fill in with the same value."""
    added = ADDED.get(kind.__name__, {})
    return {name: value for name, value in values.items() if name not in added or value != added[name]}


class Versions(NamedTuple):
    """The versions in a file."""

    rules: int
    map_maker: int

    def as_json(self) -> dict[str, int]:
        return {RULES: self.rules, MAP_MAKER: self.map_maker}


def current_versions() -> Versions:
    return Versions(RULES_VERSION, MAP_MAKER_VERSION)


def stored_versions(values: Mapping[str, Any], where: str) -> Versions:
    """Return the versions in a signature or in the recipe of a match.

    Args:
        values: the signature or recipe.
        where: name of `values` in error messages.

    Raises:
        ConfigError: if a version is missing, older than the first release or newer than this Echelon.
    """
    require(isinstance(values, Mapping), where, "an object", values)
    rules = values.get(RULES)
    if rules is None or (type(rules) is int and 1 <= rules < FIRST_RULES):
        hint = "files from before the first release are not supported, create the file again with this Echelon"
        raise ConfigError(f"{where}.{RULES} must be {FIRST_RULES} or later, got {rules or 'none'}: {hint}")
    for name, current in current_versions().as_json().items():
        version: Any = values.get(name)
        require(type(version) is int and version >= 1, f"{where}.{name}", "an integer >= 1", version)
        if version > current:
            raise ConfigError(f"{where}.{name} must be at most {current}, got {version}: use a newer Echelon")
    return Versions(values[RULES], values[MAP_MAKER])


def earlier_defaults(version: int) -> dict[str, Any]:
    """Return the defaults of a rules version that have changed since, keyed by dotted name."""
    defaults: dict[str, Any] = {}
    for changed in sorted(CHANGES, reverse=True):
        if changed > version:
            defaults |= CHANGES[changed].defaults
    return defaults
