"""One decision per battle, from the action to the observation, in the order of `env/decision.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

from echelon.env.loops.actions import decode, pass_messages
from echelon.env.loops.goals import score_goals
from echelon.env.loops.observation import observe
from echelon.env.loops.records import ViewTables
from echelon.env.loops.stream_arrays import Streams
from echelon.env.loops.zone import score
from echelon.runtime.jit import device_function, kernel
from echelon.sim.loops.fetching import fetch_ground
from echelon.sim.loops.lanes import Lane, is_first, wait
from echelon.sim.loops.log import LogArrays
from echelon.sim.loops.movement import update_headings
from echelon.sim.loops.packing import read, row_picker, write
from echelon.sim.loops.records import Ground, Scratch
from echelon.sim.loops.step import decide
from echelon.sim.loops.tables import Tables


class BattleArrays(NamedTuple):
    """Tensors of a state that are in no record, of all battles or of one; loops write to them."""

    messages: Any
    """[B, N, comm_dim], written only if a decision is played."""
    focus_slots: Any
    """[B, N, PREFERENCES] int64."""
    solid: Any
    """[B, Y, X] int32; `opaque` and `rubble` have the same shape and type."""
    opaque: Any
    rubble: Any
    damage: Any
    """[B, Z, Y, X] uint8."""
    blocked_at: Any
    """[B, N, N] int16 with arbitrary values, not part of a state: `sight.is_clear` starts each pair's search there."""


class MapArrays(NamedTuple):
    """Fields of `state.Maps`, of all maps or of one map."""

    material: Any
    solid: Any
    opaque: Any
    hazard: Any
    zone_center: Any
    zone_radius: Any
    path_length: Any
    path_direction: Any
    second_center: Any
    second_radius: Any
    control_rate: Any
    clock_rate: Any
    last_tick: Any
    runner: Any
    arrival_score: Any
    loss_score: Any


one_battle, one_map, one_shown = row_picker(BattleArrays), row_picker(MapArrays), row_picker(Streams)


@device_function
def play_one(
    b: int,
    plays: bool,
    actions: Any,
    focus_slots: Any,
    before: Any,
    after: Any,
    rest: BattleArrays,
    maps: MapArrays,
    tables: Tables,
    views: ViewTables,
    scratch: Scratch,
    shown: Any,
    log: LogArrays,
    lane: Lane,
) -> None:
    """Play a decision of battle b if `plays`, and fill its streams; arguments as in `decision_loop`, plus the lane."""
    rules, hulls, view, at = tables.rules[0], tables.hulls, views.numbers[0], views.action[0]
    records = scratch.records
    battle, mechs, tally = records.battles[0], records.mechs, records.tally
    read(b, before, records, lane)
    update_headings(mechs, scratch.boxes, lane)
    wait(lane)
    arrays, field, streams = one_battle(rest, b), one_map(maps, battle.map_id), one_shown(shown, b)
    terrain = arrays.solid, arrays.opaque, arrays.rubble, arrays.damage
    ground = Ground(*terrain, field.material, field.solid, field.opaque, field.hazard)
    fetch_ground(mechs, hulls, ground, field, rules, lane)
    decode(actions[b], focus_slots[b], scratch.orders, tally, hulls, at, rules, lane)
    wait(lane)
    if plays:
        decide(b, len(actions), scratch, ground, tables, log, lane)
        pass_messages(actions[b], mechs, arrays.messages, at, rules, lane)
        if is_first(lane):
            score(battle, mechs, tally, hulls, field, view)
            score_goals(battle, mechs, tally, hulls, field)
        wait(lane)
    following = min(b + 1, len(actions) - 1)
    observe(arrays, ground, field, one_battle(rest, following), scratch, tables, views, streams, lane)
    wait(lane)
    write(b, after, records, lane)


@kernel
def decision_loop(
    plays: bool,
    battles: tuple[int, int],
    actions: Any,
    focus_slots: Any,
    before: Any,
    after: Any,
    rest: BattleArrays,
    maps: MapArrays,
    tables: Tables,
    views: ViewTables,
    scratch: Scratch,
    shown: Any,
    log: LogArrays,
) -> None:
    """Play a decision of some battles if `plays`, and fill the streams.

    Args:
        plays: whether to play a decision before observing.
        battles: index of the first battle, and index after the last one.
        actions: `[B, N, D]` float32; their emitters and sort modes affect the streams even if nothing is played.
        focus_slots: contact slots of the state before.
        before, after: fields of the state as `packing.Parts`, to read and to write.
        rest: the other tensors of the state.
        maps: M maps.
        tables, views: constants.
        scratch: scratch memory.
        shown: `Streams` with arbitrary values, to write.
        log: receives the events of each substep, if it has room.
    """
    for b in range(battles[0], battles[1]):
        play_one(b, plays, actions, focus_slots, before, after, rest, maps, tables, views, scratch, shown, log, None)
