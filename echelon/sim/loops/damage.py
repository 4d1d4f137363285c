"""Sum the hits of a phase shot by shot, then apply the sums to all mechs at once. See `sim/damage.py`."""

from typing import Any

import numpy as np

from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import on_grid, positive, unit_2
from echelon.sim.loops.heat import bounded
from echelon.sim.loops.lanes import Lane, first, stride
from echelon.sim.loops.records import Hull, Hulls, Impact, Mech, Mechs, Paint, Pairs, Rules, Shot, Tally, Weapon

knee_height, damage_by_paint = device_function(formulas.knee_height), device_function(formulas.damage_by_paint)


@device_function
def clear_dealt(mechs: Mechs, pairs: Pairs, rules: Rules, lane: Lane) -> None:
    """Reset the damage dealt in the previous substep to 0, for all pairs of mechs."""
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        if mechs[n].is_harmed:
            mechs[n].is_harmed = False
            for other in range(mechs.shape[0]):
                pairs[n, other].dealt = ZERO
            for weapon in range(rules.num_weapons):
                mechs[n].dealt_by[weapon] = ZERO


@device_function
def paint_factor(shooter: int, target: int, paint: Paint, hulls: Hulls, rules: Rules) -> Any:
    """Numba version of `damage.paint_factor`, for one pair."""
    marker = paint[target, hulls[shooter].pack].marker
    return ONE + rules.paint_bonus if marker >= 0 and marker != shooter else ONE


@device_function
def hit_target(target: int, mechs: Mechs, pairs: Pairs, rules: Rules) -> Any:
    """Return the mech that a shot or a beam hits. The first hit on a mech in a phase resets the mech's sums of
    damage."""
    mech = mechs[target]
    if not mech.is_hit:
        mech.is_hit, mech.is_harmed = True, True
        mech.suppress = ZERO
        mech.hit_stability = 0.0
        mech.hit_heat = 0.0
        mech.from_x = 0.0
        mech.from_y = 0.0
        mech.splash_x = 0.0
        mech.splash_y = 0.0
        for shooter in range(mechs.shape[0]):
            pair = pairs[target, shooter]
            pair.direct = 0.0
            pair.splash = 0.0
            pair.legs = 0.0
        for weapon in range(rules.num_weapons):
            mech.direct_by[weapon] = 0.0
            mech.splash_by[weapon] = 0.0
    return mech


@device_function
def direct_hit_damage(
    shot: Shot,
    x: Any,
    y: Any,
    height: Any,
    mechs: Mechs,
    paint: Paint,
    pairs: Pairs,
    hulls: Hulls,
    gun: Weapon,
    rules: Rules,
) -> None:
    """Numba version of `damage.direct_hit_damage`, for one direct hit.

    Args:
        shot: an `IMPACT` or a `PULL`: the shooter, the target and the weapon.
        x, y: components of the unit vector along the direction of flight.
        height: z of the hit, vox.
        gun: the weapon.
    """
    shooter, target, weapon = shot.shooter, shot.target, shot.weapon
    mech, hull = hit_target(target, mechs, pairs, rules), hulls[target]
    factor = rules.rear_factor if x * mech.facing[0] + y * mech.facing[1] > rules.rear_arc_cos else ONE
    damage = gun.damage * factor
    to_hull = damage
    if height < knee_height(mech.pos[2], hull.half_size[2], rules.knee):
        to_hull = rules.leg_hit_share * damage
        pairs[target, shooter].legs += on_grid(damage)
    pairs[target, shooter].direct += on_grid(to_hull)
    mech.direct_by[weapon] += on_grid(to_hull * paint_factor(shooter, target, paint, hulls, rules))
    mech.hit_stability += on_grid(gun.stability * factor)
    mech.hit_heat += on_grid(gun.target_heat)
    mech.suppress = max(mech.suppress, gun.suppress)
    mech.from_x += on_grid(to_hull * -x)
    mech.from_y += on_grid(to_hull * -y)


@device_function
def splash(
    impact: Impact,
    target: int,
    x: Any,
    y: Any,
    mechs: Mechs,
    paint: Paint,
    pairs: Pairs,
    hulls: Hulls,
    gun: Weapon,
    rules: Rules,
) -> None:
    """Numba version of `damage.splash`, for one explosion at (x, y) and one mech."""
    shooter, mech, damage = impact.shooter, hit_target(target, mechs, pairs, rules), gun.splash_damage
    to_x, to_y = unit_2(x - mech.pos[0], y - mech.pos[1])
    pairs[target, shooter].splash += on_grid(damage)
    if hulls[shooter].is_red != hulls[target].is_red:
        mech.splash_by[impact.weapon] += on_grid(damage * paint_factor(shooter, target, paint, hulls, rules))
    mech.splash_x += on_grid(damage * to_x)
    mech.splash_y += on_grid(damage * to_y)


@device_function
def sum_damage(target: int, mechs: Mechs, paint: Paint, pairs: Pairs, hulls: Hulls, rules: Rules) -> Any:
    """Return the hull damage and leg damage of a mech in a phase, not yet clamped to its hp."""
    hull_damage, leg_damage = 0.0, 0.0
    for shooter in range(mechs.shape[0]):
        pair, factor = pairs[target, shooter], paint_factor(shooter, target, paint, hulls, rules)
        struck = np.float32(pair.direct) * factor + np.float32(pair.splash) * factor
        pair.direct = struck
        hull_damage += on_grid(struck)
        leg_damage += on_grid(np.float32(pair.legs) * factor)
    return np.float32(hull_damage), np.float32(leg_damage)


@device_function
def count_dealt(target: int, share: Any, mechs: Mechs, tally: Tally, pairs: Pairs, hulls: Hulls, rules: Rules) -> None:
    """Add up the damage that the remaining hp of a mech absorbed, by shooter and by weapon."""
    mech = mechs[target]
    for shooter in range(mechs.shape[0]):
        pair = pairs[target, shooter]
        counted = np.float32(pair.direct) * share
        pair.dealt += counted
        if hulls[shooter].is_red != hulls[target].is_red:
            mechs[shooter].damage_done += on_grid(counted)
    for weapon in range(rules.num_weapons):
        struck = (np.float32(mech.direct_by[weapon]) + np.float32(mech.splash_by[weapon])) * share
        mech.dealt_by[weapon] += struck
        tally[target].taken[weapon] += struck


@device_function
def struck(mech: Mech, incoming: Any, removed: Any, to_legs: Any, hull: Hull, rules: Rules) -> None:
    """Numba version of `damage.struck`, for one mech."""
    if mech.hp > ZERO and incoming > ZERO:
        mech.under_fire = rules.alarm_substeps
        from_x = np.float32(mech.from_x) + np.float32(mech.splash_x)
        from_y = np.float32(mech.from_y) + np.float32(mech.splash_y)
        mech.hit_from[0], mech.hit_from[1] = unit_2(from_x, from_y)
    mech.hp -= removed
    mech.leg_hp = positive(mech.leg_hp - to_legs)
    mech.stability = positive(mech.stability - np.float32(mech.hit_stability))
    mech.heat = bounded(mech.heat + np.float32(mech.hit_heat), hull, rules)
    mech.suppressed = max(mech.suppressed, int(mech.suppress))


@device_function
def argmax_positive(values: Any, count: int) -> Any:
    """Return the first index of the highest value, -1 if no value is above 0."""
    highest, best = ZERO, -1
    for index in range(count):
        if values[index] > highest:
            highest = values[index]
            best = index
    return best


@device_function
def credit_kill(
    target: int, mechs: Mechs, tally: Tally, paint: Paint, pairs: Pairs, hulls: Hulls, rules: Rules
) -> None:
    """Numba version of `damage.credited_kills`, for one mech that died."""
    highest, killer = ZERO, -1
    for shooter in range(mechs.shape[0]):
        if pairs[target, shooter].dealt > highest:
            highest = pairs[target, shooter].dealt
            killer = shooter
    if killer >= 0:
        mark = paint[target, hulls[killer].pack]
        if mark.left > 0 and mark.by != killer:
            tally[mark.by].assists += ONE
            mechs[mark.by].assist_hp += on_grid(hulls[target].hp)
        if hulls[killer].is_red == hulls[target].is_red:
            tally[killer].team_kills += ONE
        else:
            tally[killer].kills += ONE
            weapon = argmax_positive(mechs[target].dealt_by, rules.num_weapons)
            if weapon >= 0:
                tally[target].killed_by[weapon] += ONE


@device_function
def apply(mechs: Mechs, tally: Tally, paint: Paint, pairs: Pairs, hulls: Hulls, rules: Rules) -> None:
    """Numba version of `damage.apply`."""
    any_hit = False
    for target in range(mechs.shape[0]):
        mech, hull = mechs[target], hulls[target]
        if mech.is_hit:
            any_hit, mech.is_hit = True, False
            alive, legged = mech.hp > ZERO, mech.leg_hp <= ZERO
            incoming, to_legs = sum_damage(target, mechs, paint, pairs, hulls, rules)
            removed = min(incoming, mech.hp)
            share = removed / (incoming if incoming > ZERO else ONE)
            count_dealt(target, share, mechs, tally, pairs, hulls, rules)
            struck(mech, incoming, removed, to_legs, hull, rules)
            if mech.leg_hp <= ZERO and not legged:
                tally[target].legs_lost += ONE
            if alive and mech.hp <= ZERO:
                credit_kill(target, mechs, tally, paint, pairs, hulls, rules)
    if any_hit:
        for n in range(mechs.shape[0]):
            tally[n].damage += np.float32(mechs[n].damage_done)
            tally[n].assist_hp += np.float32(mechs[n].assist_hp)
            mechs[n].damage_done = 0.0
            mechs[n].assist_hp = 0.0


@device_function
def credit_paint(mechs: Mechs, tally: Tally, paint: Paint, pairs: Pairs, hulls: Hulls, rules: Rules) -> None:
    """Numba version of `damage.credit_paint`."""
    any_mark = False
    for target in range(mechs.shape[0]):
        for pack in range(paint.shape[1]):
            painter = paint[target, pack].marker
            if painter < 0:
                continue
            any_mark, added = True, 0.0
            for shooter in range(mechs.shape[0]):
                dealt = pairs[target, shooter].dealt
                if hulls[shooter].pack == pack and dealt > ZERO:
                    added += on_grid(damage_by_paint(dealt, paint_factor(shooter, target, paint, hulls, rules)))
            mechs[painter].paint_damage += on_grid(np.float32(added))
    if any_mark:
        for n in range(mechs.shape[0]):
            tally[n].paint_damage += np.float32(mechs[n].paint_damage)
            mechs[n].paint_damage = 0.0
