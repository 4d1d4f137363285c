"""The `arena.py` commands that describe how one policy plays: by statistics, and by results on set pieces."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from echelon.arena.skills import SEEDS, skill_profile
from echelon.arena.style import BATTLES, style
from echelon.pipelines.arena_args import ArenaArgs
from echelon.reports.plots import skills_figure
from echelon.reports.tables import show_profile, show_style
from echelon.runtime.files import check_writable
from echelon.runtime.limits import Limits, Settings
from echelon.runtime.terminal import bar
from echelon.scenarios.piece import PIECES, pieces
from echelon.viewer.paper import require_picture, save


@dataclass(frozen=True)
class StyleCommand:
    """Print how one policy fights, as numbers (`docs/STYLES.md`).

    The numbers are, for example, range, advance and share of damage by weapon, in battles on maps that training never
    saw; each seed is played once per side.
    """

    policy: tyro.conf.Positional[str]
    """Commander, as for `play`."""
    against: tuple[str, ...] = ()
    """Names of the opponents; by default those of the task."""
    task: str = ""
    """Name of a task; the newest small-5v5 by default."""
    battles: int = BATTLES
    """Number of battles against each opponent; must be even."""
    json: bool = False
    """Print one JSON object instead of tables."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        found = style(self.policy, self.task or None, self.against or None, self.battles, **self.arena.keywords())
        if self.json:
            print(json.dumps(found.as_json()))
            return
        show_style(found)


@dataclass(frozen=True)
class Pieces(Settings):
    """Let a policy play the set pieces: short battles that test one skill each (`docs/SET_PIECES.md`)."""

    policy: tyro.conf.Positional[str]
    """Commander, as for `play`; `line` plays each piece's own script."""
    only: tuple[str, ...] = ()
    """Names of the pieces; all by default."""
    seeds: Annotated[int, Limits(1, 10**6, "seeds")] = SEEDS
    """Number of battles per piece."""
    json: bool = False
    """Print one JSON object instead of a table."""
    plot: Path | None = None
    """Output picture of the bars (PDF, SVG or PNG)."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        require_picture("--plot", self.plot)
        check_writable(self.plot)
        names = self.only or tuple(pieces())
        options = self.arena.keywords()
        with bar(len(names), "pieces", quiet=self.json) as progress:
            profile = skill_profile(self.policy, names, self.seeds, on_piece=lambda name: progress.advance(), **options)
        if self.plot is not None:
            save(skills_figure(profile.as_json()), self.plot)
        if self.json:
            print(json.dumps(profile.as_json()))
            return
        show_profile(profile, f"{PIECES}, {self.policy}: share of {self.seeds} seeds won, with its 95 % interval")
