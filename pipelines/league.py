"""The commands of `arena.py` that change a league: entries, tournaments, league training."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import tyro

from echelon.league import commands
from echelon.league.config import LeagueConfig
from echelon.league.store import Store
from echelon.learn.config import TrainConfig
from echelon.pipelines.console import ArenaArgs, show, terminal, with_progress
from echelon.pipelines.standings import show_standings
from echelon.rules.config import ENV_PRESETS


@dataclass(frozen=True)
class Init:
    """Create a league with the scripted tiers as entries."""

    league: Path
    """Folder of the league."""
    env: Literal["small", "standard", "large"] = "small"
    """Battle preset of the league."""
    rules: LeagueConfig = field(default_factory=LeagueConfig)

    def run(self) -> None:
        """Create the league."""
        store = Store.create(self.league, ENV_PRESETS[self.env](), self.rules)
        terminal().print(f"{self.league}: {len(store.entries())} entries, battles of {self.env}")


@dataclass(frozen=True)
class Add:
    """Add checkpoints as candidates."""

    checkpoints: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    parent: str = ""
    """Name or id of the parent of the first checkpoint; each further one descends from the one before."""

    def run(self) -> None:
        """Add the checkpoints in order."""
        store = Store(self.league)
        parent = store.find(self.parent).id if self.parent else None
        for checkpoint in self.checkpoints:
            entry = store.add(checkpoint, parent=parent)
            parent = entry.id
            terminal().print(f"{entry.name}  {entry.id[:12]}  {checkpoint}")


@dataclass(frozen=True)
class Retire:
    """Retire entries: they play no more battles, and keep their history."""

    names: tyro.conf.Positional[tuple[str, ...]]
    league: Path
    reason: str = "by hand"

    def run(self) -> None:
        """Retire the entries."""
        store = Store(self.league)
        for entry in [store.find(name) for name in self.names]:
            store.set_kind(entry, "retired", "retired", self.reason)


@dataclass(frozen=True)
class Evaluate:
    """Play a checkpoint against all active entries of a league, without rating the battles."""

    checkpoint: tyro.conf.Positional[str]
    league: Path
    seeds: int = 4
    """Seeds per opponent, each played once per side."""
    json: bool = False
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        """Play and print the results."""
        arena = self.arena.build(Store(self.league))
        rows = commands.evaluate(arena, self.checkpoint, self.seeds, partial(with_progress, quiet=self.json))
        show(rows, self.json, f"{self.checkpoint}, 95 % intervals of the share won")


@dataclass(frozen=True)
class Tournament:
    """Play a round robin of all active entries, every seed once per side, and close the rating period.

    An interrupted tournament continues where it stopped.
    """

    league: Path
    seeds: int = 16
    """Seeds per pair."""
    json: bool = False
    replay: Path | None = None
    """Record some of the first battles into this file."""
    replay_battles: int = 4
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        """Play, rate and print the standings."""
        store = Store(self.league)
        progress = partial(with_progress, quiet=self.json)
        period = commands.tournament(self.arena.build(store), self.seeds, progress, self.replay, self.replay_battles)
        show_standings(store, self.json, f"after period {period}")


@dataclass(frozen=True)
class Evolve:
    """Train a main agent and two exploiters in turn and add their policies to the league."""

    league: Path
    turns: int = 4
    """Turns of each role."""
    iterations: int = 20
    """Training iterations per turn."""
    seeds: int = 2
    """Seeds per opponent in evaluations and ratings, each played once per side."""
    start: str = ""
    """Checkpoint with the initial weights of all roles; random initialization if empty."""
    train: TrainConfig = field(default_factory=TrainConfig.quick)
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        """Train the roles and print the standings."""
        store, console = Store(self.league), terminal()
        how = (self.train, self.arena.device, self.start, self.seeds, self.turns, self.iterations)
        for turn, role, verdict in commands.evolve(self.arena.build(store), *how):
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
