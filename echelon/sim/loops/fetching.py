"""Prefetching of memory into a CPU's caches before loops read it.

The terrain and the observations of most battles are not in the cache. Cache lines are prefetched a few at a time,
because a processor stalls if too many prefetches are pending. Prefetching changes no results. A GPU needs no
prefetching, because it hides latency by switching warps.
"""

from typing import Any

from echelon.runtime.jit import device_function, prefetch
from echelon.sim.loops.lanes import Lane
from echelon.sim.loops.records import Ground, Hulls, Mechs, Rules
from echelon.sim.loops.terrain import voxel_below


@device_function
def cache_lines_each(values: Any, shares: int) -> int:
    """Return the number of cache lines per chunk if an array is split into `shares` chunks."""
    return (values.size * values.itemsize + 64 * shares - 1) // (64 * shares)


@device_function
def fetch_cache_lines(values: Any, k: int, each: int, lane: Lane) -> None:
    """Prefetch chunk `k` of an array, with `each` cache lines per chunk. Chunks after the last cache line are empty."""
    if lane is None:
        for line in range(k * each, min((k + 1) * each, cache_lines_each(values, 1))):
            prefetch(values, 64 * line)


@device_function
def fetch_ground(mechs: Mechs, hulls: Hulls, ground: Ground, field: Any, rules: Rules, lane: Lane) -> None:
    """Prefetch the map data of the voxel that each mech stands in, except `solid` and `opaque`."""
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
