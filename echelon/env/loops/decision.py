"""A decision of some battles in loops, and what ends it."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.loops.observe import observe_loops
from echelon.env.loops.records import build_view_tables
from echelon.env.loops.rows import rows_where
from echelon.env.observation.build import Observation
from echelon.env.outcome import stat_names, statistics
from echelon.rules.actions import Orders
from echelon.sim.loops.decide import decide_loops
from echelon.sim.loops.tables import build_tables
from echelon.sim.model import SimModel
from echelon.state import State


class DecisionLoops:
    """`step.decide` and `observe` as loops, with the constants of one game as records."""

    def __init__(self, game: SimModel) -> None:
        self.tables, self.views = build_tables(game), build_view_tables(game)

    def decide(self, state: State, orders: Orders, game: SimModel) -> State:
        """`step.decide`."""
        return decide_loops(state, orders, game, self.tables)

    def observe(self, state: State, orders: Orders, game: SimModel) -> tuple[State, Observation]:
        """`observe`."""
        return observe_loops(state, orders, game, self.tables, self.views)

    def statistics(self, state: State, done: Tensor, game: SimModel) -> Tensor:
        """`outcome.final_statistics`, worked out for the battles that are done only."""
        found = torch.zeros((done.shape[0], 2, len(stat_names(game.catalog))))
        rows = rows_where(done)
        if len(rows):
            found[rows] = statistics(state[rows], game)
        return found
