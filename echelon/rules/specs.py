"""What a row of the catalog says: hulls, weapons, suites and materials as frozen values; and the limits of such rows.

The simulation, the observations and the files set these limits. The catalog checks them when it is made.
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
"""Replays keep hit points and heat in an int16 of 1/128."""
POINTS, EFFECT = Limits(1.0, MAX_POINTS), Limits(0.0, 1e3)
HEAT, WAIT_S = Limits(0.0, 500.0), Limits(0.0, 60.0)
"""Limits of numbers of rows: what is finite, of the right sign, and within what observations and files hold."""


class Hull(IntEnum):
    """Chassis classes, lightest first; a hull of the catalog is of one of them."""

    SCOUT = 0
    LIGHT = 1
    MEDIUM = 2
    HEAVY = 3


class Trigger(IntEnum):
    """The four firing slots of an action."""

    PRIMARY = 0
    SECONDARY = 1
    TERTIARY = 2
    SPECIAL = 3


class Table(Mapping[str, Row]):
    """Rows by name, in order. Unlike a dict it is frozen, so a config that holds it is hashable and can be shared."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = dict(rows)

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def __contains__(self, name: object) -> bool:
        # A stranger's settings may hold a list where a name belongs, which no dict can look up.
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
    """One chassis, a row of `Catalog.hulls`. What it may be is checked where a catalog takes it in."""

    size: tuple[float, float, float]
    """Length, width and height of its box, vox."""
    max_speed_vox_per_s: Annotated[float, Limits(0.0, 20.0)]
    yaw_rate_rad_per_s: Annotated[float, Limits(0.0, 10.0)]
    jet_vox_per_s2: Annotated[float, Limits(0.0, 22.0)]
    """Acceleration of its jets upwards; 0 for none."""
    hp: Annotated[float, POINTS]
    """Hit points."""
    leg_hp: Annotated[float, POINTS]
    """Hit points of its legs."""
    heat_cap: Annotated[float, POINTS]
    """Heat points above which it shuts down."""
    heat_sink_per_s: Annotated[float, EFFECT]
    """Heat points that it dissipates a second."""
    tonnage: Annotated[float, Limits(1.0, 100.0)]
    """Its weight in the control of the zone."""
    hull_class: str
    """Which of the four classes observations and statistics count it among."""
    suite: str
    """Its combat suite."""
    noise_factor: Annotated[float, Limits(0.0, 100.0)]
    """Noise a vox/s."""
    wreck_chance: Annotated[float, SHARE]
    """How often its wreck stays solid; else it burns as a debris field."""
    ams: bool = False
    """Carries an anti-missile system."""
    ewar: bool = False
    """Carries ECM and ECCM, on the secondary trigger."""


@dataclass(frozen=True)
class WeaponSpec:
    """One weapon, a row of `Catalog.weapons`. What it may be is checked where a catalog takes it in."""

    mounts: Mapping[str, str]
    """The trigger that fires it (primary, secondary, tertiary, special), by the name of each hull that carries it."""
    timer: str
    """Cooldown timer; weapons of a mech that name the same one wait for each other."""
    range_vox: Annotated[float, Limits(0.1, 500.0)]
    damage: Annotated[float, Limits(0.0, MAX_POINTS)]
    """Hit points that a direct hit takes."""
    self_heat: Annotated[float, HEAT]
    """Heat points of each shot to the mech that fires."""
    cooldown_s: Annotated[float, WAIT_S]
    """Time between two shots."""
    arc_deg: Annotated[float, Limits(0.0, 360.0)]
    """Full angle around the mech's facing within which it aims."""
    guidance: Guidance = "beam"
    """How its fire gets to the target: at once; turning to it; falling; straight on."""
    needs: tuple[Need, ...] = ()
    """Without a "target" it does not fire; it is aimed along a clear "line" or by a "lock", and at the "focus" target
    only. What needs nothing fires straight ahead unless a target is nearly there."""
    effect: Effect = "damage"
    """What it leaves beside damage: paint on the target, or a cloud of smoke where its flight ends."""
    interceptable: bool = False
    """An AMS can destroy its shots."""
    stability: Annotated[float, EFFECT] = 0.0
    """Stability that a hit takes from its target."""
    target_heat: Annotated[float, HEAT] = 0.0
    """Heat a hit adds to its target."""
    speed_vox_per_s: float = 0.0
    """0 for a beam, which hits at once."""
    suppress_s: Annotated[float, WAIT_S] = 0.0
    """How long a hit slows the return of its target's stability."""
    splash_vox: Annotated[float, Limits(0.0, 20.0)] = 0.0
    """Radius of the splash of its impact; 0 for none."""
    splash_scale: Annotated[float, SHARE] = 0.0
    """Share of the damage felt within the splash."""
    look: str = ""
    """One of `LOOKS`, how pages and pictures draw it; empty: by guidance and effect."""
    colour: str = ""
    """As #rrggbb; empty: the colour of its look."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mounts", Table(self.mounts))

    @property
    def is_beam(self) -> bool:
        """It hits at once, and nothing flies."""
        return self.guidance == "beam"

    @property
    def arc_cos(self) -> float:
        """Cosine of half the arc, what a bearing is compared with."""
        return exact.sine_64(math.radians(self.arc_deg / 2), 0.5)

    @property
    def lifetime_s(self) -> float:
        """Seconds a shot flies."""
        return self.range_vox / self.speed_vox_per_s

    def flown_vox(self, gravity_vox_per_s2: float, dt_s: float) -> float:
        """What a shot flies in a substep at most, a ballistic one at the end of its fall."""
        fall_vox_per_s = gravity_vox_per_s2 * self.lifetime_s if self.guidance == "ballistic" else 0.0
        return (self.speed_vox_per_s + fall_vox_per_s) * dt_s

    @property
    def drawn_as(self) -> str:
        """Its look, one of `LOOKS`."""
        by_guidance = {"beam": "ray", "homing": "rocket", "ballistic": "slug", "linear": "tracer"}
        by_effect = {"paint": "thread", "cloud": "canister"}
        return self.look or by_effect.get(self.effect) or by_guidance[self.guidance]


LOOKS = ("ray", "thread", "flame", "rocket", "slug", "tracer", "canister")
"""How fire is drawn: three kinds of beams, then four of shots."""


@dataclass(frozen=True)
class SuiteSpec:
    """One combat suite."""

    visual_slots: Annotated[int, Limits(0, 20)]
    """Contacts it shows that the mech senses itself."""
    sensor_factor: Annotated[float, Limits(0.8, 1.5)]
    """Factor on the radar's range."""
    fidelity: Annotated[float, SHARE]
    """Share of the sight range within which a contact shows its hp, heat and stability."""
    squad_slots: Annotated[int, Limits(0, 12)]
    squad_detail: Annotated[int, Limits(0, 2)]
    """0 where comrades are, 1 also their hp and heat, 2 also stability and readiness."""
    sees_engaged: bool
    """Whether it shows whom comrades fight."""
    issues_orders: bool
    """Whether orders reach its pack through it, those of squad command its team: `CommandConfig.range_vox`."""
    contact_reports: bool
    """Told to the pilot, nothing more."""
    intel_slots: Annotated[int, Limits(0, 24)]
    """Contacts it shows that only packmates sense."""


@dataclass(frozen=True)
class MaterialSpec:
    """One material: does it stop hulls and shots, does it stop lines of sight, what does it take to destroy it."""

    solid: bool
    opaque: bool
    hp: float = math.inf
    """Points of damage by shots that turn it into air."""


SPECS: dict[str, Any] = {"hulls": HullSpec, "weapons": WeaponSpec, "suites": SuiteSpec, "materials": MaterialSpec}
"""The tables of a catalog, and what a row of each is."""


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
