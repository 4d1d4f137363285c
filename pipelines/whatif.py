"""The `arena.py` command that analyses what decided a battle."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from echelon.arena.branches import INTERVENTIONS, Intervention
from echelon.arena.whatif import BRANCHES, EVERY, MOST_BRANCHES, whatif
from echelon.reports.whatif import chosen_replay, show_answers, write_answers
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import require
from echelon.runtime.files import beside, check_writable
from echelon.runtime.limits import Limits, Settings
from echelon.runtime.terminal import bar


@dataclass(frozen=True)
class WhatIfCommand(Settings):
    """Estimate blue's win rate at each moment of a recorded battle, and the value of each mech at one moment.

    The battle is played again from each moment, many times, with new random numbers. The commanders of the recorded
    battle must still exist. To continue after an interruption, repeat the command; a hidden file beside the replay
    keeps the progress until the end.
    """

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    battle: int = 1
    """Number of the battle in the replay, from 1."""
    every: Annotated[int, Limits(1, MOST_BRANCHES)] = EVERY
    """Number of decisions between two moments."""
    branches: Annotated[int, Limits(2, MOST_BRANCHES, "battles")] = BRANCHES
    """Number of battles from each moment."""
    at: float | None = None
    """Time in seconds of the mechs' interventions, one mech at a time; by default none."""
    interventions: tuple[Intervention, ...] = INTERVENTIONS
    """The interventions."""
    deaths: bool = False
    """Also estimate the cost of each death: the battle continues with the mech repaired just before it."""
    out: Path | None = None
    """JSON file for all numbers."""
    page: Path | None = None
    """Also write the HTML page of the replay, with a lane of blue's win rate, and the values of mechs under Why."""
    json: bool = False
    """Print one JSON object instead of tables."""
    batch: int = 256
    """Number of parallel battles."""
    device: str = "auto"

    def run(self) -> None:
        device = use_device(resolve_device(self.device))
        require(self.file not in (self.out, self.page), "outputs", "other files than the replay", str(self.file))
        check_writable(self.out, self.page)
        replay = chosen_replay(self.file, self.battle)
        log = beside(self.file, f".{self.file.name}-{self.battle}.whatif")
        with bar(100, "% of the branches", quiet=self.json) as progress:
            names = ("every", "branches", "interventions", "deaths", "batch")
            options = {name: getattr(self, name) for name in names} | {"at_s": self.at, "device": device, "log": log}
            result = whatif(replay, self.battle - 1, on_progress=lambda n, of: progress.reach(100 * n / of), **options)
        write_answers(result, replay, self.battle - 1, self.out, self.page)
        if self.json:
            print(json.dumps(result.as_json()))
        else:
            show_answers(result, replay, self.battle - 1)
        log.unlink(missing_ok=True)
