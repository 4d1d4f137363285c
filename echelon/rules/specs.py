"""Rows of the catalog as frozen dataclasses: hulls, weapons, suites and materials, with the limits of their fields.

The limits follow from the simulation, the observations and the file formats. `Catalog` checks the limits when it is
created.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, Literal, TypeVar, get_args

from echelon.rules.physics import RulesConfig
from echelon.runtime import exact
from echelon.runtime.errors import require
from echelon.runtime.limits import SHARE, Limits, hints_of, limits_of

Row = TypeVar("Row")


Guidance = Literal["beam", "homing", "ballistic", "linear"]
Effect = Literal["damage", "paint", "cloud"]
Need = Literal["target", "line", "lock", "focus"]
MAX_POINTS = 255.0
"""Maximum hit points and heat, because replays store them as int16 in units of 1/128."""
POINTS, EFFECT = Limits(1.0, MAX_POINTS), Limits(0.0, 1e3)
HEAT, WAIT_S = Limits(0.0, 500.0), Limits(0.0, 60.0)
"""Limits that observations and files impose on fields of rows."""


class Hull(IntEnum):
    """Classes of hulls, lightest first. Each hull of the catalog belongs to one class."""

    SCOUT = 0
    LIGHT = 1
    MEDIUM = 2
    HEAVY = 3


class Trigger(IntEnum):
    """The four triggers of an action, which fire the weapons mounted on them."""

    PRIMARY = 0
    SECONDARY = 1
    TERTIARY = 2
    SPECIAL = 3


class Table(Mapping[str, Row]):
    """An immutable, ordered mapping of names to rows. The table is hashable, and so are configs that contain it."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = dict(rows)

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def __contains__(self, name: object) -> bool:
        # Untrusted settings may contain an unhashable value, such as a list, in place of a name.
        return isinstance(name, str) and name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __hash__(self) -> int:
        return hash(frozenset(self._rows.items()))

    def __repr__(self) -> str:
        return repr(self._rows)


@dataclass(frozen=True)
class HullSpec:
    """A hull, a row of `Catalog.hulls`. `Catalog` checks the fields of the row."""

    size: tuple[float, float, float]
    """Length, width and height of the bounding box, vox."""
    max_speed_vox_per_s: Annotated[float, Limits(0.0, 20.0)]
    yaw_rate_rad_per_s: Annotated[float, Limits(0.0, 10.0)]
    jet_vox_per_s2: Annotated[float, Limits(0.0, 22.0)]
    """Upward acceleration of the jets; 0 for none."""
    hp: Annotated[float, POINTS]
    """Hit points."""
    leg_hp: Annotated[float, POINTS]
    """Hit points of the legs."""
    heat_cap: Annotated[float, POINTS]
    """Heat capacity in heat points. The mech shuts down above it."""
    heat_sink_per_s: Annotated[float, EFFECT]
    """Heat points dissipated per second."""
    tonnage: Annotated[float, Limits(1.0, 100.0)]
    """Weight of the mech in the control of the zone."""
    hull_class: str
    """Class of the hull in observations and statistics: scout, light, medium or heavy."""
    suite: str
    """Name of the combat suite."""
    noise_factor: Annotated[float, Limits(0.0, 100.0)]
    """Noise per vox/s of speed."""
    wreck_chance: Annotated[float, SHARE]
    """Probability that the wreck is solid. Otherwise it becomes a debris field."""
    ams: bool = False
    """The hull carries an anti-missile system (AMS)."""
    ewar: bool = False
    """The hull carries ECM and ECCM, on the secondary trigger."""


@dataclass(frozen=True)
class WeaponSpec:
    """A weapon, a row of `Catalog.weapons`. `Catalog` checks the fields of the row."""

    mounts: Mapping[str, str]
    """Trigger that fires the weapon (primary, secondary, tertiary, special), keyed by the hulls that carry it."""
    timer: str
    """Name of the cooldown timer. Weapons of a mech with the same timer share their cooldown."""
    range_vox: Annotated[float, Limits(0.1, 500.0)]
    damage: Annotated[float, Limits(0.0, MAX_POINTS)]
    """Damage of a direct hit, hit points."""
    self_heat: Annotated[float, HEAT]
    """Heat points that each shot adds to its shooter."""
    cooldown_s: Annotated[float, WAIT_S]
    """Minimum time between two shots, s."""
    arc_deg: Annotated[float, Limits(0.0, 360.0)]
    """Full angle of the firing arc around the mech's heading."""
    guidance: Guidance = "beam"
    """`beam` hits immediately, `homing` turns to its target, `ballistic` falls, `linear` flies straight."""
    needs: tuple[Need, ...] = ()
    """Conditions to fire: a "target", a clear "line" to it, a "lock" on it, or the "focus" target only. Without needs
    the weapon fires straight ahead unless a target is within a small bearing."""
    effect: Effect = "damage"
    """Effect besides damage: `paint` marks the target, `cloud` leaves smoke where the flight ends."""
    interceptable: bool = False
    """An AMS can destroy the shots."""
    stability: Annotated[float, EFFECT] = 0.0
    """Loss of stability of a mech that is hit."""
    target_heat: Annotated[float, HEAT] = 0.0
    """Heat points that a hit adds to its target."""
    speed_vox_per_s: float = 0.0
    """Speed of the shots; 0 for a beam."""
    suppress_s: Annotated[float, WAIT_S] = 0.0
    """Duration of suppression after a hit, s. It slows the regeneration of stability."""
    splash_vox: Annotated[float, Limits(0.0, 20.0)] = 0.0
    """Radius of the splash damage, vox; 0 for none."""
    splash_scale: Annotated[float, SHARE] = 0.0
    """Splash damage as a share of `damage`."""
    look: str = ""
    """How pages and pictures draw the weapon, one of `LOOKS`. Empty: depends on guidance and effect."""
    colour: str = ""
    """Colour as #rrggbb. Empty: the colour of the look."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mounts", Table(self.mounts))

    @property
    def is_beam(self) -> bool:
        """True for a beam, which hits immediately and launches no shot."""
        return self.guidance == "beam"

    @property
    def arc_cos(self) -> float:
        """Cosine of half the firing arc."""
        return exact.sine_64(math.radians(self.arc_deg / 2), 0.5)

    @property
    def lifetime_s(self) -> float:
        """Time of flight of a shot over its range, s."""
        return self.range_vox / self.speed_vox_per_s

    def flown_vox(self, gravity_vox_per_s2: float, dt_s: float) -> float:
        """Return the maximum distance that a shot flies in a substep, vox. A ballistic shot is fastest at the end of
        its fall.

        Args:
            gravity_vox_per_s2: gravity, vox/s².
            dt_s: duration of a substep, s.
        """
        fall_vox_per_s = gravity_vox_per_s2 * self.lifetime_s if self.guidance == "ballistic" else 0.0
        return (self.speed_vox_per_s + fall_vox_per_s) * dt_s

    @property
    def drawn_as(self) -> str:
        """The look of the weapon in pictures, one of `LOOKS`."""
        by_guidance = {"beam": "ray", "homing": "rocket", "ballistic": "slug", "linear": "tracer"}
        by_effect = {"paint": "thread", "cloud": "canister"}
        return self.look or by_effect.get(self.effect) or by_guidance[self.guidance]


LOOKS = ("ray", "thread", "flame", "rocket", "slug", "tracer", "canister")
"""Looks of weapons in pictures: three for beams, then four for shots."""


@dataclass(frozen=True)
class SuiteSpec:
    """A combat suite: a row of `Catalog.suites`, which determines what its mech observes."""

    visual_slots: Annotated[int, Limits(0, 20)]
    """Maximum number of observed contacts that the mech senses itself."""
    sensor_factor: Annotated[float, Limits(0.8, 1.5)]
    """Factor on the radar range."""
    fidelity: Annotated[float, SHARE]
    """Share of the sight range within which the hp, heat and stability of a contact are observed."""
    squad_slots: Annotated[int, Limits(0, 12)]
    """Maximum number of observed teammates."""
    squad_detail: Annotated[int, Limits(0, 2)]
    """Observed fields of teammates: 0 for the position, 1 also for hp and heat, 2 also for stability and readiness."""
    sees_engaged: bool
    """Whether the targets of teammates are observed."""
    issues_orders: bool
    """Whether the mech relays orders to its pack, with squad command to its team; see `CommandConfig.range_vox`."""
    contact_reports: bool
    """A flag in the suite's observation columns, without any other effect."""
    intel_slots: Annotated[int, Limits(0, 24)]
    """Maximum number of observed contacts that only packmates sense."""


@dataclass(frozen=True)
class MaterialSpec:
    """A material of voxels, a row of `Catalog.materials`."""

    solid: bool
    """Blocks hulls and shots."""
    opaque: bool
    """Blocks lines of sight."""
    hp: float = math.inf
    """Damage by shots that turns a voxel into air, hit points; infinite for an indestructible material."""


SPECS: dict[str, Any] = {"hulls": HullSpec, "weapons": WeaponSpec, "suites": SuiteSpec, "materials": MaterialSpec}
"""The tables of a catalog, with the class of their rows."""


CLASSES = tuple(kind.name.lower() for kind in Hull)
TRIGGERS = tuple(trigger.name.lower() for trigger in Trigger)
GUIDANCE, EFFECTS, NEEDS = get_args(Guidance), get_args(Effect), get_args(Need)
MAX_WEAPONS = 16
MAX_TIMERS = MAX_WEAPONS + 5
"""Maximum number of cooldown timers, including the timer of the AMS."""
MAX_SHOTS = 4
"""Maximum number of shots in flight per mech."""
MAX_CLOUDS = 3
"""Maximum number of active clouds per mech."""
MAX_HULL_VOX = 4.0
"""Maximum side of a hull, because collisions check five cells per side."""
MAX_REACH_VOX = 200.0
"""Maximum distance of a shot in a substep, because the simulation checks each voxel on the way."""
MIN_SHOT_SPEED, MAX_SHOT_SPEED = 0.01, 100.0
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
COLOUR = re.compile(r"#[0-9a-f]{6}")


def check_name(where: str, name: Any) -> None:
    """Require a name that is valid in statistics columns, flags and pages."""
    is_valid = isinstance(name, str) and NAME.fullmatch(name) is not None
    require(is_valid, where, "a name of lower-case letters, digits and _, at most 32", name)


def check_limits(spec: Any, where: str) -> None:
    """Require that each field with limits is a number within its limits."""
    kind: Any = type(spec)
    for field, (low, high, _) in limits_of(kind).items():
        value = getattr(spec, field)
        is_number = type(value) in ((int,) if hints_of(kind)[field] is int else (int, float))
        require(is_number and low <= value <= high, f"{where}.{field}", f"{low:g}..{high:g}", value)


def check_hull(where: str, hull: HullSpec, suites: tuple[str, ...]) -> None:
    """Require that a hull has a known class and suite, and a size that the collision code supports."""
    for side in hull.size:
        fits = type(side) in (int, float) and 0.5 <= side <= MAX_HULL_VOX
        require(fits and len(hull.size) == 3, f"{where}.size", f"three sides of 0.5..{MAX_HULL_VOX:g} vox", hull.size)
    require(hull.hull_class in CLASSES, f"{where}.hull_class", f"one of {CLASSES}", hull.hull_class)
    require(hull.suite in suites, f"{where}.suite", f"one of {suites}", hull.suite)


def shots_in_flight(weapon: WeaponSpec, rules: RulesConfig) -> int:
    """Return the maximum number of shots in flight per mech: ceil(lifetime / cooldown); 0 for a beam."""
    if weapon.is_beam:
        return 0
    flight, pause = rules.substeps(weapon.lifetime_s), rules.substeps(weapon.cooldown_s)
    return max(-(-flight // max(pause, 1)), 1)
