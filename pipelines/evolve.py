"""The `arena.py` command that trains three learners of a league in turn."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from echelon.league import commands
from echelon.league.evolution import Role
from echelon.league.store import Store
from echelon.league.tables import show_standings
from echelon.learn.callbacks.progress import OnIteration
from echelon.learn.config import TrainConfig
from echelon.pipelines.arena_args import ArenaArgs
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits, Settings
from echelon.runtime.terminal import bar, terminal

TURNS = Limits(1, 10**6)


@dataclass(frozen=True)
class Evolve(Settings):
    """Train a main agent and two exploiters in turn, and add their policies to the league."""

    league: Path
    turns: Annotated[int, TURNS] = 4
    """Number of turns per role."""
    iterations: Annotated[int, TURNS] = 20
    """Number of training iterations per turn."""
    seeds: int = 2
    """Number of seeds per opponent in evaluations and ratings; each is played once per side."""
    start: str = ""
    """Checkpoint or trained:NAME with the initial weights of all roles; empty: random initialisation."""
    train: TrainConfig = field(default_factory=TrainConfig.quick)
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def __post_init__(self) -> None:
        super().__post_init__()
        # The length of the schedules depends on the number of battles, so it must be set before the device is known.
        require(self.train.num_envs > 0, "--train.num-envs", "at least 2 battles", self.train.num_envs)

    def run(self) -> None:
        store, console = Store(self.league), terminal()
        options = (self.train, self.arena.device, self.start, self.seeds, self.turns, self.iterations)
        battles = 2 * self.seeds * len(store.active()) * len(Role) * self.turns
        with bar(self.turns * len(Role) * self.iterations, "iterations") as progress:
            each = [OnIteration(progress.advance)]
            for turn, role, verdict in commands.evolve(self.arena.build(store, battles=battles), *options, each):
                console.print(f"turn {turn}, {role.value}: {verdict}")
        show_standings(store, False, f"after period {store.period - 1}")
