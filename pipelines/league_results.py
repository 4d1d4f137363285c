"""The `arena.py` commands that print and draw the results of a league."""

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from echelon.arena.style import BATTLES
from echelon.env.tasks.task import TIERS
from echelon.league.store import FILE, Store
from echelon.league.tables import draw_ratings, draw_styles, show_payoff, show_standings
from echelon.pipelines.arena_args import ArenaArgs
from echelon.runtime.files import beside, check_writable
from echelon.runtime.terminal import bar, terminal
from echelon.viewer.paper import require_picture


@dataclass(frozen=True)
class Picture:
    """Base class of commands that draw a picture of a league."""

    league: Path
    out: Path | None = None
    """Output picture (PDF, SVG or PNG); by default styles.png, payoff.png or ratings.png in the league's folder, or in
    the current folder if that is read-only. Standings draw a picture only with --style."""

    def store_and_file(self, name: str, draws: bool = True) -> tuple[Store, Path]:
        """Return the league and the path of the picture; `name` is the picture's default file name."""
        path = self.out or beside(self.league / FILE, name)
        require_picture("--out", path)
        store = Store(self.league)
        check_writable(path if draws else None)
        return store, path


@dataclass(frozen=True)
class Standings(Picture):
    """Print Glicko-2 ratings, best first, with a Bradley-Terry fit to all games and the Nash mixture's shares."""

    json: bool = False
    style: bool = False
    """Also print and draw how differently the entries play. Entries without a stored measurement play unrated battles
    for it (`docs/LEAGUE.md`)."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        store, path = self.store_and_file("styles.png", self.style)
        entries, style_rows = len(store.entries()), None
        if self.style:
            with bar(entries, "styles", quiet=self.json) as progress:
                arena = self.arena.build(store, battles=entries * len(TIERS) * BATTLES)
                style_rows = draw_styles(arena, path, self.json, lambda name: progress.advance())
        show_standings(store, self.json, f"after period {store.period - 1}", style_rows)
        if self.style and not self.json:
            terminal().print(f"{path}")


@dataclass(frozen=True)
class Payoff(Picture):
    """Draw the payoff matrix of a league as a heatmap, with the number of games of each pair.

    Print the Nash mixture, its exploitability, and the share of the payoff that no rating can explain.
    """

    json: bool = False

    def run(self) -> None:
        store, path = self.store_and_file("payoff.png")
        show_payoff(store, path, self.json)


@dataclass(frozen=True)
class Ratings(Picture):
    """Draw the ratings of all entries over the rating periods."""

    def run(self) -> None:
        store, path = self.store_and_file("ratings.png")
        draw_ratings(store, path)
