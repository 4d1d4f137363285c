"""What the simulation, the observations and the files can take of a catalog; checked where one is made."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from echelon.rules.specs import (
    LOOKS,
    MAX_POINTS,
    SPECS,
    Effect,
    Guidance,
    Hull,
    HullSpec,
    MaterialSpec,
    Need,
    Trigger,
    WeaponSpec,
)
from echelon.runtime.errors import require
from echelon.runtime.limits import hints_of, limits_of

if TYPE_CHECKING:
    from echelon.rules.catalog import Catalog
    from echelon.rules.physics import RulesConfig

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


def check_catalog(catalog: Catalog, suites: tuple[str, ...], materials: Mapping[str, MaterialSpec]) -> None:
    """Require that every row is within its limits, and that rows fit together."""
    for table, kind in SPECS.items():
        for name, spec in getattr(catalog, table).items():
            check_name(f"catalog.{table}", name)
            require(type(spec) is kind, f"catalog.{table}.{name}", f"a {kind.__name__}", spec)
            check_limits(spec, f"catalog.{table}.{name}")
    check_limits(catalog, "catalog")
    for name in catalog.timer_names:
        check_name("catalog.timers", name)
    timers = len(catalog.timer_names) + 1
    require(timers <= MAX_TIMERS, "catalog.timers", f"at most {MAX_TIMERS} with those of weapons and the AMS", timers)
    count = len(catalog.weapons)
    require(1 <= count <= MAX_WEAPONS, "catalog.weapons", f"1..{MAX_WEAPONS} rows", count)
    require(set(catalog.suites) == set(suites), "catalog.suites", f"of the rows {suites}", tuple(catalog.suites))
    check_materials(catalog, materials)
    for name, hull in catalog.hulls.items():
        check_hull(f"catalog.hulls.{name}", hull, suites)
    classes = {hull.hull_class for hull in catalog.hulls.values()}
    require(classes == set(CLASSES), "catalog.hulls", f"with a hull of each class, {CLASSES}", tuple(catalog.hulls))
    for name, weapon in catalog.weapons.items():
        check_weapon(f"catalog.weapons.{name}", weapon, catalog)
    for name in catalog.hulls:
        check_mounts(name, catalog)


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


def check_materials(catalog: Catalog, laid: Mapping[str, MaterialSpec]) -> None:
    """Require the materials that maps are made of, and points that a voxel can keep."""
    names = tuple(catalog.materials)
    require(set(names) == set(laid), "catalog.materials", f"of the rows {tuple(laid)}", names)
    for name, spec in catalog.materials.items():
        where = f"catalog.materials.{name}"
        for field in ("solid", "opaque"):
            as_made = getattr(laid[name], field)
            require(getattr(spec, field) == as_made, f"{where}.{field}", f"{as_made}, as maps are made", not as_made)
        is_number = type(spec.hp) in (int, float)
        is_valid = is_number and (spec.hp == math.inf or 0 < spec.hp <= MAX_POINTS)
        require(is_valid, f"{where}.hp", f"in (0, {MAX_POINTS:g}], or null for ever", spec.hp)


def check_hull(where: str, hull: HullSpec, suites: tuple[str, ...]) -> None:
    """Require a size that collisions can look up, and a class and a suite that exist."""
    for side in hull.size:
        fits = type(side) in (int, float) and 0.5 <= side <= MAX_HULL_VOX
        require(fits and len(hull.size) == 3, f"{where}.size", f"three sides of 0.5..{MAX_HULL_VOX:g} vox", hull.size)
    require(hull.hull_class in CLASSES, f"{where}.hull_class", f"one of {CLASSES}", hull.hull_class)
    require(hull.suite in suites, f"{where}.suite", f"one of {suites}", hull.suite)


def check_weapon(where: str, weapon: WeaponSpec, catalog: Catalog) -> None:
    """Require that what a weapon is, needs and does fit together."""
    require(weapon.guidance in GUIDANCE, f"{where}.guidance", f"one of {GUIDANCE}", weapon.guidance)
    require(weapon.effect in EFFECTS, f"{where}.effect", f"one of {EFFECTS}", weapon.effect)
    require(set(weapon.needs) <= set(NEEDS), f"{where}.needs", f"chosen from {NEEDS}", weapon.needs)
    require(weapon.look in ("", *LOOKS), f"{where}.look", f"one of {LOOKS}", weapon.look)
    is_colour = weapon.colour == "" or COLOUR.fullmatch(weapon.colour) is not None
    require(is_colour, f"{where}.colour", "#rrggbb in small letters", weapon.colour)

    aimed = "target" in weapon.needs or weapon.guidance in ("ballistic", "linear")
    require(aimed, f"{where}.needs", 'with "target": a beam and a homing shot go to one', weapon.needs)
    flies, speed = not weapon.is_beam, weapon.speed_vox_per_s
    limit = f"{MIN_SHOT_SPEED:g}..{MAX_SHOT_SPEED:g} vox/s" if flies else "0 for a beam"
    is_number = type(speed) in (int, float)
    is_valid = is_number and (MIN_SHOT_SPEED <= speed <= MAX_SHOT_SPEED if flies else speed == 0)
    require(is_valid, f"{where}.speed_vox_per_s", limit, speed)
    is_integral = weapon.is_beam or float(weapon.damage).is_integer()
    require(is_integral, f"{where}.damage", "a whole number: voxels lose whole points to shots", weapon.damage)
    splashes = weapon.splash_vox == 0 or (flies and weapon.effect != "cloud")
    require(splashes, f"{where}.splash_vox", "0 for beams and for clouds", weapon.splash_vox)
    guided = not weapon.interceptable or weapon.guidance == "homing"
    require(guided, f"{where}.interceptable", "false: an AMS destroys homing shots only", weapon.interceptable)
    is_allowed = {"paint": weapon.is_beam, "cloud": weapon.guidance == "linear"}.get(weapon.effect, True)
    require(is_allowed, f"{where}.effect", "paint for beams and cloud for linear fire only", weapon.effect)
    for hull, trigger in weapon.mounts.items():
        require(hull in catalog.hulls, f"{where}.mounts", f"on hulls of {tuple(catalog.hulls)}", hull)
        require(trigger in TRIGGERS, f"{where}.mounts.{hull}", f"one of {TRIGGERS}", trigger)


def check_mounts(hull: str, catalog: Catalog) -> None:
    """Require that a hull has room for its weapons: a trigger for each gun, and one launcher of clouds at most.

    A painter may share a trigger, because it fires only at what the gun is aimed at.
    """
    carried = catalog.carried(hull)
    for paints in (False, True):
        alike = {name: spec.mounts[hull] for name, spec in carried.items() if (spec.effect == "paint") == paints}
        for trigger in TRIGGERS:
            names = [name for name, mount in alike.items() if mount == trigger]
            where = f"catalog.weapons.{names[-1] if names else ''}.mounts.{hull}"
            require(len(names) <= 1, where, f"a trigger of its own: {' and '.join(names)} share one", trigger)
    clouds = [name for name, spec in carried.items() if spec.effect == "cloud"]
    require(len(clouds) <= 1, f"catalog.hulls.{hull}", "with one weapon that leaves clouds at most", clouds)
    emitters = [name for name, spec in carried.items() if spec.mounts[hull] == "secondary"]
    free = not catalog.hulls[hull].ewar or not emitters
    require(free, f"catalog.hulls.{hull}.ewar", "false: its secondary trigger fires a weapon", emitters)


def check_flight(catalog: Catalog, rules: RulesConfig, hulls: tuple[str, ...]) -> None:
    """Require places for the shots and clouds of every mech, and that one of the rosters' `hulls` can shoot."""
    for hull in catalog.hulls:
        flown = {name: shots_in_flight(spec, rules) for name, spec in catalog.carried(hull).items()}
        limit = f"armed so that at most {MAX_SHOTS} of its shots fly at once (range over speed and cooldown)"
        where = f"catalog.hulls.{hull} at RulesConfig.dt_s {rules.dt_s:g}"
        require(sum(flown.values()) <= MAX_SHOTS, where, limit, flown)
    for name, spec in catalog.weapons.items():
        if spec.effect != "cloud":
            continue
        where = f"catalog.weapons.{name}.cooldown_s at RulesConfig.dt_s {rules.dt_s:g}"
        require(shots_in_flight(spec, rules) == 1, where, "longer than its flight", spec.cooldown_s)
        limit = f"such that at most {MAX_CLOUDS} of a mech's clouds hang"
        require(clouds_hanging(spec, catalog, rules) <= MAX_CLOUDS, where, limit, spec.cooldown_s)
    for name, spec in catalog.weapons.items():
        if not spec.is_beam:
            where = f"catalog.weapons.{name} at RulesConfig.dt_s {rules.dt_s:g}"
            farthest = spec.flown_vox(rules.gravity_vox_per_s2, rules.dt_s)
            limit = f"flying at most {MAX_REACH_VOX:g} vox a substep, falls included"
            require(farthest <= MAX_REACH_VOX, where, limit, farthest)
    flying = {hull for spec in catalog.weapons.values() if not spec.is_beam for hull in spec.mounts}
    limit = f"with a hull that carries a weapon whose shots fly, one of {sorted(flying)}"
    require(not flying.isdisjoint(hulls), "EnvConfig.blue and red", limit, hulls)


def shots_in_flight(weapon: WeaponSpec, rules: RulesConfig) -> int:
    """Shots of one mech that can fly at once: lifetime over cooldown, rounded up; 0 for a beam."""
    if weapon.is_beam:
        return 0
    flight, pause = rules.substeps(weapon.lifetime_s), rules.substeps(weapon.cooldown_s)
    return max(-(-flight // max(pause, 1)), 1)


def clouds_hanging(weapon: WeaponSpec, catalog: Catalog, rules: RulesConfig) -> int:
    """Clouds of one mech that can hang at once: lifetime and flight over cooldown, rounded up; 0 of other weapons."""
    if weapon.effect != "cloud":
        return 0
    hangs = rules.substeps(catalog.cloud_s) + rules.substeps(weapon.lifetime_s)
    return -(-hangs // max(rules.substeps(weapon.cooldown_s), 1))
