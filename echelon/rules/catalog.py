"""Hulls, weapons, suites and materials: the tables of the rule book."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from echelon.runtime import exact


class Hull(IntEnum):
    """Chassis classes, lightest first."""

    SCOUT = 0
    LIGHT = 1
    MEDIUM = 2
    HEAVY = 3


@dataclass(frozen=True)
class HullSpec:
    """One chassis. Sizes in voxels, `jet` in vox/s², `heat_sink` in heat points a second."""

    size: tuple[float, float, float]
    max_speed_vox_per_s: float
    yaw_rate_rad_per_s: float
    jet_vox_per_s2: float
    hp: float
    leg_hp: float
    heat_cap: float
    heat_sink_per_s: float
    tonnage: float


HULLS = {
    Hull.SCOUT: HullSpec((1.2, 1.2, 1.8), 7.0, 1.8, 18.0, 60.0, 30.0, 75.0, 13.0, 20.0),
    Hull.LIGHT: HullSpec((1.5, 1.5, 2.0), 6.8, 1.5, 16.0, 80.0, 40.0, 80.0, 12.0, 35.0),
    Hull.MEDIUM: HullSpec((2.5, 2.5, 3.0), 5.5, 1.0, 0.0, 150.0, 75.0, 100.0, 11.0, 55.0),
    Hull.HEAVY: HullSpec((3.5, 3.5, 4.0), 2.5, 0.6, 0.0, 200.0, 100.0, 130.0, 10.0, 85.0),
}


class Trigger(IntEnum):
    """The four firing slots of an action."""

    PRIMARY = 0
    SECONDARY = 1
    TERTIARY = 2
    SPECIAL = 3


class Timer(IntEnum):
    """Cooldown timers of a mech; weapons may share one."""

    LASER = 0
    MISSILE = 1
    KINETIC = 2
    PAINTER = 3
    AMS = 4


class Weapon(IntEnum):
    """Weapons a hull can mount."""

    LASER = 0
    FLAMER = 1
    MISSILE = 2
    GAUSS = 3
    AUTOCANNON = 4
    PAINTER = 5
    SMOKE = 6


class Guidance(IntEnum):
    """How fire finds its way."""

    BEAM = 0
    HOMING = 1
    BALLISTIC = 2
    LINEAR = 3


@dataclass(frozen=True)
class WeaponSpec:
    """One weapon. `mounts` names the trigger that fires it on each hull that carries it."""

    mounts: dict[Hull, Trigger]
    timer: Timer
    range_vox: float
    damage: float
    stability: float
    self_heat: float
    cooldown_s: float
    arc_deg: float
    guidance: Guidance = Guidance.BEAM
    target_heat: float = 0.0
    """Heat a hit adds to its target."""
    speed_vox_per_s: float = 0.0
    """0 for a beam, which hits at once."""
    slots: int = 0
    """Shots one mech can have in flight: lifetime over cooldown."""
    suppress_s: float = 0.0
    splash_vox: float = 0.0
    splash_scale: float = 0.0
    """Share of the damage felt within the splash."""

    @property
    def arc_cos(self) -> float:
        """Cosine of half the arc, what a bearing is compared with."""
        return exact.sine_64(math.radians(self.arc_deg / 2), 0.5)

    @property
    def lifetime_s(self) -> float:
        """Seconds a shot flies."""
        return self.range_vox / self.speed_vox_per_s


WEAPONS = {
    Weapon.LASER: WeaponSpec(
        mounts={Hull.HEAVY: Trigger.PRIMARY, Hull.MEDIUM: Trigger.PRIMARY, Hull.LIGHT: Trigger.SECONDARY},
        timer=Timer.LASER,
        range_vox=8.0,
        damage=14.0,
        stability=0.0,
        self_heat=22.0,
        cooldown_s=0.6,
        arc_deg=120.0,
        target_heat=6.0,
    ),
    Weapon.FLAMER: WeaponSpec(
        mounts={Hull.LIGHT: Trigger.PRIMARY},
        timer=Timer.KINETIC,
        range_vox=4.5,
        damage=5.0,
        stability=0.0,
        self_heat=10.0,
        cooldown_s=0.15,
        arc_deg=90.0,
        target_heat=5.0,
    ),
    Weapon.MISSILE: WeaponSpec(
        mounts={Hull.HEAVY: Trigger.SECONDARY},
        timer=Timer.MISSILE,
        range_vox=50.0,
        damage=40.0,
        stability=15.0,
        self_heat=45.0,
        cooldown_s=3.0,
        arc_deg=180.0,
        guidance=Guidance.HOMING,
        speed_vox_per_s=12.0,
        slots=2,
        splash_vox=2.5,
        splash_scale=0.5,
    ),
    Weapon.GAUSS: WeaponSpec(
        mounts={Hull.HEAVY: Trigger.TERTIARY},
        timer=Timer.KINETIC,
        range_vox=20.0,
        damage=50.0,
        stability=60.0,
        self_heat=15.0,
        cooldown_s=4.0,
        arc_deg=60.0,
        guidance=Guidance.BALLISTIC,
        speed_vox_per_s=40.0,
        slots=1,
        splash_vox=1.5,
        splash_scale=0.5,
    ),
    Weapon.AUTOCANNON: WeaponSpec(
        mounts={Hull.MEDIUM: Trigger.TERTIARY},
        timer=Timer.KINETIC,
        range_vox=12.0,
        damage=8.0,
        stability=5.0,
        self_heat=6.0,
        cooldown_s=0.2,
        arc_deg=90.0,
        guidance=Guidance.LINEAR,
        speed_vox_per_s=25.0,
        slots=3,
        suppress_s=1.2,
    ),
    Weapon.PAINTER: WeaponSpec(
        mounts={Hull.SCOUT: Trigger.PRIMARY, Hull.LIGHT: Trigger.TERTIARY, Hull.MEDIUM: Trigger.TERTIARY},
        timer=Timer.PAINTER,
        range_vox=10.0,
        damage=0.0,
        stability=0.0,
        self_heat=5.0,
        cooldown_s=1.0,
        arc_deg=60.0,
    ),
    Weapon.SMOKE: WeaponSpec(
        mounts={hull: Trigger.SPECIAL for hull in Hull},
        timer=Timer.MISSILE,
        range_vox=20.0,
        damage=0.0,
        stability=0.0,
        self_heat=10.0,
        cooldown_s=5.0,
        arc_deg=180.0,
        guidance=Guidance.LINEAR,
        speed_vox_per_s=15.0,
        slots=1,
    ),
}
BEAMS = tuple(w for w in Weapon if WEAPONS[w].guidance == Guidance.BEAM)
SHELLS = tuple(w for w in Weapon if WEAPONS[w].guidance != Guidance.BEAM)
"""Weapons whose fire flies."""

KINETIC_AIM_FOCUS_RAD = 0.2
"""A kinetic weapon aims at the focus target within this bearing, else fires straight ahead."""
KINETIC_AIM_RAD = 0.1
"""The same for any other target."""
BEAM_SPREAD = 0.5
"""A beam strikes within this share of the target's half height."""
KINETIC_MUZZLE = 0.8
"""Height of a kinetic muzzle above the hull centre, in half heights."""
MISSILE_RACK_VOX = 0.5
"""Height of the missile tubes above the hull's top."""
MISSILE_LOFT = 0.5
"""What is added upwards to the unit vector a missile is launched along."""
HOMING_PER_S = 4.0
"""How fast a missile's velocity turns to its target."""
SIGHT_LOCK_VOX = 12.0
"""A missile locks within this on a clear line alone."""
LOCK_QUALITY = 0.7
"""Sensor quality it takes to make use of paint."""
PAINT_S = 5.0
PAINT_BONUS = 0.1
"""Additional damage to a target that a packmate painted."""
CLOUD_S = 10.0
CLOUD_VOX = 4.0
"""Radius of a smoke cloud."""
CLOUDS = 3
"""Clouds of one mech at most: their lifetime over the launcher's cooldown."""
AMS_HULL = Hull.HEAVY
AMS_VOX = 5.5
AMS_CHANCE = 0.6
AMS_COOLDOWN_S = 1.0
EWAR_HULL = Hull.SCOUT
EWAR_VOX = 50.0
ECM_HEAT_PER_S = 3.0
ECCM_HEAT_PER_S = 2.0
ECCM_TRIGGER = 0.5
"""The secondary trigger means ECCM above this, ECM above 0."""
WRECK_CHANCE = {Hull.SCOUT: 0.1, Hull.LIGHT: 0.3, Hull.MEDIUM: 0.6, Hull.HEAVY: 0.9}
"""How often a wreck stays solid; else it burns as a debris field."""
NOISE_FACTOR = {Hull.SCOUT: 1.0, Hull.LIGHT: 1.5, Hull.MEDIUM: 2.5, Hull.HEAVY: 4.0}
"""Noise of a hull a vox/s."""


class Suite(IntEnum):
    """Combat suites: what a mech's cockpit shows."""

    SCOUT_RECON = 0
    LIGHT_SKIRMISH = 1
    MEDIUM_ASSAULT = 2
    HEAVY_FIRE_SUPPORT = 3
    PACK_COMMAND = 4
    SQUAD_COMMAND = 5


@dataclass(frozen=True)
class SuiteSpec:
    """One combat suite."""

    visual_slots: int
    """Contacts it shows that the mech senses itself."""
    sensor_factor: float
    """Factor on the radar's range."""
    fidelity: float
    """Share of the sight range within which a contact shows its hp, heat and stability."""
    squad_slots: int
    squad_detail: int
    """0 where comrades are, 1 also their hp and heat, 2 also stability and readiness."""
    sees_engaged: bool
    """Whether it shows whom comrades fight."""
    issues_orders: bool
    """Told to the pilot, nothing more."""
    contact_reports: bool
    """Told to the pilot, nothing more."""
    intel_slots: int
    """Contacts it shows that only packmates sense."""


SUITES = {
    Suite.SCOUT_RECON: SuiteSpec(20, 1.5, 0.8, 5, 0, False, False, False, 5),
    Suite.LIGHT_SKIRMISH: SuiteSpec(10, 1.2, 0.6, 5, 1, False, False, True, 8),
    Suite.MEDIUM_ASSAULT: SuiteSpec(8, 1.0, 0.7, 5, 1, False, False, True, 6),
    Suite.HEAVY_FIRE_SUPPORT: SuiteSpec(5, 0.8, 1.0, 5, 0, False, False, True, 3),
    Suite.PACK_COMMAND: SuiteSpec(8, 1.0, 0.6, 5, 2, True, True, True, 10),
    Suite.SQUAD_COMMAND: SuiteSpec(6, 1.0, 0.5, 12, 2, True, True, True, 12),
}
NO_SUITE = SuiteSpec(24, 1.0, 1.0, 5, 2, False, False, False, 0)
"""The cockpit of every mech where suites are switched off: nothing is held back, nothing is passed on."""
HULL_SUITE = {
    Hull.SCOUT: Suite.SCOUT_RECON,
    Hull.LIGHT: Suite.LIGHT_SKIRMISH,
    Hull.MEDIUM: Suite.MEDIUM_ASSAULT,
    Hull.HEAVY: Suite.HEAVY_FIRE_SUPPORT,
}


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


@dataclass(frozen=True)
class MaterialSpec:
    """One material: does it stop hulls and shots, does it stop lines of sight, what does it take to destroy it."""

    solid: bool
    opaque: bool
    hp: float = math.inf
    """Points of damage by shots that turn it into air."""


MATERIALS = {
    Material.AIR: MaterialSpec(solid=False, opaque=False),
    Material.DIRT: MaterialSpec(solid=False, opaque=False),
    Material.LAVA: MaterialSpec(solid=False, opaque=False),
    Material.WATER: MaterialSpec(solid=False, opaque=False),
    Material.SOLID: MaterialSpec(solid=True, opaque=True, hp=100.0),
    Material.DEBRIS_FIELD: MaterialSpec(solid=False, opaque=False, hp=50.0),
    Material.SOLID_DEBRIS: MaterialSpec(solid=True, opaque=True, hp=200.0),
    Material.GLASS: MaterialSpec(solid=True, opaque=False, hp=10.0),
    Material.REINFORCED: MaterialSpec(solid=True, opaque=True),
    Material.FOLIAGE: MaterialSpec(solid=False, opaque=True, hp=1.0),
}

DEBRIS_HEAT = 0.5
"""A debris field's share of the heat of lava."""
DEBRIS_DAMAGE = 0.25
"""A debris field's share of the damage of lava."""
HAZARDS = (Material.LAVA, Material.WATER, Material.DEBRIS_FIELD)
"""What heats, cools or hurts whoever stands in it; no wreck fills it."""
