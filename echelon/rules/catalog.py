"""Hulls, weapons, suites and materials: the rows of the rule book, and the catalog that holds them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

from echelon.rules.config_json import from_json
from echelon.rules.physics import RulesConfig
from echelon.rules.specs import (
    CLASSES,
    COLOUR,
    EFFECT,
    EFFECTS,
    GUIDANCE,
    LOOKS,
    MAX_CLOUDS,
    MAX_POINTS,
    MAX_REACH_VOX,
    MAX_SHOT_SPEED,
    MAX_SHOTS,
    MAX_TIMERS,
    MAX_WEAPONS,
    MIN_SHOT_SPEED,
    NEEDS,
    SPECS,
    TRIGGERS,
    WAIT_S,
    HullSpec,
    MaterialSpec,
    SuiteSpec,
    Table,
    WeaponSpec,
    check_hull,
    check_limits,
    check_name,
    shots_in_flight,
)
from echelon.rules.specs import Hull as Hull
from echelon.rules.specs import Trigger as Trigger
from echelon.runtime.errors import require, short_repr
from echelon.runtime.files import MAX_JSON_BYTES, parse_json, read_file
from echelon.runtime.limits import SHARE, Limits


class Suite(IntEnum):
    """Combat suites: what a mech's cockpit shows."""

    SCOUT_RECON = 0
    LIGHT_SKIRMISH = 1
    MEDIUM_ASSAULT = 2
    HEAVY_FIRE_SUPPORT = 3
    PACK_COMMAND = 4
    SQUAD_COMMAND = 5


class Material(IntEnum):
    """What a voxel is made of."""

    AIR = 0
    DIRT = 1
    LAVA = 2
    WATER = 3
    SOLID = 4
    DEBRIS_FIELD = 5
    SOLID_DEBRIS = 6
    GLASS = 7
    REINFORCED = 8
    FOLIAGE = 9


HULLS = {
    "scout": HullSpec(
        (1.2, 1.2, 1.8), 7.0, 1.8, 18.0, 60.0, 30.0, 75.0, 13.0, 20.0, "scout", "scout_recon", 1.0, 0.1, ewar=True
    ),
    "light": HullSpec(
        (1.5, 1.5, 2.0), 6.8, 1.5, 16.0, 80.0, 40.0, 80.0, 12.0, 35.0, "light", "light_skirmish", 1.5, 0.3
    ),
    "medium": HullSpec(
        (2.5, 2.5, 3.0), 5.5, 1.0, 0.0, 150.0, 75.0, 100.0, 11.0, 55.0, "medium", "medium_assault", 2.5, 0.6
    ),
    "heavy": HullSpec(
        (3.5, 3.5, 4.0),
        2.5,
        0.6,
        0.0,
        200.0,
        100.0,
        130.0,
        10.0,
        85.0,
        "heavy",
        "heavy_fire_support",
        4.0,
        0.9,
        ams=True,
    ),
}
"""Hulls of the newest rules."""
WEAPONS = {
    "laser": WeaponSpec(
        mounts={"heavy": "primary", "medium": "primary", "light": "secondary"},
        timer="laser",
        range_vox=9.0,
        damage=14.0,
        self_heat=18.0,
        cooldown_s=0.6,
        arc_deg=120.0,
        target_heat=6.0,
        needs=("target", "line"),
    ),
    "flamer": WeaponSpec(
        mounts={"light": "primary"},
        timer="kinetic",
        range_vox=10.0,
        damage=8.0,
        self_heat=4.0,
        cooldown_s=0.15,
        arc_deg=120.0,
        target_heat=5.0,
        needs=("target", "line"),
        look="flame",
    ),
    "missile": WeaponSpec(
        mounts={"heavy": "secondary"},
        timer="missile",
        range_vox=50.0,
        damage=32.0,
        stability=15.0,
        self_heat=45.0,
        cooldown_s=4.0,
        arc_deg=180.0,
        guidance="homing",
        speed_vox_per_s=12.0,
        splash_vox=2.5,
        splash_scale=0.5,
        needs=("target", "lock"),
        interceptable=True,
    ),
    "gauss": WeaponSpec(
        mounts={"heavy": "tertiary"},
        timer="kinetic",
        range_vox=20.0,
        damage=50.0,
        stability=60.0,
        self_heat=15.0,
        cooldown_s=4.0,
        arc_deg=60.0,
        guidance="ballistic",
        speed_vox_per_s=60.0,
        splash_vox=1.5,
        splash_scale=0.5,
    ),
    "autocannon": WeaponSpec(
        mounts={"medium": "tertiary"},
        timer="kinetic",
        range_vox=12.0,
        damage=8.0,
        stability=5.0,
        self_heat=6.0,
        cooldown_s=0.2,
        arc_deg=90.0,
        guidance="linear",
        speed_vox_per_s=40.0,
        suppress_s=1.2,
    ),
    "painter": WeaponSpec(
        mounts={"scout": "primary", "light": "tertiary"},
        timer="painter",
        range_vox=16.0,
        damage=0.0,
        self_heat=5.0,
        cooldown_s=1.0,
        arc_deg=120.0,
        needs=("target", "line"),
        effect="paint",
    ),
    "smoke": WeaponSpec(
        mounts=dict.fromkeys(HULLS, "special"),
        timer="smoke",
        range_vox=20.0,
        damage=0.0,
        self_heat=10.0,
        cooldown_s=20.0,
        arc_deg=180.0,
        guidance="linear",
        speed_vox_per_s=15.0,
        needs=("focus",),
        effect="cloud",
    ),
}
"""Weapons of the newest rules."""
SUITES = {
    "scout_recon": SuiteSpec(20, 1.5, 0.8, 5, 0, False, False, False, 5),
    "light_skirmish": SuiteSpec(10, 1.2, 0.6, 5, 1, False, False, True, 8),
    "medium_assault": SuiteSpec(8, 1.0, 0.7, 5, 1, False, False, True, 6),
    "heavy_fire_support": SuiteSpec(5, 0.8, 1.0, 5, 0, False, False, True, 3),
    "pack_command": SuiteSpec(8, 1.0, 0.6, 5, 2, True, True, True, 10),
    "squad_command": SuiteSpec(6, 1.0, 0.5, 12, 2, True, True, True, 12),
}
"""Suites of the newest rules."""
NO_SUITE = SuiteSpec(24, 1.0, 1.0, 5, 2, False, False, False, 0)
"""The cockpit of every mech where suites are switched off: nothing is held back, nothing is passed on."""
MATERIALS = {
    "air": MaterialSpec(solid=False, opaque=False),
    "dirt": MaterialSpec(solid=False, opaque=False),
    "lava": MaterialSpec(solid=False, opaque=False),
    "water": MaterialSpec(solid=False, opaque=False),
    "solid": MaterialSpec(solid=True, opaque=True, hp=100.0),
    "debris_field": MaterialSpec(solid=False, opaque=False, hp=50.0),
    "solid_debris": MaterialSpec(solid=True, opaque=True, hp=200.0),
    "glass": MaterialSpec(solid=True, opaque=False, hp=10.0),
    "reinforced": MaterialSpec(solid=True, opaque=True),
    "foliage": MaterialSpec(solid=False, opaque=True, hp=1.0),
}
"""Materials of the newest rules."""

KINETIC_AIM_FOCUS_RAD = 0.2
"""A weapon that needs no target aims at the focus target within this bearing, else fires straight ahead."""
KINETIC_AIM_RAD = 0.1
"""The same for any other target."""
BEAM_SPREAD = 0.5
"""A beam strikes within this share of the target's half height."""
KINETIC_MUZZLE = 0.8
"""Height of a kinetic muzzle above the hull centre, in half heights."""
MISSILE_RACK_VOX = 0.5
"""Height of the tubes of homing weapons above the hull's top."""
MISSILE_LOFT = 0.5
"""What is added upwards to the unit vector a homing shot is launched along."""
HOMING_PER_S = 4.0
"""How fast the velocity of a homing shot turns to its target."""
ECCM_TRIGGER = 0.5
"""The secondary trigger of a hull with ECM and ECCM means ECCM above this, ECM above 0."""
DEBRIS_HEAT = 0.5
"""A debris field's share of the heat of lava."""
DEBRIS_DAMAGE = 0.25
"""A debris field's share of the damage of lava."""
REACH = Limits(0.0, 500.0)
HAZARDS = (Material.LAVA, Material.WATER, Material.DEBRIS_FIELD)
"""What heats, cools or hurts whoever stands in it; no wreck fills it."""


@dataclass(frozen=True)
class Catalog:
    """Every hull, weapon, suite and material of a battle, and the numbers that several of them share.

    By default those of the newest rules. A table that is given holds all of its rows, as in
    `Catalog(weapons={**Catalog().weapons, "railgun": WeaponSpec(...)})`. They stand in the order of the default
    catalog, new ones behind them by name.

    Raises:
        ConfigError: naming the row and the field that is out of its limits.
    """

    hulls: Mapping[str, HullSpec] = Table(HULLS)
    weapons: Mapping[str, WeaponSpec] = Table(WEAPONS)
    suites: Mapping[str, SuiteSpec] = Table(SUITES)
    materials: Mapping[str, MaterialSpec] = Table(MATERIALS)
    """Rows by name: `HullSpec`, `WeaponSpec`, `SuiteSpec` and `MaterialSpec` of `echelon.rules.specs`."""
    timers: tuple[str, ...] = ("laser", "missile", "kinetic", "painter")
    """The first cooldown timers, in their order; others that weapons name follow."""
    sight_lock_vox: Annotated[float, REACH] = 12.0
    """A weapon that needs a lock has it within this on a clear line alone."""
    lock_quality: Annotated[float, Limits(0.0, 1.5)] = 0.7
    """Sensor quality it takes to make use of paint."""
    paint_s: Annotated[float, WAIT_S] = 5.0
    """How long paint lasts."""
    paint_bonus: Annotated[float, Limits(0.0, 10.0)] = 0.2
    """Share of damage added to hits on a target that a packmate painted."""
    cloud_s: Annotated[float, Limits(0.05, 60.0)] = 6.0
    """How long a cloud of smoke hangs."""
    cloud_vox: Annotated[float, Limits(0.1, 20.0)] = 3.0
    """Radius of a cloud of smoke."""
    ams_vox: Annotated[float, REACH] = 5.5
    """How far an anti-missile system reaches."""
    ams_chance: Annotated[float, SHARE] = 0.6
    """How often it destroys what it tries."""
    ams_cooldown_s: Annotated[float, WAIT_S] = 1.0
    """How long it waits after each try."""
    ewar_vox: Annotated[float, Limits(0.1, 500.0)] = 50.0
    """Where the strength of ECM and ECCM has fallen to 0."""
    ecm_heat_per_s: Annotated[float, EFFECT] = 3.0
    """Heat points of an emitter that jams."""
    eccm_heat_per_s: Annotated[float, EFFECT] = 2.0
    """Heat points of an emitter that clears its own team's sensors."""

    __repr__ = short_repr

    def __post_init__(self) -> None:
        orders: dict[str, Mapping[str, Any]] = {
            "hulls": HULLS,
            "weapons": WEAPONS,
            "suites": SUITES,
            "materials": MATERIALS,
        }
        for table, order in orders.items():
            rows = getattr(self, table)
            names = [*(name for name in order if name in rows), *sorted(name for name in rows if name not in order)]
            object.__setattr__(self, table, Table({name: rows[name] for name in names}))
        check_catalog(self, tuple(SUITES), MATERIALS)

    @property
    def timer_names(self) -> tuple[str, ...]:
        """Every cooldown timer, that of the AMS apart."""
        return tuple(dict.fromkeys((*self.timers, *(spec.timer for spec in self.weapons.values()))))

    def carried(self, hull: str) -> dict[str, WeaponSpec]:
        """The weapons of a hull by name."""
        return {name: spec for name, spec in self.weapons.items() if hull in spec.mounts}

    def class_of(self, hull: str) -> Hull:
        """The class of a hull."""
        return Hull[self.hulls[hull].hull_class.upper()]

    def material(self, kind: Material) -> MaterialSpec:
        """The row of a material."""
        return self.materials[kind.name.lower()]


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


def clouds_hanging(weapon: WeaponSpec, catalog: Catalog, rules: RulesConfig) -> int:
    """Clouds of one mech that can hang at once: lifetime and flight over cooldown, rounded up; 0 of other weapons."""
    if weapon.effect != "cloud":
        return 0
    hangs = rules.substeps(catalog.cloud_s) + rules.substeps(weapon.lifetime_s)
    return -(-hangs // max(rules.substeps(weapon.cooldown_s), 1))


def read_catalog(path: Path) -> Catalog:
    """The newest catalog with the rows and fields that a JSON file adds or changes.

    Args:
        path: the file: an object of tables (`hulls`, `weapons`, `suites`, `materials`), each an object of rows by name,
            and of the catalog's own numbers. A row that the newest catalog has needs the changed fields only.

    Raises:
        FileError: it cannot be read, or is no JSON.
        ConfigError: a table, row or field is unknown, of the wrong type or out of its limits.
    """
    catalog: Catalog = from_json(Catalog, parse_json(path.name, read_file(path, MAX_JSON_BYTES)), path.name, Catalog())
    return catalog
