"""The command of `arena.py` that writes battles as data for imitation and offline learning."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
import tyro
from rich.progress import track

from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.match import MOST_PLAYED
from echelon.arena.resolve import common_env, resolve
from echelon.datasets.writer import DatasetWriter
from echelon.pipelines.arena_args import ArenaArgs, BattleArgs
from echelon.pipelines.console import terminal
from echelon.rules.config import ENV_PRESETS
from echelon.runtime import noise
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import require
from echelon.runtime.limits import SEED, Limits, check_settings


@dataclass(frozen=True)
class WriteDataset:
    """Write battles between commanders as one file that maps into memory: what each mech observed, did and was paid."""

    commanders: tuple[str, ...]
    """Names as `play` takes them. Each fights each other one, every seed once per side; one alone fights itself."""
    out: Path
    """The file; `echelon.datasets.dataset.open_dataset` reads it."""
    battles: int = 64
    """Between each two of them."""
    seed: int = 0
    env: Literal["auto", "small", "standard", "large"] = "auto"
    """Battle preset; auto takes the one a checkpoint was trained in, else small."""
    changes: tyro.conf.OmitArgPrefixes[BattleArgs] = field(default_factory=BattleArgs)
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=lambda: ArenaArgs(batch=64))
    quiet: bool = False
    """No progress bar."""

    def __post_init__(self) -> None:
        check_settings(self, {"battles": Limits(2, MOST_PLAYED, "battles, an even number"), "seed": SEED})
        require(self.battles % 2 == 0, "--battles", "even, because each seed is played on both sides", self.battles)
        is_list = 0 < len(self.commanders) == len(set(self.commanders))
        require(is_list, "--commanders", "at least one, each once", self.commanders)

    def run(self) -> None:
        """Play the battles and write the file."""
        device = use_device(resolve_device(self.arena.device))
        commanders = {name: resolve(name) for name in self.commanders}
        env = common_env([*commanders.values()]) if self.env == "auto" else ENV_PRESETS[self.env]()
        env = self.changes.apply(env)
        policies = {name: commander.policy(env, device) for name, commander in commanders.items()}
        battles = self.schedule()
        how = (min(self.arena.batch, len(battles)), *self.arena.execution(device))
        with DatasetWriter(self.out, env, self.commanders) as writer:
            arena = BatchArena(env, policies.__getitem__, device, *how)
            starts = range(0, len(battles), arena.batch)
            for start in track(starts, "batches", console=terminal(stderr=True), disable=self.quiet):
                arena.play(battles[start : start + arena.batch], sink=writer)
        rows, size = writer.lengths["rows"], self.out.stat().st_size
        terminal(stderr=True).print(
            f"dataset     {self.out}: {len(battles)} battles, {rows} decisions, {size / 1e6:.1f} MB"
        )

    def schedule(self) -> list[Battle]:
        """Every pair on every seed, once per side."""
        seeds = noise.battle_seeds(self.seed, self.battles // 2, torch.device("cpu")).tolist()
        names = self.commanders if len(self.commanders) > 1 else self.commanders * 2
        pairs = [*itertools.combinations(names, 2)]
        return [Battle(*sides, seed) for seed in seeds for x, y in pairs for sides in ((x, y), (y, x))]
