"""The commands of `arena.py` that change a league: entries, tournaments, learners that evolve."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import tyro
from echelon.pipelines.console import show, terminal, with_progress
from echelon.pipelines.standings import show_standings

from echelon.arena.batch_arena import Precision
from echelon.league import commands
from echelon.league.config import LeagueConfig
from echelon.league.league_arena import LeagueArena
from echelon.league.store import Store
from echelon.learn.config import TrainConfig
from echelon.rules.config import ENV_PRESETS
from echelon.runtime.device import resolve_device


@dataclass(frozen=True)
class ArenaArgs:
    """How battles are played."""

    device: str = "auto"
    batch: int = 256
    """Battles side by side at most: more take more memory."""
    precision: Precision = "fp32"
    """Dtype of the networks' matrix products."""
    compiled: bool = False
    """Compile simulation and networks first; worth it for thousands of battles, in batches of one size."""

    def of(self, store: Store) -> LeagueArena:
        """Where the entries of a league play."""
        return LeagueArena(store, resolve_device(self.device), self.batch, self.precision, self.compiled)


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
            store.set_kind(entry, "retired", "retired", self.reason)


@dataclass(frozen=True)
class Evaluate:
    """Judge a checkpoint by battles against everybody of the league, which are rated for nobody."""

    checkpoint: tyro.conf.Positional[str]
    league: Path
    seeds: int = 4
    """Seeds against each, fought from both sides."""
    json: bool = False
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        """Play and show."""
        arena = self.arena.of(Store(self.league))
        rows = commands.evaluate(arena, self.checkpoint, self.seeds, partial(with_progress, quiet=self.json))
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
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        """Play, rate and show."""
        store = Store(self.league)
        progress = partial(with_progress, quiet=self.json)
        period = commands.tournament(self.arena.of(store), self.seeds, progress, self.replay, self.replay_battles)
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
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        """Let them learn and show the standings."""
        store, console = Store(self.league), terminal()
        how = (self.train, self.arena.device, self.start, self.seeds, self.turns, self.iterations)
        for turn, role, verdict in commands.evolve(self.arena.of(store), *how):
            console.print(f"turn {turn}, {role.value}: {verdict}")
        show_standings(store, False, f"after period {store.period - 1}")


COMMANDS = {
    "init": Init,
    "add": Add,
    "evaluate": Evaluate,
    "tournament": Tournament,
    "evolve": Evolve,
    "retire": Retire,
}
