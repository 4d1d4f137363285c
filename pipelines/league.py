"""The commands of `arena.py` that keep a league: entries, tournaments, standings."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro
from command_line import terminal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from echelon.arena.batch_arena import Precision
from echelon.arena.match import wilson_interval
from echelon.league import log
from echelon.league.config import LeagueConfig
from echelon.league.evolution import Evolution
from echelon.league.import_export import read_league, write_league
from echelon.league.league_arena import LeagueArena, PlayedBatch
from echelon.league.lineage import longest_line, spearman
from echelon.league.rating_period import close_period, payoff_matrix
from echelon.league.ratings.game_theory import advantage, bradley_terry, exploitability, nash
from echelon.league.roles import Role
from echelon.league.schedule import one_against, round_robin, seeds_of
from echelon.league.store import MatchRecord, Standing, Store
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import TrainConfig
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.device import can_compile, resolve_device
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable, held
from echelon.view.plots import draw_payoff

PIPE_WIDTH = 140
DECIDED = (
    *("env", "opponent", "self_share", "past_share", "past_every", "past_kept", "total_agent_steps", "max_minutes"),
    *("device", "run_dir", "resume", "evaluation", "league_every", "league_seeds", "profile", "replay_battles"),
)
"""Settings of a training run that `evolve` has no use for, or its own."""
PICTURES = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class Fighting:
    """How battles are fought."""

    device: str = "auto"
    batch: int = 256
    """Battles side by side at most: more take more memory."""
    precision: Precision = "fp32"
    """Numbers the networks are computed in."""
    compiled: bool = False
    """Compile simulation and networks first; worth it for thousands of battles, in batches of one size."""

    def arena(self, store: Store) -> LeagueArena:
        """Where the entries of a league play."""
        device = resolve_device(self.device)
        return LeagueArena(store, device, batch=self.batch, precision=self.precision, compiled=self.compiled)


@dataclass(frozen=True)
class Init:
    """Make a league that holds the scripted tiers."""

    league: Path
    """Folder of the league."""
    env: Literal["small", "standard", "large"] = "small"
    """The battle it fights."""
    rules: LeagueConfig = field(default_factory=LeagueConfig)

    def run(self) -> None:
        """Make it."""
        store = Store.create(self.league, ENV_PRESETS[self.env](), self.rules)
        terminal().print(f"{self.league}: {len(store.entries())} entries, battles of {self.env}")


@dataclass(frozen=True)
class Add:
    """Add checkpoints as candidates."""

    checkpoints: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    parent: str = ""
    """Name or id of the entry they descend from; the next ones descend from the one before."""

    def run(self) -> None:
        """Add them, in their order."""
        store = Store(self.league)
        parent = store.find(self.parent).id if self.parent else None
        for checkpoint in self.checkpoints:
            entry = store.add(checkpoint, parent=parent)
            parent = entry.id
            terminal().print(f"{entry.name}  {entry.id[:12]}  {checkpoint}")


@dataclass(frozen=True)
class Retire:
    """Let entries fight no more. Their history stays."""

    names: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    reason: str = "by hand"

    def run(self) -> None:
        """Retire them."""
        store = Store(self.league)
        for entry in [store.find(name) for name in self.names]:
            store.become(entry, "retired", "retired", self.reason)


@dataclass(frozen=True)
class List:
    """Show the entries."""

    league: Path
    json: bool = False

    def run(self) -> None:
        """Show them."""
        store = Store(self.league)
        names = {entry.id: entry.name for entry in store.entries()}
        rows = [
            {"name": e.name, "kind": e.kind, "id": e.id, "parent": names.get(e.parent or "")} for e in store.entries()
        ]
        show(rows, self.json, f"{len(rows)} entries", shorten=("id",))


@dataclass(frozen=True)
class Standings:
    """Show ratings (Glicko-2), best first, and beside them what a refit of all games and the Nash mixture say."""

    league: Path
    json: bool = False

    def run(self) -> None:
        """Show them."""
        store = Store(self.league)
        show_standings(store, self.json, f"after period {store.period - 1}")


@dataclass(frozen=True)
class Payoff:
    """Who beats whom: a heatmap, the Nash mixture and how far it can be exploited."""

    league: Path
    out: Path | None = None
    """The picture; by default payoff.png of the league."""
    json: bool = False

    def run(self) -> None:
        """Draw and show it."""
        path = self.out or self.league / "payoff.png"
        require(path.suffix in PICTURES, "--out", f"a picture, {', '.join(PICTURES)}", str(path))
        store = Store(self.league)
        check_writable(path)
        stands = [standing for standing in store.standings() if standing.games > 0]
        require(len(stands) > 1, "--league", "one in which battles were fought", str(self.league))
        names, ids = [s.name for s in stands], [s.id for s in stands]
        score, games = payoff_matrix(store, ids)
        draw_payoff(names, (score / games).tolist(), path)
        payoff = advantage(score, games)
        mixture = nash(payoff)
        gain = exploitability(payoff, mixture)
        best = {name: round(share, 4) for name, share in zip(names, mixture.tolist(), strict=True) if share > 0.001}
        if self.json:
            said = {"names": names, "games": games.tolist(), "points": score.tolist()}
            print(json.dumps({**said, "nash": best, "exploitability": gain, "picture": str(path)}))
            return
        console = terminal()
        console.print(f"Nash mixture {best}, exploitability {gain:.1e}\n{path}")


@dataclass(frozen=True)
class History:
    """The ratings of an entry, period by period, and what happened to it."""

    name: tyro.conf.Positional[str]
    league: Path
    json: bool = False

    def run(self) -> None:
        """Show it."""
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


@dataclass(frozen=True)
class Export:
    """Write a league into one JSON file, and its weights beside it."""

    league: Path
    out: Path

    def run(self) -> None:
        """Write it."""
        check_writable(self.out)
        write_league(Store(self.league), self.out)
        terminal().print(f"{self.out}  {self.out.stat().st_size / 1e6:.1f} MB")


@dataclass(frozen=True)
class Import:
    """Make a league from what `export` wrote. Everything is checked first."""

    file: tyro.conf.Positional[Path]
    league: Path

    def run(self) -> None:
        """Read it."""
        store = read_league(self.file, self.league)
        terminal().print(f"{self.league}: {len(store.entries())} entries, {len(store.matches())} matches")


@dataclass(frozen=True)
class Evaluate:
    """Judge a checkpoint by battles against everybody of the league, which are rated for nobody."""

    checkpoint: tyro.conf.Positional[str]
    league: Path
    seeds: int = 4
    """Seeds against each, fought from both sides."""
    json: bool = False
    fighting: tyro.conf.OmitArgPrefixes[Fighting] = field(default_factory=Fighting)

    def run(self) -> None:
        """Fight and show."""
        store = Store(self.league)
        digest = store.add_weights(self.checkpoint)
        others = [entry for entry in store.active() if entry.id != digest]
        arena = self.fighting.arena(store)
        battles = one_against(digest, [entry.id for entry in others], seeds_of(0, self.seeds))
        matches = play(arena, arena.play_unrated(battles), len(battles), self.json, kept=False)
        rows = []
        for other in others:
            own = [match for match in matches if other.id in (match.blue, match.red)]
            points = sum(match.points(digest) for match in own)
            low, high = wilson_interval(sum(match.points(digest) == 1.0 for match in own), len(own))
            rows.append({"against": other.name, "battles": len(own), "points": points, "low": low, "high": high})
        show(rows, self.json, f"{self.checkpoint}, 95 % intervals of the share won")


@dataclass(frozen=True)
class Tournament:
    """Everybody fights everybody, every seed from both sides, and the rating period is closed.

    Begun again after it was cut short, it goes on where it stopped.
    """

    league: Path
    seeds: int = 16
    """Seeds a pair."""
    json: bool = False
    replay: Path | None = None
    """Record some of the first battles into this file."""
    replay_battles: int = 4
    fighting: tyro.conf.OmitArgPrefixes[Fighting] = field(default_factory=Fighting)

    def run(self) -> None:
        """Fight, rate and show."""
        store = Store(self.league)
        ids = [entry.id for entry in store.active()]
        require(len(ids) > 1, "--league", "one of at least two entries", str(self.league))
        require(self.replay_battles >= 1, "--replay-battles", ">= 1", self.replay_battles)
        arena, period = self.fighting.arena(store), store.period
        battles = arena.missing(round_robin(ids, seeds_of(period, self.seeds)))
        recorder = None
        # One that was cut short just before its end has nothing left to record.
        if self.replay is not None and battles:
            check_writable(self.replay)
            recorder = Recorder(list(range(min(self.replay_battles, self.fighting.batch, len(battles)))))
        matches = play(arena, arena.play(battles, recorder), len(battles), self.json)
        # None, where another process fought them all.
        if self.replay is not None and recorder is not None and matches:
            names = {entry.id: entry.name for entry in store.entries()}
            shown = [matches[place] for place in recorder.battles]
            save(recorder.finish([names[b.blue] for b in shown], [names[b.red] for b in shown]), self.replay)
        close_period(store, period)
        log.tell(store, "period closed", number=period)
        show_standings(store, self.json, f"after period {period}")


@dataclass(frozen=True)
class Evolve:
    """Let a main agent and two exploiters learn in turn: the league grows by itself."""

    league: Path
    turns: int = 4
    """Turns of each role."""
    iterations: int = 20
    """Training iterations of a turn."""
    seeds: int = 2
    """Seeds against each of those one is judged and rated by, from both sides."""
    start: str = ""
    """Checkpoint whose weights all roles begin from; fresh ones without."""
    train: TrainConfig = field(default_factory=TrainConfig.quick)
    fighting: tyro.conf.OmitArgPrefixes[Fighting] = field(default_factory=Fighting)

    def run(self) -> None:
        """Let them learn and show the standings."""
        store, console = Store(self.league), terminal()
        for name in ("turns", "iterations"):
            require(getattr(self, name) >= 1, f"--{name}", ">= 1", getattr(self, name))
        seeds_of(store.period, self.seeds)
        for name in DECIDED:
            usual, value = getattr(TrainConfig.quick(), name), getattr(self.train, name)
            require(value == usual, f"--train.{name.replace('_', '-')}", "left alone: the league decides it", value)
        train = dataclasses.replace(self.train, device=self.fighting.device)
        if train.compiled and not can_compile():
            train = dataclasses.replace(train, compiled=False, compile_policy="off")
        start = open_checkpoint(self.start) if self.start else None
        # A role learns in one folder.
        with held(self.league / ".evolve.lock"):
            evolution = Evolution(self.fighting.arena(store), train, start, self.seeds, self.turns, self.iterations)
            for turn in range(self.turns):
                for role in Role:
                    verdict = evolution.turn(role)
                    console.print(f"turn {turn + 1}, {role.value}: {verdict.reason}")
        show_standings(store, False, f"after period {store.period - 1}")


COMMANDS: dict[str, Any] = {
    "init": Init,
    "add": Add,
    "list": List,
    "evaluate": Evaluate,
    "tournament": Tournament,
    "evolve": Evolve,
    "standings": Standings,
    "payoff": Payoff,
    "history": History,
    "export": Export,
    "import": Import,
    "retire": Retire,
}


def play(
    arena: LeagueArena, batches: Iterable[PlayedBatch], total: int, quiet: bool, kept: bool = True
) -> list[MatchRecord]:
    """Play behind a progress bar that counts matches a second, and write each batch into the league's log."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TimeElapsedColumn(), TimeRemainingColumn()),
    )
    matches: list[MatchRecord] = []
    with Progress(*columns, console=terminal(stderr=True), disable=quiet) as progress:
        task = progress.add_task("matches", total=total)
        for played in batches:
            matches += played.matches
            speed = len(played.matches) / played.seconds
            progress.update(task, advance=len(played.matches), description=f"{speed:.1f} matches/s")
            told = {"matches": len(played.matches), "matches_per_s": round(speed, 2), "kept": kept}
            log.tell(arena.store, "fought", **told, cache_hit_rate=round(arena.store.weights.hit_rate, 3))
    return matches


def standings_of(store: Store) -> list[dict[str, Any]]:
    """Rows of the table of standings."""
    rules = store.rules
    stands = store.standings()
    score, games = payoff_matrix(store, [standing.id for standing in stands])
    refit, mixture = bradley_terry(score, games).tolist(), [0.0] * len(stands)
    fought = [place for place, standing in enumerate(stands) if standing.games > 0]
    if fought:
        for place, share in zip(fought, nash(advantage(score, games)[fought][:, fought]).tolist(), strict=True):
            mixture[place] = share

    def row(standing: Standing, refit: float, share: float) -> dict[str, Any]:
        points = standing.score / standing.games if standing.games else 0.0
        return {
            "name": standing.name,
            "kind": standing.kind,
            "rating": round(standing.rating, 1),
            "RD": round(standing.deviation, 1),
            "volatility": round(standing.volatility, 4),
            "conservative": round(standing.conservative(rules.conservatism), 1),
            "games": standing.games,
            "points": round(points, 3),
            "refit": round(refit, 1),
            "nash": round(share, 3),
        }

    return [row(*together) for together in zip(stands, refit, mixture, strict=True)]


def show_standings(store: Store, as_json: bool, title: str) -> None:
    """The table of standings, and whether along the longest line of descent the younger are the better."""
    show(standings_of(store), as_json, title)
    line = longest_line(store.entries())
    rating = {standing.id: standing.rating for standing in store.standings() if standing.games > 0}
    if len(line) > 2 and rating.keys() >= {entry.id for entry in line} and not as_json:
        rho = spearman(range(len(line)), [rating[entry.id] for entry in line])
        terminal().print(f"Spearman's rho of age and rating along {len(line)} generations: {rho:.2f}")


def show(rows: list[dict[str, Any]], as_json: bool, title: str, shorten: tuple[str, ...] = ()) -> None:
    """Rows as a table, or as one JSON list."""
    if as_json:
        print(json.dumps(rows))
        return
    table = Table(title=title)
    for column in rows[0] if rows else ():
        is_number = any(isinstance(row[column], int | float) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number or column == "name")
    for row in rows:
        cells = {name: "" if value is None else str(value) for name, value in row.items()}
        table.add_row(*(cell[:12] if name in shorten else cell for name, cell in cells.items()))
    # A pipe has no width of its own.
    terminal(soft_wrap=False, width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)
