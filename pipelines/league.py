"""The commands of `arena.py` that play the battles of a league: tournaments, league training."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import tyro

from echelon.league import commands
from echelon.league.roles import Role
from echelon.league.store import Store
from echelon.learn.config import TrainConfig
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.console import terminal
from echelon.pipelines.progress_bar import count_iterations, with_progress
from echelon.pipelines.result_tables import show_standings
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits, check_settings

TURNS = Limits(1, 10**6)


@dataclass(frozen=True)
class Tournament:
    """Play a round robin of all active entries, every seed once per side, and close the rating period.

    An interrupted tournament continues where it stopped. Under `torchrun` the processes share the battles, and the
    first one records them.
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
        with self.arena.shared(store, "the same command goes on") as arena:
            if arena is not None:
                progress = partial(with_progress, quiet=self.json)
                period = commands.tournament(arena, self.seeds, progress, self.replay, self.replay_battles)
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

    def __post_init__(self) -> None:
        check_settings(self, {"turns": TURNS, "iterations": TURNS})
        # The length of the schedules follows from it before the device is asked.
        require(self.train.num_envs > 0, "--train.num-envs", "at least 2 battles", self.train.num_envs)

    def run(self) -> None:
        """Train the roles and print the standings."""
        store, console = Store(self.league), terminal()
        how = (self.train, self.arena.device, self.start, self.seeds, self.turns, self.iterations)
        with count_iterations(self.turns * len(Role) * self.iterations) as callbacks:
            for turn, role, verdict in commands.evolve(self.arena.build(store), *how, callbacks):
                console.print(f"turn {turn}, {role.value}: {verdict}")
        show_standings(store, False, f"after period {store.period - 1}")
