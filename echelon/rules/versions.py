"""The versions of the rules and of the map maker, which files name, and what each version of the rules changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from echelon.runtime.errors import ConfigError, require

RULES_VERSION = 3
"""Raised when the same seeds and actions begin to give another battle, or a scripted commander decides otherwise."""
MAP_MAKER_VERSION = 2
"""Raised when a seed begins to give another map."""
RULES, MAP_MAKER = "rules_version", "map_maker"
"""Names of the versions in files."""
FIRST_RULES = 3
"""Version of the first release. Earlier ones were never published: their files are refused."""


@dataclass(frozen=True)
class Change:
    """What a version of the rules changed."""

    title: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Each setting of `EnvConfig` whose default it changed, by its dotted name in a signature, and the JSON value that
    was the default before: `{"rules.step_up_vox": 1.1}`. Of one that is new, the value in `ADDED`; of a new row of the
    catalog, None."""
    echelon: str = ""
    """The first Echelon with these rules."""


CHANGES: dict[int, Change] = {FIRST_RULES: Change("the rules of the first release", echelon="1.0.0")}
"""By version of the rules."""


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
    "TrainConfig": {"allow_test": False, "init": "", "live": False, "live_host": [], "live_port": 0},
    "EvalConfig": {"pieces": 0},
    "Unit": {"area": [], "cooldown_s": {}},
    "LeagueConfig": {"equal_rating": 0.0, "commander_points": 0.0},
}
"""Settings that came after the first release, by the name of their class, each with the JSON value under which
everything was played before it came: `{"RulesConfig": {"wind_vox_per_s": 0.0}}`.

Files and tasks that lack such a setting mean this value, whatever its default is today, and a setting that has the
value is left out of them. So a setting that is added changes no meaning, no signature and no fingerprint of what was
written before, and a setting that is not here is refused where it is missing.
"""


def completed(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a class as JSON values, with those of `ADDED` that they lack."""
    return {**ADDED.get(kind.__name__, {}), **values}


def without_added(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a class as JSON values, without those that `completed` would give the same value."""
    added = ADDED.get(kind.__name__, {})
    return {name: value for name, value in values.items() if name not in added or value != added[name]}


class Versions(NamedTuple):
    """Versions that a file names."""

    rules: int
    map_maker: int

    def as_json(self) -> dict[str, int]:
        return {RULES: self.rules, MAP_MAKER: self.map_maker}


def current_versions() -> Versions:
    return Versions(RULES_VERSION, MAP_MAKER_VERSION)


def stored_versions(values: Mapping[str, Any], where: str) -> Versions:
    """The versions that a signature, or the recipe of a match, names.

    Args:
        where: the name of `values` in error messages.
    """
    require(isinstance(values, Mapping), where, "an object", values)
    rules = values.get(RULES)
    if rules is None or (type(rules) is int and 1 <= rules < FIRST_RULES):
        hint = "files from before the first release are not read, make it anew with this Echelon"
        raise ConfigError(f"{where}.{RULES} must be {FIRST_RULES} or later, got {rules or 'none'}: {hint}")
    for name, current in current_versions().as_json().items():
        version: Any = values.get(name)
        require(type(version) is int and version >= 1, f"{where}.{name}", "an integer >= 1", version)
        if version > current:
            raise ConfigError(f"{where}.{name} must be at most {current}, got {version}: use a newer Echelon")
    return Versions(values[RULES], values[MAP_MAKER])


def earlier_defaults(version: int) -> dict[str, Any]:
    """Default under version `version` of the rules of each setting whose default has changed since, by dotted name."""
    defaults: dict[str, Any] = {}
    for changed in sorted(CHANGES, reverse=True):
        if changed > version:
            defaults |= CHANGES[changed].defaults
    return defaults
