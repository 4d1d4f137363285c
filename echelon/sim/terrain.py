"""Terrain lookups: bit columns, voxel materials, and the cells that hulls touch."""

import torch
from torch import Tensor

from echelon.rules.catalog import Material
from echelon.runtime.geometry import up
from echelon.sim.model import SimModel
from echelon.state import Maps, State, Terrain

WIDEST_CELLS = 5
"""Maximum number of cells that a hull, of at most 3.5 vox, touches along one axis."""
Voxel = tuple[Tensor, Tensor, Tensor]
"""x, y, z of voxels: three int64 tensors of the same shape."""


def at_cells(field: Tensor, map_id: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Gather the values of a per-map field at ground cells.

    Args:
        field: values of the field on each map, `[M, Y, X, ...]`.
        map_id: the map of each battle, `[B]` int64.
        x, y: integer cells, `[B, ...]`; cells outside the map are clamped to it.

    Returns:
        `[B, ...]` values.
    """
    size_y, size_x = field.shape[1:3]
    cell = y.clamp(0, size_y - 1) * size_x + x.clamp(0, size_x - 1)
    cell = (map_id * (size_y * size_x)).view(-1, *[1] * (x.dim() - 1)) + cell
    return field.flatten(0, 2).index_select(0, cell.flatten()).view(*cell.shape, *field.shape[3:])


def columns_at(columns: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Gather the bit columns `[B, ...]` of `columns [B, Y, X]` at ground cells `x`, `y`, `[B, ...]` int64."""
    battle = torch.arange(columns.shape[0], device=columns.device)
    return at_cells(columns, battle, x, y)


def has_bit(column: Tensor, z: Tensor) -> Tensor:
    """Return True where bit `z`, 0..30, of a column is set."""
    return ((column >> z.int()) & 1) == 1


def voxel_index(voxel: Voxel, columns: Tensor) -> Tensor:
    """Return the linear index of voxels, int32, in a map with `columns [B, Y, X]`."""
    x, y, z = voxel
    return ((z * columns.shape[1] + y) * columns.shape[2] + x).int()


def add_bits(columns: Tensor, x: Tensor, y: Tensor, bits: Tensor) -> None:
    """Add `bits [B, R]` int32 to `columns [B, Y, X]`, in place, at ground cells `x`, `y`, `[B, R]`."""
    battle = torch.arange(x.shape[0], device=x.device)[:, None]
    columns.index_put_((battle, y, x), bits.to(torch.int32), accumulate=True)


def material_at(state: State, sim_model: SimModel, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Return the current `Material` of voxels, `[B, ...]` uint8; positions `[B, ...]` int64 are clamped to the map."""
    size_z, size_y, size_x = sim_model.maps.material.shape[1:]
    x, y, z = x.clamp(0, size_x - 1), y.clamp(0, size_y - 1), z.clamp(0, size_z - 1)
    level = state.map_id.view(-1, *[1] * (x.dim() - 1)) * size_z + z
    made_of = sim_model.maps.material.flatten()[(level * size_y + y) * size_x + x]
    if not sim_model.config.features.destruction:
        return made_of
    terrain = state.terrain
    solid = has_bit(columns_at(terrain.solid, x, y), z)
    opaque = has_bit(columns_at(terrain.opaque, x, y), z)
    filled = has_bit(columns_at(terrain.rubble, x, y), z)
    was_solid, was_opaque = (
        has_bit(at_cells(original, state.map_id, x, y), z) for original in (sim_model.maps.solid, sim_model.maps.opaque)
    )
    return current_material(made_of, (was_solid, was_opaque), (solid, opaque), filled)


def present_materials(ground: Maps, terrain: Terrain) -> Tensor:
    """Return the current `Material` of every voxel of one battle, `[Z, Y, X]` uint8.

    Args:
        ground: the map of the battle, without a batch dimension.
        terrain: the terrain of the battle, without a batch dimension.
    """
    z = torch.arange(ground.material.shape[0], device=ground.material.device)[:, None, None]
    initial = has_bit(ground.solid, z), has_bit(ground.opaque, z)
    current = has_bit(terrain.solid, z), has_bit(terrain.opaque, z)
    return current_material(ground.material, initial, current, has_bit(terrain.rubble, z))


def current_material(
    made_of: Tensor, before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor], filled: Tensor
) -> Tensor:
    """Return the current `Material` of voxels, uint8.

    Args:
        made_of: original material, uint8.
        before: two bool tensors, whether each voxel was originally solid, and opaque.
        after: two bool tensors, whether each voxel is now solid, and opaque.
        filled: bool, whether a wreck fills the voxel.
    """
    (was_solid, was_opaque), (solid, opaque) = before, after
    is_removed = (was_solid & ~solid) | (was_opaque & ~opaque)
    rubble = torch.where(solid, int(Material.SOLID_DEBRIS), int(Material.DEBRIS_FIELD))
    return torch.where(filled, rubble, torch.where(is_removed, int(Material.AIR), made_of)).to(torch.uint8)


def standing_on(state: State, sim_model: SimModel) -> Tensor:
    """Return the `Material` of the voxel at the centre of the underside of each hull, `[B, N]` uint8."""
    pos = state.mechs.pos
    x, y, _ = pos.floor().long().unbind(-1)
    z = (pos[..., 2] - sim_model.roster.half_size[:, 2]).floor().long()
    return material_at(state, sim_model, x, y, z)


def height_bits(pos: Tensor, half_size: Tensor) -> Tensor:
    """Return the bits that hulls of `half_size [N, 3]` at `pos [B, N, 3]` fill in a column, `[B, N]` int32."""
    half = half_size[:, 2]
    first = (pos[..., 2] - half).floor().int().clamp(0, 30)
    last = ((pos[..., 2] + half).ceil().int() - 1).clamp(0, 30)
    one = torch.ones_like(first)
    # For last = 30 the left term is the sign bit, and the difference is still the correct mask.
    return (one << (last + 1)) - (one << first)


def stepped_up(pos: Tensor, sim_model: SimModel) -> Tensor:
    """Return the positions `[..., 3]`, in voxels, raised by the maximum step height."""
    return pos + sim_model.rules.step_up_vox * up(pos.device).float()


def hull_cells(pos: Tensor, half_size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ground cells that hulls of `half_size [N, 3]` at `pos [B, N, 3]` touch.

    Returns:
        x and y, int64, padded by repeating the last cell, and a bool mask, false for padding. All three have the shape
        `[B, N, WIDEST_CELLS ** 2]`.
    """
    half = half_size[:, :2]
    first = (pos[..., :2] - half).floor().long()  # [B, N, 2]
    last = (pos[..., :2] + half).ceil().long() - 1
    candidates = first[..., None] + torch.arange(WIDEST_CELLS, device=pos.device)  # [B, N, 2, 5]
    cells, touched = candidates.minimum(last[..., None]), candidates <= last[..., None]
    grid = (*cells.shape[:2], WIDEST_CELLS, WIDEST_CELLS)
    x = cells[..., 0, None, :].expand(grid)
    y = cells[..., 1, :, None].expand(grid)
    is_touched = touched[..., 0, None, :] & touched[..., 1, :, None]
    return x.flatten(2), y.flatten(2), is_touched.flatten(2)


def hits_terrain(columns: Tensor, pos: Tensor, half_size: Tensor, mask: Tensor) -> Tensor:
    """`[B, N]` bool: the box of a hull overlaps a solid voxel.

    Args:
        columns: bit columns of the solid voxels, `[B, Y, X]` int32.
        pos: centres of the hulls, `[B, N, 3]` float32 vox.
        half_size: half sizes of the hulls, `[N, 3]` float32 vox.
        mask: hulls to compute, `[B, N]` bool; the result is false for the others.
    """
    x, y, _ = hull_cells(pos, half_size)
    return mask & ((columns_at(columns, x, y) & height_bits(pos, half_size)[..., None]) != 0).any(-1)


def is_material(material_id: Tensor, material: Material) -> Tensor:
    """Return True where `material_id`, uint8, equals a material."""
    return material_id == int(material)
