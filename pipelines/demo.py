"""The `echelon` command that plays and shows two battles."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.play import Play
from echelon.pipelines.watch import Watch
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable
from echelon.runtime.limits import SEED

BATTLES = 2
"""Number of battles, one from each side."""


@dataclass(frozen=True)
class Demo:
    """Play two 10v10 battles between two commanders, and write a page that shows them."""

    blue: str = "trained:champion"
    """Blue commander, as for `echelon-arena play`."""
    red: str = "heuristic:expert"
    """Red commander."""
    seed: Annotated[int, SEED] = 0
    """Seed of maps and battles."""
    out: Path = Path("demo.html")
    """HTML page to write; the replay is written beside it as .echelon."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)

    def run(self) -> None:
        replay = self.out.with_suffix(".echelon")
        require(replay != self.out, "--out", "a page, such as demo.html", str(self.out))
        check_writable(self.out, replay)
        Play(
            blue=self.blue,
            red=self.red,
            seed=self.seed,
            battles=BATTLES,
            replay=replay,
            replay_battles=BATTLES,
            arena=self.arena,
        ).run()
        Watch(replay, out=self.out).run()
        print(f"open {self.out} in a browser")
