"""Phase 5: AMS, guidance, flight, impacts, splash, smoke."""

import math
from dataclasses import dataclass

from first_catalog import CATALOG, HULLS, WEAPONS, Timer, Weapon

from echelon.rules.catalog import HOMING_PER_S

from .battle import Battle, Cloud, Mech, Shot
from .hair import at_most, below, weigh
from .harm import Harms, hit, splash
from .march import SOLID, Cell, first_cell, is_open
from .senses import is_running
from .vectors import Vector, add, apart, dot, minus, norm, times, unit

SKIN_VOX = 1e-3
"""Offset from an impact: outwards for the origin of an explosion, inwards for the damaged voxel, vox."""


@dataclass
class Flight:
    """The flight of one shot in this substep."""

    shot: Shot
    start: Vector
    point: Vector
    way: Vector
    """Unit vector, direction of flight."""
    ends: bool = False
    mech: Mech | None = None
    voxel: Cell | None = None
    on_floor: bool = False


def intercept(battle: Battle, luck: list[float]) -> None:
    """Let each running heavy with a ready AMS try to destroy the nearest enemy missile, all at once."""
    missiles = [s for s in battle.shots if s.weapon == Weapon.MISSILE and s.target is not None]
    missiles.sort(key=lambda s: (s.owner, s.slot))
    destroyed: list[Shot] = []
    for guard in battle.mechs:
        if not HULLS[guard.hull].ams or not is_running(guard) or guard.cooldown[Timer.AMS] > 0:
            continue
        hostile = [s for s in missiles if battle.mechs[s.owner].is_enemy(guard)]
        near = [
            (apart(s.pos, guard.pos), s) for s in hostile if at_most(apart(s.pos, guard.pos), CATALOG.ams_vox, "AMS")
        ]
        if not near:
            continue
        guard.cooldown[Timer.AMS] = battle.rules.substeps(CATALOG.ams_cooldown_s)
        nearest, missile = min(near, key=lambda pair: pair[0])
        for distance, _ in near:
            weigh(distance, nearest, "nearest missile")
        if below(luck[guard.index], CATALOG.ams_chance, "luck of AMS"):
            if not any(missile is gone for gone in destroyed):
                guard.tally.intercepts += 1
                guard.tally.intercepted_damage += WEAPONS[missile.weapon].damage
            destroyed.append(missile)
    battle.shots = [s for s in battle.shots if not any(s is gone for gone in destroyed)]


def guide(battle: Battle, shot: Shot) -> None:
    """Update the velocity of homing and ballistic shots before they fly."""
    spec, dt_s = WEAPONS[shot.weapon], battle.rules.dt_s
    if spec.guidance == "homing" and shot.target is not None and battle.mechs[shot.target].alive:
        towards = unit(minus(battle.mechs[shot.target].pos, shot.pos))
        turn = HOMING_PER_S * dt_s
        mixed = add(times(shot.vel, 1 - turn), times(towards, turn * spec.speed_vox_per_s))
        shot.vel = times(unit(mixed), spec.speed_vox_per_s)
    if spec.guidance == "ballistic":
        shot.vel = [*shot.vel[:2], shot.vel[2] - battle.rules.gravity_vox_per_s2 * dt_s]


def enters_sphere(start: Vector, end: Vector, center: Vector, radius: float) -> float:
    """Return the fraction of a segment at which it enters a sphere, infinity if it never does."""
    weigh(apart(start, center), radius, "starts in a sphere")
    if apart(start, center) <= radius:
        return 0.0
    way = minus(end, start)
    long = norm(way)
    along = dot(minus(center, start), way) / long
    across = math.sqrt(max(0.0, apart(start, center) ** 2 - along**2))
    weigh(across, radius, "grazes a sphere")
    if across > radius or along < 0:
        return math.inf
    reached = along - math.sqrt(radius**2 - across**2)
    weigh(reached, long, "reaches a sphere")
    return reached / long if reached <= long else math.inf


def leaves_map(battle: Battle, start: Vector, end: Vector) -> tuple[float, bool] | None:
    """Return the fraction of a segment at which it leaves the map, and whether it does so through the floor."""
    exits = []
    for axis, size in enumerate(battle.ground.size):
        weigh(end[axis], 0.0, "edge of the map")
        weigh(end[axis], size, "edge of the map")
        if not 0 <= end[axis] < size:
            border = 0 if end[axis] < 0 else size
            exits.append(((border - start[axis]) / (end[axis] - start[axis]), axis == 2 and border == 0))
    exits.sort()
    if len(exits) > 1:
        weigh(exits[0][0], exits[1][0], "first border")
    return exits[0] if exits else None


def fly(battle: Battle, shot: Shot) -> Flight:
    """Fly one substep: test the segment against the spheres of living enemies, solid voxels and the floor."""
    guide(battle, shot)
    start, end = shot.pos, add(shot.pos, times(shot.vel, battle.rules.dt_s))
    flight = Flight(shot, start, end, unit(shot.vel))
    owner = battle.mechs[shot.owner]

    mech_at, mech = math.inf, None
    for other in battle.living():
        if other.is_enemy(owner):
            t = enters_sphere(start, end, other.pos, max(other.half))
            if t < math.inf and mech_at < math.inf:
                weigh(t, mech_at, "first mech")
            if t < mech_at:
                mech_at, mech = t, other
    wall = first_cell(battle.ground, start, end)
    wall_at = wall[0] if wall else math.inf
    border = leaves_map(battle, start, end)
    border_at = border[0] if border else math.inf
    for a, b in ((mech_at, wall_at), (mech_at, border_at), (wall_at, border_at)):
        if max(a, b) < math.inf:
            weigh(a, b, "first obstacle")

    first = min(mech_at, wall_at, border_at)
    if first < math.inf:
        flight.point = add(start, times(minus(end, start), first))
        if mech_at == first:
            flight.mech = mech
        elif wall_at == first:
            flight.voxel = wall[1]
        else:
            flight.on_floor = border[1]
    shot.pos, shot.ttl = flight.point, shot.ttl - 1
    flight.ends = first < math.inf or shot.ttl == 0
    return flight


def fly_all(battle: Battle) -> list[Flight]:
    """Fly all shots on the same state, and remove shots that end."""
    flights = [fly(battle, shot) for shot in battle.shots]
    battle.shots = [flight.shot for flight in flights if not flight.ends]
    return flights


def impact(battle: Battle, flights: list[Flight], harms: Harms) -> None:
    """Apply direct hits, and the splash damage of missiles and gauss slugs."""
    for flight in flights:
        weapon, shooter = flight.shot.weapon, battle.mechs[flight.shot.owner]
        if flight.mech is not None:
            hit(battle, harms, weapon, shooter, flight.mech, flight.way, flight.point[2])
        met = flight.mech is not None or flight.voxel is not None or flight.on_floor
        radius = WEAPONS[weapon].splash_vox
        if not met or radius == 0:
            continue
        origin = minus(flight.point, times(flight.way, SKIN_VOX))
        for mech in battle.living():
            if mech is flight.mech or not at_most(apart(origin, mech.pos), radius, "splash"):
                continue
            if is_open(battle.ground, origin, mech.pos, SOLID):
                splash(harms, weapon, shooter, mech, origin)


def billow(battle: Battle, flights: list[Flight]) -> None:
    """Create a cloud for each smoke shot that hits something or ends its flight."""
    if not battle.features.smoke:
        return
    for flight in flights:
        if flight.ends and flight.shot.weapon == Weapon.SMOKE:
            owner = flight.shot.owner
            taken = {cloud.place for cloud in battle.clouds if cloud.owner == owner}
            place = next(place for place in range(len(taken) + 1) if place not in taken)
            battle.clouds.append(Cloud(owner, place, flight.point, battle.rules.substeps(CATALOG.cloud_s)))
