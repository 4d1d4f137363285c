"""Whom a learner meets: frozen policies of a league, preferred by how it fares against them."""

from __future__ import annotations

import random

from echelon.league.config import LeagueConfig
from echelon.league.matchmaking import Opponent, chances, draw
from echelon.league.store import Entry, Store
from echelon.learn.config import ModelConfig
from echelon.learn.opponents.snapshot_pool import Snapshot


class OpponentSampler:
    """Draws a learner's opponents; a `DrawOpponent` of `echelon.learn`.

    Battles being fought keep whom they drew. After `refresh` those that begin draw from the league as it is then.

    Args:
        store: the league.
        model: the learner's architecture: frozen opponents share it.
        seed: of the draws.
        me: id of the learner's last entry, by which its strength is known; empty before the first.
    """

    def __init__(self, store: Store, model: ModelConfig, seed: int, me: str = "") -> None:
        self.store, self.model = store, model
        self.config: LeagueConfig = store.rules
        self.chance = random.Random(seed)
        self.me: Entry | None = None
        self.shares: dict[str, float] = {}
        self.names: dict[str, str] = {}
        self.set_learner(me)

    def set_learner(self, me: str) -> None:
        """Know the learner's last entry, if the league has it, and read the league as it is now."""
        self.me = next((entry for entry in self.store.entries() if entry.id == me), None)
        self.refresh()

    def refresh(self) -> None:
        """Read the league as it is now."""
        active = compatible_entries(self.model, self.store)
        self.names = {entry.id: entry.name for entry in active}
        self.shares = self._prefer(opponent_pool(self.store, active, self.me))

    def _prefer(self, pool: list[Opponent]) -> dict[str, float]:
        mine = [standing for standing in self.store.standings() if self.me is not None and standing.id == self.me.id]
        if not pool:
            return {}
        if not mine:
            # Nobody knows yet how strong a learner is that has not entered.
            return {other.id: 1 / len(pool) for other in pool}
        return chances(pool, mine[0].rating, mine[0].games, self.config)

    def __call__(self) -> Snapshot | None:
        """Draw one; nobody where the league has no policy of the learner's architecture."""
        if not self.shares:
            return None
        who = draw(self.shares, self.chance)
        return Snapshot(self.names[who], self.store.weights.policy(who).state_dict())


def compatible_entries(model: ModelConfig, store: Store) -> list[Entry]:
    """The policies of a league that still fight and have this architecture."""
    networks = [entry for entry in store.active() if not entry.is_scripted]
    return [entry for entry in networks if store.weights.open(entry.id).model == model]


def opponent_pool(store: Store, entries: list[Entry], me: Entry | None) -> list[Opponent]:
    """What is known of entries, for somebody who asks."""
    ratings = {standing.id: standing.rating for standing in store.standings()}
    payoff = store.payoff()
    mine = me.id if me is not None else ""
    return [Opponent(entry.id, ratings[entry.id], *payoff.get((mine, entry.id), (0, 0.0))) for entry in entries]
