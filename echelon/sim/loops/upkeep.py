"""Timers, hazards, footing and heat: what happens to a mech by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.runtime.jit import ONE, ZERO, called
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import clamped, length_3, positive
from echelon.sim.loops.lanes import first, stride

ground_heat_per_s, ground_damage_per_s = called(formulas.ground_heat_per_s), called(formulas.ground_damage_per_s)
emission_heat_per_s, unsteadiness = called(formulas.emission_heat_per_s), called(formulas.unsteadiness)
sink_per_s = called(formulas.sink_per_s)


@called
def is_shut_down(mech: Any, hull: Any) -> Any:
    """`heat.is_shut_down` of one mech."""
    return mech.heat > hull.heat_cap


@called
def is_running(mech: Any, hull: Any) -> Any:
    """`heat.is_running` of one mech."""
    return mech.hp > ZERO and mech.heat <= hull.heat_cap and mech.fallen == 0


@called
def is_emitting(mech: Any, hull: Any, order: Any) -> Any:
    """Whether a mech jams or counters it; who has no suite for it is never ordered to."""
    return (order.ecm or order.eccm) and is_running(mech, hull)


@called
def bounded(heat: Any, hull: Any, rules: Any) -> Any:
    """`heat.bounded` of one mech."""
    return min(positive(heat), hull.heat_cap * rules.heat_ceiling)


@called
def material_at(x: int, y: int, z: int, ground: Any, rules: Any) -> Any:
    """`terrain.material_at` of one voxel within the map."""
    made_of = int(ground.material[z, y, x])
    if rules.destroys:
        bit = np.int32(1) << np.int32(z)
        if ground.rubble[y, x] & bit:
            made_of = rules.solid_debris if ground.solid[y, x] & bit else rules.debris_field
        elif made_of != rules.air:
            # Of air nothing can be torn away: what it stands in is not read, for it is seldom in a cache.
            torn = ground.was_solid[y, x] & ~ground.solid[y, x] | ground.was_opaque[y, x] & ~ground.opaque[y, x]
            if torn & bit:
                made_of = rules.air
    return made_of


@called
def voxel_below(mech: Any, hull: Any, rules: Any) -> Any:
    """x, y and z of the voxel that a mech stands in."""
    x = clamped(int(np.floor(mech.pos[0])), rules.size[0] - 1)
    y = clamped(int(np.floor(mech.pos[1])), rules.size[1] - 1)
    z = clamped(int(np.floor(mech.pos[2] - hull.half_size[2])), rules.size[2] - 1)
    return x, y, z


@called
def find_ground(mech: Any, hull: Any, ground: Any, rules: Any) -> None:
    """`terrain.standing_on` of one mech, looked up if it stands in another voxel than before or the ground changed."""
    x, y, z = voxel_below(mech, hull, rules)
    voxel = 1 + (z * rules.size[1] + y) * rules.size[0] + x
    if voxel != mech.stands_in:
        mech.stands_in, mech.stands_on = voxel, material_at(x, y, z, ground, rules)


@called
def invalidate_ground(mechs: Any, lane: Any) -> None:
    """Have mechs look up the ground again, for what is solid or rubble has changed.

    Leaves that are shot away are no such change: nobody walks into them, and they are neither hot nor wet.
    """
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mechs[n].stands_in = 0
        mechs[n].columns = 0


@called
def count_down(mech: Any, paint: Any, rules: Any) -> None:
    """`timers.count_down` of one mech; notes who painted it, `paint [P]`, before this substep's fire paints anew."""
    mech.suppressed = max(mech.suppressed - 1, 0)
    mech.under_fire = max(mech.under_fire - 1, 0)
    for timer in range(rules.num_timers):
        mech.cooldown[timer] = max(mech.cooldown[timer] - 1, 0)
    for pack in range(paint.shape[0]):
        mark = paint[pack]
        mark.left = max(mark.left - 1, 0)
        mark.marker = mark.by if mark.left > 0 else -1


@called
def burn(mech: Any, hull: Any, order: Any, rules: Any) -> None:
    """`hazards.burn` of one mech."""
    lava = ONE if mech.stands_on == rules.lava else ZERO
    debris = ONE if mech.stands_on == rules.debris_field else ZERO
    water = ONE if mech.stands_on == rules.water else ZERO
    emits = is_running(mech, hull)
    ecm = ONE if emits and order.ecm else ZERO
    eccm = ONE if emits and order.eccm else ZERO
    shares = rules.lava_heat_per_s, rules.debris_heat, rules.water_heat_per_s
    heat_per_s = ground_heat_per_s(lava, debris, water, *shares)
    damage_per_s = ground_damage_per_s(lava, debris, rules.lava_damage_per_s, rules.debris_damage)
    if mech.hp <= ZERO:
        heat_per_s = ZERO
    heat_per_s += emission_heat_per_s(ecm, eccm, rules.ecm_heat_per_s, rules.eccm_heat_per_s)
    mech.heat = bounded(mech.heat + heat_per_s * rules.dt_s, hull, rules)
    mech.hp -= min(damage_per_s * rules.dt_s, mech.hp)


@called
def stand(mech: Any, tally: Any, rules: Any) -> None:
    """`footing.stand` of one mech."""
    legged = ONE if mech.leg_hp <= ZERO else ZERO
    cap = rules.stability_cap * (rules.legged_stability if mech.leg_hp <= ZERO else ONE)
    alive, was_down = mech.hp > ZERO, mech.fallen > 0
    mech.fallen = max(mech.fallen - 1, 0)
    if was_down:
        if mech.fallen == 0:
            mech.stability = rules.risen_stability * cap
    elif alive and mech.stability <= ZERO:
        mech.fallen = rules.fall_substeps
        mech.vel[0] = ZERO
        mech.vel[1] = ZERO
        mech.vel[2] = ZERO
        tally.falls += ONE
    elif alive:
        walks = ONE if length_3(mech.vel[0], mech.vel[1], mech.vel[2]) > rules.steady_vox_per_s else ZERO
        suppressed = ONE if mech.suppressed > 0 else ZERO
        shares = rules.legged_unsteadiness, rules.walking_unsteadiness, rules.suppressed_unsteadiness
        loss = unsteadiness(legged, walks, suppressed, *shares)
        gain = rules.stability_regen_per_s * max(ONE - loss, rules.least_regeneration) * rules.dt_s
        mech.stability = min(mech.stability + gain, cap)


@called
def cool(mech: Any, hull: Any, tally: Any, order: Any, rules: Any) -> None:
    """`heat.is_venting` and `heat.cool` of one mech."""
    mech.vents = order.vent and is_running(mech, hull)
    venting = ONE if mech.vents else ZERO
    loss_per_s = sink_per_s(hull.heat_sink_per_s, venting, rules.vent_factor, ONE)
    mech.heat = bounded(mech.heat - loss_per_s * rules.dt_s, hull, rules)
    tally.vent_s += venting * rules.dt_s
