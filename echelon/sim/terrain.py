"""Reading the ground: columns, materials, and the first voxel a segment enters."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from echelon.catalog import Material
from echelon.geometry import TINY
from echelon.sim.game import Game
from echelon.state import State


def at_cells(field: Tensor, map_id: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Values of a per-map field at ground cells.

    Args:
        field: `[M, Y, X, ...]`.
        map_id: `[B]` int64.
        x, y: `[B, ...]` int64 cells; cells outside read the nearest one inside.
    """
    size_y, size_x = field.shape[1:3]
    row = map_id.view(-1, *[1] * (x.dim() - 1)) * size_y + y.clamp(0, size_y - 1)
    return field.flatten(0, 2)[row * size_x + x.clamp(0, size_x - 1)]


def columns_at(columns: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """`[B, ...]` bit columns of each battle's own `columns [B, Y, X]` at ground cells `x`, `y` `[B, ...]` int64."""
    own = torch.arange(columns.shape[0], device=columns.device)
    return at_cells(columns, own, x, y)


def has_bit(column: Tensor, z: Tensor) -> Tensor:
    """Whether bit `z`, 0..30, of a column is set."""
    return ((column >> z.int()) & 1) == 1


def material_at(state: State, game: Game, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """`[B, ...]` uint8 `Material` of voxels `[B, ...]` int64 as they are now; outside, of the nearest one inside."""
    size_z, size_y, size_x = game.maps.material.shape[1:]
    x, y, z = x.clamp(0, size_x - 1), y.clamp(0, size_y - 1), z.clamp(0, size_z - 1)
    level = state.map_id.view(-1, *[1] * (x.dim() - 1)) * size_z + z
    made_of = game.maps.material.flatten()[(level * size_y + y) * size_x + x]
    if not game.config.features.destruction:
        return made_of
    terrain = state.terrain
    solid = has_bit(columns_at(terrain.solid, x, y), z)
    opaque = has_bit(columns_at(terrain.opaque, x, y), z)
    filled = has_bit(columns_at(terrain.rubble, x, y), z)
    was_solid, was_opaque = (
        has_bit(at_cells(kept, state.map_id, x, y), z) for kept in (game.maps.solid, game.maps.opaque)
    )
    gone = (was_solid & ~solid) | (was_opaque & ~opaque)
    rubble = torch.where(solid, int(Material.SOLID_DEBRIS), int(Material.DEBRIS_FIELD))
    now = torch.where(filled, rubble, torch.where(gone, int(Material.AIR), made_of))
    return now.to(torch.uint8)


def standing_on(state: State, game: Game) -> Tensor:
    """`[B, N]` uint8 `Material` of the voxel that holds the middle of each hull's underside."""
    pos = state.mechs.pos
    x, y, _ = pos.floor().long().unbind(-1)
    z = (pos[..., 2] - game.roster.half_size[:, 2]).floor().long()
    return material_at(state, game, x, y, z)


def height_bits(pos: Tensor, half_size: Tensor) -> Tensor:
    """`[B, N]` int32, the bits of a column that hulls of `half_size [N, 3]` at `pos [B, N, 3]` fill."""
    half = half_size[:, 2]
    first = (pos[..., 2] - half).floor().int().clamp(0, 30)
    last = ((pos[..., 2] + half).ceil().int() - 1).clamp(0, 30)
    one = torch.ones_like(first)
    # For last = 30 the left term wraps to the sign bit, and the difference is still the right mask.
    return (one << (last + 1)) - (one << first)


def is_material(found: Tensor, material: Material) -> Tensor:
    """Where `found` holds one material."""
    return found == int(material)


class Crossings(NamedTuple):
    """The cells that R segments enter by crossing the planes of one axis, in order. `[B, R, K]` each."""

    t: Tensor
    """Share of the way, 0..1."""
    x: Tensor
    """int32."""
    y: Tensor
    """int32."""
    z: Tensor
    """int32."""
    enters: Tensor
    """bool: the crossing happens, at or before the end."""
    at_end: Tensor
    """bool: the cell is the one that holds the end."""


def crossings(start: Tensor, end: Tensor, size: tuple[int, int, int], reach_vox: float) -> list[Crossings]:
    """Every cell that each segment enters, by the axis whose plane it crosses.

    A segment enters a new cell exactly where it crosses a grid plane, and where it crosses the k-th plane of an axis
    is known in closed form: after (distance to the first plane + k) / |delta| of its way. So all crossings are found
    at once, without a march. Every axis is mirrored so that the segment climbs it: then the cells it has gone along
    an axis are the floor of one product and sum.

    Args:
        start, end: `[B, R, 3]` vox. Beyond the border of the map a segment meets the border's own cells.
        size: of the map, x, y, z.
        reach_vox: no segment is longer along any axis; bounds K.
    """
    begin, length, cell, sign, steps = [], [], [], [], []  # by axis, [B, R, 1] each
    for axis in range(3):
        at, to, last = start[..., axis : axis + 1], end[..., axis : axis + 1], size[axis] - 1
        first = at.floor().clamp(0, last)
        descends = to < at
        begin.append(torch.where(descends, first + 1 - at, at - first))  # way into the first cell, mirrored
        length.append((to - at).abs())
        cell.append(first)
        sign.append(torch.where(descends, -1.0, 1.0))
        steps.append((to.floor().clamp(0, last) - first).abs())  # cells from the first to the last
    total = steps[0] + steps[1] + steps[2]

    found = []
    for axis in range(3):
        most = min(int(reach_vox) + 1, size[axis] - 1)
        count = torch.arange(1, most + 1, device=start.device, dtype=start.dtype)  # [K]
        t = ((count - begin[axis]) / length[axis].clamp_min(TINY)).clamp_max(1.0)  # [B, R, K]
        gone = [(begin[a] + t * length[a]).floor().minimum(steps[a]) for a in range(3)]
        gone[axis] = count.minimum(steps[axis])
        x, y, z = ((cell[a] + sign[a] * gone[a]).int() for a in range(3))
        at_end = gone[0] + gone[1] + gone[2] == total
        found.append(Crossings(t, x, y, z, count <= steps[axis], at_end))
    return found


def first_hit(columns: Tensor, start: Tensor, end: Tensor, reach_vox: float, past_end: bool) -> Tensor:
    """How far along each segment the first blocking voxel begins.

    Args:
        columns: `[B, Y, X]` int32, bit z set where a voxel blocks.
        start, end, reach_vox: as in `crossings`.
        past_end: whether the cell that holds `end` may block too. The cell of `start` never does.

    Returns:
        `[B, R]` share of the way in 0..1, infinity where nothing blocks.
    """
    own = torch.arange(columns.shape[0], device=columns.device)[:, None, None]
    hits = []
    for t, x, y, z, enters, at_end in crossings(start, end, (columns.shape[2], columns.shape[1], 31), reach_vox):
        blocks = enters & has_bit(columns[own, y, x], z)
        if not past_end:
            blocks = blocks & ~at_end
        hits.append(torch.where(blocks, t, torch.inf).amin(-1))
    return settle(torch.stack(hits, -1).amin(-1))


def settle(values: Tensor) -> Tensor:
    """The same tensor. Compiled, it becomes a buffer: else every reader would work it out anew, rays and all."""
    return values.as_strided(values.shape, values.stride())
