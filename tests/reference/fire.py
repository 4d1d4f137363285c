"""Phase 6: targeting and firing of all weapons."""

import math

from first_catalog import CATALOG, TIMER_OF, WEAPONS, Weapon

from echelon.rules.catalog import (
    BEAM_SPREAD,
    KINETIC_AIM_FOCUS_RAD,
    KINETIC_AIM_RAD,
    KINETIC_MUZZLE,
    MISSILE_LOFT,
    MISSILE_RACK_VOX,
    WeaponSpec,
)

from .battle import Battle, Mech, Orders, Shot
from .body import warm
from .hair import at_most, weigh
from .harm import Harms, hit
from .senses import has_clear_line, is_running, sensor_quality
from .vectors import Vector, add, apart, minus, norm, times, turned_by, unit


def bearing(mech: Mech, other: Mech) -> float:
    """Return the angle between a mech's heading and another mech, on the ground plane."""
    x, y = minus(other.pos, mech.pos)[:2]
    return abs(turned_by(math.atan2(y, x) - mech.yaw))


def is_in_reach(mech: Mech, other: Mech, spec: WeaponSpec, arc_half: float) -> bool:
    """Return True for a living enemy in range and in arc."""
    if not (other.alive and mech.is_enemy(other)):
        return False
    in_range = at_most(apart(mech.pos, other.pos), spec.range_vox, "range")
    return in_range and at_most(bearing(mech, other), arc_half, "arc")


def choose(mech: Mech, candidates: list[Mech], focus: int | None) -> Mech | None:
    """Return the focus target if it is a candidate, else the nearest candidate. Ties go to the lowest index."""
    for other in candidates:
        if other.index == focus:
            return other
    nearest = min(candidates, key=lambda other: apart(mech.pos, other.pos), default=None)
    for other in candidates:
        weigh(apart(mech.pos, other.pos), apart(mech.pos, nearest.pos), "nearest")
    return nearest


def is_locked(battle: Battle, orders: list[Orders], mech: Mech, other: Mech) -> bool:
    """Return True for a missile lock: by paint of the own pack and sufficient sensor quality, or on sight nearby."""
    by_paint = other.paint[mech.pack] > 0 and sensor_quality(battle, orders, mech) >= CATALOG.lock_quality
    near = at_most(apart(mech.pos, other.pos), CATALOG.sight_lock_vox, "sight lock")
    return by_paint or (near and has_clear_line(battle, mech, other))


def aimed_target(battle: Battle, orders: list[Orders], mech: Mech, weapon: Weapon) -> Mech | None:
    """Return the target of a beam, a painter or a missile."""
    spec, homes = WEAPONS[weapon], weapon == Weapon.MISSILE
    arc_half = math.radians(spec.arc_deg) / 2
    reach = [other for other in battle.mechs if is_in_reach(mech, other, spec, arc_half)]
    seen = [o for o in reach if (is_locked(battle, orders, mech, o) if homes else has_clear_line(battle, mech, o))]
    return choose(mech, seen, orders[mech.index].focus)


def nearly_ahead(battle: Battle, mech: Mech, weapon: Weapon, focus: int | None) -> Mech | None:
    """Return the target of an autocannon or a gauss rifle."""

    def arc_half(other: Mech) -> float:
        return KINETIC_AIM_FOCUS_RAD if other.index == focus else KINETIC_AIM_RAD

    reach = [other for other in battle.mechs if is_in_reach(mech, other, WEAPONS[weapon], arc_half(other))]
    return choose(mech, reach, focus)


def facing(mech: Mech) -> Vector:
    return [math.cos(mech.yaw), math.sin(mech.yaw), 0.0]


def launch_missile(battle: Battle, mech: Mech, target: Mech) -> Shot:
    """Launch a missile 0.5 above the hull, with velocity speed * unit(unit(delta) + 0.5 * up)."""
    spec = WEAPONS[Weapon.MISSILE]
    course = unit(add(unit(minus(target.pos, mech.pos)), [0.0, 0.0, MISSILE_LOFT]))
    rack = add(mech.pos, [0.0, 0.0, mech.half[2] + MISSILE_RACK_VOX])
    ttl = battle.rules.substeps(spec.lifetime_s)
    return Shot(Weapon.MISSILE, mech.index, 0, rack, times(course, spec.speed_vox_per_s), ttl, target.index)


def launch_kinetic(battle: Battle, mech: Mech, weapon: Weapon, focus: int | None) -> Shot:
    """Launch a shot at the target, a gauss slug above it by its drop; without target straight ahead."""
    spec = WEAPONS[weapon]
    target = nearly_ahead(battle, mech, weapon, focus)
    muzzle = add(mech.pos, [0.0, 0.0, KINETIC_MUZZLE * mech.half[2]])
    course = facing(mech)
    if target is not None:
        delta = minus(target.pos, muzzle)
        if spec.guidance == "ballistic":
            flight_s = norm(delta) / spec.speed_vox_per_s
            delta = add(delta, [0.0, 0.0, 0.5 * battle.rules.gravity_vox_per_s2 * flight_s**2])
        course = unit(delta)
    ttl = battle.rules.substeps(spec.lifetime_s)
    return Shot(weapon, mech.index, 0, muzzle, times(course, spec.speed_vox_per_s), ttl)


def launch_smoke(battle: Battle, mech: Mech, focus: int | None) -> Shot:
    """Launch smoke horizontally, up to the focus target if it is in range, otherwise straight ahead."""
    spec = WEAPONS[Weapon.SMOKE]
    course, flight_s = facing(mech), spec.lifetime_s
    if focus is not None and is_in_reach(mech, battle.mechs[focus], spec, math.radians(spec.arc_deg) / 2):
        level = [*minus(battle.mechs[focus].pos, mech.pos)[:2], 0.0]
        course, flight_s = unit(level), norm(level) / spec.speed_vox_per_s
        weigh(flight_s / battle.rules.dt_s % 1, 0.5, "flight time of smoke")
    top = add(mech.pos, [0.0, 0.0, mech.half[2]])
    ttl = max(1, battle.rules.substeps(flight_s))
    return Shot(Weapon.SMOKE, mech.index, 0, top, times(course, spec.speed_vox_per_s), ttl)


def fire_beam(battle: Battle, harms: Harms, mech: Mech, target: Mech, weapon: Weapon, draw: float) -> None:
    """Apply the hit of a beam at the height target centre + U(-1, 1) * half * 0.5."""
    height = target.pos[2] + (2 * draw - 1) * BEAM_SPREAD * target.half[2]
    hit(battle, harms, weapon, mech, target, unit(minus(target.pos, mech.pos)), height)


def paint(battle: Battle, painted: list[tuple[Mech, Mech]]) -> None:
    """Store the newest painter. Ties go to the lowest index."""
    for painter, target in sorted(painted, key=lambda pair: -pair[0].index):
        target.paint[painter.pack] = battle.rules.substeps(CATALOG.paint_s)
        target.painter[painter.pack] = painter.index


def free_slot(battle: Battle, shot: Shot) -> int:
    taken = {s.slot for s in battle.shots if (s.owner, s.weapon) == (shot.owner, shot.weapon)}
    return next(slot for slot in range(len(taken) + 1) if slot not in taken)


def fire(battle: Battle, orders: list[Orders], vents: set[int], beam_height: list[float], harms: Harms) -> None:
    """Fire the weapons of all held triggers of running mechs, all on the same state."""
    fired: list[tuple[Mech, Weapon]] = []
    launched: list[Shot] = []
    painted: list[tuple[Mech, Mech]] = []
    for mech in battle.mechs:
        if not is_running(mech) or mech.index in vents:
            continue
        told = orders[mech.index]
        for weapon in Weapon:
            spec, trigger = WEAPONS[weapon], mech.trigger_of(weapon)
            if trigger is None or not told.held[trigger] or mech.cooldown[TIMER_OF[weapon]] > 0:
                continue
            if weapon == Weapon.SMOKE:
                if not battle.features.smoke:
                    continue
                launched.append(launch_smoke(battle, mech, told.focus))
            elif weapon in (Weapon.AUTOCANNON, Weapon.GAUSS):
                launched.append(launch_kinetic(battle, mech, weapon, told.focus))
            else:
                target = aimed_target(battle, orders, mech, weapon)
                if target is None:
                    continue
                if weapon == Weapon.MISSILE:
                    launched.append(launch_missile(battle, mech, target))
                else:
                    fire_beam(battle, harms, mech, target, weapon, beam_height[mech.index])
                if weapon == Weapon.PAINTER:
                    painted.append((mech, target))
            fired.append((mech, weapon))
    paint(battle, painted)
    for shot in launched:
        shot.slot = free_slot(battle, shot)
        battle.shots.append(shot)
    for mech, weapon in fired:
        spec = WEAPONS[weapon]
        warm(battle, mech, spec.self_heat)
        mech.cooldown[TIMER_OF[weapon]] = max(mech.cooldown[TIMER_OF[weapon]], battle.rules.substeps(spec.cooldown_s))
        mech.tally.shots[weapon] += 1
