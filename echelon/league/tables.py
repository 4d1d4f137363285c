"""Prints and plots the results of a league."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from echelon.league.commands import age_correlation, compute_payoff, standing_rows
from echelon.league.league_arena import LeagueArena
from echelon.league.rating_period import plane, style_columns, styles_of
from echelon.league.store import Store
from echelon.reports.plots import payoff_figure, ratings_figure, styles_figure
from echelon.runtime.errors import require
from echelon.runtime.terminal import show_table, terminal
from echelon.viewer.paper import save


def show_standings(
    store: Store, as_json: bool, title: str, more: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Print the standings, which of their figures copies of entries do not change, and how age and rating correlate.

    Args:
        more: further columns, keyed by the entry's name.
    """
    show_table([{**row, **(more or {}).get(row["name"], {})} for row in standing_rows(store)], as_json, title)
    if as_json:
        return
    terminal().print("Ratings depend on how many copies of an entry a league has; the Nash mixture (nash) does not.")
    correlation = age_correlation(store)
    if correlation is not None:
        terminal().print(f"Spearman's rho of age and rating along {correlation[0]} generations: {correlation[1]:.2f}")


def show_payoff(store: Store, path: Path, as_json: bool) -> None:
    """Plot the payoff matrix of a league; print its Nash mixture and its cyclic share."""
    payoff = compute_payoff(store)
    save(payoff_figure(payoff.names, payoff.share, payoff.games), path)
    if as_json:
        numbers = {name: value for name, value in vars(payoff).items() if name != "share"}
        print(json.dumps({**numbers, "picture": str(path)}))
        return
    terminal().print(f"Nash mixture {payoff.nash}, exploitability {payoff.exploitability:.1e}")
    missing = sum(count == 0 for row, counts in enumerate(payoff.games) for count in counts[:row])
    if missing > 0:
        pairs = len(payoff.names) * (len(payoff.names) - 1) // 2
        terminal().print(f"{missing} of {pairs} pairs have no games and count as draws: run a tournament")
    chance = f"{payoff.cyclic_by_chance:.0%} by chance"
    terminal().print(f"{payoff.cyclic:.0%} of the payoff is cyclic, so ratings cannot explain it ({chance})")
    terminal().print(f"{path}")


def draw_ratings(store: Store, path: Path) -> None:
    """Plot the ratings of all entries over the rating periods.

    Raises:
        ConfigError: if no rating period is closed.
    """
    histories = {entry.name: [row[:3] for row in store.history(entry)] for entry in store.entries()}
    require(any(histories.values()), "--league", "a league with at least one closed rating period", str(store.folder))
    save(ratings_figure(histories), path)
    terminal().print(f"{path}")


def draw_styles(
    arena: LeagueArena, path: Path, whole: bool, on_entry: Callable[[str], object]
) -> dict[str, dict[str, Any]]:
    """Measure and plot the styles of all entries; return further columns of the standings, keyed by entry name."""
    styles = styles_of(arena, on_entry=on_entry)
    points, shares = plane(list(styles.values()))
    save(styles_figure(list(styles), points.numpy(), shares.tolist()), path)
    return style_columns(styles, whole=whole)


def show_history(store: Store, name: str, as_json: bool) -> None:
    """Print an entry's rating after each period, and the recorded changes of the entry."""
    entry = store.find(name)
    columns = ("period", "rating", "deviation", "volatility")
    rows: list[dict[str, Any]] = [dict(zip(columns, row, strict=True)) for row in store.history(entry)]
    changes = [vars(change) for change in store.changes() if change.name == entry.name]
    if as_json:
        print(json.dumps({"name": entry.name, "id": entry.id, "ratings": rows, "changes": changes}))
        return
    show_table(rows, False, entry.name)
    show_table(changes, False, "changes")
