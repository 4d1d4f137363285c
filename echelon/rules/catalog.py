"""The catalog: tables of hulls, weapons, combat suites (sensor equipment) and voxel materials."""

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
    """Combat suites. The suite of a mech determines what the mech observes."""

    SCOUT_RECON = 0
    LIGHT_SKIRMISH = 1
    MEDIUM_ASSAULT = 2
    HEAVY_FIRE_SUPPORT = 3
    PACK_COMMAND = 4
    SQUAD_COMMAND = 5


class Material(IntEnum):
    """Materials of voxels."""

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
"""The suite of every mech if suites are disabled. It shows everything that the mech senses, and no reports."""
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
"""Maximum bearing at which a weapon that needs no target aims at the focus target. Beyond it fires straight ahead."""
KINETIC_AIM_RAD = 0.1
"""Maximum bearing at which a weapon that needs no target aims at any other target."""
BEAM_SPREAD = 0.5
"""Beams hit within this share of the target's half height around the target's centre."""
KINETIC_MUZZLE = 0.8
"""Height of a kinetic muzzle above the hull centre, in half heights."""
MISSILE_RACK_VOX = 0.5
"""Height of the launch tubes of homing weapons above the top of the hull, vox."""
MISSILE_LOFT = 0.5
"""Upward component that is added to the unit launch direction of a homing shot."""
HOMING_PER_S = 4.0
"""Rate at which the velocity of a homing shot turns to its target, share per second."""
ECCM_TRIGGER = 0.5
"""Hulls with ECM and ECCM: a secondary trigger above this value runs ECCM, a lower one above 0 runs ECM."""
DEBRIS_HEAT = 0.5
"""Heat of a debris field, as a share of the heat of lava."""
DEBRIS_DAMAGE = 0.25
"""Damage of a debris field, as a share of the damage of lava."""
REACH = Limits(0.0, 500.0)
HAZARDS = (Material.LAVA, Material.WATER, Material.DEBRIS_FIELD)
"""Materials that heat, cool or damage a mech that stands in them. Wrecks do not fill them."""


@dataclass(frozen=True)
class Catalog:
    """All hulls, weapons, combat suites and materials of a battle, and the constants that they share.

    The default tables are those of the newest rules version. A table argument replaces the whole table, as in
    `Catalog(weapons=dict(Catalog().weapons, railgun=WeaponSpec(...)))`. Rows keep the order of the default catalog; new
    rows follow, sorted by name.

    Raises:
        ConfigError: if a field of a row is outside its limits. The error message contains the row and the field.
    """

    hulls: Mapping[str, HullSpec] = Table(HULLS)
    weapons: Mapping[str, WeaponSpec] = Table(WEAPONS)
    suites: Mapping[str, SuiteSpec] = Table(SUITES)
    materials: Mapping[str, MaterialSpec] = Table(MATERIALS)
    """Rows keyed by name: `HullSpec`, `WeaponSpec`, `SuiteSpec` and `MaterialSpec` of `echelon.rules.specs`."""
    timers: tuple[str, ...] = ("laser", "missile", "kinetic", "painter")
    """The first cooldown timers, in order. Further timers of weapons follow."""
    sight_lock_vox: Annotated[float, REACH] = 12.0
    """Maximum distance at which a clear line alone gives a lock, vox."""
    lock_quality: Annotated[float, Limits(0.0, 1.5)] = 0.7
    """Minimum sensor quality for a lock on a painted target."""
    paint_s: Annotated[float, WAIT_S] = 5.0
    """Duration of paint, s."""
    paint_bonus: Annotated[float, Limits(0.0, 10.0)] = 0.2
    """Additional share of damage of hits on a target that a packmate painted."""
    cloud_s: Annotated[float, Limits(0.05, 60.0)] = 6.0
    """Lifetime of a smoke cloud, s."""
    cloud_vox: Annotated[float, Limits(0.1, 20.0)] = 3.0
    """Radius of a smoke cloud, vox."""
    ams_vox: Annotated[float, REACH] = 5.5
    """Range of an anti-missile system (AMS), vox."""
    ams_chance: Annotated[float, SHARE] = 0.6
    """Probability that an AMS destroys the shot it fires at."""
    ams_cooldown_s: Annotated[float, WAIT_S] = 1.0
    """Cooldown of an AMS after each try, s."""
    ewar_vox: Annotated[float, Limits(0.1, 500.0)] = 50.0
    """Distance at which the strength of ECM and ECCM falls to 0, vox."""
    ecm_heat_per_s: Annotated[float, EFFECT] = 3.0
    """Heat points per second of an active ECM."""
    eccm_heat_per_s: Annotated[float, EFFECT] = 2.0
    """Heat points per second of an active ECCM."""

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
        """Names of all cooldown timers except that of the anti-missile system (AMS)."""
        return tuple(dict.fromkeys((*self.timers, *(spec.timer for spec in self.weapons.values()))))

    def carried(self, hull: str) -> dict[str, WeaponSpec]:
        """Return the weapons of a hull, keyed by name."""
        return {name: spec for name, spec in self.weapons.items() if hull in spec.mounts}

    def class_of(self, hull: str) -> Hull:
        """Return the class of a hull, given its name."""
        return Hull[self.hulls[hull].hull_class.upper()]

    def material(self, kind: Material) -> MaterialSpec:
        """Return the catalog row of a material."""
        return self.materials[kind.name.lower()]


def check_catalog(catalog: Catalog, suites: tuple[str, ...], materials: Mapping[str, MaterialSpec]) -> None:
    """Require that every row of the catalog is within its limits and consistent with the other rows."""
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
    require(
        set(catalog.suites) == set(suites), "catalog.suites", f"a table with the rows {suites}", tuple(catalog.suites)
    )
    check_materials(catalog, materials)
    for name, hull in catalog.hulls.items():
        check_hull(f"catalog.hulls.{name}", hull, suites)
    classes = {hull.hull_class for hull in catalog.hulls.values()}
    require(
        classes == set(CLASSES), "catalog.hulls", f"a table with a hull of each class {CLASSES}", tuple(catalog.hulls)
    )
    for name, weapon in catalog.weapons.items():
        check_weapon(f"catalog.weapons.{name}", weapon, catalog)
    for name in catalog.hulls:
        check_mounts(name, catalog)


def check_materials(catalog: Catalog, laid: Mapping[str, MaterialSpec]) -> None:
    """Require exactly the default materials, with unchanged `solid` and `opaque`, and with hp within its limits."""
    names = tuple(catalog.materials)
    require(set(names) == set(laid), "catalog.materials", f"a table with the rows {tuple(laid)}", names)
    for name, spec in catalog.materials.items():
        where = f"catalog.materials.{name}"
        for field in ("solid", "opaque"):
            as_made = getattr(laid[name], field)
            require(
                getattr(spec, field) == as_made,
                f"{where}.{field}",
                f"{as_made}, as the map generator requires",
                not as_made,
            )
        is_number = type(spec.hp) in (int, float)
        is_valid = is_number and (spec.hp == math.inf or 0 < spec.hp <= MAX_POINTS)
        require(is_valid, f"{where}.hp", f"in (0, {MAX_POINTS:g}], or null for an indestructible material", spec.hp)


def check_weapon(where: str, weapon: WeaponSpec, catalog: Catalog) -> None:
    """Require that the fields of a weapon are valid and consistent."""
    require(weapon.guidance in GUIDANCE, f"{where}.guidance", f"one of {GUIDANCE}", weapon.guidance)
    require(weapon.effect in EFFECTS, f"{where}.effect", f"one of {EFFECTS}", weapon.effect)
    require(set(weapon.needs) <= set(NEEDS), f"{where}.needs", f"a selection of {NEEDS}", weapon.needs)
    require(weapon.look in ("", *LOOKS), f"{where}.look", f"one of {LOOKS}", weapon.look)
    is_colour = weapon.colour == "" or COLOUR.fullmatch(weapon.colour) is not None
    require(is_colour, f"{where}.colour", "#rrggbb in lower case", weapon.colour)

    aimed = "target" in weapon.needs or weapon.guidance in ("ballistic", "linear")
    require(aimed, f"{where}.needs", 'a list with "target": beams and homing shots need one', weapon.needs)
    flies, speed = not weapon.is_beam, weapon.speed_vox_per_s
    limit = f"{MIN_SHOT_SPEED:g}..{MAX_SHOT_SPEED:g} vox/s" if flies else "0 for a beam"
    is_number = type(speed) in (int, float)
    is_valid = is_number and (MIN_SHOT_SPEED <= speed <= MAX_SHOT_SPEED if flies else speed == 0)
    require(is_valid, f"{where}.speed_vox_per_s", limit, speed)
    is_integral = weapon.is_beam or float(weapon.damage).is_integer()
    require(
        is_integral, f"{where}.damage", "an integer, because the damage of voxels is stored as integers", weapon.damage
    )
    splashes = weapon.splash_vox == 0 or (flies and weapon.effect != "cloud")
    require(splashes, f"{where}.splash_vox", "0 for beams and smoke shots", weapon.splash_vox)
    guided = not weapon.interceptable or weapon.guidance == "homing"
    require(guided, f"{where}.interceptable", "false, because an AMS destroys homing shots only", weapon.interceptable)
    is_allowed = {"paint": weapon.is_beam, "cloud": weapon.guidance == "linear"}.get(weapon.effect, True)
    require(is_allowed, f"{where}.effect", "paint only for beams, and cloud only for linear shots", weapon.effect)
    for hull, trigger in weapon.mounts.items():
        require(hull in catalog.hulls, f"{where}.mounts", f"keyed by hulls of {tuple(catalog.hulls)}", hull)
        require(trigger in TRIGGERS, f"{where}.mounts.{hull}", f"one of {TRIGGERS}", trigger)


def check_mounts(hull: str, catalog: Catalog) -> None:
    """Require that each gun of a hull has its own trigger, and that a hull has at most one smoke launcher.

    A painter (a weapon that marks targets) may share the trigger of a gun, because both aim at the same target.
    """
    carried = catalog.carried(hull)
    for paints in (False, True):
        alike = {name: spec.mounts[hull] for name, spec in carried.items() if (spec.effect == "paint") == paints}
        for trigger in TRIGGERS:
            names = [name for name, mount in alike.items() if mount == trigger]
            where = f"catalog.weapons.{names[-1] if names else ''}.mounts.{hull}"
            require(
                len(names) <= 1,
                where,
                f"a different trigger for each weapon, but {' and '.join(names)} share a trigger",
                trigger,
            )
    clouds = [name for name, spec in carried.items() if spec.effect == "cloud"]
    require(len(clouds) <= 1, f"catalog.hulls.{hull}", "a hull with at most one smoke weapon", clouds)
    emitters = [name for name, spec in carried.items() if spec.mounts[hull] == "secondary"]
    free = not catalog.hulls[hull].ewar or not emitters
    require(free, f"catalog.hulls.{hull}.ewar", "false, because the secondary trigger fires a weapon", emitters)


def check_flight(catalog: Catalog, rules: RulesConfig, hulls: tuple[str, ...]) -> None:
    """Require that each mech has enough slots for all its shots and clouds, and that one of `hulls` can launch
    shots."""
    for hull in catalog.hulls:
        flown = {name: shots_in_flight(spec, rules) for name, spec in catalog.carried(hull).items()}
        limit = f"a hull with at most {MAX_SHOTS} shots in flight at once (range / speed / cooldown)"
        where = f"catalog.hulls.{hull} at RulesConfig.dt_s {rules.dt_s:g}"
        require(sum(flown.values()) <= MAX_SHOTS, where, limit, flown)
    for name, spec in catalog.weapons.items():
        if spec.effect != "cloud":
            continue
        where = f"catalog.weapons.{name}.cooldown_s at RulesConfig.dt_s {rules.dt_s:g}"
        require(
            shots_in_flight(spec, rules) == 1,
            where,
            "longer than the flight time of the weapon's shot",
            spec.cooldown_s,
        )
        limit = f"long enough for at most {MAX_CLOUDS} active clouds per mech"
        require(clouds_hanging(spec, catalog, rules) <= MAX_CLOUDS, where, limit, spec.cooldown_s)
    for name, spec in catalog.weapons.items():
        if not spec.is_beam:
            where = f"catalog.weapons.{name} at RulesConfig.dt_s {rules.dt_s:g}"
            farthest = spec.flown_vox(rules.gravity_vox_per_s2, rules.dt_s)
            limit = f"a weapon whose shots fly at most {MAX_REACH_VOX:g} vox per substep, including their fall"
            require(farthest <= MAX_REACH_VOX, where, limit, farthest)
    flying = {hull for spec in catalog.weapons.values() if not spec.is_beam for hull in spec.mounts}
    limit = f"rosters with at least one hull of {sorted(flying)}, whose weapons launch shots"
    require(not flying.isdisjoint(hulls), "EnvConfig.blue and red", limit, hulls)


def clouds_hanging(weapon: WeaponSpec, catalog: Catalog, rules: RulesConfig) -> int:
    """Return the maximum number of active clouds per mech: ceil((lifetime + flight) / cooldown); 0 without clouds."""
    if weapon.effect != "cloud":
        return 0
    hangs = rules.substeps(catalog.cloud_s) + rules.substeps(weapon.lifetime_s)
    return -(-hangs // max(rules.substeps(weapon.cooldown_s), 1))


def read_catalog(path: Path | str) -> Catalog:
    """Return the newest catalog with the rows and fields that a JSON file adds or changes.

    Args:
        path: a JSON file. The file contains tables (`hulls`, `weapons`, `suites`, `materials`) of rows keyed by name,
            and other fields of `Catalog`. A row of the newest catalog may list only its changed fields.

    Raises:
        FileError: if the file cannot be read or is not JSON.
        ConfigError: if a table, row or field is unknown, has the wrong type or is outside its limits.
    """
    path = Path(path)
    catalog: Catalog = from_json(Catalog, parse_json(path.name, read_file(path, MAX_JSON_BYTES)), path.name, Catalog())
    return catalog
