"""Changes of the terrain: damaged voxels, foliage and wrecks. See `sim/rubble.py`."""

from typing import Any

import numpy as np

from echelon.runtime.jit import INFINITY, ONE, ZERO, device_function
from echelon.sim.loops.arithmetic import clamped, on_grid, stream_key, uniform
from echelon.sim.loops.records import BattleRow, Columns, Ground, Hulls, Impact, Impacts, Mechs, Rules, Slots, Weapons
from echelon.sim.loops.segments import clear_on_segment
from echelon.sim.loops.terrain import height_bits, invalidate_ground, material_at


@device_function
def voxel_behind(point: Any, direction: Any, axis: int, rules: Rules) -> Any:
    """Numba version of `rubble.voxel_behind`, for one axis."""
    return clamped(int(np.floor(point[axis] + rules.skin_vox * direction[axis])), rules.size[axis] - 1)


@device_function
def clear_foliage(impact: Impact, planes: int, ground: Ground, rules: Rules) -> None:
    """Numba version of `rubble.clear_foliage`, for one shot."""
    x = voxel_behind(impact.start, impact.direction, 0, rules)
    y = voxel_behind(impact.start, impact.direction, 1, rules)
    z = voxel_behind(impact.start, impact.direction, 2, rules)
    clear_on_segment(ground.opaque, ground.solid, x, y, z, impact.start, impact.point, planes)


@device_function
def total_by_voxel(k: int, flew: int, x: int, y: int, z: int, impacts: Impacts, weapons: Weapons, rules: Rules) -> Any:
    """Numba version of `rubble.total_by_voxel`, for the voxel that impact k hit. Returns -1 if an earlier impact hit
    the same voxel."""
    total = 0.0
    for other in range(flew):
        impact = impacts[other]
        if (
            impact.on_voxel
            and voxel_behind(impact.point, impact.direction, 0, rules) == x
            and voxel_behind(impact.point, impact.direction, 1, rules) == y
            and voxel_behind(impact.point, impact.direction, 2, rules) == z
        ):
            if other < k:
                return -ONE
            total += on_grid(weapons[impact.weapon].damage)
    return np.float32(total)


@device_function
def damage_voxel(
    k: int, flew: int, impacts: Impacts, weapons: Weapons, mechs: Mechs, ground: Ground, rules: Rules
) -> None:
    """If impact k is the first impact on its voxel, apply the damage of all impacts on this voxel."""
    x = voxel_behind(impacts[k].point, impacts[k].direction, 0, rules)
    y = voxel_behind(impacts[k].point, impacts[k].direction, 1, rules)
    z = voxel_behind(impacts[k].point, impacts[k].direction, 2, rules)
    bit = np.int32(1) << np.int32(z)
    if not ground.solid[y, x] & bit:
        return
    bites = total_by_voxel(k, flew, x, y, z, impacts, weapons, rules)
    if bites < ZERO:
        return
    worn = np.float32(ground.damage[z, y, x]) + bites
    hp = rules.material_hp[material_at(x, y, z, ground, rules)]
    ground.damage[z, y, x] = 0
    if bites > ZERO and worn >= hp:
        ground.solid[y, x] &= ~bit
        ground.opaque[y, x] &= ~bit
        ground.rubble[y, x] &= ~bit
        invalidate_ground(mechs, None)
    elif hp < INFINITY:
        ground.damage[z, y, x] = np.uint8(worn)


@device_function
def damage_voxels(
    impacts: Impacts, flew: int, slots: Slots, weapons: Weapons, mechs: Mechs, ground: Ground, rules: Rules
) -> None:
    """Numba version of `rubble.damage_voxels`."""
    if rules.destroys:
        for k in range(flew):
            if rules.tears:
                clear_foliage(impacts[k], slots[impacts[k].slot].planes, ground, rules)
        for k in range(flew):
            if impacts[k].on_voxel:
                damage_voxel(k, flew, impacts, weapons, mechs, ground, rules)


@device_function
def living_bits(x: int, y: int, mechs: Mechs, hulls: Hulls) -> Any:
    """Numba version of `rubble.living_bits`, for one column."""
    bits = np.int32(0)
    for n in range(mechs.shape[0]):
        mech, half = mechs[n], hulls[n].half_size
        if mech.hp <= ZERO:
            continue
        if x < int(np.floor(mech.pos[0] - half[0])) or x > int(np.ceil(mech.pos[0] + half[0])) - 1:
            continue
        if y < int(np.floor(mech.pos[1] - half[1])) or y > int(np.ceil(mech.pos[1] + half[1])) - 1:
            continue
        bits |= height_bits(mech.pos[2], hulls[n])
    return bits


@device_function
def resting_bits(solid: Columns, tall: Any) -> Any:
    """Numba version of `rubble.resting_bits`, for one column."""
    below = solid & ((tall & -tall) - 1)
    for shift in (1, 2, 4, 8, 16):
        below = below | (below >> shift)
    return np.int32(below + 1)


@device_function
def lay_one(n: int, stays_solid: Any, mechs: Mechs, hulls: Hulls, ground: Ground) -> None:
    """Fill the voxels under a destroyed mech with its wreck."""
    mech, half = mechs[n], hulls[n].half_size
    solid, opaque, rubble = ground.solid, ground.opaque, ground.rubble
    tall = height_bits(mech.pos[2], hulls[n])
    top_y, top_x = solid.shape[0] - 1, solid.shape[1] - 1
    for row in range(int(np.floor(mech.pos[1] - half[1])), int(np.ceil(mech.pos[1] + half[1]))):
        for column in range(int(np.floor(mech.pos[0] - half[0])), int(np.ceil(mech.pos[0] + half[0]))):
            x, y = clamped(column, top_x), clamped(row, top_y)
            resting = resting_bits(solid[y, x], tall)
            filled = solid[y, x] | opaque[y, x] | rubble[y, x] | ground.hazard[y, x] | living_bits(x, y, mechs, hulls)
            bits = np.int32(resting & ~filled & ~(resting & (rubble[y, x] << 1)))
            rubble[y, x] |= bits
            if stays_solid:
                solid[y, x] |= bits
                opaque[y, x] |= bits


@device_function
def next_wreck(mechs: Mechs) -> Any:
    """Numba version of `rubble.next_wreck`. Returns the index of the mech, -1 for none."""
    rank, best = -ONE, -1
    for n in range(mechs.shape[0]):
        if mechs[n].hp <= ZERO and not mechs[n].wrecked and mechs[n].priority > rank:
            rank = mechs[n].priority
            best = n
    return best


@device_function
def lay_wrecks(battle: BattleRow, mechs: Mechs, hulls: Hulls, ground: Ground, rules: Rules) -> None:
    """Numba version of `rubble.lay_wrecks`."""
    mech = next_wreck(mechs)
    if mech >= 0 and rules.destroys:
        luck = uniform(stream_key(battle, rules.wreck_stream), mech)
        lay_one(mech, luck < hulls[mech].wreck_chance, mechs, hulls, ground)
        mechs[mech].wrecked = True
        invalidate_ground(mechs, None)
