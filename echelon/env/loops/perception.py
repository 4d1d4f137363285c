"""Who senses whom, and what a mech hears. See `observation/sensing.py` and `observation/contacts.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from echelon.runtime import geometry
from echelon.runtime.exact import log_64
from echelon.runtime.jit import ONE, ZERO, called
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import length_3, on_grid
from echelon.sim.loops.firing import is_smoky, jamming
from echelon.sim.loops.lanes import first, stride, wait
from echelon.sim.loops.sight import is_clear
from echelon.sim.loops.upkeep import is_running

log, into_frame = called(log_64), called(geometry.into_frame)
loudness = called(formulas.loudness)


@called
def log1p(x: Any) -> Any:
    """`exact.log1p`."""
    exact = float(x)
    above = np.float32(1.0 + exact)
    mantissa, exponent = math.frexp(above)
    d = (exact - (float(above) - 1.0)) / float(above)
    return np.float32(log(float(mantissa), float(exponent)) + (d - 0.5 * d * d))


@called
def body_frame(x: Any, y: Any, mech: Any) -> Any:
    """`geometry.to_body` of a vector: ahead and left of where a mech faces."""
    return into_frame(x, y, mech.facing[0], mech.facing[1])


@called
def prepare_viewers(
    mechs: Any, viewers: Any, orders: Any, hulls: Any, cockpits: Any, rules: Any, view: Any, lane: Any
) -> None:
    """Fill what decides whom a mech senses and by whom it is sensed, whoever the other is."""
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech, hull, viewer, order = mechs[n], hulls[n], viewers[n], orders[n]
        viewer.quality, viewer.jam = jamming(n, mechs, hulls, orders, rules)
        loud = ONE if mech.hp > ZERO and mech.fallen == 0 else ZERO
        viewer.noise = length_3(mech.vel[0], mech.vel[1], mech.vel[2]) * hull.noise_factor * loud
        viewer.radar_vox = view.radar_range_vox * viewer.quality * cockpits[n].sensor_factor
        viewer.finds_painted = viewer.quality >= rules.lock_quality
        emits = (order.ecm or order.eccm) and is_running(mech, hull)
        viewer.glows = mech.heat > view.bloom_heat * hull.heat_cap or emits


@called
def sense_pair(
    one: int, other: int, smoke: Any, opaque: Any, flat: Any, scratch: Any, hulls: Any, rules: Any, view: Any
) -> None:
    """Fill what two mechs have in common: their distance, and what lies between them, as far as somebody asks.

    `smoke`: some cloud hangs. `flat`: `opaque` as `[Y * X]`.
    """
    mechs, viewers, sights = scratch.records.mechs, scratch.viewers, scratch.sights
    mech, peer, sight, reverse = mechs[one], mechs[other], sights[one, other], sights[other, one]
    x, y, z = mech.pos[0], mech.pos[1], mech.pos[2]
    to_x, to_y, to_z = peer.pos[0], peer.pos[1], peer.pos[2]
    sight.distance = length_3(to_x - x, to_y - y, to_z - z)
    sight.open, sight.smoky = False, False
    if mech.hp > ZERO and peer.hp > ZERO:
        sight.open = is_clear(opaque, flat, x, y, z, to_x, to_y, to_z, scratch.line)
        is_near = sight.open and sight.distance <= view.sight_range_vox
        hot = (viewers[one].glows or viewers[other].glows) and hulls[one].is_red != hulls[other].is_red
        sight.smoky = smoke and (is_near or hot) and is_smoky(mech, peer, scratch.records.clouds, rules)
    sight.line = sight.open and not sight.smoky and sight.distance <= view.sight_range_vox
    reverse.distance, reverse.open, reverse.smoky, reverse.line = sight.distance, sight.open, sight.smoky, sight.line


@called
def sense_pairs(opaque: Any, scratch: Any, hulls: Any, rules: Any, view: Any, lane: Any) -> None:
    """Fill what is between any two mechs."""
    clouds, count = scratch.records.clouds, scratch.records.mechs.shape[0]
    smoke, flat = False, opaque.reshape(opaque.size)
    for slot in range(clouds.shape[0]):
        smoke = smoke or (rules.smokes and clouds[slot].ttl > 0)
    for n in range(count):
        scratch.sights[n, n].line = False
        for k in range(first(lane), count - n - 1, stride(lane)):
            sense_pair(n, n + 1 + k, smoke, opaque, flat, scratch, hulls, rules, view)


@called
def is_sensed(n: int, other: int, viewers: Any, sights: Any, paint: Any, hulls: Any, view: Any) -> Any:
    """`sensing.perceive` of one living mech and another that is alive: whether it senses that by itself."""
    sight = sights[n, other]
    # Bitwise: what is asked here has no pattern that a processor could predict.
    marked = viewers[n].finds_painted & (paint[other, hulls[n].pack].left > 0)
    hot = viewers[other].glows & (hulls[other].is_red != hulls[n].is_red) & (not sight.smoky)
    return view.sees_all | sight.line | (sight.distance <= viewers[n].radar_vox) | marked | hot


@called
def perceive(
    mechs: Any, viewers: Any, sights: Any, paint: Any, hulls: Any, cockpits: Any, view: Any, lane: Any
) -> None:
    """Fill who senses whom, and of whom packmates tell."""
    count = mechs.shape[0]
    for n in range(first(lane), count, stride(lane)):
        for other in range(count):
            alive = n != other and mechs[n].hp > ZERO and mechs[other].hp > ZERO
            sights[n, other].sees = alive and is_sensed(n, other, viewers, sights, paint, hulls, view)
    wait(lane)
    for n in range(first(lane), count, stride(lane)):
        mates, pack = cockpits[n].pack_slot, hulls[n].pack
        for other in range(count):
            is_reported = False
            present = mechs[n].hp > ZERO and mechs[other].hp > ZERO and not sights[n, other].sees
            if present and hulls[other].is_red != hulls[n].is_red:
                is_reported = paint[other, pack].left > 0
                for seat in range(mates.shape[0]):
                    is_reported = is_reported or (mates[seat] < count and sights[mates[seat], other].sees)
            sights[n, other].intel = is_reported


@called
def sort_key(other: int, hostile: Any, mechs: Any, hulls: Any, order: Any, view: Any) -> Any:
    """What a mech that is sensed is ordered by."""
    if not hostile:
        return view.friends
    if order.sort_mode == 1:
        return ONE - hulls[other].tonnage / view.heaviest
    if order.sort_mode == 2:
        return mechs[other].hp / hulls[other].hp
    return ZERO


@called
def insert(other: int, key: Any, away: Any, count: int, ranking: Any) -> None:
    """Put a mech that is so far away in its place among `count` others of a `ranking` by key, then distance, then
    index."""
    index = count
    while index > 0:
        previous = ranking[index - 1]
        if not ((key < previous.key) | ((key == previous.key) & (away < previous.away))):
            break
        current = ranking[index]
        current.mech, current.key, current.away = previous.mech, previous.key, previous.away
        index -= 1
    ranking[index].mech, ranking[index].key, ranking[index].away = other, key, away


@called
def contact_slots(n: int, scratch: Any, tables: Any, views: Any, slots: Any, focus_slots: Any) -> Any:
    """`contacts.contact_slots` of one cockpit: fills `shown [C]` and `focus_slots`; returns how many are."""
    mechs, ranking, sights, order = scratch.records.mechs, scratch.ranking, scratch.sights, scratch.orders[n]
    hulls, cockpit, view = tables.hulls, views.cockpits[n], views.numbers[0]
    count, visual, reported = 0, 0, 0
    for other in range(mechs.shape[0]):
        hostile = hulls[other].is_red != hulls[n].is_red
        if sights[n, other].sees and (hostile or not order.hostile_only):
            key = sort_key(other, hostile, mechs, hulls, order, view)
            insert(other, key, sights[n, other].distance, count, ranking)
            count, visual = count + 1, visual + 1
        elif sights[n, other].intel:
            insert(other, view.intel, sights[n, other].distance, count, ranking)
            count, reported = count + 1, reported + 1
    num_visual = min(visual, cockpit.visual_slots)
    count = min(num_visual + min(reported, cockpit.intel_slots), slots.shape[0])
    for slot in range(count):
        other = ranking[slot if slot < num_visual else slot - num_visual + visual].mech
        slots[slot] = other
        if slot < focus_slots.shape[0] and hulls[other].is_red != hulls[n].is_red:
            focus_slots[slot] = other
    return count


@called
def is_targeted(n: int, mechs: Any, sights: Any, hulls: Any, view: Any) -> Any:
    """`ego.is_targeted` of one mech."""
    for other in range(mechs.shape[0]):
        is_near = sights[n, other].line and sights[n, other].distance <= view.targeted_vox
        if is_near and mechs[other].hp > ZERO and hulls[other].is_red != hulls[n].is_red:
            return True
    return False


@called
def hear(n: int, mechs: Any, viewers: Any, sights: Any, row: Any, first: int, view: Any) -> None:
    """`sensing.hear` of one mech, into four columns from `first` on: ahead, left, behind, right."""
    ahead_sum, left_sum, behind_sum, right_sum = 0.0, 0.0, 0.0, 0.0
    for other in range(mechs.shape[0]):
        mech, peer, sight = mechs[n], mechs[other], sights[n, other]
        distance, noise = sight.distance, viewers[other].noise if other != n else ZERO
        level = on_grid(loudness(noise, distance, ONE if sight.open else view.muffled_noise, ONE))
        ahead, left = body_frame(peer.pos[0] - mech.pos[0], peer.pos[1] - mech.pos[1], mech)
        # Without branches, which no processor could predict.
        is_lengthwise, is_ahead, is_left = abs(ahead) >= abs(left), ahead >= ZERO, left > ZERO
        ahead_sum += level if is_lengthwise & is_ahead else 0.0
        behind_sum += level if is_lengthwise & (not is_ahead) else 0.0
        left_sum += level if (not is_lengthwise) & is_left else 0.0
        right_sum += level if not (is_lengthwise | is_left) else 0.0
    row[first] = log1p(np.float32(ahead_sum)) / view.noise_scale
    row[first + 1] = log1p(np.float32(left_sum)) / view.noise_scale
    row[first + 2] = log1p(np.float32(behind_sum)) / view.noise_scale
    row[first + 3] = log1p(np.float32(right_sum)) / view.noise_scale
