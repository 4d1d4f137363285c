"""Changes of the terrain: shots destroy voxels and foliage, and destroyed mechs leave wrecks.

The functions of this module write `state.terrain` in place. The order of scattered writes does not matter: each bit of
a column is added at most once, and rows with the same voxel write the same value.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.runtime import exact
from echelon.sim.model import SimModel
from echelon.sim.segments import cross, map_size, segments
from echelon.sim.shots import SKIN_VOX, Impacts
from echelon.sim.terrain import (
    Voxel,
    add_bits,
    at_cells,
    columns_at,
    has_bit,
    height_bits,
    hull_cells,
    material_at,
    voxel_index,
)
from echelon.state import Mechs, State


def damage_voxels(state: State, impacts: Impacts, sim_model: SimModel) -> State:
    """Damage the voxels that shots hit; a voxel at 0 hp becomes air. Remove the foliage along the paths of shots."""
    if not sim_model.config.features.destruction:
        return state
    clear_foliage(state, impacts, sim_model)
    terrain = state.terrain
    x, y, z = voxel_behind(impacts.point, impacts.direction, sim_model)  # [B, S]
    bites = impacts.on_voxel & has_bit(columns_at(terrain.solid, x, y), z)
    # Impacts that damage no voxel all read voxel 0, which saves memory traffic.
    x, y, z = (torch.where(bites, cell, 0) for cell in (x, y, z))
    index = voxel_index((x, y, z), terrain.solid)
    bite, first = total_by_voxel(index, bites, sim_model.roster.shots.damage)  # [B, S] each

    battle = torch.arange(x.shape[0], device=x.device)[:, None]
    damage = terrain.damage[battle, z, y, x].to(bite.dtype)
    hp = sim_model.material_hp[material_at(state, sim_model, x, y, z).long()]
    broken = (bite > 0) & (damage + bite >= hp)
    # Reset the damage of a broken voxel, because a wreck may refill it. Indestructible voxels store no damage.
    worn = torch.where(broken | hp.isinf(), 0.0, damage + bite)
    terrain.damage.index_put_((battle, z, y, x), worn.to(torch.uint8))
    breaks = first & broken
    bit = torch.ones_like(z, dtype=torch.int32) << z.int()
    for columns in (terrain.solid, terrain.opaque, terrain.rubble):
        add_bits(columns, x, y, torch.where(breaks, -(columns_at(columns, x, y) & bit), 0))
    return state


def clear_foliage(state: State, impacts: Impacts, sim_model: SimModel) -> None:
    """Remove the foliage at the start of each shot and in every voxel that the shot entered."""
    if not sim_model.leaf_rounds:
        return
    terrain, muzzle = state.terrain, voxel_behind(impacts.start, impacts.direction, sim_model)
    paths = impacts.start, impacts.point, impacts.flew
    clear_leaves(terrain.opaque, terrain.solid, muzzle, *paths, sim_model.leaf_rounds)


def voxel_behind(point: Tensor, direction: Tensor, sim_model: SimModel) -> Voxel:
    """Return x, y, z, `[B, S]` int64, of the voxel just beyond a point along `direction`, clamped to the map."""
    world = sim_model.config.world
    x, y, z = (point + SKIN_VOX * direction).floor().long().unbind(-1)
    return x.clamp(0, world.size_x - 1), y.clamp(0, world.size_y - 1), z.clamp(0, world.size_z - 1)


def clear_leaves(
    opaque: Tensor,
    solid: Tensor,
    muzzle: Voxel,
    start: Tensor,
    end: Tensor,
    flew: Tensor,
    slots_by_plane: Sequence[Tensor],
) -> None:
    """Remove foliage (voxels that are opaque and not solid) along the paths of shots from `opaque`, in place.

    Args:
        opaque, solid: bit columns of the opaque voxels and of the solid voxels, `[B, Y, X]` int32.
        muzzle: x, y, z of the voxel at the start of each shot, `[B, S]` int64 each.
        start, end: ends of the path of each shot, `[B, S, 3]` float32 vox.
        flew: the shots that fly, `[B, S]` bool.
        slots_by_plane: entry k - 1 lists the shots that may cross k grid planes of an axis, `[K]` int64.
    """
    clear_voxels(opaque, solid, muzzle, flew)
    for plane, slots in enumerate(slots_by_plane):
        path = segments(start[:, slots].unbind(-1), end[:, slots].unbind(-1), map_size(solid))
        for axis in range(3):
            crossing = cross(path, axis, plane + 1)
            voxel = (crossing.x.long(), crossing.y.long(), crossing.z.long())
            clear_voxels(opaque, solid, voxel, flew[:, slots] & crossing.enters)


def clear_voxels(opaque: Tensor, solid: Tensor, voxel: Voxel, passes: Tensor) -> None:
    """Remove foliage from `opaque`, in place, at the voxels `[B, R]` where `passes`, `[B, R]` bool, is set."""
    x, y, z = voxel
    bit = torch.ones_like(z, dtype=torch.int32) << z.int()
    is_leaf = (columns_at(opaque, x, y) & ~columns_at(solid, x, y) & bit) != 0
    clears = passes & is_leaf
    _, first = total_by_voxel(voxel_index(voxel, opaque), clears, torch.ones_like(x[0], dtype=torch.float32))
    add_bits(opaque, x, y, torch.where(first, -bit, 0))


def total_by_voxel(voxel: Tensor, counts: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """For each row (an impact), sum the weights of all counted rows with the same voxel.

    Args:
        voxel: linear voxel index of each row, `[B, S]` int32.
        counts: the rows to count, `[B, S]` bool.
        weight: weights of the rows, `[S]` float32.

    Returns:
        `[B, S]` float32 sums, and `[B, S]` bool, true for the first counted row of each voxel.
    """
    is_same = (voxel[:, :, None] == voxel[:, None]) & counts[:, None]  # [B, S, S]
    row = torch.arange(voxel.shape[1], device=voxel.device)
    earlier = row < row[:, None]
    return exact.sum(is_same * weight, -1), counts & ~(is_same & earlier).any(-1)


def lay_wrecks(state: State, luck: Tensor, priority: Tensor, sim_model: SimModel) -> State:
    """Turn a destroyed mech into rubble one voxel high, which any hull can step onto.

    Rubble fills air or dirt on top of the highest solid voxel under the mech's box. Rubble never fills a voxel of
    another wreck or of a living mech, or a voxel on top of a wreck. At most one mech per battle and substep becomes a
    wreck, by highest priority; the other mechs follow in later substeps.

    Args:
        state: the current state; its terrain is changed in place.
        luck: uniform samples in [0, 1), `[B, N]`; if the sample is below `wreck_chance`, the wreck is solid, otherwise
            it burns.
        priority: as in `movement.move`, `[B, N]`.
        sim_model: constants of the battle.
    """
    if not sim_model.config.features.destruction:
        return state
    roster, terrain = sim_model.roster, state.terrain
    is_due, index = next_wreck(state.mechs, priority)
    boxes = HullBoxes(*hull_cells(state.mechs.pos, roster.half_size), height_bits(state.mechs.pos, roster.half_size))
    x, y, in_box, tall = box_of(index, boxes, sim_model)
    filled = occupied_bits(x, y, state, sim_model) | living_bits(x, y, state.mechs.alive, boxes)
    resting = resting_bits(columns_at(terrain.solid, x, y), tall)
    piled = resting & columns_at(terrain.rubble, x, y) << 1
    bits = torch.where(in_box & is_due, resting & ~filled & ~piled, 0)  # [B, 25]
    stays_solid = luck.gather(1, index) < roster.wreck_chance[index]
    add_bits(terrain.rubble, x, y, bits)
    for columns in (terrain.solid, terrain.opaque):
        add_bits(columns, x, y, torch.where(stays_solid, bits, 0))

    is_wreck = torch.arange(roster.num_mechs, device=index.device) == index
    return state.replace(mechs=state.mechs.replace(wrecked=state.mechs.wrecked | (is_wreck & is_due)))


def resting_bits(solid: Tensor, tall: Tensor) -> Tensor:
    """Return the lowest free bit of each column below a hull, `[B, R]` int32.

    The lowest free bit is the one above the highest solid voxel below the hull.

    Args:
        solid: bit columns of solid voxels, `[B, R]` int32.
        tall: bits that the hull occupies in a column, `[B, 1]` int32.
    """
    below = solid & (tall & -tall) - 1
    for shift in (1, 2, 4, 8, 16):
        below = below | below >> shift
    return below + 1


def next_wreck(mechs: Mechs, priority: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether a destroyed mech has no wreck yet, `[B, 1]` bool, and the first such mech, `[B, 1]` int64."""
    is_due = ~mechs.alive & ~mechs.wrecked
    rank, index = torch.where(is_due, priority, -1.0).max(1, keepdim=True)
    return rank >= 0, index


class HullBoxes(NamedTuple):
    """Voxels occupied by hulls; `[B, N, 25]` by ground cell unless stated otherwise."""

    x: Tensor
    """int64 x of each cell."""
    y: Tensor
    """int64 y of each cell."""
    touched: Tensor
    """bool: the cell belongs to the hull and is not padding."""
    tall: Tensor
    """[B, N] int32, bits of the heights that the hull occupies in a column."""


def box_of(who: Tensor, boxes: HullBoxes, sim_model: SimModel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the fields of `HullBoxes` for one mech per battle, clamped to the map.

    Args:
        who: index of the mech, `[B, 1]` int64.
        boxes: boxes of all mechs.
        sim_model: constants of the battle.

    Returns:
        x, y and touched, `[B, 25]` each, and tall, `[B, 1]`.
    """
    world = sim_model.config.world
    index = who[..., None].expand(-1, -1, boxes.x.shape[-1])
    x = boxes.x.gather(1, index).squeeze(1).clamp(0, world.size_x - 1)
    y = boxes.y.gather(1, index).squeeze(1).clamp(0, world.size_y - 1)
    return x, y, boxes.touched.gather(1, index).squeeze(1), boxes.tall.gather(1, who)


def occupied_bits(x: Tensor, y: Tensor, state: State, sim_model: SimModel) -> Tensor:
    """Return the bits of voxels that are neither air nor dirt, `[B, R]` int32, at cells `x`, `y` `[B, R]`."""
    terrain = state.terrain
    return (
        columns_at(terrain.solid, x, y)
        | columns_at(terrain.opaque, x, y)
        | columns_at(terrain.rubble, x, y)
        | at_cells(sim_model.maps.hazard, state.map_id, x, y)
    )


def living_bits(x: Tensor, y: Tensor, alive: Tensor, boxes: HullBoxes) -> Tensor:
    """Return the bits `[B, R]` int32 that mechs in `alive`, `[B, N]` bool, occupy at cells `x`, `y` `[B, R]`."""
    low_x, low_y, high_x, high_y = boxes.x[..., :1], boxes.y[..., :1], boxes.x[..., -1:], boxes.y[..., -1:]
    overlaps = (
        alive[..., None]
        & (x[:, None] >= low_x)
        & (x[:, None] <= high_x)
        & (y[:, None] >= low_y)
        & (y[:, None] <= high_y)
    )  # [B, N, R]
    return any_bit(torch.where(overlaps, boxes.tall[..., None], 0))


def any_bit(columns: Tensor) -> Tensor:
    """Return the bitwise or over dimension 1 of `[B, N, R]`, `[B, R]` int32, by pairwise reduction."""
    while columns.shape[1] > 1:
        half = (columns.shape[1] + 1) // 2
        rest = torch.nn.functional.pad(columns[:, half:], (0, 0, 0, 2 * half - columns.shape[1]))
        columns = columns[:, :half] | rest
    return columns[:, 0]
