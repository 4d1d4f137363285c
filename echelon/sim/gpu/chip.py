"""`rubble.chip` as one kernel: shots clear foliage and bite voxels. Its programs leave at once where nothing flies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl
from torch import Tensor

from echelon.rules.catalog import Material
from echelon.runtime.geometry import TINY
from echelon.sim.gpu.ground import cells_gone, clamped, segment_axis
from echelon.sim.gpu.launch import launch, operator
from echelon.sim.kernels.segments import TOP_Z
from echelon.sim.model import SimModel
from echelon.state import State

if TYPE_CHECKING:
    from echelon.sim.shots import Impacts


def chip(state: State, impacts: Impacts, skin_vox: float, game: SimModel) -> None:
    """Change the terrain of `state` in place, as `rubble.chip` does; `skin_vox` is that of `rubble.bitten_voxel`."""
    ground, maps, roster = state.terrain, game.maps, game.roster
    flights = impacts.start, impacts.point, impacts.direction, impacts.flew, impacts.on_voxel
    _chip_op(
        *(ground.solid, ground.opaque, ground.rubble, ground.damage),
        *(maps.solid, maps.opaque, maps.material, state.map_id),
        *(flight.contiguous() for flight in flights),
        *(roster.shots.damage, game.leaf_reach, game.material_hp),
        *(len(game.leaf_rounds), game.config.world.size_z, skin_vox),
    )


@operator("chip", ("solid", "opaque", "rubble", "damage"))
def _chip_op(
    solid: Tensor,
    opaque: Tensor,
    rubble: Tensor,
    damage: Tensor,
    was_solid: Tensor,
    was_opaque: Tensor,
    material: Tensor,
    map_id: Tensor,
    start: Tensor,
    point: Tensor,
    direction: Tensor,
    flew: Tensor,
    on_voxel: Tensor,
    bite: Tensor,
    leaf_reach: Tensor,
    material_hp: Tensor,
    rounds: int,
    size_z: int,
    skin_vox: float,
) -> None:
    battles, shots = flew.shape
    launch(
        _chip,
        battles,
        solid.device,
        *(solid, opaque, rubble, damage, was_solid, was_opaque, material, map_id),
        *(start, point, direction, flew, on_voxel, bite, leaf_reach, material_hp, rounds, skin_vox),
        **{"size_x": solid.shape[2], "size_y": solid.shape[1], "size_z": size_z},
        top_z=float(TOP_Z),
        tiny=TINY,
        **{"air": int(Material.AIR), "solid_debris": int(Material.SOLID_DEBRIS)},
        **{"debris_field": int(Material.DEBRIS_FIELD), "shots": shots},
        lanes=triton.next_power_of_2(shots),
    )


@_chip_op.register_fake
def _(*facts: Tensor | float) -> None:
    return None


@triton.jit
def _bitten(point, direction, row, axis: tl.constexpr, size: tl.constexpr, skin, there):  # type: ignore[no-untyped-def]
    """`rubble.bitten_voxel` along one axis."""
    ahead = tl.load(point + row * 3 + axis, there, 0.0) + skin * tl.load(direction + row * 3 + axis, there, 0.0)
    return clamped(tl.floor(ahead).to(tl.int32), 0, size - 1)


@triton.jit
def _clear(opaque, solid, x, y, z, here, size_x):  # type: ignore[no-untyped-def]
    """Remove the leaves of the voxels `here`: bits that are set in `opaque` and not in `solid`."""
    at = y.to(tl.int32) * size_x + x.to(tl.int32)
    leaf = tl.load(opaque + at, here, 0) & ~tl.load(solid + at, here, 0) & (1 << z.to(tl.int32))
    tl.atomic_and(opaque + at, ~leaf, here & (leaf != 0))


@triton.jit
def _clear_on_way(  # type: ignore[no-untyped-def]
    opaque,
    solid,
    start,
    point,
    row,
    flies,
    reach,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    top_z: tl.constexpr,
    tiny: tl.constexpr,
):
    """Remove the leaves of the voxels that shots enter, up to `reach` along each axis."""
    ab, al, ac, ag, an = segment_axis(
        tl.load(start + row * 3, flies, 0.0), tl.load(point + row * 3, flies, 0.0), size_x - 1.0
    )
    bb, bl, bc, bg, bn = segment_axis(
        tl.load(start + row * 3 + 1, flies, 0.0), tl.load(point + row * 3 + 1, flies, 0.0), size_y - 1.0
    )
    cb, cl, cc, cg, cn = segment_axis(
        tl.load(start + row * 3 + 2, flies, 0.0), tl.load(point + row * 3 + 2, flies, 0.0), top_z
    )
    longest = tl.minimum(tl.maximum(tl.maximum(an, bn), cn).to(tl.int32), reach.to(tl.int32))
    for count in range(1, tl.max(tl.where(flies, longest, 0), 0) + 1):
        goes = flies & (count <= reach)
        t = tl.minimum((count - ab) / tl.maximum(al, tiny), 1.0)
        y, z = bc + bg * cells_gone(t, bb, bl, bn), cc + cg * cells_gone(t, cb, cl, cn)
        _clear(opaque, solid, ac + ag * count, y, z, goes & (count <= an), size_x)
        t = tl.minimum((count - bb) / tl.maximum(bl, tiny), 1.0)
        x, z = ac + ag * cells_gone(t, ab, al, an), cc + cg * cells_gone(t, cb, cl, cn)
        _clear(opaque, solid, x, bc + bg * count, z, goes & (count <= bn), size_x)
        t = tl.minimum((count - cb) / tl.maximum(cl, tiny), 1.0)
        x, y = ac + ag * cells_gone(t, ab, al, an), bc + bg * cells_gone(t, bb, bl, bn)
        _clear(opaque, solid, x, y, cc + cg * count, goes & (count <= cn), size_x)


@triton.jit
def _chip(  # type: ignore[no-untyped-def]
    solid,
    opaque,
    rubble,
    damage,
    was_solid,
    was_opaque,
    material,
    map_id,
    start,
    point,
    direction,
    flew,
    on_voxel,
    bite,
    leaf_reach,
    material_hp,
    rounds,
    skin,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    size_z: tl.constexpr,
    top_z: tl.constexpr,
    tiny: tl.constexpr,
    air: tl.constexpr,
    solid_debris: tl.constexpr,
    debris_field: tl.constexpr,
    shots: tl.constexpr,
    lanes: tl.constexpr,
):
    """The program of a battle. Long because each tensor and each step of the system is told."""
    battle, shot = tl.program_id(0).to(tl.int64), tl.arange(0, lanes)
    there = shot < shots
    row = battle * shots + shot
    flies = tl.load(flew + row, there, 0) != 0
    if tl.max(flies.to(tl.int32), 0) == 0:
        return
    own = battle * (size_x * size_y)
    solid, opaque, rubble = solid + own, opaque + own, rubble + own
    if rounds > 0:
        x, y = (
            _bitten(start, direction, row, 0, size_x, skin, flies),
            _bitten(start, direction, row, 1, size_y, skin, flies),
        )
        _clear(opaque, solid, x, y, _bitten(start, direction, row, 2, size_z, skin, flies), flies, size_x)
        reach = tl.load(leaf_reach + shot, there, 0)
        _clear_on_way(opaque, solid, start, point, row, flies, reach, size_x, size_y, top_z, tiny)
        tl.debug_barrier()
    hit = tl.load(on_voxel + row, there, 0) != 0
    if tl.max(hit.to(tl.int32), 0) == 0:
        return
    x, y = _bitten(point, direction, row, 0, size_x, skin, hit), _bitten(point, direction, row, 1, size_y, skin, hit)
    z = _bitten(point, direction, row, 2, size_z, skin, hit)
    ground, bit = y * size_x + x, 1 << z
    stands = tl.load(solid + ground, hit, 0) & bit
    bites = hit & (stands != 0)
    voxel = z * (size_x * size_y) + ground
    same = (voxel[:, None] == voxel[None, :]) & bites[None, :]
    # Multiples of 2^-24, which float64 adds up without rounding.
    weight = (tl.load(bite + shot, there, 0.0).to(tl.float64) + 402653184.0) - 402653184.0
    bitten = tl.sum(tl.where(same, weight[None, :], 0.0), 1).to(tl.float32)
    follows = tl.max((same & (shot[None, :] < shot[:, None])).to(tl.int32), 1) != 0
    first = bites & ~follows

    place = battle * (size_x * size_y * size_z) + voxel
    on_map = tl.load(map_id + battle)
    ground_of_map = on_map * (size_x * size_y) + ground
    gone = (tl.load(was_solid + ground_of_map, first, 0) & bit & ~stands) != 0
    hides = tl.load(opaque + ground, first, 0) & bit
    gone = gone | ((tl.load(was_opaque + ground_of_map, first, 0) & bit & ~hides) != 0)
    filled = (tl.load(rubble + ground, first, 0) & bit) != 0
    made_of = tl.load(material + on_map * (size_x * size_y * size_z) + voxel, first, 0).to(tl.int32)
    rest = tl.where(stands != 0, solid_debris, debris_field)
    hp = tl.load(material_hp + tl.where(filled, rest, tl.where(gone, air, made_of)), first, 1.0)

    worn = tl.load(damage + place, first, 0).to(tl.float32) + bitten
    broken = first & (bitten > 0.0) & (worn >= hp)
    left = tl.where(broken | (hp == float("inf")), 0.0, worn)
    tl.debug_barrier()
    tl.store(damage + place, left.to(tl.uint8), first)
    tl.atomic_and(solid + ground, ~bit, broken)
    tl.atomic_and(opaque + ground, ~bit, broken)
    tl.atomic_and(rubble + ground, ~bit, broken)
