"""Samples opponents of a learner: frozen policies of a league, weighted by its results against them."""

from __future__ import annotations

from collections.abc import Mapping

from echelon.league.config import LeagueConfig
from echelon.league.matchmaking import Opponent, chances
from echelon.league.ratings.glicko2 import RATING
from echelon.league.records import Entry
from echelon.league.store import Store
from echelon.learn.models.registry import ModelConfig
from echelon.learn.opponents.snapshot_pool import Weights


class LeaguePool:
    """Entries of a league and their shares of a learner's battles; an `OpponentPool` of `echelon.learn`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.shares: Mapping[str, float] = {}
        """Share of each entry, by id."""

    def weights_of(self, name: str) -> Weights:
        """Weights of the entry with this id."""
        return self.store.weights.policy(name).state_dict()


class OpponentSampler(LeaguePool):
    """The opponents of a learner in a league, weighted by its results against them.

    Running battles keep their opponents; after `refresh`, new ones are sampled from the current state of the league.

    Args:
        model: architecture of the learner, which opponents must share.
        me: id of the learner's last entry, whose rating and results are used; empty before the first entry, when the
            learner counts as a new entry of this league without games.
    """

    def __init__(self, store: Store, model: ModelConfig, me: str = "") -> None:
        super().__init__(store)
        self.model = model
        self.config: LeagueConfig = store.rules
        self.me: Entry | None = None
        self.set_learner(me)

    def set_learner(self, me: str) -> None:
        """Set the id of the learner's last entry and refresh. An unknown id means no entry."""
        self.me = next((entry for entry in self.store.entries() if entry.id == me), None)
        self.refresh()

    def refresh(self) -> None:
        """Recompute the distribution of opponents from the current state of the league."""
        self.shares = self._prefer(opponent_pool(self.store, compatible_entries(self.model, self.store), self.me))

    def _prefer(self, pool: list[Opponent]) -> dict[str, float]:
        if not pool:
            return {}
        mine = [standing for standing in self.store.standings() if self.me is not None and standing.id == self.me.id]
        rating, games = (mine[0].rating, mine[0].games) if mine else (RATING, 0)
        return chances(pool, rating, games, self.config)


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
