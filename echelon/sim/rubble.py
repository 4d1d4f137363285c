"""How battles change their ground: shots break voxels and tear leaves, the dead leave wrecks.

These functions write `state.terrain` in place. Columns change by adding integers, each bit once, and rows that name the
same voxel write the same number to it: which of several comes first changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.sim.kernels.clear_leaves import clear_leaves
from echelon.sim.kernels.total_by_voxel import total_by_voxel
from echelon.sim.model import SimModel
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
from echelon.state import State


def chip(state: State, impacts: Impacts, game: SimModel) -> State:
    """Impacts take hp from the voxel they met, which turns to air at 0; leaves go when a shot passes."""
    if not game.config.features.destruction:
        return state
    tear(state, impacts, game)
    terrain = state.terrain
    x, y, z = bitten_voxel(impacts.point, impacts.direction, game)  # [B, S]
    bites = impacts.on_voxel & has_bit(columns_at(terrain.solid, x, y), z)
    # Whoever bites nothing names one voxel with all others that do not: the ground elsewhere stays out of the caches.
    x, y, z = (torch.where(bites, at, 0) for at in (x, y, z))
    index = voxel_index((x, y, z), terrain.solid)
    bite, first = total_by_voxel(index, bites, game.roster.shots.damage)  # [B, S] each

    own = torch.arange(x.shape[0], device=x.device)[:, None]
    lost = terrain.damage[own, z, y, x].to(bite.dtype)
    hp = game.material_hp[material_at(state, game, x, y, z).long()]
    broken = (bite > 0) & (lost + bite >= hp)
    # A broken voxel forgets its damage, for a wreck may fill it anew; what nothing breaks never counts any.
    worn = torch.where(broken | hp.isinf(), 0.0, lost + bite)
    terrain.damage.index_put_((own, z, y, x), worn.to(torch.uint8))
    breaks = first & broken
    bit = torch.ones_like(z, dtype=torch.int32) << z.int()
    for columns in (terrain.solid, terrain.opaque, terrain.rubble):
        add_bits(columns, x, y, torch.where(breaks, -(columns_at(columns, x, y) & bit), 0))
    return state


def tear(state: State, impacts: Impacts, game: SimModel) -> None:
    """Remove every leaf that a shot passed: that around its muzzle, and those it entered."""
    if not game.leaf_rounds:
        return
    terrain, muzzle = state.terrain, bitten_voxel(impacts.start, impacts.direction, game)
    ways = impacts.start, impacts.point, impacts.flew
    clear_leaves(terrain.opaque, terrain.solid, muzzle, *ways, game.leaf_reach, game.leaf_rounds)


def bitten_voxel(point: Tensor, direction: Tensor, game: SimModel) -> Voxel:
    """`[B, S]` int64 x, y, z of the voxel just beyond a point on its face, kept inside the map."""
    world = game.config.world
    x, y, z = (point + SKIN_VOX * direction).floor().long().unbind(-1)
    return x.clamp(0, world.size_x - 1), y.clamp(0, world.size_y - 1), z.clamp(0, world.size_z - 1)


def lay_wrecks(state: State, luck: Tensor, priority: Tensor, game: SimModel) -> State:
    """Turn the hull of a dead mech into rubble, in the air and the dirt of its box and not where a living mech is.

    One wreck a battle and substep: of several dead the one of highest priority, the others in the substeps after.

    Args:
        luck: `[B, N]` uniforms in [0, 1): below a hull's chance its wreck is solid, else it burns.
        priority: `[B, N]` as in `movement.move`.
    """
    if not game.config.features.destruction:
        return state
    mechs, roster, terrain = state.mechs, game.roster, state.terrain
    waits = ~mechs.alive & ~mechs.wrecked
    rank, who = torch.where(waits, priority, -1.0).max(1, keepdim=True)  # [B, 1]
    lays = rank >= 0

    x, y, touched = hull_cells(mechs.pos, roster.half_size)  # [B, N, 25] each
    tall = height_bits(mechs.pos, roster.half_size)  # [B, N]
    of_wreck = who[..., None].expand(-1, -1, x.shape[-1])
    world = game.config.world
    at_x = x.gather(1, of_wreck).squeeze(1).clamp(0, world.size_x - 1)  # [B, 25]
    at_y = y.gather(1, of_wreck).squeeze(1).clamp(0, world.size_y - 1)
    in_box = touched.gather(1, of_wreck).squeeze(1)
    low_x, low_y, high_x, high_y = x[..., :1], y[..., :1], x[..., -1:], y[..., -1:]
    stands_there = (
        mechs.alive[..., None]
        & (at_x[:, None] >= low_x)
        & (at_x[:, None] <= high_x)
        & (at_y[:, None] >= low_y)
        & (at_y[:, None] <= high_y)
    )  # [B, N, 25]
    held = any_bit(torch.where(stands_there, tall[..., None], 0))

    taken = (
        columns_at(terrain.solid, at_x, at_y)
        | columns_at(terrain.opaque, at_x, at_y)
        | columns_at(terrain.rubble, at_x, at_y)
        | at_cells(game.maps.hazard, state.map_id, at_x, at_y)
    )
    bits = torch.where(in_box & lays, tall.gather(1, who) & ~taken & ~held, 0)
    stays_solid = luck.gather(1, who) < roster.wreck_chance[who]
    add_bits(terrain.rubble, at_x, at_y, bits)
    for columns in (terrain.solid, terrain.opaque):
        add_bits(columns, at_x, at_y, torch.where(stays_solid, bits, 0))

    is_who = torch.arange(roster.num_mechs, device=who.device) == who
    return state.replace(mechs=mechs.replace(wrecked=mechs.wrecked | (is_who & lays)))


def any_bit(columns: Tensor) -> Tensor:
    """`[B, R]` int32: bitwise or over the mechs of `[B, N, R]`, by halves."""
    while columns.shape[1] > 1:
        half = (columns.shape[1] + 1) // 2
        rest = torch.nn.functional.pad(columns[:, half:], (0, 0, 0, 2 * half - columns.shape[1]))
        columns = columns[:, :half] | rest
    return columns[:, 0]
