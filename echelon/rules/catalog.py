"""Hulls, weapons, suites and materials: the rows of the rule book, and the catalog that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

from echelon.rules.catalog_checks import check_catalog
from echelon.rules.specs import EFFECT, WAIT_S, HullSpec, MaterialSpec, SuiteSpec, Table, WeaponSpec
from echelon.rules.specs import Hull as Hull
from echelon.rules.specs import Trigger as Trigger
from echelon.runtime.errors import short_repr
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
