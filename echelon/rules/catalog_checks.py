"""What the simulation, the observations and the files can take of a catalog; checked where one is made."""

from __future__ import annotations

import re
from typing import Any, get_args

from echelon.rules.physics import RulesConfig
from echelon.rules.specs import (
    Effect,
    Guidance,
    Hull,
    HullSpec,
    Need,
    Trigger,
    WeaponSpec,
)
from echelon.runtime.errors import require
from echelon.runtime.limits import hints_of, limits_of

CLASSES = tuple(kind.name.lower() for kind in Hull)
TRIGGERS = tuple(trigger.name.lower() for trigger in Trigger)
GUIDANCE, EFFECTS, NEEDS = get_args(Guidance), get_args(Effect), get_args(Need)
MAX_WEAPONS = 16
MAX_TIMERS = MAX_WEAPONS + 5
"""Cooldown timers, that of the AMS among them."""
MAX_SHOTS = 4
"""Shots of a mech in flight."""
MAX_CLOUDS = 3
"""Clouds of a mech."""
MAX_HULL_VOX = 4.0
"""Collisions look up five cells along a side."""
MAX_REACH_VOX = 200.0
"""Longest way of a shot in a substep, which the simulation walks voxel by voxel."""
MIN_SHOT_SPEED, MAX_SHOT_SPEED = 0.01, 100.0
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
COLOUR = re.compile(r"#[0-9a-f]{6}")


def check_name(where: str, name: Any) -> None:
    """Require a name that can stand in a column of statistics, a flag and a page."""
    is_valid = isinstance(name, str) and NAME.fullmatch(name) is not None
    require(is_valid, where, "named by small letters, digits and _, at most 32", name)


def check_limits(spec: Any, where: str) -> None:
    """Require that each field with limits is a number within them."""
    kind: Any = type(spec)
    for field, (low, high, _) in limits_of(kind).items():
        value = getattr(spec, field)
        is_number = type(value) in ((int,) if hints_of(kind)[field] is int else (int, float))
        require(is_number and low <= value <= high, f"{where}.{field}", f"{low:g}..{high:g}", value)


def check_hull(where: str, hull: HullSpec, suites: tuple[str, ...]) -> None:
    """Require a size that collisions can look up, and a class and a suite that exist."""
    for side in hull.size:
        fits = type(side) in (int, float) and 0.5 <= side <= MAX_HULL_VOX
        require(fits and len(hull.size) == 3, f"{where}.size", f"three sides of 0.5..{MAX_HULL_VOX:g} vox", hull.size)
    require(hull.hull_class in CLASSES, f"{where}.hull_class", f"one of {CLASSES}", hull.hull_class)
    require(hull.suite in suites, f"{where}.suite", f"one of {suites}", hull.suite)


def shots_in_flight(weapon: WeaponSpec, rules: RulesConfig) -> int:
    """Shots of one mech that can fly at once: lifetime over cooldown, rounded up; 0 for a beam."""
    if weapon.is_beam:
        return 0
    flight, pause = rules.substeps(weapon.lifetime_s), rules.substeps(weapon.cooldown_s)
    return max(-(-flight // max(pause, 1)), 1)
