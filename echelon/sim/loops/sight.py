"""Clear lines between mechs: terrain and smoke. See `sim/sight.py`."""

from typing import Any

import numpy as np

from echelon.runtime.jit import HALF, INFINITY, device_function
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import distance_sq, length_3
from echelon.sim.loops.records import Columns, Rules, Scratch
from echelon.sim.loops.segments import first_on_segment

projects_between = device_function(formulas.projects_between)


@device_function
def is_in_smoke(a: Any, b: Any, apart: Any, radius_sq: Any) -> Any:
    """Return True if a cloud lies between two points, given squared distances as in `formulas.projects_between`."""
    return (a < radius_sq) | (b < radius_sq) | projects_between(a, b, apart, radius_sq, HALF)


@device_function
def find_clouds(scratch: Scratch, rules: Rules) -> None:
    """List the active clouds, for `is_smoky`. All lanes (GPU threads) run this loop and write the same values."""
    clouds, battle, count = scratch.records.clouds, scratch.records.battles[0], 0
    if rules.smokes:
        for slot in range(clouds.shape[0]):
            if clouds[slot].ttl > 0:
                scratch.active_clouds[count] = slot
                count += 1
    battle.num_active_clouds = count


@device_function
def is_smoky(one: Any, two: Any, scratch: Scratch, rules: Rules) -> Any:
    """Numba version of `crosses_smoke`, for one pair of mechs."""
    separation_sq = distance_sq(two.pos, one.pos)
    for index in range(scratch.records.battles[0].num_active_clouds):
        cloud = scratch.records.clouds[np.uint32(scratch.active_clouds[index])]
        a, b = distance_sq(cloud.pos, one.pos), distance_sq(cloud.pos, two.pos)
        if is_in_smoke(a, b, separation_sq, rules.cloud_vox_sq):
            return True
    return False


@device_function
def has_line(one: int, other: int, scratch: Scratch, opaque: Columns, rules: Rules) -> Any:
    """Numba version of `sight.enemy_lines`, for one pair of living mechs. The result is cached in `lines`."""
    mechs, lines = scratch.records.mechs, scratch.lines
    low, high = min(one, other), max(one, other)
    pair = low * mechs.shape[0] + high
    if lines[pair] < 0:
        start, end = mechs[low].pos, mechs[high].pos
        clear = length_3(end[0] - start[0], end[1] - start[1], end[2] - start[2]) <= rules.line_vox
        if clear:
            x, y, z, planes = start[0], start[1], start[2], rules.sight_planes
            clear = first_on_segment(opaque, x, y, z, end[0], end[1], end[2], planes, False, True) == INFINITY
        if clear:
            clear = not is_smoky(mechs[low], mechs[high], scratch, rules)
        lines[pair] = 1 if clear else 0
    return lines[pair] == 1
