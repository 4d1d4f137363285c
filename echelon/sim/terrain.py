"""Reading the shared maps: columns, materials, and the first voxel a segment enters."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.catalog import Material
from echelon.state import Maps, Mechs


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


def standing_on(mechs: Mechs, half_size: Tensor, map_id: Tensor, maps: Maps) -> Tensor:
    """`[B, N]` uint8 `Material` of the voxel that holds the middle of each hull's underside."""
    size_z, size_y, size_x = maps.material.shape[1:]
    cell = mechs.pos.floor().long()
    x, y = cell[..., 0].clamp(0, size_x - 1), cell[..., 1].clamp(0, size_y - 1)
    z = (mechs.pos[..., 2] - half_size[:, 2]).floor().long().clamp(0, size_z - 1)
    return maps.material.flatten()[((map_id[:, None] * size_z + z) * size_y + y) * size_x + x]


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


def entered_cell(start: Tensor, delta: Tensor, t: Tensor) -> Tensor:
    """The cell along one axis that a segment is in just after `t`: on a plane, the one it moves into."""
    at = start + t * delta
    return torch.where(delta < 0, at.ceil() - 1, at.floor())


def first_hit(columns: Tensor, map_id: Tensor, start: Tensor, end: Tensor, reach_vox: float, past_end: bool) -> Tensor:
    """How far along each segment the first blocking voxel begins.

    A segment enters a new cell exactly where it crosses a grid plane, and crossing k of an axis lies at
    t = (plane_k - start) / (end - start). All crossings are looked up at once, without a march.

    Args:
        columns: `[M, Y, X]` int32, bit z set where a voxel blocks.
        map_id: `[B]` int64.
        start, end: `[B, R, 3]` vox.
        reach_vox: no segment is longer along any axis; bounds the crossings looked up.
        past_end: whether the cell that holds `end` may block too. The cell of `start` never does.

    Returns:
        `[B, R]` share of the way in 0..1, infinity where nothing blocks.
    """
    size = (columns.shape[2], columns.shape[1], 31)
    delta = end - start
    last_cell = end.floor()
    hits = []
    for axis in range(3):
        crossings = min(int(reach_vox) + 1, size[axis] - 1)
        count = torch.arange(crossings, device=start.device, dtype=start.dtype)
        ahead = delta[..., axis : axis + 1] > 0  # [B, R, 1]
        first = start[..., axis : axis + 1].floor() + ahead
        plane = torch.where(ahead, first + count, first - count)  # [B, R, K]
        step = delta[..., axis : axis + 1]
        t = (plane - start[..., axis : axis + 1]) / torch.where(step == 0, 1.0, step)
        # A segment that ends on a plane has entered the next cell only where it moves up the axis.
        crossed = ((t < 1) | ((t == 1) & ahead & past_end)) & (step != 0)

        cell = [entered_cell(start[..., a : a + 1], delta[..., a : a + 1], t) for a in range(3)]
        cell[axis] = torch.where(ahead, plane, plane - 1)
        x, y, z = cell
        inside = (x >= 0) & (x < size[0]) & (y >= 0) & (y < size[1]) & (z >= 0) & (z < size[2])
        counts = crossed & inside
        if not past_end:
            at_end = (x == last_cell[..., 0:1]) & (y == last_cell[..., 1:2]) & (z == last_cell[..., 2:3])
            counts = counts & ~at_end
        column = at_cells(columns, map_id, x.long(), y.long())
        filled = (column >> z.clamp(0, 30).int()) & 1
        hits.append(torch.where(counts & (filled == 1), t, torch.inf).amin(-1))
    return torch.stack(hits, -1).amin(-1)
