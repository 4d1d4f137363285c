"""The command of `arena.py` that tells what a policy can do, skill by skill."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from echelon.arena.skills import SEEDS, skill_profile
from echelon.learn.config import SWITCH
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.console import terminal
from echelon.pipelines.pictures import require_picture
from echelon.pipelines.progress_bar import bar
from echelon.reports.plots import draw_skills
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.files import check_writable
from echelon.runtime.limits import Limits, check_settings
from echelon.scenarios.piece import PIECES, pieces


@dataclass(frozen=True)
class Pieces:
    """Let a policy play the set pieces, short battles that ask for one skill each (`docs/SCENARIOS.md`)."""

    policy: tyro.conf.Positional[str]
    """A commander, as `play` takes them; `line` plays each piece's own script."""
    only: tuple[str, ...] = ()
    """Names of the pieces; all by default."""
    seeds: int = SEEDS
    """Battles of each."""
    json: bool = False
    """Print one JSON object instead of a table."""
    plot: Path | None = None
    """A picture of the bars, PDF, SVG or PNG."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def __post_init__(self) -> None:
        check_settings(self, {"seeds": Limits(1, 10**6, "seeds")})

    def run(self) -> None:
        require_picture("--plot", self.plot)
        if self.plot is not None:
            check_writable(self.plot)
        names = self.only or tuple(pieces())
        device = use_device(resolve_device(self.arena.device))
        with bar(len(names), "pieces", quiet=self.json) as shown:
            profile = skill_profile(
                self.policy,
                names,
                self.seeds,
                device=device,
                batch=self.arena.batch,
                precision=self.arena.precision,
                compiled=SWITCH[self.arena.compiled],
                cuda_graph=SWITCH[self.arena.cuda_graphs],
                on_piece=lambda name: shown.advance(),
            )
        if self.plot is not None:
            draw_skills(profile.as_json(), self.plot)
        if self.json:
            print(json.dumps(profile.as_json()))
            return
        console = terminal()
        console.print(f"{PIECES}, {self.policy}: share of {self.seeds} seeds won, with its 95 % interval")
        for line in str(profile).splitlines():
            console.print(line)
        console.print(f"mean over {len(profile.results)} pieces: {profile.win_rate:.0%}")
