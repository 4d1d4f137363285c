"""A decision of all battles in loops, divided among the threads of a CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.env.blocks import Blocks
from echelon.env.loops.decision import BattleArrays, MapArrays, decision_loop
from echelon.env.loops.records import VIEWER, build_view_tables
from echelon.env.loops.rows import rows_where
from echelon.env.loops.sensing import perception_scratch
from echelon.env.loops.stream_arrays import FILLED, Streams
from echelon.env.loops.streams.local_map import surroundings
from echelon.env.observation import layout
from echelon.env.observation.stream import Observation
from echelon.env.observation.streams.contacts import num_slots
from echelon.env.observation.streams.registry import add_streams
from echelon.env.outcome import stat_names, statistics
from echelon.rules.actions import CONTROLS
from echelon.runtime.jit import array, shared, tensor
from echelon.sim.loops.log import empty_log, substeps_of
from echelon.sim.loops.movement import boxes_scratch
from echelon.sim.loops.packing import PARTS, Parts, empty_records, fields_of, state_of
from echelon.sim.loops.records import IMPACT, ORDER, PAIR, PULL, Scratch
from echelon.sim.loops.segments import line_scratch
from echelon.sim.loops.tables import build_tables
from echelon.sim.model import SimModel
from echelon.sim.step import Log
from echelon.state import Maps, State


class Loops:
    """One loop for `actions.decode`, `step.decide`, `zone.score`, `goals.score_goals` and `observe`, with constants.

    Args:
        sim_model: constants of the battles.
        blocks: division of the battles among threads.
    """

    def __init__(self, sim_model: SimModel, blocks: Blocks) -> None:
        self.sim_model, self.blocks = sim_model, blocks
        self.tables, self.views = build_tables(sim_model), build_view_tables(sim_model)
        self.recycled = ArrayPool()
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
        return self._run(state, no_action, maps, [slice(0, batch)], log, plays=False)

    def _run(
        self, state: State, actions: Any, maps: Maps, spans: list[slice], log: Any, plays: bool
    ) -> tuple[State, Observation]:
        def empty_like(name: str, values: Any) -> Any:
            return self.empty(name, tuple(values.shape), values.dtype)

        before, messages, focus_slots = fields_of(state), array(state.messages), array(state.focus_slots)
        after = tuple(
            tuple(empty_like(f"{kind}.{i}", values) for i, values in enumerate(arrays))
            for kind, arrays in zip(PARTS, before, strict=True)
        )
        streams, updated = self._streams(len(messages)), {"focus_slots": empty_like("focus_slots", focus_slots)}
        # Without a decision, messages do not change.
        updated["messages"] = empty_like("messages", messages) if plays else messages
        # Shared, not copied, because the loops write to it.
        ground = {name: shared(values) for name, values in state.terrain.items()}
        of_maps = dict(maps.items())
        fields = MapArrays(*(array(of_maps[name]) for name in MapArrays._fields))
        blocked_at = self.empty("blocked_at", (*messages.shape[:2], messages.shape[1]), np.int16)
        rest = BattleArrays(**updated, **ground, blocked_at=blocked_at)
        arguments = actions, focus_slots, before, after, rest, fields, self.tables, self.views
        self._loop(plays, arguments, streams, spans, log)
        tensors = {name: tensor(values) for name, values in streams._asdict().items()}
        for grid in (stream for stream in FILLED if stream.is_grid):
            tensors[grid.name] = tensors[grid.name].unflatten(-1, grid.rows(self.sim_model.config))
        state = state_of(after, state, **{name: tensor(values) for name, values in updated.items()})
        return state, add_streams(state, tensors, self.sim_model)

    def _loop(self, plays: bool, arguments: tuple[Any, ...], streams: Any, spans: list[slice], log: Any) -> None:
        """Run `decision_loop` on the battles of some spans, with its `arguments` from `actions` to `views`."""
        actions, _, before, *_ = arguments

        def run(span: slice) -> None:
            ends = span.start, min(span.stop, len(actions))
            try:
                scratch = self.scratches.pop()
            except IndexError:
                scratch = self._scratch(before)
            decision_loop(plays, ends, *arguments, scratch, streams, log)
            self.scratches.append(scratch)

        self.blocks.play(run, spans)

    def _log(self, state: State, rows: int) -> Any:
        """Return a log with room for this number of substeps of a battle."""
        if rows:
            return empty_log(fields_of(state), len(self.sim_model.roster.weapons), rows)
        if self.no_log is None:
            self.no_log = empty_log(fields_of(state), len(self.sim_model.roster.weapons), 0)
        return self.no_log

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an uninitialized array for a loop to write to."""
        return self.recycled.empty(name, shape, dtype)

    def _streams(self, batch: int) -> Any:
        """Return uninitialized `Streams` for this number of battles."""
        config = self.sim_model.config

        def empty(name: str, *shape: int, dtype: type = np.float32) -> np.ndarray:
            return self.empty(name, (batch, config.num_mechs, *shape), dtype)

        arrays = {}
        for stream in FILLED:
            width = layout.width(stream.features_of(config.comm_dim))
            arrays[stream.name] = empty(stream.name, *(() if stream.is_grid else stream.rows(config)), width)
            arrays |= {mask: empty(mask, *stream.rows(config), dtype=np.bool_) for mask in stream.names[1:]}
        return Streams(
            **arrays,
            contact_mechs=empty("contact_mechs", num_slots(config), dtype=np.int64),
            clear_lines=empty("clear_lines", config.num_mechs, dtype=np.bool_),
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
        result = torch.zeros((done.shape[0], 2, len(stat_names(sim_model.catalog))), dtype=torch.float32, device="cpu")
        rows = rows_where(done)
        if len(rows):
            result[rows] = statistics(state, sim_model, rows)
        return result


KEPT = 4
"""Arrays kept per name: the current observation, the previous one, and those that a caller still holds of both."""


def references(arrays: list[np.ndarray]) -> list[int]:
    """Return Python's reference count of each array. From Python 3.14 on, function arguments are not counted."""
    return [sys.getrefcount(array) for array in arrays]


UNUSED = references([np.empty(0)])[0]
"""Reference count of an array that only a list holds."""


class ArrayPool:
    """Arrays that are reused once no tensor or view refers to them: fresh memory costs a page fault per 4 KiB."""

    def __init__(self) -> None:
        self._kept: dict[str, list[np.ndarray]] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array with arbitrary values. Arrays of one name should have one shape and type at a time."""
        arrays = self._kept.setdefault(name, [])
        for candidate, count in zip(arrays, references(arrays), strict=True):
            if count == UNUSED and candidate.shape == shape and candidate.dtype == dtype:
                return candidate
        fresh = np.empty(shape, dtype)
        self._kept[name] = [fresh, *arrays[: KEPT - 1]]
        return fresh
