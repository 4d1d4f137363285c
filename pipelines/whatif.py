"""The command of `arena.py` that tells what decided a battle."""

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
    """Tell how likely blue was to win at each moment of a recorded battle, by playing on from it with fresh chance, and
    what each mech was worth at one of them. Its commanders must still be where they were. Killed and started again with
    the same words it goes on where it was, by a hidden file beside the replay, which it removes in the end."""

    file: tyro.conf.Positional[Path]
    """Replay, as written by `play --replay`."""
    battle: int = 1
    """Which of its battles."""
    every: Annotated[int, Limits(1, MOST_BRANCHES)] = EVERY
    """Decisions between two moments."""
    branches: Annotated[int, Limits(2, MOST_BRANCHES, "battles")] = BRANCHES
    """Battles from each moment."""
    at: float | None = None
    """Seconds after which each mech does otherwise in turn; by default none does."""
    interventions: tuple[Intervention, ...] = INTERVENTIONS
    """What the mechs do then."""
    deaths: bool = False
    """Also tell what each death cost: the battle goes on with the mech whole again just before it."""
    out: Path | None = None
    """A JSON file of all numbers."""
    page: Path | None = None
    """Also write the HTML page of the replay, in which this battle has a lane of blue's share, and under Why what mechs
    were worth."""
    json: bool = False
    """Print the same as one JSON object instead of tables."""
    batch: int = 256
    """Battles at once."""
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
