"""Reading the ground: columns, materials, and the first voxel a segment enters."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rules.catalog import Material
from echelon.runtime.compile import materialize
from echelon.runtime.geometry import TINY
from echelon.sim.model import SimModel
from echelon.state import State

HAS_LOOPS = importlib.util.find_spec("numba") is not None
"""Whether a CPU can loop over the crossings of a segment, as `echelon.sim.lines` does. A GPU looks all up at once."""
if HAS_LOOPS:
    from echelon.sim.lines import trace
FEW_CROSSINGS = 4
"""Planes of an axis up to which their crossings are looked up one after the other."""


def at_cells(field: Tensor, map_id: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Values of a per-map field at ground cells.

    Args:
        field: `[M, Y, X, ...]`.
        map_id: `[B]` int64.
        x, y: `[B, ...]` integer cells; cells outside read the nearest one inside.
    """
    size_y, size_x = field.shape[1:3]
    cell = y.clamp(0, size_y - 1) * size_x + x.clamp(0, size_x - 1)
    return field.flatten(0, 2)[(map_id * (size_y * size_x)).view(-1, *[1] * (x.dim() - 1)) + cell]


def columns_at(columns: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """`[B, ...]` bit columns of each battle's own `columns [B, Y, X]` at ground cells `x`, `y` `[B, ...]` int64."""
    own = torch.arange(columns.shape[0], device=columns.device)
    return at_cells(columns, own, x, y)


def has_bit(column: Tensor, z: Tensor) -> Tensor:
    """Whether bit `z`, 0..30, of a column is set."""
    return ((column >> z.int()) & 1) == 1


def material_at(state: State, game: SimModel, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
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
    return now_made_of(made_of, (was_solid, was_opaque), (solid, opaque), filled)


def now_made_of(made_of: Tensor, was: tuple[Tensor, Tensor], now: tuple[Tensor, Tensor], filled: Tensor) -> Tensor:
    """uint8 `Material` of voxels once `made_of` something, by what they were and are now, each solid and opaque, and by
    whether a wreck `filled` them."""
    (was_solid, was_opaque), (solid, opaque) = was, now
    gone = (was_solid & ~solid) | (was_opaque & ~opaque)
    rubble = torch.where(solid, int(Material.SOLID_DEBRIS), int(Material.DEBRIS_FIELD))
    return torch.where(filled, rubble, torch.where(gone, int(Material.AIR), made_of)).to(torch.uint8)


def standing_on(state: State, game: SimModel) -> Tensor:
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


class Rays(NamedTuple):
    """Segments, axis by axis, each axis mirrored so that the segment climbs it. The lists hold a tensor an axis."""

    begin: list[Tensor]
    """Way already gone inside the first cell, 0..1."""
    length: list[Tensor]
    """Way to go, vox."""
    cell: list[Tensor]
    """First cell, not mirrored."""
    sign: list[Tensor]
    """-1 where mirrored, else 1."""
    steps: list[Tensor]
    """Cells from the first to the last."""
    total: Tensor
    """Cells entered on the whole way."""


class Crossing(NamedTuple):
    """The cells that segments enter by crossing one plane of an axis."""

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


Size = tuple[int, int, int]
"""Of a map, along x, y, z."""


def map_size(columns: Tensor) -> Size:
    """The size of `columns [B, Y, X]`; z is as high as a column can be."""
    return columns.shape[2], columns.shape[1], 31


def rays(start: Sequence[Tensor], end: Sequence[Tensor], size: Size) -> Rays:
    """Segments from `start` to `end`, vox, by axis. Beyond the border of the map they meet the border's own cells."""
    begin, length, cell, sign, steps = [], [], [], [], []
    for at, to, cells in zip(start, end, size, strict=True):
        first = at.floor().clamp(0, cells - 1)
        descends = to < at
        begin.append(torch.where(descends, first + 1 - at, at - first))
        length.append((to - at).abs())
        cell.append(first)
        sign.append(torch.where(descends, -1.0, 1.0))
        steps.append((to.floor().clamp(0, cells - 1) - first).abs())
    return Rays(begin, length, cell, sign, steps, steps[0] + steps[1] + steps[2])


def cross(ray: Rays, axis: int, count: int | Tensor) -> Crossing:
    """Where segments cross the `count`-th plane of an axis, 1 the first, and which cell they enter there.

    A segment enters a new cell exactly where it crosses a grid plane: after (count - begin) / length of its way. The
    cells it has gone along the other axes by then are the floor of begin + t * length. So every crossing is known in
    closed form, without a march.
    """
    t = ((count - ray.begin[axis]) / ray.length[axis].clamp_min(TINY)).clamp_max(1.0)
    gone = [
        (begin + t * length).floor().minimum(steps) for begin, length, steps in zip(*ray[:2], ray.steps, strict=True)
    ]
    gone[axis] = ray.steps[axis].clamp_max(count) if isinstance(count, int) else ray.steps[axis].minimum(count)
    x, y, z = ((cell + sign * way).int() for cell, sign, way in zip(ray.cell, ray.sign, gone, strict=True))
    at_end = gone[0] + gone[1] + gone[2] == ray.total
    return Crossing(t, x, y, z, count <= ray.steps[axis], at_end)


def first_hit(
    columns: Tensor, start: Tensor, end: Tensor, reach_vox: float, past_end: bool, asked: Tensor | None = None
) -> Tensor:
    """How far along each segment the first blocking voxel begins.

    Args:
        columns: `[B, Y, X]` int32, bit z set where a voxel blocks.
        start, end: `[B, R, 3]` vox, or `[B, ..., 3]` that broadcast.
        reach_vox: how far along any axis crossings are looked up; of longer segments the rest is not.
        past_end: whether the cell that holds `end` may block too. The cell of `start` never does.
        asked: `[B, R]` or `[B, ...]` bool, the segments that matter; all by default.

    Returns:
        `[B, R]` or `[B, ...]` share of the way in 0..1, infinity where nothing blocks and where nobody asked.
    """
    return look_along(columns, start, end, reach_vox, past_end, asked, whether=False)


def is_blocked(columns: Tensor, start: Tensor, end: Tensor, reach_vox: float, asked: Tensor) -> Tensor:
    """bool: a voxel blocks strictly between the cells of `start` and `end`; false where nobody asked."""
    return look_along(columns, start, end, reach_vox, False, asked, whether=True).isfinite()


def look_along(
    columns: Tensor,
    start: Tensor,
    end: Tensor,
    reach_vox: float,
    past_end: bool,
    asked: Tensor | None,
    whether: bool,
) -> Tensor:
    """`first_hit` by loops on a CPU, else by the closed form; where `whether`, any hit will do."""
    most = [min(int(reach_vox) + 1, cells - 1) for cells in map_size(columns)]
    if not loops_on(columns.device):
        hit = closed_form(columns, start, end, most, past_end)
        return hit if asked is None else torch.where(asked, hit, torch.inf)
    start, end = torch.broadcast_tensors(start, end)
    if asked is None:
        asked = torch.ones_like(start[..., 0], dtype=torch.bool)
    rows = asked.shape[1:]
    hit = trace(columns, start.flatten(1, -2), end.flatten(1, -2), asked.flatten(1), most, past_end, whether)
    return hit.unflatten(1, rows)


def loops_on(device: torch.device) -> bool:
    """Whether segments are looked along one by one there."""
    return HAS_LOOPS and device.type == "cpu"


def closed_form(columns: Tensor, start: Tensor, end: Tensor, most: list[int], past_end: bool) -> Tensor:
    """`first_hit` by looking up every crossing of every segment at once, up to `most` planes along x, y and z."""
    size = map_size(columns)
    # Compiled, few crossings are fastest one after the other, vectorised over rays (shields of bursts: 10 ms against
    # 36); many as an axis of their own, with what is known of each ray kept beside it.
    in_turn = max(most) <= FEW_CROSSINGS
    if in_turn:
        ray = rays(start.unbind(-1), end.unbind(-1), size)
    else:
        ray = rays(start.unsqueeze(-2).unbind(-1), end.unsqueeze(-2).unbind(-1), size)
        begin, length, cell, sign, steps = ([materialize(value) for value in by_axis] for by_axis in ray[:-1])
        ray = Rays(begin, length, cell, sign, steps, materialize(ray.total))
    own = torch.arange(columns.shape[0], device=columns.device).view(-1, *[1] * (ray.length[0].dim() - 1))
    hits = []
    for axis in range(3):
        plane = torch.arange(1, most[axis] + 1, device=columns.device, dtype=start.dtype)
        for count in range(1, most[axis] + 1) if in_turn else [plane]:
            t, x, y, z, enters, at_end = cross(ray, axis, count)
            blocks = enters & has_bit(columns[own, y, x], z)
            if not past_end:
                blocks = blocks & ~at_end
            hit = torch.where(blocks, t, torch.inf)
            hits.append(hit if in_turn else hit.amin(-1))
    return materialize(functools.reduce(torch.minimum, hits))
