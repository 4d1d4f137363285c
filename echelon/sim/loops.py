"""What is sparse, as loops of a CPU: lines through ground and smoke, torn leaves, impacts, hulls that meet something.

On a GPU all crossings of all segments are looked up at once, and all impacts held against each other. A CPU gains by
looping over those that happen, by leaving out what nobody asks about, and by stopping at the first hit. The arithmetic
is that of the dense forms in `terrain`, `sight`, `rubble` and `movement`, and so are the answers: tests hold them
together.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from echelon.geometry import TINY
from echelon.state import Maps, Terrain

ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
TOP_Z, SMALL = np.float32(30.0), np.float32(TINY)
INFINITY = np.float32(np.inf)


@numba.njit(inline="always")
def lay(at: Any, to: Any, top: Any) -> Any:
    """One axis of a segment: way gone in the first cell, way to go, first cell, sign, cells to the last one."""
    first = min(max(np.floor(at), ZERO), top)
    steps = abs(min(max(np.floor(to), ZERO), top) - first)
    if to < at:
        return first + ONE - at, at - to, first, -ONE, steps
    return at - first, to - at, first, ONE, steps


@numba.njit(inline="always")
def scan(axis: int, columns: Any, a: Any, b: Any, c: Any, reach: int, past_end: bool, best: Any) -> Any:
    """The nearest hit, before `best`, among the cells a segment enters by crossing planes of one axis.

    Args:
        axis: 0, 1, 2 for x, y, z; a is this axis of the segment, b and c are the next two in turn.
    """
    total = a[4] + b[4] + c[4]
    way = max(a[1], SMALL)
    for count in range(1, min(int(a[4]), reach) + 1):
        t = min((np.float32(count) - a[0]) / way, ONE)
        if t >= best:
            break
        gone, x, y, z = enter(axis, np.float32(count), t, a, b, c)
        if not past_end and gone == total:
            continue
        if (columns[y, x] >> z) & 1:
            return t
    return best


@numba.njit(inline="always")
def enter(axis: int, count: Any, t: Any, a: Any, b: Any, c: Any) -> Any:
    """What a segment enters as it crosses, at `t`, the `count`-th plane of an axis: cells gone so far, and x, y, z.

    The axes as in `scan`.
    """
    gone_b = max(min(np.floor(b[0] + t * b[1]), b[4]), ZERO)
    gone_c = max(min(np.floor(c[0] + t * c[1]), c[4]), ZERO)
    cell_a, cell_b, cell_c = int(a[2] + a[3] * count), int(b[2] + b[3] * gone_b), int(c[2] + c[3] * gone_c)
    gone = count + gone_b + gone_c
    if axis == 0:
        return gone, cell_a, cell_b, cell_c
    if axis == 1:
        return gone, cell_c, cell_a, cell_b
    return gone, cell_b, cell_c, cell_a


@numba.njit(cache=True, nogil=True)
def trace_all(
    columns: Any, start: Any, end: Any, asked: Any, reach: Any, past_end: bool, whether: bool, hit: Any
) -> None:
    """`trace` for arrays, into `hit [B, R]`."""
    top_x, top_y = np.float32(columns.shape[2] - 1), np.float32(columns.shape[1] - 1)
    for battle in range(columns.shape[0]):
        own = columns[battle]
        for row in range(start.shape[1]):
            best = INFINITY
            if asked[battle, row]:
                x = lay(start[battle, row, 0], end[battle, row, 0], top_x)
                y = lay(start[battle, row, 1], end[battle, row, 1], top_y)
                z = lay(start[battle, row, 2], end[battle, row, 2], TOP_Z)
                best = scan(0, own, x, y, z, reach[0], past_end, best)
                if not whether or best == INFINITY:
                    best = scan(1, own, y, z, x, reach[1], past_end, best)
                if not whether or best == INFINITY:
                    best = scan(2, own, z, x, y, reach[2], past_end, best)
            hit[battle, row] = best


@numba.njit(inline="always")
def pluck(opaque: Any, solid: Any, x: int, y: int, z: int) -> None:
    """Remove the leaf of a voxel, if it holds one: what is opaque and not solid."""
    opaque[y, x] &= ~(np.int32(1) << np.int32(z)) | solid[y, x]


@numba.njit(inline="always")
def pluck_along(axis: int, opaque: Any, solid: Any, a: Any, b: Any, c: Any, reach: int) -> None:
    """Remove the leaves of the cells that a segment enters by crossing planes of one axis, as in `scan`."""
    way = max(a[1], SMALL)
    for count in range(1, min(int(a[4]), reach) + 1):
        t = min((np.float32(count) - a[0]) / way, ONE)
        _, x, y, z = enter(axis, np.float32(count), t, a, b, c)
        pluck(opaque, solid, x, y, z)


@numba.njit(cache=True, nogil=True)
def strip_all(opaque: Any, solid: Any, muzzle: Any, start: Any, point: Any, flew: Any, reach: Any) -> None:
    """`strip` for arrays."""
    top_x, top_y = np.float32(opaque.shape[2] - 1), np.float32(opaque.shape[1] - 1)
    for battle in range(opaque.shape[0]):
        leaves, walls = opaque[battle], solid[battle]
        for row in range(start.shape[1]):
            if flew[battle, row]:
                pluck(leaves, walls, muzzle[battle, row, 0], muzzle[battle, row, 1], muzzle[battle, row, 2])
                x = lay(start[battle, row, 0], point[battle, row, 0], top_x)
                y = lay(start[battle, row, 1], point[battle, row, 1], top_y)
                z = lay(start[battle, row, 2], point[battle, row, 2], TOP_Z)
                pluck_along(0, leaves, walls, x, y, z, reach[row])
                pluck_along(1, leaves, walls, y, z, x, reach[row])
                pluck_along(2, leaves, walls, z, x, y, reach[row])


@numba.njit(inline="always")
def apart_sq(one: Any, other: Any) -> Any:
    """Squared distance of two points."""
    x, y, z = one[0] - other[0], one[1] - other[1], one[2] - other[2]
    return x * x + y * y + z * z


@numba.njit(cache=True, nogil=True)
def veil_all(pos: Any, clouds: Any, hangs: Any, pairs: Any, radius: Any, asked: Any, veiled: Any) -> None:
    """`veil` for arrays, into `veiled [B, P]`."""
    radius_sq = radius * radius
    near = np.empty((pos.shape[1], clouds.shape[1]), np.float32)
    for battle in range(pos.shape[0]):
        veiled[battle] = False
        count = 0
        for cloud in range(clouds.shape[1]):
            if hangs[battle, cloud]:
                for mech in range(pos.shape[1]):
                    near[mech, count] = apart_sq(clouds[battle, cloud], pos[battle, mech])
                count += 1
        if count == 0:
            continue
        for row in range(pairs.shape[1]):
            if not asked[battle, row]:
                continue
            one, two = pairs[0, row], pairs[1, row]
            apart = apart_sq(pos[battle, two], pos[battle, one])
            for cloud in range(count):
                a, b = near[one, cloud], near[two, cloud]
                along = HALF * (a + apart - b)
                beside = along > ZERO and along < apart and (a - radius_sq) * apart < along * along
                if a < radius_sq or b < radius_sq or beside:
                    veiled[battle, row] = True
                    break


@numba.njit(cache=True, nogil=True)
def pile_all(voxel: Any, counts: Any, weight: Any, total: Any, first: Any) -> None:
    """`pile` for arrays, into `total` and `first`, `[B, S]` of zeros."""
    rows = np.empty(voxel.shape[1], np.int64)
    for battle in range(voxel.shape[0]):
        found = 0
        for row in range(voxel.shape[1]):
            if counts[battle, row]:
                rows[found] = row
                found += 1
        if found == 0:
            continue
        for row in range(voxel.shape[1]):
            leads = counts[battle, row]
            for other in rows[:found]:
                if voxel[battle, other] == voxel[battle, row]:
                    total[battle, row] += weight[other]
                    leads = leads and other >= row
            first[battle, row] = leads


@numba.njit(cache=True, nogil=True)
def collide_all(columns: Any, pos: Any, half_size: Any, asked: Any, meets: Any) -> None:
    """`collide` for arrays, into `meets [B, N]` of false."""
    top_y, top_x = columns.shape[1] - 1, columns.shape[2] - 1
    for battle in range(pos.shape[0]):
        for mech in range(pos.shape[1]):
            if not asked[battle, mech]:
                continue
            at, half = pos[battle, mech], half_size[mech]
            first = min(max(int(np.floor(at[2] - half[2])), 0), 30)
            last = min(max(int(np.ceil(at[2] + half[2])) - 1, 0), 30)
            tall = (1 << (last + 1)) - (1 << first)
            for y in range(int(np.floor(at[1] - half[1])), int(np.ceil(at[1] + half[1]))):
                row = columns[battle, min(max(y, 0), top_y)]
                for x in range(int(np.floor(at[0] - half[0])), int(np.ceil(at[0] + half[0]))):
                    if row[min(max(x, 0), top_x)] & tall:
                        meets[battle, mech] = True


@numba.njit(inline="always")
def overlaps(battle: int, boxes: Any, mech: int, others: Any, other: int, reach: Any) -> Any:
    """Whether the box of a mech meets that of another; `reach` are their half sizes together."""
    return (
        abs(boxes[battle, mech, 0] - others[battle, other, 0]) < reach[mech, other, 0]
        and abs(boxes[battle, mech, 1] - others[battle, other, 1]) < reach[mech, other, 1]
        and abs(boxes[battle, mech, 2] - others[battle, other, 2]) < reach[mech, other, 2]
    )


@numba.njit(cache=True, nogil=True)
def bump_all(old: Any, chosen: Any, priority: Any, alive: Any, reach: Any, stays: Any) -> None:
    """`bump` for arrays, into `stays [B, N]` of false; `reach [N, N, 3]` half sizes of two hulls together."""
    for battle in range(old.shape[0]):
        rank = priority[battle]
        for mech in range(old.shape[1]):
            for other in range(old.shape[1]):
                if other == mech or not alive[battle, other]:
                    continue
                # Ranks are looked at last: they are random, so a processor guesses wrong which way they go.
                if overlaps(battle, chosen, mech, old, other, reach) or (
                    overlaps(battle, chosen, mech, chosen, other, reach)
                    and (rank[other] > rank[mech] or (rank[other] == rank[mech] and other < mech))
                ):
                    stays[battle, mech] = True
                    break


@numba.njit(cache=True, nogil=True)
def point_all(
    distance: Any,
    bearing_cos: Any,
    ground: Any,
    line: Any,
    lock: Any,
    focus: Any,
    alive: Any,
    reach_vox: Any,
    arcs: Any,
    kind: Any,
    aimed: Any,
    target: Any,
) -> None:
    """`point` for arrays, into `aimed` of false and `target` of zeros, `[B, W, N]`."""
    count = distance.shape[1]
    for weapon in range(reach_vox.shape[0]):
        needs_line, needs_lock, focus_only = kind[0, weapon], kind[1, weapon], kind[2, weapon]
        for shooter in range(count):
            if reach_vox[weapon, shooter].max() < ZERO:
                continue
            for battle in range(distance.shape[0]):
                best, wish = INFINITY, focus[battle, shooter]
                for other in range(count):
                    away = distance[battle, shooter, other]
                    if away > reach_vox[weapon, shooter, other] or not alive[battle, other]:
                        continue
                    if (needs_line and not line[battle, shooter, other]) or (focus_only and other != wish):
                        continue
                    if needs_lock and not lock[battle, shooter, other]:
                        continue
                    arc_cos = arcs[1, weapon] if other == wish else arcs[0, weapon]
                    key = -ONE if other == wish else away
                    if key < best and bearing_cos[battle, shooter, other] >= arc_cos * ground[battle, shooter, other]:
                        best = key
                        aimed[battle, weapon, shooter] = True
                        target[battle, weapon, shooter] = other


@numba.njit(cache=True, nogil=True)
def refill_all(which: Any, map_id: Any, solid: Any, opaque: Any, rubble: Any, damage: Any, kept: Any) -> None:
    """`refill` for arrays; `kept` are the maps' solid and opaque columns."""
    for battle in range(which.shape[0]):
        if which[battle]:
            solid[battle] = kept[0][map_id[battle]]
            opaque[battle] = kept[1][map_id[battle]]
            rubble[battle] = 0
            damage[battle] = 0


def refill(terrain: Terrain, which: Tensor, map_id: Tensor, maps: Maps) -> None:
    """Give the battles `which [B]` bool the ground of their maps back, in place, and touch no other's."""
    own = (terrain.solid, terrain.opaque, terrain.rubble, terrain.damage)
    solid, opaque, rubble, damage = map(array, own)
    refill_all(array(which), array(map_id), solid, opaque, rubble, damage, (array(maps.solid), array(maps.opaque)))


@numba.njit(cache=True, nogil=True)
def rewrite_all(which: Any, row: Any, values: Any, first: int, into: Any) -> None:
    """`rewrite` for arrays of three axes."""
    for battle in range(which.shape[0]):
        if which[battle]:
            into[battle] = values[row[battle], first : first + into.shape[1]]


def rewrite(which: Tensor, row: Tensor, values: Tensor, team: slice, kept: Tensor) -> Tensor:
    """`[B, A, ...]` a copy of `kept`, in the battles `which [B]` bool `values [M, N, ...]` of its row and a team."""
    into = kept.clone(memory_format=torch.contiguous_format)
    rewrite_all(array(which), array(row), array(values.flatten(2)), team.start, array(into.flatten(2)))
    return into


def array(values: Tensor) -> Any:
    """The same numbers, for a loop. These run on a CPU only, whose memory is the host's: nothing waits.

    All lie in order, so that a loop is compiled once, by the thread that runs it first.
    """
    return values.detach().contiguous().numpy()


@torch.library.custom_op("echelon::trace", mutates_args=(), device_types="cpu")
def trace(
    columns: Tensor, start: Tensor, end: Tensor, asked: Tensor, reach: list[int], past_end: bool, whether: bool
) -> Tensor:
    """`[B, R]` float32 share of the way at which each segment meets a blocking voxel, infinity where it meets none.

    Args:
        columns: `[B, Y, X]` int32, bit z set where a voxel blocks.
        start, end: `[B, R, 3]` float32 vox.
        asked: `[B, R]` bool; infinity for the others.
        reach: planes looked up along x, y and z.
        past_end: whether the cell that holds `end` may block too.
        whether: any hit will do, not the nearest.
    """
    hit = torch.empty(start.shape[:2])
    planes = np.array(reach)
    trace_all(array(columns), array(start), array(end), array(asked), planes, past_end, whether, array(hit))
    return hit


@trace.register_fake
def _(columns: Tensor, start: Tensor, end: Tensor, asked: Tensor, reach: Any, past_end: bool, whether: bool) -> Tensor:
    return start.new_empty(start.shape[:2])


@torch.library.custom_op("echelon::strip", mutates_args=("opaque",), device_types="cpu")
def strip(
    opaque: Tensor, solid: Tensor, muzzle: Tensor, start: Tensor, point: Tensor, flew: Tensor, reach: Tensor
) -> None:
    """Remove the leaves that shots pass, what is opaque and not solid, from `opaque [B, Y, X]` in place.

    Args:
        solid: `[B, Y, X]` int32, like `opaque` a bit for each z.
        muzzle: `[B, S, 3]` int64 x, y, z of a voxel each shot passes at its start.
        start, point: `[B, S, 3]` float32 vox, the ends of its way; it passes what it enters between them.
        flew: `[B, S]` bool, the shots that fly.
        reach: `[S]` int64, planes of an axis looked up.
    """
    ways = array(muzzle), array(start), array(point), array(flew), array(reach)
    strip_all(opaque.detach().numpy(), array(solid), *ways)


@strip.register_fake
def _(opaque: Tensor, solid: Tensor, muzzle: Tensor, start: Tensor, point: Tensor, flew: Tensor, reach: Tensor) -> None:
    return None


@torch.library.custom_op("echelon::veil", mutates_args=(), device_types="cpu")
def veil(pos: Tensor, clouds: Tensor, hangs: Tensor, pairs: Tensor, radius: float, asked: Tensor) -> Tensor:
    """`[B, P]` bool: the middle of a cloud lies within its radius of the segment between two mechs.

    Args:
        pos: `[B, N, 3]` float32 vox, the mechs.
        clouds: `[B, C, 3]` float32 vox, of which those count that `hangs [B, C]` bool.
        pairs: `[2, P]` int64.
        radius: of every cloud, vox.
        asked: `[B, P]` bool; false for the others.
    """
    veiled = torch.empty(asked.shape, dtype=torch.bool)
    size = np.float32(radius)
    veil_all(array(pos), array(clouds), array(hangs), array(pairs), size, array(asked), array(veiled))
    return veiled


@veil.register_fake
def _(pos: Tensor, clouds: Tensor, hangs: Tensor, pairs: Tensor, radius: float, asked: Tensor) -> Tensor:
    return asked.new_empty(asked.shape)


@torch.library.custom_op("echelon::pile", mutates_args=(), device_types="cpu")
def pile(voxel: Tensor, counts: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """What falls together on each row's voxel, and whether the row is the first that counts there.

    Args:
        voxel: `[B, S]` int32, which voxel each row names.
        counts: `[B, S]` bool, the rows that count.
        weight: `[S]` float32.

    Returns:
        `[B, S]` float32, the weights of all rows that count and name the same voxel, and `[B, S]` bool.
    """
    total, first = torch.zeros(voxel.shape), torch.zeros(voxel.shape, dtype=torch.bool)
    pile_all(array(voxel), array(counts), array(weight), array(total), array(first))
    return total, first


@pile.register_fake
def _(voxel: Tensor, counts: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return weight.new_empty(voxel.shape), counts.new_empty(voxel.shape)


@torch.library.custom_op("echelon::collide", mutates_args=(), device_types="cpu")
def collide(columns: Tensor, pos: Tensor, half_size: Tensor, asked: Tensor) -> Tensor:
    """`[B, N]` bool: a hull at `pos [B, N, 3]`, of `half_size [N, 3]`, meets a set bit of `columns [B, Y, X]`.

    Args:
        asked: `[B, N]` bool; false for the others.
    """
    meets = torch.zeros(asked.shape, dtype=torch.bool)
    collide_all(array(columns), array(pos), array(half_size), array(asked), array(meets))
    return meets


@collide.register_fake
def _(columns: Tensor, pos: Tensor, half_size: Tensor, asked: Tensor) -> Tensor:
    return asked.new_empty(asked.shape)


@torch.library.custom_op("echelon::bump", mutates_args=(), device_types="cpu")
def bump(old: Tensor, chosen: Tensor, priority: Tensor, alive: Tensor, half_size: Tensor) -> Tensor:
    """`[B, N]` bool: the hull at `chosen [B, N, 3]` meets the `old` box of another living mech, or the chosen one of
    a mech of higher `priority [B, N]`, ties to the lower index."""
    stays = torch.zeros(alive.shape, dtype=torch.bool)
    reach = half_size[:, None] + half_size
    bump_all(array(old), array(chosen), array(priority), array(alive), array(reach), array(stays))
    return stays


@bump.register_fake
def _(old: Tensor, chosen: Tensor, priority: Tensor, alive: Tensor, half_size: Tensor) -> Tensor:
    return alive.new_empty(alive.shape)


@torch.library.custom_op("echelon::point", mutates_args=(), device_types="cpu")
def point(
    distance: Tensor,
    bearing_cos: Tensor,
    ground: Tensor,
    line: Tensor,
    lock: Tensor,
    focus: Tensor,
    alive: Tensor,
    reach_vox: Tensor,
    arcs: Tensor,
    kind: Tensor,
) -> tuple[Tensor, Tensor]:
    """`targeting.designate`, gun by gun.

    Args:
        distance, bearing_cos, ground: `[B, N, N]` float32, an `Aim`.
        line, lock: `[B, N, N]` bool.
        focus: `[B, N]` int64.
        alive: `[B, N]` bool.
        reach_vox: `[W, N, N]`, negative where there is no gun.
        arcs: `[2, W]` cosines of half the arc, of any target and of the focus target.
        kind: `[3, W]` bool, whether a weapon needs a line, needs a lock, is aimed at the focus target only.
    """
    shape = (distance.shape[0], *reach_vox.shape[:2])
    aimed, target = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.int64)
    seen = (array(distance), array(bearing_cos), array(ground), array(line), array(lock), array(focus), array(alive))
    point_all(*seen, array(reach_vox), array(arcs), array(kind), array(aimed), array(target))
    return aimed, target


@point.register_fake
def _(
    distance: Tensor,
    bearing_cos: Tensor,
    ground: Tensor,
    line: Tensor,
    lock: Tensor,
    focus: Tensor,
    alive: Tensor,
    reach_vox: Tensor,
    arcs: Tensor,
    kind: Tensor,
) -> tuple[Tensor, Tensor]:
    shape = (distance.shape[0], *reach_vox.shape[:2])
    return alive.new_empty(shape), focus.new_empty(shape)
