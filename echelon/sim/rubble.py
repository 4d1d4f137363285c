"""How battles change their ground: shots break voxels and tear leaves, the dead leave wrecks.

These functions write `state.terrain` in place. Columns change by adding integers, each bit once, and rows that name the
same voxel write the same number to it: which of several comes first changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.runtime import exact
from echelon.sim.model import SimModel
from echelon.sim.movement import hull_cells
from echelon.sim.shots import SKIN_VOX, Impacts
from echelon.sim.terrain import (
    HAS_LOOPS,
    at_cells,
    columns_at,
    cross,
    has_bit,
    height_bits,
    loops_on,
    map_size,
    material_at,
    rays,
)
from echelon.state import State, Terrain

if HAS_LOOPS:
    from echelon.sim.lines import strip
    from echelon.sim.loops import pile


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
    bite, first = fall_together((x, y, z), bites, game.roster.shots.damage, game)  # [B, S] each

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
    if loops_on(terrain.opaque.device):
        voxel, flew = torch.stack(muzzle, -1), impacts.flew
        strip(terrain.opaque, terrain.solid, voxel, impacts.start, impacts.point, flew, game.leaf_reach)
        return
    tear_in_closed_form(terrain, muzzle, impacts, game)


def tear_in_closed_form(
    terrain: Terrain, muzzle: tuple[Tensor, Tensor, Tensor], impacts: Impacts, game: SimModel
) -> None:
    """`tear` by one crossing of every shot after the other; `muzzle` are the voxels around their starts."""
    tear_at(terrain, muzzle, impacts.flew, game)
    for before, slots in enumerate(game.leaf_rounds):
        start, point = impacts.start[:, slots], impacts.point[:, slots]
        ray = rays(start.unbind(-1), point.unbind(-1), map_size(terrain.solid))
        for axis in range(3):
            crossing = cross(ray, axis, before + 1)
            voxel = (crossing.x.long(), crossing.y.long(), crossing.z.long())
            tear_at(terrain, voxel, impacts.flew[:, slots] & crossing.enters, game)


def tear_at(terrain: Terrain, voxel: tuple[Tensor, Tensor, Tensor], passes: Tensor, game: SimModel) -> None:
    """Remove the leaves of the voxels `[B, R]` that shots pass, `[B, R]` bool."""
    x, y, z = voxel
    bit = torch.ones_like(z, dtype=torch.int32) << z.int()
    leaf = (columns_at(terrain.opaque, x, y) & ~columns_at(terrain.solid, x, y) & bit) != 0
    tears = passes & leaf
    _, first = fall_together(voxel, tears, torch.ones_like(x[0], dtype=torch.float32), game)
    add_bits(terrain.opaque, x, y, torch.where(first, -bit, 0))


def bitten_voxel(point: Tensor, direction: Tensor, game: SimModel) -> tuple[Tensor, Tensor, Tensor]:
    """`[B, S]` int64 x, y, z of the voxel just beyond a point on its face, kept inside the map."""
    world = game.config.world
    x, y, z = (point + SKIN_VOX * direction).floor().long().unbind(-1)
    return x.clamp(0, world.size_x - 1), y.clamp(0, world.size_y - 1), z.clamp(0, world.size_z - 1)


def fall_together(
    voxel: tuple[Tensor, Tensor, Tensor], counts: Tensor, weight: Tensor, game: SimModel
) -> tuple[Tensor, Tensor]:
    """What falls on the voxel of each row, of the rows that count, and whether a row that counts is the first there.

    Args:
        voxel: x, y, z, `[B, S]` each.
        counts: `[B, S]` bool.
        weight: `[S]`.

    Returns:
        `[B, S]` the weights of all rows that count and name the same voxel, and `[B, S]` bool.
    """
    x, y, z = voxel
    world = game.config.world
    named = ((z * world.size_y + y) * world.size_x + x).int()
    if loops_on(named.device):
        return pile(named, counts, weight)
    return held_together(named, counts, weight)


def held_together(voxel: Tensor, counts: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """`fall_together` for `voxel [B, S]` int32, every row held against every other."""
    same = (voxel[:, :, None] == voxel[:, None]) & counts[:, None]  # [B, S, S]
    row = torch.arange(voxel.shape[1], device=voxel.device)
    earlier = row < row[:, None]
    return exact.sum(same * weight, -1), counts & ~(same & earlier).any(-1)


def add_bits(columns: Tensor, x: Tensor, y: Tensor, bits: Tensor) -> None:
    """Add `bits [B, R]` int32 to `columns [B, Y, X]`, in place."""
    own = torch.arange(x.shape[0], device=x.device)[:, None]
    columns.index_put_((own, y, x), bits.to(torch.int32), accumulate=True)


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
