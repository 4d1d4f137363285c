"""One battle as plain data: mechs, shots, clouds, terrain and orders."""

from dataclasses import dataclass, field

from first_catalog import HULLS, Timer, Weapon, mounts

from echelon.rules.catalog import Hull, Material, Trigger
from echelon.rules.config import FeaturesConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.specs import HullSpec

from .vectors import Vector


@dataclass
class Tally:
    """Statistics of a mech."""

    damage: float = 0.0
    kills: int = 0
    team_kills: int = 0
    assists: int = 0
    assist_hp: float = 0.0
    paint_damage: float = 0.0
    intercepts: int = 0
    intercepted_damage: float = 0.0
    falls: int = 0
    legs_lost: int = 0
    shutdowns: int = 0
    vent_s: float = 0.0
    shots: dict[Weapon, int] = field(default_factory=lambda: dict.fromkeys(Weapon, 0))
    hits: dict[Weapon, int] = field(default_factory=lambda: dict.fromkeys(Weapon, 0))
    taken: dict[Weapon, float] = field(default_factory=lambda: dict.fromkeys(Weapon, 0.0))
    killed_by: dict[Weapon, int] = field(default_factory=lambda: dict.fromkeys(Weapon, 0))


@dataclass
class Mech:
    """One mech. `half` is half the size of its hull, in float32 precision like the simulation."""

    index: int
    hull: Hull
    is_red: bool
    pack: int
    half: Vector
    pos: Vector
    vel: Vector
    yaw: float
    hp: float
    leg_hp: float
    heat: float
    stability: float
    fallen: int
    suppressed: int
    cooldown: dict[Timer, int]
    paint: list[int]
    painter: list[int]
    under_fire: int
    hit_from: Vector
    wrecked: bool
    tally: Tally = field(default_factory=Tally)

    @property
    def spec(self) -> HullSpec:
        return HULLS[self.hull]

    @property
    def alive(self) -> bool:
        return self.hp > 0

    @property
    def legged(self) -> bool:
        return self.leg_hp <= 0

    @property
    def bottom(self) -> float:
        return self.pos[2] - self.half[2]

    def is_enemy(self, other: "Mech") -> bool:
        return self.is_red != other.is_red

    def trigger_of(self, weapon: Weapon) -> Trigger | None:
        """Return the trigger that fires a weapon, None if the hull does not carry it."""
        return mounts(weapon).get(self.hull)


@dataclass
class Shot:
    """One shot in flight, in one of its owner's slots for the weapon."""

    weapon: Weapon
    owner: int
    slot: int
    pos: Vector
    vel: Vector
    ttl: int
    target: int | None = None


@dataclass
class Cloud:
    """A smoke cloud in one of its owner's slots."""

    owner: int
    place: int
    pos: Vector
    ttl: int


@dataclass
class Ground:
    """The material and the lost hp of each voxel. The index of a voxel is (z * size_y + y) * size_x + x."""

    size: tuple[int, int, int]
    material: bytearray
    lost: dict[int, float]

    def index(self, x: int, y: int, z: int) -> int:
        return (z * self.size[1] + y) * self.size[0] + x

    def holds(self, x: int, y: int, z: int) -> bool:
        size_x, size_y, size_z = self.size
        return 0 <= x < size_x and 0 <= y < size_y and 0 <= z < size_z

    def at(self, x: int, y: int, z: int) -> Material:
        """Return the material of a voxel; air outside the map."""
        return Material(self.material[self.index(x, y, z)]) if self.holds(x, y, z) else Material.AIR

    def put(self, x: int, y: int, z: int, material: Material) -> None:
        """Set the material of a voxel, and reset its lost hp."""
        self.material[self.index(x, y, z)] = material
        self.lost.pop(self.index(x, y, z), None)


@dataclass
class Orders:
    """The orders of one mech."""

    throttle: Vector
    thrust: float
    turn: float
    vent: bool
    held: dict[Trigger, bool]
    ecm: bool
    eccm: bool
    focus: int | None


@dataclass
class Draws:
    """The random numbers of one substep, one of each per mech."""

    beam_height: list[float]
    priority: list[float]
    ams: list[float]
    wreck: list[float]


@dataclass
class Battle:
    """The complete state of a battle."""

    rules: RulesConfig
    features: FeaturesConfig
    mechs: list[Mech]
    shots: list[Shot]
    clouds: list[Cloud]
    ground: Ground

    def living(self) -> list[Mech]:
        return [mech for mech in self.mechs if mech.alive]
