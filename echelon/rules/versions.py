"""The versions of the rules and of the map maker, which files name, and what each version of the rules changed."""

from __future__ import annotations

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
ABSENT = {RULES: 1, MAP_MAKER: 2}
"""Versions of files that do not name them."""


@dataclass(frozen=True)
class Change:
    """What a version of the rules changed."""

    title: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Each setting of `EnvConfig` whose default it changed, by its dotted name in a signature, and the JSON value that
    was the default before, None for one that is new: `{"rules.step_up_vox": 1.1}`."""


CHANGES: dict[int, Change] = {
    1: Change("the rules of version 0.1.0"),
    2: Change(
        "a wreck is one voxel high and lies on the ground; local maps leave out what a mech can step onto; "
        "a mech sees its cooldowns by trigger, and the way to the zone until it is inside; "
        "commanders that hold a zone go to its middle"
    ),
    3: Change(
        "smoke is rare and does not hold up missiles; lasers, flamers and painters reach farther; gauss rifles and "
        "autocannons shoot faster shells, missiles are rarer and weaker; paint adds more damage, mediums carry no "
        "painter; 20 s of control win",
        {
            "rules.zone_score_to_win_s": 30.0,
            "catalog.weapons.laser.range_vox": 8.0,
            "catalog.weapons.laser.self_heat": 22.0,
            "catalog.weapons.flamer.range_vox": 4.5,
            "catalog.weapons.flamer.damage": 5.0,
            "catalog.weapons.flamer.self_heat": 10.0,
            "catalog.weapons.flamer.arc_deg": 90.0,
            "catalog.weapons.missile.damage": 40.0,
            "catalog.weapons.missile.cooldown_s": 3.0,
            "catalog.weapons.gauss.speed_vox_per_s": 40.0,
            "catalog.weapons.autocannon.speed_vox_per_s": 25.0,
            "catalog.weapons.painter.mounts": {"scout": "primary", "light": "tertiary", "medium": "tertiary"},
            "catalog.weapons.painter.range_vox": 10.0,
            "catalog.weapons.painter.arc_deg": 60.0,
            "catalog.weapons.smoke.timer": "missile",
            "catalog.weapons.smoke.cooldown_s": 5.0,
            "catalog.paint_bonus": 0.1,
            "catalog.cloud_s": 10.0,
            "catalog.cloud_vox": 4.0,
        },
    ),
}
"""By version of the rules."""


class Versions(NamedTuple):
    """Versions that a file names."""

    rules: int
    map_maker: int

    def as_json(self) -> dict[str, int]:
        """As entries of a signature."""
        return {RULES: self.rules, MAP_MAKER: self.map_maker}


def current_versions() -> Versions:
    """The versions of this Echelon."""
    return Versions(RULES_VERSION, MAP_MAKER_VERSION)


def stored_versions(values: Mapping[str, Any], where: str) -> Versions:
    """The versions that a signature, or the recipe of a match, names or implies.

    Args:
        where: the name of `values` in error messages.

    Raises:
        ConfigError: one is no version, or is newer than this Echelon.
    """
    found = {name: values.get(name, absent) for name, absent in ABSENT.items()}
    for name, ours in current_versions().as_json().items():
        version = found[name]
        require(type(version) is int and version >= 1, f"{where}.{name}", "an integer >= 1", version)
        if version > ours:
            raise ConfigError(f"{where}.{name} must be at most {ours}, got {version}: use a newer Echelon")
    return Versions(found[RULES], found[MAP_MAKER])


def earlier_defaults(version: int) -> dict[str, Any]:
    """Default under version `version` of the rules of each setting whose default has changed since, by dotted name."""
    found: dict[str, Any] = {}
    for later in sorted(CHANGES, reverse=True):
        if later > version:
            found |= CHANGES[later].defaults
    return found
