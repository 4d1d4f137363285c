"""How a rating period ends: everybody rated at once, the best promoted, the rest in their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.league.config import LeagueConfig
from echelon.league.league_arena import LeagueArena
from echelon.league.ratings.glicko2 import Games, Ratings, rate
from echelon.league.schedule import one_against, period_seeds
from echelon.league.store import Entry, MatchRecord, Standing, Store

RANKED = ("candidate", "commander")
"""Kinds that rise and fall by their ratings; roles and scripted tiers keep their places."""


@dataclass(frozen=True)
class Move:
    """An entry that changes its kind at the end of a period."""

    id: str
    kind: str
    change: str
    reason: str


def close_period(store: Store, period: int | None = None) -> int:
    """Rate everybody by the battles of the open period and move who is to be moved; returns the period's number.

    One transaction: ratings before the period are read, all new ones computed from them, and written together.

    Args:
        period: the one to be closed, where others may have closed it meanwhile: then nothing happens.
    """
    config = store.rules
    with store.writing():
        if period is not None and period != store.period:
            return period
        period = store.period
        retired = {entry.id for entry in store.entries("retired")}
        matches = store.matches(period)
        fought = {who for match in matches for who in (match.blue, match.red)}
        stands = [standing for standing in store.standings() if standing.id not in retired or standing.id in fought]
        after = rate(ratings_of(stands), games_of(matches, [standing.id for standing in stands]), config.tau)
        rows = zip(*(column.tolist() for column in after), strict=True)
        store.close_period({standing.id: row for standing, row in zip(stands, rows, strict=True)})
        entries = {entry.id: entry for entry in store.entries()}
        for move in moves(store.standings(), config):
            store.set_kind(entries[move.id], move.kind, move.change, move.reason, period)
    return period


def rate_entry(arena: LeagueArena, entry: Entry, seeds: int) -> int:
    """Play a new entry against everybody on so many seeds, and close the period; returns its number."""
    store = arena.store
    period, others = store.period, [other.id for other in store.active()]
    for _ in arena.play(arena.unplayed(one_against(entry.id, others, period_seeds(period, seeds)))):
        pass
    return close_period(store, period)


def ratings_of(stands: Sequence[Standing]) -> Ratings:
    """What standings say, `[E]` each."""
    columns = ("rating", "deviation", "volatility")
    return Ratings(*(torch.tensor([getattr(s, name) for s in stands], dtype=torch.float64) for name in columns))


def games_of(matches: Sequence[MatchRecord], ids: Sequence[str]) -> Games:
    """Matches as games between places in `ids`."""
    place = {who: number for number, who in enumerate(ids)}
    blue = torch.tensor([place[match.blue] for match in matches], dtype=torch.int64)
    red = torch.tensor([place[match.red] for match in matches], dtype=torch.int64)
    score = torch.tensor([match.points(match.blue) for match in matches], dtype=torch.float64)
    return Games(blue, red, score)


def moves(stands: Sequence[Standing], config: LeagueConfig) -> list[Move]:
    """Who is promoted to commander, who falls back, and who retires.

    Commanders are the best `commanders` by r - k RD among those of `min_games` games; ties go to more games, then to
    the name. Of the others the best `candidates_kept` stay; who has fewer than `min_games` games stays too.
    """

    def order(standing: Standing) -> tuple[float, int, str]:
        return -standing.conservative(config.conservatism), -standing.games, standing.name

    ranked = sorted((s for s in stands if s.kind in RANKED), key=order)
    proven = [s for s in ranked if s.games >= config.min_games]
    best = proven[: config.commanders]
    said = f"r - {config.conservatism:g} RD ="
    found = []
    for place, standing in enumerate(best, 1):
        if standing.kind == "candidate":
            reason = f"{said} {standing.conservative(config.conservatism):.0f}, place {place} of {len(proven)}"
            found.append(Move(standing.id, "commander", "promoted", reason))
    rest = proven[config.commanders :]
    for place, standing in enumerate(rest, 1):
        reason = f"{said} {standing.conservative(config.conservatism):.0f}, place {place + len(best)} of {len(proven)}"
        if place > config.candidates_kept:
            found.append(Move(standing.id, "retired", "retired", reason))
        elif standing.kind == "commander":
            found.append(Move(standing.id, "candidate", "demoted", reason))
    return found


def payoff_matrix(store: Store, ids: Sequence[str]) -> tuple[Tensor, Tensor]:
    """`[E, E]` points that the row took of the column, and games they played."""
    score, games = (torch.zeros(len(ids), len(ids), dtype=torch.float64) for _ in range(2))
    place = {who: number for number, who in enumerate(ids)}
    for (x, y), (count, points) in store.payoff().items():
        if x in place and y in place:
            games[place[x], place[y]], score[place[x], place[y]] = count, points
    return score, games
