"""Terrain lookups: the voxel that a mech stands in. See `sim/terrain.py`."""

from typing import Any

import numpy as np

from echelon.runtime.jit import device_function
from echelon.sim.loops.arithmetic import bits_between, cell_span, clamped
from echelon.sim.loops.lanes import Lane, first, stride
from echelon.sim.loops.records import Ground, Hull, Mech, Mechs, Rules


@device_function
def material_at(x: int, y: int, z: int, ground: Ground, rules: Rules) -> Any:
    """Numba version of `terrain.material_at`, for one voxel within the map."""
    made_of = int(ground.material[z, y, x])
    if rules.destroys:
        bit = np.int32(1) << np.int32(z)
        if ground.rubble[y, x] & bit:
            made_of = rules.solid_debris if ground.solid[y, x] & bit else rules.debris_field
        elif made_of != rules.air:
            # Air cannot be removed, so skip these slow lookups for air: the columns are seldom in the CPU cache.
            torn = ground.was_solid[y, x] & ~ground.solid[y, x] | ground.was_opaque[y, x] & ~ground.opaque[y, x]
            if torn & bit:
                made_of = rules.air
    return made_of


@device_function
def voxel_below(mech: Mech, hull: Hull, rules: Rules) -> Any:
    """Return x, y and z of the voxel that a mech stands in."""
    x = clamped(int(np.floor(mech.pos[0])), rules.size[0] - 1)
    y = clamped(int(np.floor(mech.pos[1])), rules.size[1] - 1)
    z = clamped(int(np.floor(mech.pos[2] - hull.half_size[2])), rules.size[2] - 1)
    return x, y, z


@device_function
def find_ground(mech: Mech, hull: Hull, ground: Ground, rules: Rules) -> None:
    """Numba version of `terrain.standing_on`, for one mech. The result is cached until the voxel or the terrain
    changes."""
    x, y, z = voxel_below(mech, hull, rules)
    voxel = 1 + (z * rules.size[1] + y) * rules.size[0] + x
    if voxel != mech.stands_in:
        mech.stands_in, mech.stands_on = voxel, material_at(x, y, z, ground, rules)


@device_function
def invalidate_ground(mechs: Mechs, lane: Lane) -> None:
    """Invalidate the terrain caches of all mechs, because solid voxels or rubble have changed.

    No call is needed after foliage was removed, because foliage does not block hulls and has no heat or damage.
    """
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        mechs[n].stands_in = 0
        mechs[n].columns = 0


@device_function
def height_bits(z: Any, hull: Hull) -> Any:
    """Numba version of `terrain.height_bits`, for one hull at a height."""
    first, last = cell_span(z, hull.half_size[2], 30)
    return bits_between(first, last)
