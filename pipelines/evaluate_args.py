"""Flags of the `arena.py` command that evaluates a policy."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.env.tasks.task import BATTLES
from echelon.league.matchmaking import MOST_RATED
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.strangers import StrangersArgs
from echelon.rules.config import Split
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits, check_settings
from echelon.runtime.ray_tasks import RayArgs


@dataclass(frozen=True)
class EvaluateArgs:
    """The policy, its battles and opponents, and the output."""

    policy: tyro.conf.Positional[str]
    """Checkpoint folder or trained:NAME; at a task also a tier, heuristic[:tier], league:FOLDER/NAME or
    package.module:Commander."""
    task: str = ""
    """Name of a task."""
    scenario: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Scenario used instead of a task: a name of echelon.scenario_names() or a JSON file. Repeatable; each battle draws
    one of them, with weight 1 or an appended :WEIGHT."""
    league: Path | None = None
    """Folder of a league."""
    opponents: tuple[str, ...] = ()
    """Opponents; by default those of the task, or all active entries of the league."""
    seeds: int = 0
    """Number of seeds per opponent; 0: the task's number, or 4 in a league."""
    json: bool = False
    """Print one JSON object, with outcome and state hash of every battle."""
    log: Path | None = None
    """Write one JSON line per battle: commanders, seed, winner, reason and time of the end, hash of the final state."""
    protocol: Literal[1, 2] = 1
    """For a task strangers/...: 2 selects protocol 2 (docs/PROTOCOL.md), with strangers as opponents and partners."""
    strangers: tyro.conf.OmitArgPrefixes[StrangersArgs] = field(default_factory=StrangersArgs)
    split: Split | None = None
    """At a task: split of maps and battles (train, validation or test) instead of the task's own
    (`docs/TRAINING.md`)."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)
    cluster: tyro.conf.OmitArgPrefixes[RayArgs] = field(default_factory=RayArgs)

    def __post_init__(self) -> None:
        max_seeds = int(BATTLES.high) // 2 if self.league is None else MOST_RATED
        check_settings(self, {"seeds": Limits(0, max_seeds, "seeds, 0 for the usual number")})
        sources = [name for name in (self.task, self.league, self.scenario) if name not in ("", None, ())]
        limit = "exactly one of them: a task's name, a scenario, or a league's folder"
        require(len(sources) == 1, "--task, --scenario, --league", limit, sources)
        require(self.split is None or self.league is None, "--split", "left out in a league", self.split)
        if self.protocol == 1:
            require(self.strangers == StrangersArgs(), "--protocol", "2 if --runs, --out or --report is given", 1)
            return
        is_plain = (self.opponents, self.seeds) == ((), 0) and self.task != ""
        require(is_plain, "--protocol 2", "used with --task, and without --opponents and --seeds", self.task or "none")
