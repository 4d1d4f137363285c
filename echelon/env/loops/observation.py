"""Fill the streams of every mech: the loop form of `observation.build.observe`."""

from __future__ import annotations

from typing import Any, NamedTuple

from echelon.env.loops.records import ViewTables
from echelon.env.loops.sensing import perceive, prepare_viewers, sense_pairs
from echelon.env.loops.stream_arrays import Streams, clear_streams
from echelon.env.loops.streams.ego import find_missile_targets, find_way
from echelon.env.loops.streams.registry import show_streams
from echelon.runtime.jit import device_function
from echelon.sim.loops.fetching import cache_lines_each, fetch_cache_lines
from echelon.sim.loops.lanes import Lane, first, is_first, stride, wait
from echelon.sim.loops.records import Ground, Scratch
from echelon.sim.loops.tables import Tables


class Sources(NamedTuple):
    """Inputs of the streams' loops `show(n, sources, streams)`, for one battle."""

    arrays: Any
    """A `decision.BattleArrays`."""
    columns: Any
    """[Y * X] int32, the solid voxels of each terrain column."""
    field: Any
    """A `decision.MapArrays`."""
    scratch: Any
    """A `decision.Scratch`."""
    tables: Any
    views: Any
    """`records.ViewTables`."""


@device_function
def observe(
    arrays: Any,
    ground: Ground,
    field: Any,
    following: Any,
    scratch: Scratch,
    tables: Tables,
    views: ViewTables,
    streams: Streams,
    lane: Lane,
) -> None:
    """Fill a battle's streams and `arrays.focus_slots`; prefetch the terrain of the next battle, `following`."""
    rules, hulls, view, cockpits = tables.rules[0], tables.hulls, views.numbers[0], views.cockpits
    mechs, viewers, focus_slots = scratch.records.mechs, scratch.viewers, arrays.focus_slots
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        for slot in range(focus_slots.shape[1]):
            focus_slots[n, slot] = -1
        find_way(mechs[n], viewers[n], field, rules)
    prepare_viewers(scratch, hulls, cockpits, rules, view, lane)
    if is_first(lane):
        find_missile_targets(scratch.records.shots, tables.slots, tables.weapons, scratch.by_mech.missile_target)
    wait(lane)
    sense_pairs(ground.opaque, arrays.blocked_at, scratch, streams, rules, lane)
    clear_streams(streams, lane)
    wait(lane)
    perceive(scratch.by_mech, viewers, scratch.sights, hulls, view, lane)
    wait(lane)
    columns, of_ground = ground.solid.reshape(ground.solid.size), cache_lines_each(ground.solid, mechs.shape[0])
    sources = Sources(arrays, columns, field, scratch, tables, views)
    for n in range(first(lane), mechs.shape[0], stride(lane)):
        fetch_cache_lines(following.solid, n, of_ground, lane)
        fetch_cache_lines(following.opaque, n, of_ground, lane)
        for other in range(mechs.shape[0]):
            streams.clear_lines[n, other] = scratch.sights.line[n, other]
        show_streams(n, sources, streams)
