"""Matchmaking: schedules of pairs, and prioritized fictitious self-play (PFSP; Vinyals et al. 2019, eq. 1)."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from echelon.arena.batch_arena import Battle
from echelon.league.config import LeagueConfig, Weighting
from echelon.league.ratings import RATING
from echelon.league.records import Entry, Standing
from echelon.league.store import Store
from echelon.learn.models.policy_layout import PolicyLayout
from echelon.learn.models.registry import ModelConfig
from echelon.learn.opponents.snapshot_pool import Weights
from echelon.runtime.errors import require

MOST_SEEDS = 1 << 20
"""Number of seeds per period: the seeds of period p start at p * `MOST_SEEDS`."""
MOST_RATED = MOST_SEEDS // 2
"""Seeds of a period for rated battles; the others are for unrated evaluations."""


def period_seeds(period: int, count: int, rated: bool = True) -> range:
    """Return `count` seeds of a rating period, which are deterministic and disjoint from those of other periods.

    Args:
        rated: whether the battles are for ratings. Ratings use other seeds than evaluations: an entry that was selected
            for good results in an evaluation would be rated too high on the same seeds.
    """
    require(1 <= count <= MOST_RATED, "seeds", f"1..{MOST_RATED}", count)
    first = period * MOST_SEEDS + (0 if rated else MOST_RATED)
    return range(first, first + count)


def from_both_sides(pairs: Sequence[tuple[str, str]], seeds: Sequence[int]) -> list[Battle]:
    """Return two battles per pair and seed, one for each assignment of sides, ordered by seed, then by pair."""
    return [Battle(*sides, seed) for seed in seeds for x, y in pairs for sides in ((x, y), (y, x))]


def round_robin(ids: Sequence[str], seeds: Sequence[int]) -> list[Battle]:
    """Return the battles of all pairs of entries, see `from_both_sides`."""
    return from_both_sides(list(combinations(ids, 2)), seeds)


def one_against(who: str, others: Sequence[str], seeds: Sequence[int]) -> list[Battle]:
    """Return the battles of the entry `who` against each of the others, see `from_both_sides`."""
    return from_both_sides([(who, opponent) for opponent in others if opponent != who], seeds)


BELL_WIDTH = 200.0
"""Standard deviation of the `bell` weighting, in rating points."""


class Opponent(NamedTuple):
    """A potential opponent, and the learner's results against it."""

    id: str
    rating: float
    games: int
    """Number of games of the learner against it."""
    score: float
    """Points of the learner in these games: 1 for a win, 0.5 for a draw."""

    @property
    def win_rate(self) -> float:
        """x: the learner's points per game against this opponent, smoothed by one drawn game, so 0.5 without games."""
        return (self.score + 0.5) / (self.games + 1)


def probabilities(weights: Sequence[float]) -> list[float]:
    """Normalize weights to a sum of 1; uniform probabilities if all weights are zero."""
    total = sum(weights)
    return [w / total for w in weights] if total > 0 else [1 / len(weights)] * len(weights)


def preference(
    weighting: Weighting, win_rates: Sequence[float], gaps: Sequence[float], hardness: float = 2.0
) -> list[float]:
    """Return the probability with which each opponent is sampled.

    Args:
        weighting: `hard` is (1 - x)^p of the learner's win rate x and prefers opponents that it loses to; `variance` is
            x (1 - x) and prefers equally strong ones; `bell` is exp(-gap² / (2 200²)) and prefers similar ratings;
            `uniform` has no preference.
        hardness: exponent p of `hard`.
    """
    match weighting:
        case "hard":
            return probabilities([(1 - x) ** hardness for x in win_rates])
        case "variance":
            return probabilities([x * (1 - x) for x in win_rates])
        case "bell":
            nearest = min(abs(gap) for gap in gaps)
            # Subtract the smallest gap, so that the weights do not all underflow to 0.
            return probabilities([math.exp((nearest**2 - gap**2) / (2 * BELL_WIDTH**2)) for gap in gaps])
        case "uniform":
            return probabilities([1.0] * len(win_rates))


def within_reach(pool: Sequence[Opponent], rating: float, games: int, config: LeagueConfig) -> list[Opponent]:
    """Return the opponents that an entry with this rating and number of games may play.

    With fewer than `cold_games` games, an entry may play the opponents within `cold_gap` rating points, or the nearest
    one if there is none; with more games, it may play all opponents.
    """
    if games >= config.cold_games:
        return list(pool)
    near = [opponent for opponent in pool if abs(opponent.rating - rating) <= config.cold_gap]
    return near or [min(pool, key=lambda other: abs(other.rating - rating))]


def rated_pairs(stands: Sequence[Standing], config: LeagueConfig) -> set[frozenset[str]]:
    """Return the pairs of ids that may play rated matches: each entry is `within_reach` of the other.

    An entry without such a pair plays the nearest opponent that has it within reach, for example one with enough games.
    If no opponent has it within reach, as among three new entries 200 points apart, it plays its own nearest opponent.
    """
    rivals = {
        standing.id: [Opponent(rival.id, rival.rating, 0, 0.0) for rival in stands if rival.id != standing.id]
        for standing in stands
    }
    reach = {
        standing.id: {
            opponent.id for opponent in within_reach(rivals[standing.id], standing.rating, standing.games, config)
        }
        for standing in stands
        if rivals[standing.id]
    }
    pairs = {frozenset((x, y)) for x, near in reach.items() for y in near if x in reach[y]}
    unmatched = reach.keys() - frozenset().union(*pairs)
    rating = {standing.id: standing.rating for standing in stands}
    for x in unmatched:
        gaps = {y: abs(rating[y] - rating[x]) for y in reach if x in reach[y]}
        pairs |= {frozenset((x, y)) for y in ([min(gaps, key=gaps.__getitem__)] if gaps else reach[x])}
    return pairs


def chances(pool: Sequence[Opponent], rating: float, games: int, config: LeagueConfig) -> dict[str, float]:
    """Return the probability of each opponent, keyed by id, for a learner with this rating and number of games."""
    reach = within_reach(pool, rating, games, config)
    rates, gaps = [opponent.win_rate for opponent in reach], [rating - opponent.rating for opponent in reach]
    shares = preference(config.weighting, rates, gaps, config.hardness)
    return {opponent.id: share for opponent, share in zip(reach, shares, strict=True)}


class LeaguePool:
    """Entries of a league and their shares of a learner's battles; implements `OpponentPool` of `echelon.learn`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.shares: Mapping[str, float] = {}
        """Share of each entry, by id."""

    def weights_of(self, name: str) -> Weights:
        return self.store.weights.policy(name).state_dict()


class OpponentSampler(LeaguePool):
    """The opponents of a learner in a league, weighted by its results against them.

    Running battles keep their opponents; after `refresh`, new opponents are sampled from the current league.

    Args:
        model: architecture of the learner, which opponents must share.
        me: id of the learner's last entry in the league, whose rating and results are used. The id is empty before the
            first entry: the learner then counts as a new entry without games.
        columns: the learner's observation and action layout, which opponents must share; by default that of this
            version.
    """

    def __init__(self, store: Store, model: ModelConfig, me: str = "", columns: PolicyLayout | None = None) -> None:
        super().__init__(store)
        self.model, self.columns = model, columns
        self.config: LeagueConfig = store.rules
        self.me: Entry | None = None
        self.set_learner(me)

    def set_learner(self, me: str) -> None:
        """Set the id of the learner's last entry, and recompute the distribution of opponents.

        An id that is not in the league means that the learner has no entry.
        """
        self.me = next((entry for entry in self.store.entries() if entry.id == me), None)
        self.refresh()

    def refresh(self) -> None:
        """Recompute the probabilities of opponents from the current state of the league."""
        pool = opponent_pool(self.store, compatible_entries(self.model, self.store, self.columns), self.me)
        own_standings = [
            standing for standing in self.store.standings() if self.me is not None and standing.id == self.me.id
        ]
        rating, games = (own_standings[0].rating, own_standings[0].games) if own_standings else (RATING, 0)
        self.shares = chances(pool, rating, games, self.config) if pool else {}


def compatible_entries(model: ModelConfig, store: Store, columns: PolicyLayout | None = None) -> list[Entry]:
    """Return the active entries of a league with trained policies of this architecture.

    Args:
        columns: the observation and action layout that the policies must have; by default that of this version.
    """
    entries = []
    for entry in store.active():
        if not entry.is_scripted:
            checkpoint = store.weights.open(entry.id)
            own = columns or PolicyLayout.current(checkpoint.specs.comm_dim)
            if checkpoint.model == model and checkpoint.specs.columns == own:
                entries.append(entry)
    return entries


def opponent_pool(store: Store, entries: list[Entry], me: Entry | None) -> list[Opponent]:
    ratings = {standing.id: standing.rating for standing in store.standings()}
    payoff = store.payoff()
    own_id = me.id if me is not None else ""
    return [Opponent(entry.id, ratings[entry.id], *payoff.get((own_id, entry.id), (0, 0.0))) for entry in entries]
