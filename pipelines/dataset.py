"""The `arena.py` command that writes battles as a dataset for offline learning."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.progress import track

from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.evaluate import in_split
from echelon.arena.match import battle_seeds
from echelon.arena.resolve import resolve
from echelon.datasets.dataset import DatasetWriter
from echelon.datasets.formats import written_as
from echelon.league.matchmaking import round_robin
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.battle_args import PLAYED, SplitBattle
from echelon.runtime.errors import require
from echelon.runtime.terminal import terminal


@dataclass(frozen=True)
class WriteDataset(SplitBattle):
    """Write battles between commanders as a dataset: observations, actions and rewards of each mech."""

    commanders: tuple[str, ...]
    """Commanders, as for `play`. Each plays every other, each seed once per side; a single one plays itself."""
    out: Path
    """Output file; for Minari a new folder `NAME-vNUMBER`, in `~/.minari/datasets` if `minari.load_dataset` should find
    it."""
    format: Literal["echelon", "minari"] = "echelon"
    """echelon: one file for `echelon.datasets.dataset.open_dataset`, which maps it into memory. minari: a Minari
    dataset with one episode per mech and battle (`pip install 'echelon-marl[minari]'`)."""
    battles: Annotated[int, PLAYED] = 64
    """Number of battles per pair of commanders."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=lambda: ArenaArgs(batch=64))
    quiet: bool = False
    """Hide the progress bar."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.battles % 2 == 0, "--battles", "even, because each seed is played on both sides", self.battles)
        is_list = 0 < len(self.commanders) == len(set(self.commanders))
        require(is_list, "--commanders", "at least one, without duplicates", self.commanders)

    def run(self) -> None:
        battles = self.schedule()
        settings = self.arena.settings().of_match(len(battles))
        commanders = {name: resolve(name) for name in self.commanders}
        env = in_split(self.config([*commanders.values()]), self.split)
        policies = {name: commander.policy(env, settings.device) for name, commander in commanders.items()}
        with written_as(self.format, self.out) as path:
            with DatasetWriter(path, env, self.commanders) as writer:
                arena = BatchArena(env, policies.__getitem__, settings)
                starts = range(0, len(battles), settings.batch)
                for start in track(starts, "batches", console=terminal(stderr=True), disable=self.quiet):
                    arena.play(battles[start : start + settings.batch], sink=writer)
            rows, size = writer.lengths["rows"], path.stat().st_size
        summary = f"{len(battles)} battles, {rows} decisions, {size / 1e6:.1f} MB"
        terminal(stderr=True).print(f"dataset     {self.out}: {summary}")

    def schedule(self) -> list[Battle]:
        """Return the battles: every pair of commanders on every seed, once per side."""
        names = self.commanders if len(self.commanders) > 1 else self.commanders * 2
        return round_robin(names, battle_seeds(self.seed, self.battles))
