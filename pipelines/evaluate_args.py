"""The flags of the command of `arena.py` that evaluates a policy."""

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
    """The policy, its battles and opponents, and what is printed."""

    policy: tyro.conf.Positional[str]
    """A checkpoint folder or trained:NAME; at a task also a tier, heuristic[:tier], league:FOLDER/NAME or
    package.module:Commander."""
    task: str = ""
    """Name of a task."""
    scenario: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """In place of a task, a scenario in which battles begin: a name of echelon.scenario_names() or a JSON file;
    repeatable, and each battle draws one of them, as often as a :WEIGHT behind it says."""
    league: Path | None = None
    """Folder of a league."""
    opponents: tuple[str, ...] = ()
    """Those of the task, or all active entries of the league, if not given."""
    seeds: int = 0
    """Seeds per opponent; 0 for those of the task, and 4 in a league."""
    json: bool = False
    """Print everything as one JSON object, with outcome and state hash of every battle."""
    log: Path | None = None
    """Write a JSON object a line for each battle: who, seed, winner, why and when it ended, hash of its last state."""
    protocol: Literal[1, 2] = 1
    """At a task strangers/...: 2 for that of docs/PROTOCOL.md, against strangers and beside strangers."""
    strangers: tyro.conf.OmitArgPrefixes[StrangersArgs] = field(default_factory=StrangersArgs)
    split: Split | None = None
    """At a task: maps and battles of train, validation or test, in place of the task's own (`docs/TRAINING.md`)."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)
    cluster: tyro.conf.OmitArgPrefixes[RayArgs] = field(default_factory=RayArgs)

    def __post_init__(self) -> None:
        max_seeds = int(BATTLES.high) // 2 if self.league is None else MOST_RATED
        check_settings(self, {"seeds": Limits(0, max_seeds, "seeds, 0 for the usual number")})
        sources = [name for name in (self.task, self.league, self.scenario) if name not in ("", None, ())]
        limit = "one of them: a task's name, a scenario, or a league's folder"
        require(len(sources) == 1, "--task, --scenario, --league", limit, sources)
        require(self.split is None or self.league is None, "--split", "left out in a league", self.split)
        if self.protocol == 1:
            require(self.strangers == StrangersArgs(), "--protocol", "2 with --runs, --out and --report", 1)
            return
        is_plain = (self.opponents, self.seeds) == ((), 0) and self.task != ""
        require(is_plain, "--protocol 2", "given with --task, without --opponents and --seeds", self.task or "none")
