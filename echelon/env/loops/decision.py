"""One decision per battle, from the action to the observation, in the order of `env/decision.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

from echelon.env.loops.actions import decode, pass_messages
from echelon.env.loops.goals import score_goals
from echelon.env.loops.observation import observe
from echelon.env.loops.outcome import judge, update_last_event, write_outcome
from echelon.env.loops.records import ScoreTables, View, ViewTables
from echelon.env.loops.reward import mix_with_team, weighted_terms
from echelon.env.loops.stream_arrays import Streams
from echelon.env.loops.zone import score
from echelon.runtime.jit import ONE, ZERO, device_function, kernel
from echelon.sim.loops.fetching import fetch_ground
from echelon.sim.loops.lanes import Lane, is_first, wait
from echelon.sim.loops.log import LogArrays
from echelon.sim.loops.movement import update_headings
from echelon.sim.loops.packing import Records, read, row_picker, write
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


class Before(NamedTuple):
    """Fields of a state before a decision that rewards and outcomes compare, of all battles or of one."""

    hp: Any
    """[B, N], as all fields of mechs and of `Tally`, except `pos [B, N, 3]`."""
    pos: Any
    damage: Any
    kills: Any
    assists: Any
    zone_s: Any
    score: Any
    """[B, 1, 2]."""
    control: Any
    """[B, 1, 2]."""
    last_event: Any
    """[B]."""


class Results(NamedTuple):
    """Rewards and outcomes of all battles, for loops to write if a decision is played; see `DecisionResult`."""

    reward_terms: Any
    last_event: Any
    done: Any
    terminated: Any
    truncated: Any
    winner: Any
    reason: Any
    score: Any
    decisions: Any
    idle_s: Any


one_battle, one_map, one_shown = row_picker(BattleArrays), row_picker(MapArrays), row_picker(Streams)
one_before = row_picker(Before)


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


@device_function
def judge_and_reward(
    b: int,
    was: Before,
    field: Any,
    records: Records,
    tables: Tables,
    view: View,
    scores: ScoreTables,
    results: Results,
) -> None:
    """Apply `decision.judge_and_reward` to battle b, without statistics; `was` and `field` are its rows."""
    battle, mechs, tally, hulls = records.battles[0], records.mechs, records.tally, tables.hulls
    rules, codes, reward = tables.rules[0], scores.codes[0], scores.reward[0]
    results.last_event[b] = update_last_event(was.last_event, was.damage, was.score[0], battle, tally, field)
    verdict = judge(battle, mechs, hulls, field, rules, codes)
    write_outcome(b, battle, verdict, results, rules, codes)
    winner = results.winner[b, 0]
    lead = ONE if winner == codes.blue else -ONE if winner == codes.red else ZERO
    lead = lead if results.terminated[b, 0] else lead * ZERO
    rows = results.reward_terms[b]
    weighted_terms(was, battle, mechs, tally, hulls, field, lead, rows, reward, view)
    mix_with_team(rows, hulls, reward)


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
    was: Before,
    scores: ScoreTables,
    results: Results,
) -> None:
    """Play a decision of some battles if `plays`, judge and reward it, and fill the streams.

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
        was: fields of the state before, as in `before`.
        scores: constants.
        results: to write.
    """
    for b in range(battles[0], battles[1]):
        play_one(b, plays, actions, focus_slots, before, after, rest, maps, tables, views, scratch, shown, log, None)
        if plays:
            records, view = scratch.records, views.numbers[0]
            field = one_map(maps, records.battles[0].map_id)
            judge_and_reward(b, one_before(was, b), field, records, tables, view, scores, results)
