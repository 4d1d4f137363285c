"""A decision of all battles in loops, shared out to the threads of a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from echelon.env.blocks import Blocks
from echelon.env.loops.decision import BattleArrays, MapArrays, Scratch, Streams, decision_loop
from echelon.env.loops.records import SIGHT, VIEWER, build_view_tables
from echelon.env.loops.rows import rows_where
from echelon.env.observation import layout
from echelon.env.observation.build import Observation
from echelon.env.outcome import stat_names, statistics
from echelon.rules.actions import CONTROLS, NO_MECH
from echelon.sim.kernels.dispatch import array, shared_array
from echelon.sim.loops.packing import empty_like, fields_of, pack, state_of, unpack
from echelon.sim.loops.records import IMPACT, ORDER, PAIR, PULL
from echelon.sim.loops.sight import line_scratch
from echelon.sim.loops.tables import build_tables
from echelon.sim.model import SimModel
from echelon.state import Maps, State, Terrain


class Loops:
    """`actions.decode`, `step.decide`, `zone.score` and `observe` as one loop, with the constants of one game.

    Args:
        game: constants of the battles.
        blocks: how battles are shared out to threads.
    """

    def __init__(self, game: SimModel, blocks: Blocks) -> None:
        self.game, self.blocks = game, blocks
        self.tables, self.views = build_tables(game), build_view_tables(game)

    def play(self, state: State, action: Tensor) -> tuple[State, Observation]:
        """The state after a decision under `action [B, N, D]`, scored, and what is shown of it.

        The terrain is changed in place; nothing else of `state` is.
        """
        return self._run(state, array(action), self.game.maps, self.blocks.spans, plays=True)

    def observe(self, state: State, maps: Maps) -> tuple[State, Observation]:
        """What is shown of battles on other `maps`, in which nobody was told anything."""
        batch, count = state.mechs.hp.shape
        idle = np.zeros((batch, count, CONTROLS + state.messages.shape[-1]), np.float32)
        return self._run(state, idle, maps, [slice(0, batch)], plays=False)

    def _run(
        self, state: State, actions: np.ndarray, maps: Maps, spans: list[slice], plays: bool
    ) -> tuple[State, Observation]:
        before = fields_of(state)
        after, streams = empty_like(before), self._empty_streams(*state.messages.shape)
        told = {name: getattr(state, name).numpy().copy() for name in ("messages", "focus_slots")}
        ground = {name: shared_array(getattr(state.terrain, name)) for name in Terrain.__dataclass_fields__}
        fields = MapArrays(*(array(getattr(maps, name)) for name in MapArrays._fields))

        def run(span: slice) -> None:
            records = pack(before, span)
            own = BattleArrays(**records, **{name: values[span] for name, values in (told | ground).items()})
            shown = Streams(*(values[span] for values in streams))
            decision_loop(plays, actions[span], own, fields, self.tables, self.views, self._scratch(), shown)
            unpack(records, after, span)

        self.blocks.play(run, spans)
        shown = {name: torch.from_numpy(values) for name, values in streams._asdict().items()}
        return state_of(after, state, **{name: torch.from_numpy(values) for name, values in told.items()}), shown

    def _empty_streams(self, batch: int, count: int, comm_dim: int) -> Streams:
        """Streams that show nothing."""
        contacts, side = min(count - 1, layout.MAX_CONTACTS), layout.LOCAL_MAP_CELLS
        squad = self.views.squads.shape[1]

        def zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
            return np.zeros((batch, count, *shape), dtype)

        return Streams(
            contacts=zeros(contacts, layout.width(layout.CONTACT)),
            contacts_mask=zeros(contacts, dtype=np.bool_),
            squad=zeros(squad, layout.width(layout.SQUAD)),
            squad_mask=zeros(squad, dtype=np.bool_),
            ego=zeros(layout.width(layout.EGO)),
            comms=zeros(layout.PACK_SIZE, comm_dim),
            local_map=zeros(side, side),
            contact_mechs=np.full((batch, count, contacts), NO_MECH),
            clear_lines=zeros(count, dtype=np.bool_),
        )

    def _scratch(self) -> Scratch:
        """Scratch memory for one thread."""
        count, weapons, slots = (len(table) for table in self.tables[1:])
        return Scratch(
            orders=np.zeros(count, ORDER),
            pairs=np.zeros((count, count), PAIR),
            pulls=np.zeros(count * weapons, PULL),
            impacts=np.zeros(slots, IMPACT),
            viewers=np.zeros(count, VIEWER),
            sights=np.zeros((count, count), SIGHT),
            line=line_scratch(self.game.config.world.longest_side),
        )

    def statistics(self, state: State, done: Tensor, game: SimModel) -> Tensor:
        """`outcome.final_statistics`, worked out for the battles that are done only."""
        found = torch.zeros((done.shape[0], 2, len(stat_names(game.catalog))), dtype=torch.float32, device="cpu")
        rows = rows_where(done)
        if len(rows):
            found[rows] = statistics(state[rows], game)
        return found
