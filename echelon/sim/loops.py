"""What is sparse, as loops of a CPU: impacts in one voxel, hulls that meet something, guns that find a target; and how
short rows are put in order.

On a GPU all of them are held against each other at once. A CPU gains by looping over those that happen, by leaving out
what nobody asks about, and by stopping at the first hit. The arithmetic is that of the dense forms in `rubble`,
`movement` and `targeting`, and so are the answers: tests hold them together. `lines` does the same for segments.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from echelon.state import Maps, Terrain

ZERO, ONE = np.float32(0.0), np.float32(1.0)
INFINITY = np.float32(np.inf)


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


@numba.njit(cache=True, nogil=True)
def order_all(key: Any, then: Any, rank: Any, order: Any) -> None:
    """`order` for arrays `[R, N]`; `rank [N]` is room to count in."""
    count = key.shape[1]
    for row in range(key.shape[0]):
        rank[:] = 0
        for other in range(count):
            its_key, its_then = key[row, other], then[row, other]
            # Neither `and` nor `or`: a processor compares many at once where it need not choose a way.
            for item in range(count):
                sooner = (its_then < then[row, item]) | ((its_then == then[row, item]) & (other < item))
                rank[item] += (its_key < key[row, item]) | ((its_key == key[row, item]) & sooner)
        for item in range(count):
            order[row, rank[item]] = item


def array(values: Tensor) -> Any:
    """The same numbers, for a loop. These run on a CPU only, whose memory is the host's: nothing waits.

    All lie in order, so that a loop is compiled once, by the thread that runs it first.
    """
    return values.detach().contiguous().numpy()


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


@torch.library.custom_op("echelon::order", mutates_args=(), device_types="cpu")
def order(key: Tensor, then: Tensor) -> Tensor:
    """`[..., N]` int64: the items of each row by `key [..., N]`, equals by `then`, and equals of both by index."""
    found = torch.empty(key.shape, dtype=torch.int64)
    rank = np.empty(key.shape[-1], np.int32)
    order_all(array(key.flatten(0, -2)), array(then.flatten(0, -2)), rank, array(found.flatten(0, -2)))
    return found


@order.register_fake
def _(key: Tensor, then: Tensor) -> Tensor:
    return key.new_empty(key.shape, dtype=torch.int64)


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
def _(*facts: Tensor) -> tuple[Tensor, Tensor]:
    focus, alive, reach_vox = facts[5:8]
    shape = (focus.shape[0], *reach_vox.shape[:2])
    return alive.new_empty(shape), focus.new_empty(shape)
