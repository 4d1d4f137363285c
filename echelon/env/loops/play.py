"""A decision of all battles in loops, divided among the threads of a CPU."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from echelon.env.blocks import Blocks
from echelon.env.decision import DecisionResult
from echelon.env.loops.decision import BattleArrays, Before, MapArrays, Results, decision_loop
from echelon.env.loops.records import VIEWER, build_score_tables, build_view_tables
from echelon.env.loops.rows import rows_where
from echelon.env.loops.sensing import perception_scratch
from echelon.env.loops.stream_arrays import FILLED, Streams
from echelon.env.loops.streams.local_map import surroundings
from echelon.env.observation import layout
from echelon.env.observation.stream import Observation
from echelon.env.observation.streams.contacts import num_slots
from echelon.env.observation.streams.registry import add_streams
from echelon.env.outcome import stat_names, statistics
from echelon.env.reward import TERMS
from echelon.env.specs import DONE_KEYS
from echelon.rules.actions import CONTROLS
from echelon.runtime.jit import array, shared, tensor
from echelon.sim.loops.log import empty_log, substeps_of
from echelon.sim.loops.movement import boxes_scratch
from echelon.sim.loops.packing import (
    FIELDS,
    PARTS,
    Parts,
    as_in_state,
    empty_records,
    fields_of,
    leaves_of_parts,
    state_with,
)
from echelon.sim.loops.records import IMPACT, ORDER, PAIR, PULL, Scratch
from echelon.sim.loops.segments import line_scratch
from echelon.sim.loops.tables import build_tables
from echelon.sim.model import SimModel
from echelon.sim.step import Log
from echelon.state import Maps, State

COMPARED = [
    (list(PARTS).index(part), FIELDS[part].index(name))
    for part, names in (("mechs", "hp pos"), ("tally", "damage kills assists zone_s"), ("battles", "score control"))
    for name in names.split()
]
"""Part and index in it of the fields of `Before`, without the last one."""
ONE_FLAG = ((1,), np.bool_)
RESULTS: dict[str, tuple[tuple[int, ...], Any]] = {
    "last_event": ((), np.int64),
    **dict.fromkeys(DONE_KEYS, ONE_FLAG),
    "winner": ((1,), np.int8),
    "reason": ((1,), np.int8),
    "score": ((2,), np.float32),
    "decisions": ((1,), np.int64),
    "idle_s": ((1,), np.float32),
}
"""Shape for one battle, and type, of the fields of `Results`, without the reward terms."""
OUTCOME = [name for name in RESULTS if name not in ("last_event", *DONE_KEYS)]


class StateArrays(NamedTuple):
    """Arrays for the state after a decision."""

    parts: Parts
    leaves: list[Any]
    """The arrays of `parts` in the shapes of `packing.leaves_of_parts`."""
    messages: Any
    focus_slots: Any
    blocked_at: Any


class Loops:
    """One loop for `actions.decode`, `step.decide`, `zone.score`, `goals.score_goals`, `observe` and
    `decision.judge_and_reward`, with constants.

    Args:
        sim_model: constants of the battles.
        blocks: division of the battles among threads.
    """

    judges = True
    """Whether `decide` judges battles. GPU loops do not: a graph computes `decision.judge_and_reward`."""

    def __init__(self, sim_model: SimModel, blocks: Blocks) -> None:
        self.sim_model, self.blocks = sim_model, blocks
        self.tables, self.views = build_tables(sim_model), build_view_tables(sim_model)
        self.scores, self.recycled = build_score_tables(sim_model), ArrayPool()
        self.num_stats = len(stat_names(sim_model.catalog))
        self._returned: tuple[list[Tensor], Parts] = [], ()
        """Tensors of the state that was returned last, and their arrays."""
        self.scratches: list[Scratch] = []
        """Scratch memory that no thread uses at present."""
        self.no_log: Any = None

    def __reduce__(self) -> tuple[type[Loops], tuple[Any, ...]]:
        """Pickle the arguments only: each copy allocates its own memory."""
        return Loops, (self.sim_model, self.blocks)

    def play(
        self, state: State, action: Tensor, watch: Callable[[State, Log], None] | None = None
    ) -> tuple[State, Observation]:
        """Play one decision with `action [B, N, D]`; return the scored state and its observation.

        Terrain is changed in place; nothing else of `state` is. At the end, `watch` receives the state after each
        substep and its events. Each of these states contains the terrain after the whole decision.
        """
        return self._play(state, action, watch)[:2]

    def decide(
        self, before: State, action: Tensor, watch: Callable[[State, Log], None] | None = None
    ) -> DecisionResult:
        """Play one decision as `play` does, judge it and compute its rewards."""
        state, streams, results = self._play(before, action, watch)
        outcome = {name: tensor(getattr(results, name)) for name in OUTCOME}
        flags = {name: tensor(getattr(results, name)) for name in DONE_KEYS}
        state = state.with_valid({"last_event": tensor(results.last_event)})
        outcome["stats"] = self.statistics(state, flags["done"][:, 0], self.sim_model)
        return DecisionResult(state, streams, tensor(results.reward_terms), flags, outcome)

    def _play(
        self, state: State, action: Tensor, watch: Callable[[State, Log], None] | None
    ) -> tuple[State, Observation, Results]:
        rows = 0 if watch is None else self.sim_model.rules.decision_repeat * state.shape[0]
        log = self._log(state, rows)
        result = self._run(state, array(action), self.sim_model.maps, self.blocks.spans, log, plays=True)
        if watch is not None:
            for substep in substeps_of(log, state, self.sim_model):
                watch(*substep)
        return result

    def observe(self, state: State, maps: Maps) -> tuple[State, Observation]:
        """Return the state with its contact slots and the observation of battles on `maps`, without any action."""
        batch, count = state.mechs.hp.shape
        no_action = array(state.messages.new_zeros(batch, count, CONTROLS + state.messages.shape[-1]))
        log = self._log(state, 0)
        return self._run(state, no_action, maps, [slice(0, batch)], log, plays=False)[:2]

    def _run(
        self, state: State, actions: Any, maps: Maps, spans: list[slice], log: Any, plays: bool
    ) -> tuple[State, Observation, Results]:
        before, batch = self._fields(state), len(actions)
        after = self._reused("after", batch, lambda: self._state_arrays(before, state))
        streams, shown, results = self._reused("shown", batch, lambda: self._shown_arrays(batch))
        # Without a decision, messages do not change.
        messages = after.messages if plays else array(state.messages)
        # Shared, not copied, because the loops write to it.
        ground = {name: shared(values) for name, values in state.terrain.items()}
        rest = BattleArrays(messages, after.focus_slots, **ground, blocked_at=after.blocked_at)
        of_maps = dict(maps.items())
        fields = MapArrays(*(array(of_maps[name]) for name in MapArrays._fields))
        arguments = actions, array(state.focus_slots), before, after.parts, rest, fields, self.tables, self.views
        self._loop(plays, arguments, streams, spans, log, array(state.last_event), results)
        leaves = [tensor(values) for values in after.leaves]
        focus_slots = tensor(after.focus_slots)
        messages = tensor(after.messages) if plays else state.messages
        following = state_with(leaves, state, focus_slots=focus_slots, messages=messages)
        self._returned = leaves, after.parts
        observed = {name: tensor(values) for name, values in shown.items()}
        return following, add_streams(following, observed, self.sim_model), results

    def _fields(self, state: State) -> Parts:
        """Return `fields_of(state)`. The arrays of the state that was returned last are known."""
        leaves, parts = self._returned
        return parts if leaves and all(map(operator.is_, leaves_of_parts(state), leaves)) else fields_of(state)

    def _loop(
        self,
        plays: bool,
        arguments: tuple[Any, ...],
        streams: Any,
        spans: list[slice],
        log: Any,
        last_event: Any,
        results: Results,
    ) -> None:
        """Run `decision_loop` on the battles of some spans, with its `arguments` from `actions` to `views`."""
        actions, _, before, *_ = arguments
        was = Before._make([*(before[part][index] for part, index in COMPARED), last_event])

        def run(span: slice) -> None:
            ends = span.start, min(span.stop, len(actions))
            try:
                scratch = self.scratches.pop()
            except IndexError:
                scratch = self._scratch(before)
            decision_loop(plays, ends, *arguments, scratch, streams, log, was, self.scores, results)
            self.scratches.append(scratch)

        self.blocks.play(run, spans)

    def _log(self, state: State, rows: int) -> Any:
        """Return a log with room for this number of substeps of a battle."""
        if rows:
            return empty_log(fields_of(state), len(self.sim_model.roster.weapons), rows)
        if self.no_log is None:
            self.no_log = empty_log(fields_of(state), len(self.sim_model.roster.weapons), 0)
        return self.no_log

    def _reused(self, kind: str, batch: int, build: Callable[[], Any]) -> Any:
        """Return arrays of `build` for this number of battles, with arbitrary values, that no tensor refers to."""
        return self.recycled.take(kind, batch, build)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an uninitialized array for a loop to write to."""
        return np.empty(shape, dtype)

    def _state_arrays(self, before: Parts, state: State) -> StateArrays:
        """Return arrays for the state after `state`, whose fields are `before`."""
        parts = tuple(tuple(self.empty(tuple(values.shape), values.dtype) for values in part) for part in before)
        (batch, count, packs), comm_dim = state.mechs.paint.shape, state.messages.shape[2]
        return StateArrays(
            parts,
            as_in_state(parts, packs),
            self.empty((batch, count, comm_dim), np.float32),
            self.empty((batch, count, state.focus_slots.shape[2]), np.int64),
            self.empty((batch, count, count), np.int16),
        )

    def _shown_arrays(self, batch: int) -> tuple[Any, dict[str, Any], Results]:
        """Return arrays for `Streams`, the same by name in the shapes of observations, and `Results`."""
        streams, config = self._streams(batch), self.sim_model.config
        shown = streams._asdict()
        for grid in (stream for stream in FILLED if stream.is_grid):
            shown[grid.name] = shown[grid.name].reshape(batch, config.num_mechs, *grid.rows(config))
        terms = self.empty((batch, config.num_mechs, len(TERMS)), np.float32)
        rest = {name: self.empty((batch, *shape), dtype) for name, (shape, dtype) in RESULTS.items()}
        return streams, shown, Results(terms, **rest)

    def _streams(self, batch: int) -> Any:
        """Return uninitialized `Streams` for this number of battles."""
        config = self.sim_model.config

        def empty(*shape: int, dtype: type = np.float32) -> np.ndarray:
            return self.empty((batch, config.num_mechs, *shape), dtype)

        arrays = {}
        for stream in FILLED:
            width = layout.width(stream.features_of(config.comm_dim))
            arrays[stream.name] = empty(*(() if stream.is_grid else stream.rows(config)), width)
            arrays |= {mask: empty(*stream.rows(config), dtype=np.bool_) for mask in stream.names[1:]}
        return Streams(
            **arrays,
            contact_mechs=empty(num_slots(config), dtype=np.int64),
            clear_lines=empty(config.num_mechs, dtype=np.bool_),
        )

    def _scratch(self, before: Parts) -> Scratch:
        """Return scratch memory for one thread, for battles with these fields."""
        records = {name: np.zeros(shape, kind) for name, (kind, shape) in self._scratch_records().items()}
        return Scratch(empty_records(before), **records, **self._scratch_arrays())

    def _scratch_records(self) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        """Return type and shape of the records of `Scratch`, without those of the battle itself."""
        count, weapons, slots = (table.shape[0] for table in self.tables[1:])
        return {
            "orders": (ORDER, (count,)),
            "pairs": (PAIR, (count, count)),
            "pulls": (PULL, (count * weapons,)),
            "impacts": (IMPACT, (slots,)),
            "viewers": (VIEWER, (count,)),
        }

    def _scratch_arrays(self) -> dict[str, Any]:
        """Return the other fields of `Scratch`: arrays, and named tuples of arrays."""
        roster = self.sim_model.roster
        clouds = max(len(roster.launchers) * roster.clouds_each, 1)
        return {
            "lines": np.zeros(roster.num_mechs**2, np.int8),
            "active_clouds": np.zeros(clouds, np.int32),
            "emitters": np.zeros(roster.num_mechs, np.int32),
            "boxes": boxes_scratch(roster.num_mechs),
            **perception_scratch(roster.num_mechs, roster.num_packs, clouds),
            "line": line_scratch(self.sim_model.config.world.longest_side),
            "around": surroundings(layout.LOCAL_MAP_CELLS),
        }

    def statistics(self, state: State, done: Tensor, sim_model: SimModel) -> Tensor:
        """Compute `outcome.final_statistics`, only for battles that are done."""
        result = torch.zeros((done.shape[0], 2, self.num_stats), dtype=torch.float32, device="cpu")
        rows = rows_where(done)
        if len(rows):
            result[rows] = statistics(state, sim_model, rows)
        return result


KEPT = 4
"""Sets of arrays kept per kind: the current observation, the previous one, and those that a caller still holds."""


def references(arrays: list[np.ndarray]) -> list[int]:
    """Return Python's reference count of each array. From Python 3.14 on, function arguments are not counted."""
    return [sys.getrefcount(array) for array in arrays]


def flattened(values: Any) -> Iterator[np.ndarray]:
    """Yield the arrays in nested tuples, lists and dicts."""
    if isinstance(values, np.ndarray):
        yield values
        return
    for value in values.values() if isinstance(values, dict) else values:
        yield from flattened(value)


class ArrayPool:
    """Sets of arrays that are reused once no tensor or view refers to any of them.

    Fresh memory costs a page fault per 4 KiB. A set is checked as a whole, because a decision of one battle needs 70
    arrays.
    """

    def __init__(self) -> None:
        self._kept: dict[str, list[tuple[Any, Any, list[np.ndarray], list[int]]]] = {}

    def take(self, kind: str, key: Any, build: Callable[[], Any]) -> Any:
        """Return a set of arrays with arbitrary values.

        Args:
            kind: name of the set. Sets of one kind should have one key at a time.
            key: determines the shapes.
            build: returns nested tuples, lists and dicts of new arrays.
        """
        sets = self._kept.setdefault(kind, [])
        for kept_key, arrays, flat, unused in sets:
            if kept_key == key and references(flat) == unused:
                return arrays
        arrays = build()
        flat = list(flattened(arrays))
        self._kept[kind] = [(key, arrays, flat, references(flat)), *sets[: KEPT - 1]]
        return arrays
