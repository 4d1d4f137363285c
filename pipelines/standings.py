"""The commands of `arena.py` that print a league: its entries, ratings and payoffs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from echelon.league.commands import compute_payoff, entry_rows
from echelon.league.store import FILE, Store
from echelon.pipelines.console import terminal
from echelon.pipelines.pictures import beside, require_picture
from echelon.pipelines.result_tables import show, show_standings
from echelon.reports.plots import draw_payoff, draw_ratings
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable


@dataclass(frozen=True)
class List:
    """Print the entries."""

    league: Path
    json: bool = False

    def run(self) -> None:
        """Print the table."""
        rows = entry_rows(Store(self.league))
        show(rows, self.json, f"{len(rows)} entries", shorten=("id",))


@dataclass(frozen=True)
class Standings:
    """Print Glicko-2 ratings, best first, with a Bradley-Terry refit of all games and the Nash mixture."""

    league: Path
    json: bool = False

    def run(self) -> None:
        """Print the table."""
        store = Store(self.league)
        show_standings(store, self.json, f"after period {store.period - 1}")


@dataclass(frozen=True)
class Payoff:
    """Draw the payoff matrix as a heatmap with the number of games of each pair, and print the Nash mixture and its
    exploitability."""

    league: Path
    out: Path | None = None
    """The picture, a PDF, SVG or PNG; by default payoff.png in the folder of the league, or here if nothing can be
    written there."""
    json: bool = False

    def run(self) -> None:
        """Draw the matrix and print the mixture."""
        path = self.out or beside(self.league / FILE, "payoff.png")
        require_picture("--out", path)
        store = Store(self.league)
        check_writable(path)
        found = compute_payoff(store)
        draw_payoff(found.names, found.share, path, found.games)
        if self.json:
            numbers = {"names": found.names, "games": found.games, "points": found.points, "nash": found.nash}
            print(json.dumps({**numbers, "exploitability": found.exploitability, "picture": str(path)}))
        else:
            terminal().print(f"Nash mixture {found.nash}, exploitability {found.exploitability:.1e}")
            terminal().print(f"{path}")


@dataclass(frozen=True)
class Ratings:
    """Draw the ratings of all entries over the rating periods."""

    league: Path
    out: Path | None = None
    """The picture, a PDF, SVG or PNG; by default ratings.png in the folder of the league, or here if nothing can be
    written there."""

    def run(self) -> None:
        """Draw them."""
        path = self.out or beside(self.league / FILE, "ratings.png")
        require_picture("--out", path)
        store = Store(self.league)
        check_writable(path)
        histories = {entry.name: [row[:3] for row in store.history(entry)] for entry in store.entries()}
        require(any(histories.values()), "--league", "one with a rating period that has ended", str(self.league))
        draw_ratings(histories, path)
        terminal().print(f"{path}")


@dataclass(frozen=True)
class History:
    """Print the ratings of an entry by period, and its recorded changes."""

    name: tyro.conf.Positional[str]
    league: Path
    json: bool = False

    def run(self) -> None:
        """Print the history."""
        store = Store(self.league)
        entry = store.find(self.name)
        columns = ("period", "rating", "deviation", "volatility")
        rows: list[dict[str, Any]] = [dict(zip(columns, row, strict=True)) for row in store.history(entry)]
        changes = [vars(change) for change in store.changes() if change.name == entry.name]
        if self.json:
            print(json.dumps({"name": entry.name, "id": entry.id, "ratings": rows, "changes": changes}))
            return
        show(rows, False, entry.name)
        show(changes, False, "what happened")
