"""Closes rating periods: rates all entries at once and promotes, demotes or retires them; measures their styles."""

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
    """The style of every entry by its name, in battles of the league against its scripted tiers but the weakest. Those
    that are not kept yet are measured, and kept where the league can be written to.

    Args:
        battles: against each tier, an even number.
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
            with contextlib.suppress(FileError):  # A league that may only be read keeps none.
                store.set_setting(f"style {entry.id}", stored.as_json())
        styles[entry.name] = stored
        on_entry(entry.name)
    return styles


def stored_style(store: Store, who: str) -> Style | None:
    """The style of an entry that the league keeps; None if there is none. It may be a stranger's."""
    row = store.get_setting(f"style {who}")
    if row is None:
        return None
    record(RULES["style"])(f"{store.path}: style {who}", row)
    return Style(**{**row, "seeds": tuple(row["seeds"])})


def comparable_styles(store: Store) -> dict[str, Style]:
    """The kept styles by id of all entries that were measured in the same battles as the first of them."""
    styles = {
        entry.id: entry_style for entry in store.entries() if (entry_style := stored_style(store, entry.id)) is not None
    }
    return {
        entry_id: entry_style
        for entry_id, entry_style in styles.items()
        if entry_style.is_like(next(iter(styles.values())))
    }


def distances(styles: Sequence[Style]) -> list[list[float]]:
    """`[E][E]` how unlike each two are, see `Style.distance`."""
    return [[x.distance(y) for y in styles] for x in styles]


def style_columns(styles: Mapping[str, Style], whole: bool = False) -> dict[str, dict[str, Any]]:
    """Columns of the standings by name of the entry: whom it is most `like`, and how far `apart` the two are.

    Args:
        whole: also the `style`, the `response` and where the entry lies in the `plane`.
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
    """`[E, 2]` where styles lie in the plane of their first two principal components, in units of `Style.distance`
    times the root of the number of measures, and `[2]` the shares of the variance along these."""
    rows = torch.tensor([entry_style.vector for entry_style in styles], dtype=torch.float64, device="cpu")
    left_vectors, sizes, axes = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    # Either direction of an axis is as good: its largest number shall be positive.
    signs = axes.gather(1, axes.abs().argmax(1, keepdim=True))[:, 0].sign()
    shares = sizes**2 / (sizes**2).sum().clamp_min(1e-12)
    return (left_vectors * sizes * signs)[:, :2], shares[:2]


RANKED = ("candidate", "commander")
"""Kinds that are promoted and demoted by rating; entries of roles and scripted tiers keep their kind."""


@dataclass(frozen=True)
class Move:
    """A change of the kind of an entry at the end of a period."""

    id: str
    kind: str
    change: str
    reason: str


def close_period(store: Store, period: int | None = None) -> int:
    """Rate all entries by the battles of the open period, close it, and apply `moves`, in one transaction.

    Args:
        period: the period to close; nothing happens if another process has closed it. The open one by default.

    Returns:
        The number of the closed period.
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
    """Yield the unplayed battles of a schedule that may be rated, to be played before the next round is drawn.

    Entries with under `cold_games` games meet those of similar rating first (`matchmaking.rated_pairs`), and all others
    once they have played enough. Battles that stay out of reach are left out.
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
    """Play an entry against the active entries, see `rounds`, close the period and return its number.

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

    The best `commanders` entries by r - k RD with at least `min_games` games and `commander_points` a game are
    commanders; ties are broken by more games, then by name. Of the rest, the best `candidates_kept` and those with
    fewer games stay candidates; which of equals, their `styles` decide, see `unlike_first`.

    Args:
        styles: by id, of those that were measured.
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
    """Candidates in the order in which they stay: by rating, but of those about the last one that stays, who differ by
    `equal_rating` at most, in turn whoever fights least like everybody who stays already. By rating alone where one of
    them was not measured.

    Args:
        rest: in the order of their ratings.
        others: who stays anyway.
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
    """`[E, E]` float64 points of the row entry against the column entry, and numbers of games."""
    score, games = (torch.zeros(len(ids), len(ids), dtype=torch.float64, device="cpu") for _ in range(2))
    index = {entry_id: number for number, entry_id in enumerate(ids)}
    for (x, y), (count, points) in store.payoff().items():
        if x in index and y in index:
            games[index[x], index[y]], score[index[x], index[y]] = count, points
    return score, games
