"""The commands of `arena.py` for a league: its entries, tournaments, training, ratings and payoffs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from echelon.arena.config import setup_words
from echelon.arena.style import BATTLES
from echelon.env.tasks.task import TIERS
from echelon.league import commands
from echelon.league.commands import compute_payoff, entry_rows
from echelon.league.config import LeagueConfig
from echelon.league.import_export import read_league, write_league
from echelon.league.roles import Role
from echelon.league.store import FILE, Store
from echelon.league.styles import plane, style_columns, styles_of
from echelon.league.unrecorded import is_unrecorded, record_file
from echelon.learn.callbacks.progress import Each
from echelon.learn.config import TrainConfig
from echelon.pipelines.arena_args import ArenaArgs, ChosenBattle
from echelon.pipelines.console import terminal
from echelon.pipelines.pictures import beside, require_picture
from echelon.pipelines.progress_bar import bar, reading, with_progress
from echelon.pipelines.result_tables import show, show_standings
from echelon.reports.plots import payoff_figure, ratings_figure, styles_figure
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import Limits, Settings
from echelon.runtime.ray_tasks import RayArgs
from echelon.view.paper import save

TURNS = Limits(1, 10**6)


@dataclass(frozen=True)
class Tournament:
    """Play a round robin of all active entries, every seed once per side, and close the rating period.

    An interrupted tournament continues where it stopped. With --ray the workers of a cluster play the battles, and this
    process records them.
    """

    league: Path
    seeds: int = 16
    """Seeds per pair."""
    json: bool = False
    replay: Path | None = None
    """Record some of the first battles into this file."""
    replay_battles: int = 4
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)
    cluster: tyro.conf.OmitArgPrefixes[RayArgs] = field(default_factory=RayArgs)

    def run(self) -> None:
        store, progress = Store(self.league), partial(with_progress, quiet=self.json)
        with self.cluster.connected() as tasks:
            entries = len(store.active())
            arena = self.arena.build(store, tasks, entries * (entries - 1) * self.seeds)
            try:
                period = commands.tournament(arena, self.seeds, progress, self.replay, self.replay_battles)
            except KeyboardInterrupt as interrupt:
                # It says nothing where it came between two batches.
                raise KeyboardInterrupt(str(interrupt) or "the same command goes on") from None
        show_standings(store, self.json, f"after period {period}")
        if not self.json:
            terminal().print(setup_words(arena.arena.setup), markup=False, highlight=False)


@dataclass(frozen=True)
class Evolve(Settings):
    """Train a main agent and two exploiters in turn and add their policies to the league."""

    league: Path
    turns: Annotated[int, TURNS] = 4
    """Turns of each role."""
    iterations: Annotated[int, TURNS] = 20
    """Training iterations per turn."""
    seeds: int = 2
    """Seeds per opponent in evaluations and ratings, each played once per side."""
    start: str = ""
    """Checkpoint or trained:NAME with the initial weights of all roles; random initialization if empty."""
    train: TrainConfig = field(default_factory=TrainConfig.quick)
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def __post_init__(self) -> None:
        super().__post_init__()
        # The length of the schedules follows from it before the device is asked.
        require(self.train.num_envs > 0, "--train.num-envs", "at least 2 battles", self.train.num_envs)

    def run(self) -> None:
        store, console = Store(self.league), terminal()
        options = (self.train, self.arena.device, self.start, self.seeds, self.turns, self.iterations)
        battles = 2 * self.seeds * len(store.active()) * len(Role) * self.turns
        with bar(self.turns * len(Role) * self.iterations, "iterations") as progress:
            each = [Each(progress.advance)]
            for turn, role, verdict in commands.evolve(self.arena.build(store, battles=battles), *options, each):
                console.print(f"turn {turn}, {role.value}: {verdict}")
        show_standings(store, False, f"after period {store.period - 1}")


@dataclass(frozen=True)
class Init(ChosenBattle):
    """Create a league with the scripted tiers as entries."""

    league: Path
    """Folder of the league."""
    rules: LeagueConfig = field(default_factory=LeagueConfig)

    def run(self) -> None:
        env = self.config([])
        store = Store.create(self.league, env, self.rules)
        terminal().print(f"{self.league}: {len(store.entries())} entries, battles of {env.title}")


@dataclass(frozen=True)
class Add:
    """Add checkpoints as candidates."""

    checkpoints: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    parent: str = ""
    """Name or id of the parent of the first checkpoint. By default the parent of each is the newest entry that its file
    names among the weights it was trained from."""

    def run(self) -> None:
        require(len(self.checkpoints) > 0, "add", "given one checkpoint at least", self.checkpoints)
        store = Store(self.league)
        parent = store.find(self.parent).id if self.parent else None
        for checkpoint in self.checkpoints:
            entry, parent = store.add(checkpoint, parent=parent), None
            terminal().print(f"{entry.name}  {entry.id[:12]}  {checkpoint}")


@dataclass(frozen=True)
class Retire:
    """Retire entries: they play no more battles, and keep their history."""

    names: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    reason: str = "by hand"

    def run(self) -> None:
        require(len(self.names) > 0, "retire", "given the name of one entry at least", self.names)
        store = Store(self.league)
        with store.writing():
            for entry in [store.find(name) for name in self.names]:
                store.set_kind(entry, "retired", "retired", self.reason)


@dataclass(frozen=True)
class Export:
    """Write a league to one JSON file, and its weights next to it."""

    league: Path
    out: Path

    def run(self) -> None:
        check_writable(self.out)
        write_league(Store(self.league), self.out)
        terminal().print(f"{self.out}  {self.out.stat().st_size / 1e6:.1f} MB")


@dataclass(frozen=True)
class Import:
    """Create a league from an exported file, or record in a league the battles of a file `unrecorded_….json`, which a
    tournament left that could not write to it. Everything is validated first."""

    file: tyro.conf.Positional[Path]
    league: Path

    def run(self) -> None:
        if is_unrecorded(self.file):
            count, new = record_file(self.file, Store(self.league))
            terminal().print(f"{self.league}: {new} new of {count} matches; {self.file} is not needed any more")
            return
        with reading(self.file) as wrap:
            store = read_league(self.file, self.league, wrap)
        terminal().print(f"{self.league}: {len(store.entries())} entries, {len(store.matches())} matches")


@dataclass(frozen=True)
class List:
    """Print the entries."""

    league: Path
    json: bool = False

    def run(self) -> None:
        rows = entry_rows(Store(self.league))
        show(rows, self.json, f"{len(rows)} entries", shorten=("id",))


@dataclass(frozen=True)
class Picture:
    """Base of the commands that draw a league."""

    league: Path
    out: Path | None = None
    """The picture, a PDF, SVG or PNG; by default styles.png, payoff.png or ratings.png in the folder of the league, or
    here if nothing can be written there. Standings draw one with --style only."""

    def store_and_file(self, name: str, draws: bool = True) -> tuple[Store, Path]:
        """The league, and the file of the picture, by default of this name."""
        path = self.out or beside(self.league / FILE, name)
        require_picture("--out", path)
        store = Store(self.league)
        check_writable(path if draws else None)
        return store, path


@dataclass(frozen=True)
class Standings(Picture):
    """Print Glicko-2 ratings, best first, with a Bradley-Terry refit of all games and the Nash mixture."""

    json: bool = False
    style: bool = False
    """Also tell how unlike each other the entries fight, and draw it. Those that were not measured yet play for that,
    unrated (`docs/LEAGUE.md`)."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        store, path = self.store_and_file("styles.png", self.style)
        style_rows = self.styles(store, path) if self.style else None
        show_standings(store, self.json, f"after period {store.period - 1}", style_rows)
        if self.style and not self.json:
            terminal().print(f"{path}")

    def styles(self, store: Store, path: Path) -> dict[str, dict[str, Any]]:
        """Measure and draw the styles of all entries; columns of the standings by name."""
        entries = len(store.entries())
        with bar(entries, "styles", quiet=self.json) as progress:
            arena = self.arena.build(store, battles=entries * len(TIERS) * BATTLES)
            styles = styles_of(arena, on_entry=lambda name: progress.advance())
        points, shares = plane(list(styles.values()))
        save(styles_figure(list(styles), points.numpy(), shares.tolist()), path)
        return style_columns(styles, whole=self.json)


@dataclass(frozen=True)
class Payoff(Picture):
    """Draw the payoff matrix as a heatmap with the number of games of each pair, and print the Nash mixture, its
    exploitability, and the share of the payoff that no rating explains."""

    json: bool = False

    def run(self) -> None:
        store, path = self.store_and_file("payoff.png")
        payoff = compute_payoff(store)
        save(payoff_figure(payoff.names, payoff.share, payoff.games), path)
        if self.json:
            numbers = {name: value for name, value in vars(payoff).items() if name != "share"}
            print(json.dumps({**numbers, "picture": str(path)}))
        else:
            terminal().print(f"Nash mixture {payoff.nash}, exploitability {payoff.exploitability:.1e}")
            chance = f"{payoff.cyclic_by_chance:.0%} by chance"
            terminal().print(f"{payoff.cyclic:.0%} of the payoff is cyclic, no rating explains it ({chance})")
            terminal().print(f"{path}")


@dataclass(frozen=True)
class Ratings(Picture):
    """Draw the ratings of all entries over the rating periods."""

    def run(self) -> None:
        store, path = self.store_and_file("ratings.png")
        histories = {entry.name: [row[:3] for row in store.history(entry)] for entry in store.entries()}
        require(any(histories.values()), "--league", "one with a rating period that has ended", str(self.league))
        save(ratings_figure(histories), path)
        terminal().print(f"{path}")


@dataclass(frozen=True)
class History:
    """Print the ratings of an entry by period, and its recorded changes."""

    name: tyro.conf.Positional[str]
    league: Path
    json: bool = False

    def run(self) -> None:
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


COMMANDS = {
    "init": Init,
    "add": Add,
    "tournament": Tournament,
    "evolve": Evolve,
    "retire": Retire,
    "list": List,
    "standings": Standings,
    "payoff": Payoff,
    "ratings": Ratings,
    "history": History,
    "export": Export,
    "import": Import,
}
"""Commands of `arena.py`, in the order of the help."""
