"""Samples opponents of a learner: frozen policies of a league, weighted by its results against them."""

from __future__ import annotations

import random

from echelon.league.config import LeagueConfig
from echelon.league.matchmaking import Opponent, chances, draw
from echelon.league.records import Entry
from echelon.league.store import Store
from echelon.learn.models.registry import ModelConfig
from echelon.learn.opponents.snapshot_pool import Snapshot


class OpponentSampler:
    """Samples the opponents of a learner; a `DrawOpponent` of `echelon.learn`.

    Running battles keep their opponents; after `refresh`, new ones are sampled from the current state of the league.

    Args:
        store: the league.
        model: architecture of the learner, which opponents must share.
        seed: seed of the sampling.
        me: id of the learner's last entry, whose rating and results are used; empty before the first entry.
    """

    def __init__(self, store: Store, model: ModelConfig, seed: int, me: str = "") -> None:
        self.store, self.model = store, model
        self.config: LeagueConfig = store.rules
        self.rng = random.Random(seed)
        self.me: Entry | None = None
        self.shares: dict[str, float] = {}
        self.names: dict[str, str] = {}
        self.set_learner(me)

    def set_learner(self, me: str) -> None:
        """Set the id of the learner's last entry and refresh. An unknown id means no entry."""
        self.me = next((entry for entry in self.store.entries() if entry.id == me), None)
        self.refresh()

    def refresh(self) -> None:
        """Recompute the distribution of opponents from the current state of the league."""
        active = compatible_entries(self.model, self.store)
        self.names = {entry.id: entry.name for entry in active}
        self.shares = self._prefer(opponent_pool(self.store, active, self.me))

    def _prefer(self, pool: list[Opponent]) -> dict[str, float]:
        mine = [standing for standing in self.store.standings() if self.me is not None and standing.id == self.me.id]
        if not pool:
            return {}
        if not mine:
            # Without an entry the strength of the learner is unknown.
            return {other.id: 1 / len(pool) for other in pool}
        return chances(pool, mine[0].rating, mine[0].games, self.config)

    def __call__(self) -> Snapshot | None:
        """Sample an opponent; None if the league has no policy of this architecture."""
        if not self.shares:
            return None
        who = draw(self.shares, self.rng)
        return Snapshot(self.names[who], self.store.weights.policy(who).state_dict())


def compatible_entries(model: ModelConfig, store: Store) -> list[Entry]:
    """Active entries of a league with trained policies of this architecture."""
    networks = [entry for entry in store.active() if not entry.is_scripted]
    return [entry for entry in networks if store.weights.open(entry.id).model == model]


def opponent_pool(store: Store, entries: list[Entry], me: Entry | None) -> list[Opponent]:
    """Describe entries as opponents of the entry `me`."""
    ratings = {standing.id: standing.rating for standing in store.standings()}
    payoff = store.payoff()
    mine = me.id if me is not None else ""
    return [Opponent(entry.id, ratings[entry.id], *payoff.get((mine, entry.id), (0, 0.0))) for entry in entries]
