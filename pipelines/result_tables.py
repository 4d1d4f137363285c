"""Prints tables of results: of a match, of the standings of a league, of any rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from echelon.arena.match import Result
from echelon.league.commands import age_correlation, standing_rows
from echelon.league.store import Store
from echelon.pipelines.console import terminal
from echelon.runtime.errors import one_line

MEANS = {"kills": "kills", "deaths": "deaths", "damage": "damage", "zone, mech-s": "zone_s"}
"""What is told of a commander, a mean over battles: two mechs of a team in the zone for a second make two mech-s."""
PIPE_WIDTH = 140
"""Width of tables, in characters, where the output is not a terminal."""


def show(rows: list[dict[str, Any]], as_json: bool, title: str, shorten: tuple[str, ...] = ()) -> None:
    """Print rows as a table, or as one JSON list.

    Args:
        shorten: columns cut to 12 characters.
    """
    if as_json:
        print(json.dumps(rows))
        return
    table = Table(title=one_line(title))
    for column in rows[0] if rows else ():
        is_number = any(isinstance(row[column], int | float) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number or column == "name")
    for row in rows:
        cells = {name: "" if value is None else one_line(value) for name, value in row.items()}
        table.add_row(*(cell[:12] if name in shorten else cell for name, cell in cells.items()))
    # A pipe reports no width.
    terminal(soft_wrap=False, width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)


def show_standings(
    store: Store, as_json: bool, title: str, more: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Print the table of standings, and the correlation of age and rating along the longest lineage.

    Args:
        more: further columns by name of the entry.
    """
    show([{**row, **(more or {}).get(row["name"], {})} for row in standing_rows(store)], as_json, title)
    correlation = None if as_json else age_correlation(store)
    if correlation is not None:
        terminal().print(f"Spearman's rho of age and rating along {correlation[0]} generations: {correlation[1]:.2f}")


def show_match(result: Result, x: str, y: str, by_side: bool = False) -> None:
    """Print the result of a match between commanders `x` and `y`, the share that `x` won and its 95 % interval.

    Args:
        by_side: print the share that each won as blue and as red too, for teams that differ.
    """
    rows = []
    for name, wins, is_x in ((x, result.x_wins, True), (y, result.y_wins, False)):
        stats = result.mean_stats(is_x)
        means = {title: f"{stats[key]:.1f}" for title, key in MEANS.items()}
        sides = result.win_rates_by_side(is_x) if by_side else {}
        shares = {"share": f"{wins / result.battles:.0%}"} | {
            f"as {side}": f"{win_rate:.0%}" for side, win_rate in sides.items()
        }
        rows.append({"name": name, "wins": wins, **shares, **means})
    show(rows, False, f"{result.battles} battles, each seed from both sides")
    low, high = result.x_win_rate_95
    draws, share = result.battles - result.x_wins - result.y_wins, result.x_wins / result.battles
    terminal().print(f"{x} wins {share:.1%}, 95 % interval {low:.1%} to {high:.1%}")
    terminal().print(f"{draws} draws, {speed_of(result.battles, result.seconds)}")


def speed_of(battles: int, seconds: float) -> str:
    """Battles a second, or seconds a battle where they are slower than that."""
    rate = battles / max(seconds, 1e-9)
    return f"{rate:.1f} battles/s" if rate >= 1 else f"{1 / rate:.1f} s a battle"
