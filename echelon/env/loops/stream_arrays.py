"""Arrays of the streams that loops fill, and loops over all streams, generated from the registry of streams."""

from __future__ import annotations

import collections
from typing import Any

from echelon.env.observation.streams.registry import OF_MECHS, names_of
from echelon.runtime.jit import ZERO, device_function
from echelon.sim.loops.fetching import cache_lines_each, fetch_cache_lines
from echelon.sim.loops.lanes import Lane, first, stride

FILLED = tuple(stream for stream in OF_MECHS if stream.dense is not None)
"""The streams of mechs that loops fill, each by the loop of the same name in `loops/streams/`."""
NAMES = names_of(FILLED)
EXTRA = ("contact_mechs", "clear_lines")
"""Further arrays that `observe` returns."""
make_tuple: Any = collections.namedtuple
Streams: Any = make_tuple("Streams", (*NAMES, *EXTRA))
"""Streams by name, `[B, N, ...]` of all battles or `[N, ...]` of one. A grid's cells are flattened to one axis."""


@device_function
def fill(values: Any, number: Any, lane: Lane) -> None:
    """Set all `values` to `number`."""
    flat = values.reshape(values.size)
    for i in range(first(lane), values.size, stride(lane)):
        flat[i] = number


def loop_from_source(source: str, **names: Any) -> Any:
    """Return the function in `source` as a loop. Numba accesses tuple fields by constant names only, hence `exec`."""
    names |= {"__name__": __name__}
    exec(source, names)
    return device_function(names["loop"])


cleared = {stream.name: "ZERO" for stream in FILLED if not stream.is_grid}
cleared |= {mask: "False" for stream in FILLED for mask in stream.names[1:]}
clearing = "; ".join(f"fill(streams.{name}, {number}, lane)" for name, number in cleared.items())
clear_streams = loop_from_source(
    f"def loop(streams, lane): {clearing}; fill(streams.contact_mechs, -1, lane)", fill=fill, ZERO=ZERO
)
"""Clear the streams of one battle, except grids, whose loops write every cell."""
counts = ", ".join(f"cache_lines_each(streams.{name}, shares)" for name in NAMES)
lines_each = loop_from_source(f"def loop(streams, shares): return {counts},", cache_lines_each=cache_lines_each)
"""Return the number of cache lines per chunk for each stream of a battle, when split into `shares` chunks."""
fetching = "; ".join(f"fetch_cache_lines(streams.{name}, k, each[{i}], lane)" for i, name in enumerate(NAMES))
fetch_streams = loop_from_source(f"def loop(streams, k, each, lane): {fetching}", fetch_cache_lines=fetch_cache_lines)
"""Prefetch chunk k of all streams of a battle; `each` is the result of `lines_each`."""
