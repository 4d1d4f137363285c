"""Closes rating periods: rates all entries at once, then promotes, demotes or retires them. Also measures styles."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from echelon.arena.batch_arena import Battle
from echelon.arena.style import BATTLES, Style, style
from echelon.env.tasks.task import TIERS
from echelon.league.config import LeagueConfig
from echelon.league.database import RULES
from echelon.league.league_arena import LeagueArena
from echelon.league.matchmaking import one_against, period_seeds, rated_pairs
from echelon.league.ratings import games_of, rate, ratings_of
from echelon.league.records import Entry, Standing
from echelon.league.store import Store
from echelon.runtime.errors import require
from echelon.runtime.files import FileError
from echelon.runtime.json_checks import record


def styles_of(
    arena: LeagueArena, battles: int = BATTLES, on_entry: Callable[[str], object] = lambda name: None
) -> dict[str, Style]:
    """Return the style (how it fights) of each entry, by name, in battles against all scripted tiers but the weakest.

    Styles that are not stored are measured, and stored if the league is writable.

    Args:
        battles: even number of battles against each tier.
        on_entry: called with the name of each entry.
    """
    store = arena.store
    tiers = {entry.id: entry.name for entry in map(store.find, TIERS)}
    styles: dict[str, Style] = {}
    for entry in store.entries():
        stored = stored_style(store, entry.id)
        expected = (arena.task.fingerprint, battles, {*tiers.values()})
        if stored is None or (stored.fingerprint, 2 * len(stored.seeds), stored.response.keys()) != expected:
            measured = style(entry.id, arena.task, list(tiers), battles, arena=arena.arena)
            response = {tiers[opponent]: points for opponent, points in measured.response.items()}
            stored = dataclasses.replace(measured, policy=entry.name, response=response)
            with contextlib.suppress(FileError):  # A read-only league cannot store the result.
                store.set_setting(f"style {entry.id}", stored.as_json())
        styles[entry.name] = stored
        on_entry(entry.name)
    return styles


def stored_style(store: Store, who: str) -> Style | None:
    """Return the stored style of an entry, or None if no style is stored.

    The stored values are checked, because the league's file may be untrusted.
    """
    row = store.get_setting(f"style {who}")
    if row is None:
        return None
    record(RULES["style"])(f"{store.path}: style {who}", row)
    return Style(**{**row, "seeds": tuple(row["seeds"])})


def comparable_styles(store: Store) -> dict[str, Style]:
    """Return the stored styles that were measured in the same battles as the first stored style, keyed by entry id."""
    styles = {
        entry.id: entry_style for entry in store.entries() if (entry_style := stored_style(store, entry.id)) is not None
    }
    return {
        entry_id: entry_style
        for entry_id, entry_style in styles.items()
        if entry_style.is_like(next(iter(styles.values())))
    }


def distances(styles: Sequence[Style]) -> list[list[float]]:
    """Return the distance between each pair of styles, `[E][E]`, see `Style.distance`."""
    return [[x.distance(y) for y in styles] for x in styles]


def style_columns(styles: Mapping[str, Style], whole: bool = False) -> dict[str, dict[str, Any]]:
    """Return columns of the standings, keyed by entry name.

    `like` is the entry with the most similar style, `apart` its distance.

    Args:
        whole: whether to add columns for the `style`, the `response` (points against each opponent) and the position in
            the `plane`.
    """
    require(len(styles) > 1, "--league", "one of at least two entries", len(styles))
    names, measured = list(styles), list(styles.values())
    columns = {}
    for number, row in enumerate(distances(measured)):
        distance, like = min((d, name) for name, d in zip(names, row, strict=True) if name != names[number])
        columns[names[number]] = {"like": like, "apart": round(distance, 3)}
    if whole:
        points = plane(measured)[0].tolist()
        for name, entry_style, point in zip(names, measured, points, strict=True):
            columns[name] |= {
                "style": dict(entry_style.numbers),
                "response": dict(entry_style.response),
                "plane": point,
            }
    return columns


def plane(styles: Sequence[Style]) -> tuple[Tensor, Tensor]:
    """Project the style vectors of entries onto their first two principal components.

    Returns:
        Positions `[E, 2]`, in units of `Style.distance` times the square root of the number of measures, and the shares
        `[2]` of the variance that the two components explain.
    """
    rows = torch.tensor([entry_style.vector for entry_style in styles], dtype=torch.float64, device="cpu")
    left_vectors, sizes, axes = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    # The sign of a singular vector is arbitrary, so make its largest component positive.
    signs = axes.gather(1, axes.abs().argmax(1, keepdim=True))[:, 0].sign()
    shares = sizes**2 / (sizes**2).sum().clamp_min(1e-12)
    return (left_vectors * sizes * signs)[:, :2], shares[:2]


RANKED = ("candidate", "commander")
"""Kinds that are promoted and demoted by rating; entries of roles and scripted tiers keep their kind."""


@dataclass(frozen=True)
class Move:
    """A change of an entry's kind at the end of a rating period."""

    id: str
    kind: str
    change: str
    reason: str


def close_period(store: Store, period: int | None = None) -> int:
    """Rate all entries by the battles of the open period, close the period, and apply `moves`, in one transaction.

    Args:
        period: the period to close, by default the open one; if another process has already closed it, nothing happens.

    Returns:
        The number of the period that was closed.
    """
    config = store.rules
    with store.writing():
        if period is not None and period != store.period:
            return period
        period = store.period
        retired = {entry.id for entry in store.entries("retired")}
        matches = store.matches(period)
        active_ids = {entry_id for match in matches for entry_id in (match.blue, match.red)}
        standings = [
            standing for standing in store.standings() if standing.id not in retired or standing.id in active_ids
        ]
        before = ratings_of([(standing.rating, standing.deviation, standing.volatility) for standing in standings])
        results = [(match.blue, match.red, match.winner) for match in matches]
        after = rate(before, games_of(results, [standing.id for standing in standings]), config.tau)
        rows = zip(*(column.tolist() for column in after), strict=True)
        store.close_period({standing.id: row for standing, row in zip(standings, rows, strict=True)})
        entries = {entry.id: entry for entry in store.entries()}
        for move in moves(store.standings(), config, comparable_styles(store)):
            store.set_kind(entries[move.id], move.kind, move.change, move.reason, period)
    return period


def rounds(arena: LeagueArena, battles: Sequence[Battle]) -> Iterator[list[Battle]]:
    """Yield the unplayed battles that may be rated now, as rounds to be played one after another.

    Entries with fewer than `cold_games` games first play opponents of similar rating (`matchmaking.rated_pairs`); once
    they have enough games, they play all others. Battles that never become allowed by these limits are skipped.
    """
    store, active = arena.store, {entry.id for entry in arena.store.active()}
    while True:
        standings = [standing for standing in store.standings() if standing.id in active]
        pairs = rated_pairs(standings, store.rules)
        battles = arena.unplayed(battles)
        playable = [battle for battle in battles if frozenset((battle.blue, battle.red)) in pairs]
        if not playable:
            return
        yield playable


def rate_entry(arena: LeagueArena, entry: Entry, seeds: int) -> int:
    """Play an entry against the active entries (see `rounds`), close the rating period and return its number.

    Args:
        seeds: number of seeds per opponent, each played once per side.
    """
    store = arena.store
    period, opponents = store.period, [opponent.id for opponent in store.active()]
    for battles in rounds(arena, one_against(entry.id, opponents, period_seeds(period, seeds))):
        for _ in arena.play(battles):
            pass
    return close_period(store, period)


def moves(stands: Sequence[Standing], config: LeagueConfig, styles: Mapping[str, Style] | None = None) -> list[Move]:
    """Decide promotions to commander, demotions and retirements.

    Commanders are the best `commanders` entries by r - k RD (rating minus k deviations) with at least `min_games` games
    and `commander_points` per game; ties are broken by more games, then by name. The best `candidates_kept` of the
    other entries stay candidates, as do all entries with fewer games; `styles` decide between equal ratings, see
    `unlike_first`.

    Args:
        styles: the measured styles, keyed by entry id.
    """

    def order(standing: Standing) -> tuple[float, int, str]:
        return -standing.conservative(config.conservatism), -standing.games, standing.name

    ranked = sorted((s for s in stands if s.kind in RANKED), key=order)
    proven = [s for s in ranked if s.games >= config.min_games]
    best = [s for s in proven if s.score >= config.commander_points * s.games][: config.commanders]
    score_text = f"r - {config.conservatism:g} RD ="
    changes = []
    for standing in best:
        if standing.kind == "candidate":
            place = proven.index(standing) + 1
            reason = f"{score_text} {standing.conservative(config.conservatism):.0f}, place {place} of {len(proven)}"
            changes.append(Move(standing.id, "commander", "promoted", reason))
    by_rating = [standing for standing in proven if standing not in best]
    unproven = [standing for standing in stands if standing.kind != "retired" and standing not in by_rating]
    rest = unlike_first(by_rating, unproven, config, styles or {})
    for place, standing in enumerate(rest, 1):
        score = f"{score_text} {standing.conservative(config.conservatism):.0f}"
        by_style = "" if by_rating[place - 1] is standing else ", by style among equals"
        reason = f"{score}, place {place + len(best)} of {len(proven)}{by_style}"
        if place > config.candidates_kept:
            changes.append(Move(standing.id, "retired", "retired", reason))
        elif standing.kind == "commander":
            changes.append(Move(standing.id, "candidate", "demoted", reason))
    return changes


def unlike_first(
    rest: list[Standing], others: Sequence[Standing], config: LeagueConfig, styles: Mapping[str, Style]
) -> list[Standing]:
    """Return candidates in the order of priority for staying: by rating, then by style among equals.

    Candidates count as equal if their conservative rating is within half of `equal_rating` of the last place that
    stays. Among equals, the candidate whose style differs most from all entries that stay comes next. If an equal
    candidate has no measured style, the rating alone decides.

    Args:
        rest: candidates sorted by rating.
        others: entries that stay in any case.
    """

    def above(standing: Standing) -> float:
        last = rest[config.candidates_kept - 1].conservative(config.conservatism)
        return standing.conservative(config.conservatism) - last

    if len(rest) <= config.candidates_kept or config.equal_rating == 0:
        return rest
    equal = [standing for standing in rest if 2 * abs(above(standing)) <= config.equal_rating]
    if any(standing.id not in styles for standing in equal):
        return rest
    first = rest.index(equal[0])
    chosen, ordered, last = [*others, *rest[:first]], list[Standing](), rest[first + len(equal) :]
    while equal:
        near = [[styles[e.id].distance(styles[k.id]) for k in chosen if k.id in styles] for e in equal]
        min_distances = [min(row, default=0.0) for row in near]
        ordered.append(equal.pop(min_distances.index(max(min_distances))))
        chosen.append(ordered[-1])
    return [*rest[:first], *ordered, *last]


def payoff_matrix(store: Store, ids: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return points of the row entry against the column entry, and numbers of games, `[E, E]` float64 each."""
    score, games = (torch.zeros(len(ids), len(ids), dtype=torch.float64, device="cpu") for _ in range(2))
    index = {entry_id: number for number, entry_id in enumerate(ids)}
    for (x, y), (count, points) in store.payoff().items():
        if x in index and y in index:
            games[index[x], index[y]], score[index[x], index[y]] = count, points
    return score, games
