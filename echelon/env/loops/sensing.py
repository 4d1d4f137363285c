"""Compute which mechs a mech senses, and which sounds it perceives. See `observation/sensing.py`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from echelon.env.loops.records import Cockpits, View, Viewer, Viewers
from echelon.env.loops.stream_arrays import Streams, fetch_streams, lines_each
from echelon.runtime import geometry
from echelon.runtime.exact import log_64
from echelon.runtime.jit import ONE, ZERO, device_function, padded, whole_vectors
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import distance_sq, length_3, on_grid
from echelon.sim.loops.ewar import find_emitters, is_emitting, jamming
from echelon.sim.loops.lanes import Lane, first, stride, wait
from echelon.sim.loops.records import Columns, Hulls, Mech, Rules, Scratch
from echelon.sim.loops.segments import TOP_Z, cell_at, is_clear
from echelon.sim.loops.sight import find_clouds, is_in_smoke

log = device_function(log_64)
into_frame = device_function(geometry.into_frame)
loudness = device_function(formulas.loudness)


@device_function
def log1p(x: Any) -> Any:
    """Return `exact.log1p` of a number."""
    exact = float(x)
    above = np.float32(1.0 + exact)
    mantissa, exponent = math.frexp(above)
    d = (exact - (float(above) - 1.0)) / float(above)
    return np.float32(log(float(mantissa), float(exponent)) + (d - 0.5 * d * d))


@device_function
def body_frame(x: Any, y: Any, mech: Mech) -> Any:
    """Return `geometry.to_body` of a vector: its components ahead and left in the mech's body frame."""
    return into_frame(x, y, mech.facing[0], mech.facing[1])


@device_function
def within(value: Any, low: Any, high: Any) -> Any:
    """Clamp `value` to [low, high]."""
    return min(max(value, low), high)


class MechArrays(NamedTuple):
    """Values of all mechs as arrays `[R]`: N mechs, padded to whole vectors."""

    x: Any
    y: Any
    z: Any
    cells: Any
    """[3, R], the cell of the mech along each axis."""
    noise: Any
    lightness: Any
    """Smaller for heavier mechs."""
    health: Any
    """Health, heat and stability as fractions of their maxima."""
    heat: Any
    stability: Any
    alive: Any
    is_red: Any
    glows: Any
    """Visible from afar: the mech is hot, or its emitter is on."""
    missile_target: Any
    """A missile homes on the mech."""
    painted: Any
    """[P, R], painted by the pack."""
    known: Any
    """[P, R], painted by the pack or sensed by a member of the pack."""
    cloud_sq: Any
    """[C, R], squared distance to each active cloud."""


class Sights(NamedTuple):
    """`[N, R]` perception of the column's mech by the row's mech; see `sensing.Senses`."""

    distance: Any
    open: Any
    smoky: Any
    line: Any
    sees: Any
    intel: Any


class Ranking(NamedTuple):
    """Scratch memory `[R]` for the contacts of one mech."""

    key: Any
    """Sort key of each mech; +inf for mechs that are not listed."""
    listed: Any
    """Indices of the listed mechs, and the same indices in sorted order."""
    ranked: Any
    rise: Any
    """Height of a contact's aim point above the mech, and its horizontal distance."""
    reach: Any
    pitch: Any
    loud: Any
    """Loudness of each mech at the listener, and its position in the listener's frame."""
    ahead: Any
    left: Any


TYPES: dict[str, Any] = {
    **dict.fromkeys(("alive", "is_red", "glows", "missile_target", "painted", "known"), np.bool_),
    **dict.fromkeys(("open", "smoky", "line", "sees", "intel"), np.bool_),
    **dict.fromkeys(("rise", "reach", "pitch", "loud"), np.float64),
    **dict.fromkeys(("listed", "ranked"), np.int32),
}
"""Types of the non-float32 fields in the three tuples above."""


def perception_scratch(count: int, packs: int, clouds: int) -> dict[str, Any]:
    """Return `by_mech`, `sights` and `ranking` for these numbers of mechs, packs and clouds."""
    room = whole_vectors(count)

    def zeros(kind: Any, *shape: int) -> Any:
        return kind(*(np.zeros(shape, TYPES.get(name, np.float32)) for name in kind._fields))

    by_pack = {name: np.zeros((packs, room), np.bool_) for name in ("painted", "known")}
    by_mech = zeros(MechArrays, room)._replace(
        **by_pack, cells=np.zeros((3, room), np.float32), cloud_sq=np.zeros((clouds, room), np.float32)
    )
    return {"by_mech": by_mech, "sights": zeros(Sights, count, room), "ranking": zeros(Ranking, room)}


@device_function
def prepare_viewers(scratch: Scratch, hulls: Hulls, cockpits: Cockpits, rules: Rules, view: View, lane: Lane) -> None:
    """Fill the values of each mech that sensing needs and that depend on no other mech of the pair."""
    mechs, paint, viewers, orders = scratch.records.mechs, scratch.records.paint, scratch.viewers, scratch.orders
    by_mech = scratch.by_mech
    find_emitters(scratch, hulls)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mech, hull, viewer, order = mechs[n], hulls[n], viewers[n], orders[n]
        viewer.quality, viewer.jam = jamming(n, scratch, hulls, rules)
        loud = ONE if mech.hp > ZERO and mech.fallen == 0 else ZERO
        by_mech.noise[n] = length_3(mech.vel[0], mech.vel[1], mech.vel[2]) * hull.noise_factor * loud
        viewer.radar_vox = view.radar_range_vox * viewer.quality * cockpits[n].sensor_factor
        viewer.finds_painted = viewer.quality >= rules.lock_quality
        by_mech.glows[n] = mech.heat > view.bloom_heat * hull.heat_cap or is_emitting(mech, hull, order)
        by_mech.alive[n], by_mech.is_red[n] = mech.hp > ZERO, hull.is_red
        by_mech.lightness[n], by_mech.health[n] = ONE - hull.tonnage / view.heaviest, mech.hp / hull.hp
        by_mech.heat[n], by_mech.stability[n] = mech.heat / hull.heat_cap, mech.stability / rules.stability_cap
        by_mech.x[n], by_mech.y[n], by_mech.z[n] = mech.pos[0], mech.pos[1], mech.pos[2]
        for axis in range(2):
            by_mech.cells[axis, n] = cell_at(mech.pos[axis], np.float32(rules.size[axis] - 1))
        by_mech.cells[2, n] = cell_at(mech.pos[2], TOP_Z)
        for pack in range(paint.shape[1]):
            by_mech.painted[pack, n] = paint[n, pack].left > 0


@device_function
def fill_distances(n: int, by_mech: MechArrays, distance: Any) -> None:
    """Fill the distances of all mechs from one mech, `distance [R]`."""
    x, y, z = by_mech.x[n], by_mech.y[n], by_mech.z[n]
    for other in range(padded(distance.shape[0])):
        distance[other] = length_3(by_mech.x[other] - x, by_mech.y[other] - y, by_mech.z[other] - z)


@device_function
def fill_smoke(n: int, scratch: Scratch, rules: Rules) -> None:
    """For one mech, mark which other mechs are hidden by a cloud. Computed for all pairs, including unused ones."""
    by_mech, smoky = scratch.by_mech, scratch.sights.smoky[n]
    x, y, z, radius_sq = by_mech.x[n], by_mech.y[n], by_mech.z[n], rules.cloud_vox_sq
    for other in range(padded(smoky.shape[0])):
        smoky[other] = False
    for index in range(scratch.records.battles[0].num_active_clouds):
        away_sq, own_sq = by_mech.cloud_sq[index], by_mech.cloud_sq[index, n]
        for other in range(padded(smoky.shape[0])):
            to_x, to_y, to_z = by_mech.x[other] - x, by_mech.y[other] - y, by_mech.z[other] - z
            apart_sq = to_x * to_x + to_y * to_y + to_z * to_z
            # Measure from the mech with the lower index, so that both directions of a pair have the same bits.
            is_first = np.int32(n) < np.int32(other)
            a, b = own_sq if is_first else away_sq[other], away_sq[other] if is_first else own_sq
            smoky[other] |= is_in_smoke(a, b, apart_sq, radius_sq)


@device_function
def sense_pairs(opaque: Columns, blocked_at: Any, scratch: Scratch, streams: Streams, rules: Rules, lane: Lane) -> None:
    """Fill distance, smoke and clear lines of all pairs; meanwhile prefetch the streams that will be filled."""
    records, by_mech, sights, count = scratch.records, scratch.by_mech, scratch.sights, scratch.viewers.shape[0]
    flat = opaque.reshape(opaque.size)
    find_clouds(scratch, rules)
    for n in range(first(lane), count, stride(lane)):
        fill_distances(n, by_mech, sights.distance[n])
        for index in range(records.battles[0].num_active_clouds):
            cloud = records.clouds[np.uint32(scratch.active_clouds[index])]
            by_mech.cloud_sq[index, n] = distance_sq(cloud.pos, records.mechs[n].pos)
    wait(lane)
    for n in range(first(lane), count, stride(lane)):
        fill_smoke(n, scratch, rules)
    pair, each = 0, lines_each(streams, max(count * (count - 1) // 2, 1))
    for n in range(count):
        for other in range(n + 1 + first(lane), count, stride(lane)):
            fetch_streams(streams, pair, each, lane)
            pair += 1
            clear = False
            if by_mech.alive[n] and by_mech.alive[other]:
                clear = is_clear(n, other, opaque, flat, by_mech, blocked_at, scratch.line)
            sights.open[n, other], sights.open[other, n] = clear, clear


@device_function
def sense_directly(n: int, pack: int, by_mech: MechArrays, viewer: Viewer, sights: Sights, view: View) -> None:
    """Apply `sensing.perceive` to one mech: fill its clear lines, and the mechs that its own sensors detect."""
    line, sees, clear, smoky, distance = (
        sights.line[n],
        sights.sees[n],
        sights.open[n],
        sights.smoky[n],
        sights.distance[n],
    )
    painted, alive, red, finds = by_mech.painted[pack], by_mech.alive[n], by_mech.is_red[n], viewer.finds_painted
    sight_vox, radar_vox, everyone = view.sight_range_vox, viewer.radar_vox, view.sees_all
    for other in range(padded(line.shape[0])):
        line[other] = clear[other] & (not smoky[other]) & (distance[other] <= sight_vox)
    for other in range(padded(line.shape[0])):
        hot = by_mech.glows[other] & (by_mech.is_red[other] != red) & (not smoky[other])
        sensed = everyone | line[other] | (distance[other] <= radar_vox) | (finds & painted[other]) | hot
        sees[other] = alive & by_mech.alive[other] & sensed
    sees[n] = False


@device_function
def pool_reports(pack: int, by_mech: MechArrays, sights: Sights, hulls: Hulls) -> None:
    """Fill the mechs known to a pack: painted by the pack, or sensed by one of its members."""
    known, painted = by_mech.known[pack], by_mech.painted[pack]
    for other in range(padded(known.shape[0])):
        known[other] = painted[other]
    for mate in range(sights.sees.shape[0]):
        if hulls[mate].pack == pack:
            seen = sights.sees[mate]
            for other in range(padded(known.shape[0])):
                known[other] |= seen[other]


@device_function
def receive_reports(n: int, pack: int, by_mech: MechArrays, sights: Sights) -> None:
    """Fill the enemies that one mech does not sense, but its packmates report."""
    sees, intel, known = sights.sees[n], sights.intel[n], by_mech.known[pack]
    red, alive = by_mech.is_red[n], by_mech.alive[n]
    for other in range(padded(intel.shape[0])):
        is_enemy = by_mech.alive[other] & (by_mech.is_red[other] != red)
        intel[other] = known[other] & is_enemy & alive & (not sees[other])


@device_function
def perceive(by_mech: MechArrays, viewers: Viewers, sights: Sights, hulls: Hulls, view: View, lane: Lane) -> None:
    """Fill which mechs sense each other, and which enemies packmates report."""
    for n in range(first(lane), viewers.shape[0], stride(lane)):
        sense_directly(n, hulls[n].pack, by_mech, viewers[n], sights, view)
    wait(lane)
    for pack in range(first(lane), by_mech.known.shape[0], stride(lane)):
        pool_reports(pack, by_mech, sights, hulls)
    wait(lane)
    for n in range(first(lane), viewers.shape[0], stride(lane)):
        receive_reports(n, hulls[n].pack, by_mech, sights)


@device_function
def sense_sound(n: int, mech: Mech, scratch: Scratch, row: Any, column: int, view: View) -> None:
    """Apply `sensing.sense_sound` to one mech; fill 4 columns from `column` on: ahead, left, behind, right."""
    by_mech, ranking, distance, clear = (
        scratch.by_mech,
        scratch.ranking,
        scratch.sights.distance[n],
        scratch.sights.open[n],
    )
    muffled = view.muffled_noise
    for other in range(padded(distance.shape[0])):
        cover = ONE if clear[other] else muffled
        ranking.loud[other] = on_grid(loudness(by_mech.noise[other], distance[other], cover, ONE))
    ranking.loud[n] = 0.0
    x, y, cos, sin = mech.pos[0], mech.pos[1], mech.facing[0], mech.facing[1]
    for other in range(padded(distance.shape[0])):
        ranking.ahead[other], ranking.left[other] = into_frame(by_mech.x[other] - x, by_mech.y[other] - y, cos, sin)
    ahead_sum, left_sum, behind_sum, right_sum = 0.0, 0.0, 0.0, 0.0
    for other in range(scratch.viewers.shape[0]):
        level, ahead, left = ranking.loud[other], ranking.ahead[other], ranking.left[other]
        # No branches here: they would be unpredictable.
        is_lengthwise, is_ahead, is_left = abs(ahead) >= abs(left), ahead >= ZERO, left > ZERO
        ahead_sum += level if is_lengthwise & is_ahead else 0.0
        behind_sum += level if is_lengthwise & (not is_ahead) else 0.0
        left_sum += level if (not is_lengthwise) & is_left else 0.0
        right_sum += level if not (is_lengthwise | is_left) else 0.0
    row[column] = log1p(np.float32(ahead_sum)) / view.noise_scale
    row[column + 1] = log1p(np.float32(left_sum)) / view.noise_scale
    row[column + 2] = log1p(np.float32(behind_sum)) / view.noise_scale
    row[column + 3] = log1p(np.float32(right_sum)) / view.noise_scale
