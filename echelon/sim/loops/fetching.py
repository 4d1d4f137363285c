"""Memory that a CPU fetches into its caches before loops ask for it: the ground of most battles lies outside of them,
and so does what they are to be shown. A few lines at a time, for a processor waits where it has asked for many.

Nothing waits for what is fetched, and nothing is different for it. A GPU has other warps to go on with.
"""

from typing import Any

from echelon.runtime.jit import device_function, prefetch
from echelon.sim.loops.lanes import Lane
from echelon.sim.loops.records import Ground, Hulls, Mechs, Rules
from echelon.sim.loops.terrain import voxel_below


@device_function
def cache_lines_each(values: Any, shares: int) -> int:
    """How many lines of an array a share of so many takes."""
    return (values.size * values.itemsize + 64 * shares - 1) // (64 * shares)


@device_function
def fetch_cache_lines(values: Any, k: int, each: int, lane: Lane) -> None:
    """Fetch share k of an array, of so many lines each; shares after the last line are empty."""
    if lane is None:
        for line in range(k * each, min((k + 1) * each, cache_lines_each(values, 1))):
            prefetch(values, 64 * line)


@device_function
def fetch_ground(mechs: Mechs, hulls: Hulls, ground: Ground, field: Any, rules: Rules, lane: Lane) -> None:
    """Fetch what all mechs are to know of the voxel that they stand in, but for `solid` and `opaque`."""
    if lane is None:
        for n in range(mechs.shape[0]):
            x, y, z = voxel_below(mechs[n], hulls[n], rules)
            column = y * rules.size[0] + x
            prefetch(ground.material, (z * rules.size[1] + y) * rules.size[0] + x)
            prefetch(ground.rubble, 4 * column)
            prefetch(ground.was_solid, 4 * column)
            prefetch(ground.was_opaque, 4 * column)
            prefetch(field.path_length, 4 * column)
            prefetch(field.path_direction, 8 * column)
