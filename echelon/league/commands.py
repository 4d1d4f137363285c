"""The commands of a league: tournaments, evaluation of checkpoints, evolution, certificates, and tables."""

import dataclasses
import math
import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from echelon.arena.batch_arena import BatchArena, BatchResult
from echelon.arena.evaluate import Evaluation
from echelon.arena.evaluate import evaluate as arena_evaluate
from echelon.arena.match import Z_95, Result
from echelon.arena.resolve import named_checkpoint
from echelon.command.pack_policy import names_orders
from echelon.league import log, matchmaking
from echelon.league.evolution import Evolution, Role
from echelon.league.league_arena import LeagueArena, PlayedBatch, match_seed, matches_of
from echelon.league.mixture import exploitability, nash
from echelon.league.rating_period import close_period, payoff_matrix, rounds
from echelon.league.ratings import advantage, bradley_terry, cyclic_share, rating_against, ratings_of
from echelon.league.records import Entry, MatchRecord, Standing
from echelon.league.store import Store
from echelon.learn.callbacks.base import Callback
from echelon.learn.callbacks.signals import SignalHandler
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import TrainConfig
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import require, rounded
from echelon.runtime.files import check_writable, file_lock


def record_exploit(store: Store, certificate: Mapping[str, Any], response: Path) -> Entry:
    """Add a trained best response to a league as a candidate entry.

    The certificate's lower bound of exploitability is stored for the entry that the response was trained against.

    Args:
        certificate: the certificate from `echelon.arena.exploit`, made by this process.
        response: checkpoint of the best response.

    Returns:
        The candidate.
    """
    with store.writing():
        target, best = store.find(certificate["opponent"]["id"]), store.add(response)
        numbers = certificate["agent_steps"], certificate["result"]["battles"], *certificate["result"]["exploitability"]
        store.database.insert("exploits", [(target.id, best.id, *numbers, time.time())], "OR REPLACE")
    return best


def exploitabilities(store: Store) -> dict[str, float]:
    """Return the largest certified lower bound of exploitability of each entry with a certificate, by entry id."""
    return dict(store.read("exploits", ("entry", "bound"), "SELECT entry, max(bound) FROM exploits GROUP BY entry"))


def battle_against(league: Path, entry: str) -> EnvConfig:
    """Return the environment config of a league's battles, for training a best response to one of its entries.

    Raises:
        ConfigError: if the entry does not exist.
        FileError: if the league is not writable.
    """
    with closing(Store(league)) as store:
        store.find(entry)
        # Open a write transaction, so that a read-only league fails before the training and not after it.
        with store.writing():
            return store.env


def status_of(train: Callable[[], None], stop: SignalHandler, folder: Path) -> int:
    """Run `train`; return 0, or the exit status if a signal ended the training after at least one iteration."""
    try:
        train()
    except SystemExit as ended:
        newest = newest_checkpoint(folder / "checkpoints")
        if not stop.signal or open_checkpoint(newest).counters.iterations == 0:
            raise
        return int(ended.code or 0)
    return 0


Rows = list[dict[str, Any]]
B = TypeVar("B", BatchResult, PlayedBatch)


class Progress(Protocol):
    """Consumes the `total` battles of an arena in batches, shows progress, and returns the batches."""

    def __call__(self, batches: Iterable[B], total: int, arena: BatchArena) -> list[B]: ...


SET_BY_LEAGUE = (
    *("env", "opponent", "self_share", "snapshot_opponent_share", "past_every", "past_kept", "total_agent_steps"),
    *("max_minutes", "device", "run_dir", "init_from", "resume", "evaluation", "league_every", "league_seeds"),
    *("profile", "replay_battles"),
)
"""Fields of `TrainConfig` that `evolve` sets or does not use."""


def logged(store: Store, batches: Iterable[B], setup: dict[str, Any]) -> Iterator[B]:
    """Yield batches that the league does not record, and append an event for each one to its log.

    `setup` contains the settings of the arena, as in `log.write_batch`.
    """
    for batch in batches:
        log.write_event(store, **log.batch_event(store, len(batch), batch.seconds, is_recorded=False), **setup)
        yield batch


def evaluate(
    arena: LeagueArena, checkpoint: str, seeds: int, progress: Progress, opponents: Sequence[str] = ()
) -> Evaluation:
    """Play a policy against entries of a league and rate it. The battles and the rating are not stored in the league.

    Args:
        checkpoint: a trained policy, or a commander of packs such as `llm:FILE`.
        seeds: number of seeds per opponent, each played once per side.
        opponents: names of entries; all active ones if empty.

    Returns:
        The evaluation, with results keyed by the opponents' entry names, and with `Evaluation.rating` set.
    """
    store = arena.store
    entries = [store.find(name) for name in opponents] if opponents else store.active()
    if names_orders(checkpoint):
        evaluation = evaluate_commander(arena, checkpoint, entries, seeds, progress)
        return dataclasses.replace(evaluation, rating=rating_of(store, evaluation.results))
    digest = store.add_weights(checkpoint)
    names = {entry.id: entry.name for entry in entries if entry.id != digest}
    evaluation = arena.evaluate(
        digest,
        list(names),
        matchmaking.period_seeds(0, seeds),
        lambda batches, total, own: progress(logged(store, batches, own.setup), total, own),
    )
    results = {names[entry_id]: result for entry_id, result in evaluation.results.items()}
    met = {
        **evaluation.met,
        "opponents": {names[entry_id]: answer for entry_id, answer in evaluation.met["opponents"].items()},
    }
    rating = rating_of(store, results)
    return dataclasses.replace(evaluation, policy=checkpoint, results=results, met=met, rating=rating)


def rating_of(store: Store, results: Mapping[str, Result]) -> dict[str, float]:
    """Compute `Evaluation.rating` of a policy from its results, which are keyed by entry name."""
    standings = {standing.name: standing for standing in store.standings()}
    others = [standings[name] for name in results]
    games, points = (
        torch.tensor(values, dtype=torch.float64, device="cpu")
        for values in ([one.battles for one in results.values()], [one.x_points for one in results.values()])
    )
    ratings = ratings_of([(one.rating, one.deviation, one.volatility) for one in others])
    rating, deviation = rating_against(ratings, games, points)
    ends = {"low": rating - Z_95 * deviation, "high": rating + Z_95 * deviation}
    return {name: round(value, 1) for name, value in {"rating": rating, "RD": deviation, **ends}.items()}


def evaluate_commander(
    arena: LeagueArena, name: str, entries: Sequence[Entry], seeds: int, progress: Progress
) -> Evaluation:
    """Evaluate a commander of packs (groups of mechs that take orders), in the league's battles with orders enabled."""
    settings = arena.arena.settings
    how = {key: getattr(settings, key) for key in ("device", "batch", "precision", "compiled", "cuda_graph")}
    policies = {entry.name: arena.policy(entry.id) for entry in entries}
    match_seeds = [match_seed(seed) for seed in matchmaking.period_seeds(0, seeds)]
    return arena_evaluate(name, arena.task, policies, seeds=match_seeds, watch=progress, **how)


def side_columns(store: Store, who: str, matches: Iterable[MatchRecord]) -> dict[str, Any]:
    """Return an entry's points per battle `as blue` and `as red`; empty if both teams have the same mechs.

    None: no battle.
    """
    if not store.env.is_unequal:
        return {}
    records = list(matches)
    points = {
        "as blue": [match.points(who) for match in records if match.blue == who],
        "as red": [match.points(who) for match in records if match.red == who],
    }
    return {
        side: round(sum(points_of_side) / len(points_of_side), 3) if points_of_side else None
        for side, points_of_side in points.items()
    }


def tournament(
    arena: LeagueArena, seeds: int, progress: Progress, replay: Path | None = None, replay_battles: int = 4
) -> int:
    """Play a round robin of all active entries and close the rating period.

    Entries with few games first play opponents of similar rating, see `rating_period.rounds`. An interrupted tournament
    continues when it is called again.

    Args:
        seeds: number of seeds per pair, each played once per side.
        replay: file for a replay of the first `replay_battles` battles.

    Returns:
        The number of the rating period that was closed.
    """
    store = arena.store
    ids = [entry.id for entry in store.active()]
    require(len(ids) > 1, "--league", "one of at least two entries", str(store.folder))
    require(replay_battles >= 1, "--replay-battles", ">= 1", replay_battles)
    period = store.period
    recorder, recorded = None, list[MatchRecord]()
    for battles in rounds(arena, matchmaking.round_robin(ids, matchmaking.period_seeds(period, seeds))):
        first = None
        if replay is not None and recorder is None:
            check_writable(replay)
            first = recorder = Recorder(list(range(min(replay_battles, arena.arena.settings.batch, len(battles)))))
        # Close the generator explicitly, so that an interrupt releases the claims on unplayed battles.
        with closing(arena.play(battles, first)) as batches:
            matches = matches_of(progress(batches, len(battles), arena.arena))
        recorded = matches if first is not None else recorded
    # `recorded` is empty if other processes played all battles.
    if replay is not None and recorder is not None and recorded:
        names = {entry.id: entry.name for entry in store.entries()}
        battles_shown = [recorded[index] for index in recorder.battles]
        save(recorder.finish([names[b.blue] for b in battles_shown], [names[b.red] for b in battles_shown]), replay)
    close_period(store, period)
    log.write_event(store, "period closed", number=period)
    return period


def evolve(
    arena: LeagueArena,
    train: TrainConfig,
    device: str,
    start: str,
    seeds: int,
    turns: int,
    iterations: int,
    callbacks: Sequence[Callback] = (),
) -> Iterator[tuple[int, Role, str]]:
    """Train the main agent and both exploiters in turn, see `Evolution`.

    Yields the turn's number, the role (main agent or exploiter) and the reason of the turn's outcome.

    Args:
        train: training config of the roles; fields in `SET_BY_LEAGUE` must have their defaults.
        device: training device, as in `TrainConfig.device`.
        start: trained policy with the initial weights of all roles; empty for random initialization.
        seeds: number of seeds per evaluation opponent, each played once per side.
        callbacks: stateless callbacks for the training of every role.
    """
    store = arena.store
    for name, count in (("turns", turns), ("iterations", iterations)):
        require(count >= 1, f"--{name}", ">= 1", count)
    matchmaking.period_seeds(store.period, seeds)
    check_left_alone(train, TrainConfig.quick(), SET_BY_LEAGUE, "the league")
    train = dataclasses.replace(train, device=device)
    initial = named_checkpoint(start) if start else None
    # Only one process at a time may train the league's agents in their run folders.
    with file_lock(store.folder / ".evolve.lock"):
        evolution = Evolution(arena, train, initial, seeds, turns, iterations, callbacks)
        for turn in range(1, turns + 1):
            for role in Role:
                yield turn, role, evolution.turn(role).reason


def check_left_alone(train: TrainConfig, default: TrainConfig, names: Sequence[str], who: str) -> None:
    """Reject non-default values of the training settings `names`, which `who` sets itself or does not use."""
    for name in names:
        value = operator.attrgetter(name)(train)
        is_default = value == operator.attrgetter(name)(default)
        require(
            is_default,
            f"--train.{name.replace('_', '-')}",
            f"left at its default, because {who} sets this value",
            value,
        )


def entry_rows(store: Store) -> Rows:
    """Return a row per entry of the league, in the order of creation."""
    entries = store.entries()
    names = {entry.id: entry.name for entry in entries}
    return [{"name": e.name, "kind": e.kind, "id": e.id, "parent": names.get(e.parent or "")} for e in entries]


def opponent_rows(store: Store, name: str) -> Rows:
    """Return a row per opponent that a learner may sample if it continues from an entry; the largest share comes first.

    Each row has the opponent's rating, the number of games between the entry and the opponent, the entry's points per
    game in them, and `share`, the opponent's share of the learner's battles. `first_share` is the opponent's share in a
    new run whose learner has no league entry yet.
    """
    me = store.find(name)
    require(
        not me.is_scripted, "an entry", "an entry with a network, because scripted commanders cannot be trained", name
    )
    own = store.weights.open(me.id)
    shares, first = (
        matchmaking.OpponentSampler(store, own.model, who, own.specs.columns).shares for who in (me.id, "")
    )
    pool = matchmaking.opponent_pool(store, matchmaking.compatible_entries(own.model, store, own.specs.columns), me)
    names = {entry.id: entry.name for entry in store.entries()}
    rows: Rows = [
        {
            **{"name": names[opponent.id], "rating": rounded(opponent.rating, 1), "games": opponent.games},
            "points": round(opponent.score / opponent.games, 3) if opponent.games else None,
            "share": rounded(shares.get(opponent.id, 0.0), 3),
            "first_share": rounded(first.get(opponent.id, 0.0), 3),
        }
        for opponent in pool
    ]
    return sorted(rows, key=lambda row: -row["share"])


def standing_rows(store: Store) -> Rows:
    """Return a row per entry, best first: its Glicko-2 rating, Bradley-Terry refit and share in the Nash mixture.

    The row of an entry with a trained best response also has a lower bound of the entry's exploitability. If the teams
    have different mechs, a row also has the points per battle as blue and as red; every pair plays both sides equally
    often.
    """
    standings = store.standings()
    score, games = payoff_matrix(store, [standing.id for standing in standings])
    refit, mixture = bradley_terry(score).tolist(), [0.0] * len(standings)
    active = [index for index, standing in enumerate(standings) if standing.games > 0]
    if active:
        for index, share in zip(active, nash(advantage(score, games)[active][:, active]).tolist(), strict=True):
            mixture[index] = share
    conservatism, bounds = store.rules.conservatism, exploitabilities(store)
    rows = [
        standing_row(standing, strength, share, conservatism, bounds.get(standing.id))
        for standing, strength, share in zip(standings, refit, mixture, strict=True)
    ]
    if not store.env.is_unequal:
        return rows
    played_by: dict[str, list[MatchRecord]] = {standing.id: [] for standing in standings}
    for match in store.matches():
        played_by[match.blue].append(match)
        played_by[match.red].append(match)
    return [
        row | side_columns(store, entry_id, matches)
        for row, (entry_id, matches) in zip(rows, played_by.items(), strict=True)
    ]


def standing_row(
    standing: Standing, refit: float, share: float, conservatism: float, bound: float | None = None
) -> dict[str, Any]:
    """Format a row of the standings; `share` is the share in the Nash mixture, `bound` the exploitability's bound."""
    return {
        "name": standing.name,
        "kind": standing.kind,
        "rating": rounded(standing.rating, 1),
        "RD": round(standing.deviation, 1),
        "volatility": round(standing.volatility, 4),
        "conservative": rounded(standing.conservative(conservatism), 1),
        "exploitability": None if bound is None else rounded(max(bound, 0.0), 3),
        "games": standing.games,
        "points": round(standing.score / standing.games if standing.games else 0.0, 3),
        "refit": rounded(refit, 1),
        "nash": rounded(share, 3),
    }


def age_correlation(store: Store) -> tuple[int, float] | None:
    """Return the length of the longest lineage, and Spearman's rho of its entries' age and rating.

    The result is None if the lineage has fewer than 3 entries or contains an unrated one.
    """
    line = longest_line(store.entries())
    rating = {standing.id: standing.rating for standing in store.standings() if standing.games > 0}
    if len(line) <= 2 or not rating.keys() >= {entry.id for entry in line}:
        return None
    return len(line), spearman(range(len(line)), [rating[entry.id] for entry in line])


@dataclasses.dataclass(frozen=True)
class Payoff:
    """Payoff matrix of the E entries that have played, with its game-theoretic solution."""

    names: list[str]
    games: list[list[float]]
    """`[E][E]` number of games of each pair."""
    points: list[list[float]]
    """`[E][E]` points of the row entry against the column entry."""
    share: list[list[float]]
    """`[E][E]` points per game; NaN for pairs that never played."""
    nash: dict[str, float]
    """The Nash mixture by name, without shares of at most 0.001."""
    exploitability: float
    """Gain of the best response against the mixture, see `mixture.exploitability`."""
    cyclic: float
    """Share of the payoff that ratings do not explain, see `ratings.cyclic_share`."""
    cyclic_by_chance: float
    """Expected value of `cyclic` by chance."""


def compute_payoff(store: Store) -> Payoff:
    """Compute the payoff matrix of a league, its cyclic share, its Nash mixture and the best response's gain."""
    standings = [standing for standing in store.standings() if standing.games > 0]
    require(len(standings) > 1, "--league", "one with recorded battles", str(store.folder))
    names = [standing.name for standing in standings]
    score, games = payoff_matrix(store, [standing.id for standing in standings])
    payoff = advantage(score, games)
    mixture = nash(payoff)
    best = {name: round(share, 4) for name, share in zip(names, mixture.tolist(), strict=True) if share > 0.001}
    gain = exploitability(payoff, mixture)
    cyclic = cyclic_share(score, games)
    return Payoff(names, games.tolist(), score.tolist(), (score / games).tolist(), best, gain, *cyclic)


def longest_line(entries: Sequence[Entry]) -> list[Entry]:
    """Return the longest chain of parent and child entries, oldest entry first."""
    by_id = {entry.id: entry for entry in entries}
    best: list[Entry] = []
    for entry in entries:
        line, ids = [entry], {entry.id}
        while (parent := line[-1].parent) in by_id and parent not in ids:
            line.append(by_id[str(parent)])
            ids.add(str(parent))
        best = max(best, line, key=len)
    return best[::-1]


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return Spearman's rank correlation coefficient (1904) in -1 .. 1; 0 if all values of `xs` or `ys` are equal."""
    from scipy.stats import rankdata  # takes a second to import

    x, y = (rankdata(values) - (len(values) + 1) / 2 for values in (xs, ys))
    spread = math.sqrt((x @ x) * (y @ y))
    return float(x @ y / spread) if spread > 0 else 0.0
