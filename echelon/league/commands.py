"""What the league's commands do: play tournaments, judge checkpoints, let learners evolve, and lay out the tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from echelon.arena.match import wilson_interval
from echelon.league import log
from echelon.league.evolution import Evolution
from echelon.league.league_arena import LeagueArena, PlayedBatch
from echelon.league.lineage import longest_line, spearman
from echelon.league.rating_period import close_period, payoff_matrix
from echelon.league.ratings.game_theory import advantage, bradley_terry, exploitability, nash
from echelon.league.roles import Role
from echelon.league.schedule import one_against, period_seeds, round_robin
from echelon.league.store import MatchRecord, Standing, Store
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import TrainConfig
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.runtime.device import can_compile
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable, held

Rows = list[dict[str, Any]]
Progress = Callable[[Iterable[PlayedBatch], int], list[MatchRecord]]
"""Plays all batches of so many battles, and shows how far they are."""
SET_BY_LEAGUE = (
    *("env", "opponent", "self_share", "past_share", "past_every", "past_kept", "total_agent_steps", "max_minutes"),
    *("device", "run_dir", "resume", "evaluation", "league_every", "league_seeds", "profile", "replay_battles"),
)
"""Settings of `TrainConfig` that `evolve` sets itself, or has no use for."""


def logged(arena: LeagueArena, batches: Iterable[PlayedBatch], rated: bool) -> Iterator[PlayedBatch]:
    """The same batches; each is written into the league's log as it comes."""
    for played in batches:
        speed = round(len(played.matches) / played.seconds, 2)
        told = {"matches": len(played.matches), "matches_per_s": speed, "kept": rated}
        log.write_event(arena.store, "fought", **told, cache_hit_rate=round(arena.store.weights.hit_rate, 3))
        yield played


def evaluate(arena: LeagueArena, checkpoint: str, seeds: int, progress: Progress) -> Rows:
    """Play a checkpoint against every active entry, which is rated for nobody; a row for each, with 95 % intervals."""
    store = arena.store
    digest = store.add_weights(checkpoint)
    others = [entry for entry in store.active() if entry.id != digest]
    battles = one_against(digest, [entry.id for entry in others], period_seeds(0, seeds))
    matches = progress(logged(arena, arena.play_unrated(battles), rated=False), len(battles))
    rows = []
    for other in others:
        own = [match for match in matches if other.id in (match.blue, match.red)]
        points = sum(match.points(digest) for match in own)
        low, high = wilson_interval(sum(match.points(digest) == 1.0 for match in own), len(own))
        rows.append({"against": other.name, "battles": len(own), "points": points, "low": low, "high": high})
    return rows


def tournament(
    arena: LeagueArena, seeds: int, progress: Progress, replay: Path | None = None, replay_battles: int = 4
) -> int:
    """Play everybody against everybody, every seed from both sides, and close the rating period.

    Begun again after it was cut short, it goes on where it stopped.

    Args:
        replay: where the first `replay_battles` battles are recorded.

    Returns:
        The number of the period.
    """
    store = arena.store
    ids = [entry.id for entry in store.active()]
    require(len(ids) > 1, "--league", "one of at least two entries", str(store.folder))
    require(replay_battles >= 1, "--replay-battles", ">= 1", replay_battles)
    period = store.period
    battles = arena.unplayed(round_robin(ids, period_seeds(period, seeds)))
    recorder = None
    # One that was cut short just before its end has nothing left to record.
    if replay is not None and battles:
        check_writable(replay)
        recorder = Recorder(list(range(min(replay_battles, arena.arena.batch, len(battles)))))
    matches = progress(logged(arena, arena.play(battles, recorder), rated=True), len(battles))
    # None, where another process played them all.
    if replay is not None and recorder is not None and matches:
        names = {entry.id: entry.name for entry in store.entries()}
        shown = [matches[place] for place in recorder.battles]
        save(recorder.finish([names[b.blue] for b in shown], [names[b.red] for b in shown]), replay)
    close_period(store, period)
    log.write_event(store, "period closed", number=period)
    return period


def evolve(
    arena: LeagueArena, train: TrainConfig, device: str, start: str, seeds: int, turns: int, iterations: int
) -> Iterator[tuple[int, Role, str]]:
    """Let every role learn in turn; yields turn, role and verdict after each. See `Evolution`.

    Args:
        device: where they learn, as in `TrainConfig.device`.
        start: a checkpoint whose weights all roles begin from; fresh ones if empty.
        iterations: training iterations of a turn.
    """
    store = arena.store
    for name, count in (("turns", turns), ("iterations", iterations)):
        require(count >= 1, f"--{name}", ">= 1", count)
    period_seeds(store.period, seeds)
    for name in SET_BY_LEAGUE:
        usual, value = getattr(TrainConfig.quick(), name), getattr(train, name)
        require(value == usual, f"--train.{name.replace('_', '-')}", "left alone: the league decides it", value)
    train = dataclasses.replace(train, device=device)
    if train.compiled and not can_compile():
        train = dataclasses.replace(train, compiled=False, compile_policy="off")
    begun = open_checkpoint(start) if start else None
    # A role learns in one folder.
    with held(store.folder / ".evolve.lock"):
        evolution = Evolution(arena, train, begun, seeds, turns, iterations)
        for turn in range(1, turns + 1):
            for role in Role:
                yield turn, role, evolution.turn(role).reason


def entry_rows(store: Store) -> Rows:
    """A row for each entry."""
    entries = store.entries()
    names = {entry.id: entry.name for entry in entries}
    return [{"name": e.name, "kind": e.kind, "id": e.id, "parent": names.get(e.parent or "")} for e in entries]


def standing_rows(store: Store) -> Rows:
    """A row for each active entry, best first: Glicko-2, and beside it a Bradley-Terry refit and the Nash mixture."""
    stands = store.standings()
    score, games = payoff_matrix(store, [standing.id for standing in stands])
    refit, mixture = bradley_terry(score, games).tolist(), [0.0] * len(stands)
    played = [place for place, standing in enumerate(stands) if standing.games > 0]
    if played:
        for place, share in zip(played, nash(advantage(score, games)[played][:, played]).tolist(), strict=True):
            mixture[place] = share
    conservatism = store.rules.conservatism
    return [standing_row(*columns, conservatism) for columns in zip(stands, refit, mixture, strict=True)]


def standing_row(standing: Standing, refit: float, share: float, conservatism: float) -> dict[str, Any]:
    """An entry's row of the standings."""
    return {
        "name": standing.name,
        "kind": standing.kind,
        "rating": round(standing.rating, 1),
        "RD": round(standing.deviation, 1),
        "volatility": round(standing.volatility, 4),
        "conservative": round(standing.conservative(conservatism), 1),
        "games": standing.games,
        "points": round(standing.score / standing.games if standing.games else 0.0, 3),
        "refit": round(refit, 1),
        "nash": round(share, 3),
    }


def age_correlation(store: Store) -> tuple[int, float] | None:
    """Length of the longest line of descent, and Spearman's rho of age and rating along it; None for a short one."""
    line = longest_line(store.entries())
    rating = {standing.id: standing.rating for standing in store.standings() if standing.games > 0}
    if len(line) <= 2 or not rating.keys() >= {entry.id for entry in line}:
        return None
    return len(line), spearman(range(len(line)), [rating[entry.id] for entry in line])


@dataclasses.dataclass(frozen=True)
class Payoff:
    """Who beats whom, among the entries that have played."""

    names: list[str]
    games: list[list[float]]
    points: list[list[float]]
    """`[E][E]` points that the row took of the column."""
    share: list[list[float]]
    """`[E][E]` of its points; NaN where they never met."""
    nash: dict[str, float]
    """The Nash mixture, without shares of at most 0.001."""
    exploitability: float


def compute_payoff(store: Store) -> Payoff:
    """The payoff matrix of a league, its Nash mixture, and how far that can be exploited."""
    stands = [standing for standing in store.standings() if standing.games > 0]
    require(len(stands) > 1, "--league", "one in which battles were fought", str(store.folder))
    names = [standing.name for standing in stands]
    score, games = payoff_matrix(store, [standing.id for standing in stands])
    payoff = advantage(score, games)
    mixture = nash(payoff)
    best = {name: round(share, 4) for name, share in zip(names, mixture.tolist(), strict=True) if share > 0.001}
    gain = exploitability(payoff, mixture)
    return Payoff(names, games.tolist(), score.tolist(), (score / games).tolist(), best, gain)
