"""The commands of `arena.py` that play battles between commanders: as a match, and as data for offline learning."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.progress import track

from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import setup_words
from echelon.arena.evaluate import in_split
from echelon.arena.match import MOST_PLAYED, battle_seeds, match_events, named_match, replay_of
from echelon.arena.resolve import resolve
from echelon.datasets.dataset import DatasetWriter, open_dataset
from echelon.league.entry_policy import qualified_name
from echelon.league.matchmaking import round_robin
from echelon.pipelines.arena_args import ArenaArgs, ChosenBattle
from echelon.pipelines.console import terminal
from echelon.pipelines.progress_bar import bar
from echelon.pipelines.result_tables import show_match
from echelon.replay.file import save
from echelon.replay.recorder import Recorder
from echelon.rules.config import Split
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable, write_lines
from echelon.runtime.limits import SEED, Limits, Settings
from echelon.runtime.profiling import profiled_between

PLAYED = Limits(2, MOST_PLAYED, "battles, an even number")


@dataclass(frozen=True, kw_only=True)
class SplitBattle(Settings, ChosenBattle):
    """Base of the commands that play battles of a split."""

    seed: Annotated[int, SEED] = 0
    split: Split | None = None
    """Maps and battles of train, validation or test; by default any."""


@dataclass(frozen=True)
class Play(SplitBattle):
    """Play a match between two commanders, every seed once per side."""

    blue: str
    """Commander X: a tier, heuristic[:tier], a checkpoint or run folder, league:FOLDER/NAME, or
    package.module:Commander, a class of your own that is built with the battle's config. It is blue in half of the
    battles."""
    red: str
    """Commander Y, the same."""
    league: Path | None = None
    """A league whose entries may be named as commanders without their folder."""
    battles: Annotated[int, PLAYED] = 64
    json: bool = False
    """Print one JSON object instead of a table."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=ArenaArgs)
    log: Path | None = None
    """Write a JSON object a line for each battle: who, seed, winner, why and when it ended, hash of its last state."""
    profile: Path | None = None
    """Profile decisions 17 to 48 of the match: write a trace here and print the costliest parts."""
    replay: Path | None = None
    """Record some of the battles into this file."""
    replay_battles: int = 4
    """How many; each seed is played once per side."""
    replay_observations: bool = False
    """Also record every observation of every mech, about 8 MB a minute of 10v10."""

    def run(self) -> None:
        settings, league = self.arena.settings(), self.league
        x, y = (name if league is None else qualified_name(name, league) for name in (self.blue, self.red))
        env = in_split(self.config([resolve(x), resolve(y)]), self.split)
        match = named_match(x, y, env, self.battles, settings)
        recorder = self.recorder()
        with profiled_between(self.profile) as mark, bar(self.battles, "battles", quiet=self.json) as progress:

            def advance(battles: float) -> None:
                progress.advance(battles)
                mark()

            match.arena.on_progress = advance
            (result,) = match.play(self.seed, recorder).values()
        if self.replay is not None and recorder is not None:
            save(replay_of(recorder, self.blue, self.red), self.replay)
            terminal(stderr=True).print(f"replay      {self.replay}")
        setup = match.arena.setup
        if self.log is not None:
            seeds = battle_seeds(self.seed, self.battles)
            write_lines(self.log, [row | setup for row in match_events(result, self.blue, self.red, seeds)])
        if self.json:
            print(json.dumps({"x": self.blue, "y": self.red, "seed": self.seed, **setup, **result.as_json()}))
        else:
            show_match(result, self.blue, self.red, by_side=env.is_unequal)
            terminal().print(setup_words(setup), markup=False, highlight=False)

    def recorder(self) -> Recorder | None:
        """Recorder of the first battles, or None. Checks that all output files are writable."""
        check_writable(self.profile, self.log)
        if self.replay is None:
            return None
        for flag, path in (("--profile", self.profile), ("--log", self.log)):
            is_other_file = path is None or path.resolve() != self.replay.resolve()
            require(is_other_file, flag, "another file than the replay", str(path))
        limit = f"1..{self.arena.batch}, those of the first --batch"
        require(1 <= self.replay_battles <= self.arena.batch, "--replay-battles", limit, self.replay_battles)
        check_writable(self.replay)
        return Recorder(range(min(self.replay_battles, self.battles)), self.replay_observations)


@dataclass(frozen=True)
class WriteDataset(SplitBattle):
    """Write battles between commanders as data: what each mech observed, did and was paid."""

    commanders: tuple[str, ...]
    """Names as `play` takes them. Each fights each other one, every seed once per side; one alone fights itself."""
    out: Path
    """The file; of Minari a new folder `NAME-vNUMBER`, below `~/.minari/datasets` for `minari.load_dataset` to find."""
    format: Literal["echelon", "minari"] = "echelon"
    """echelon: one file, mapped into memory by `echelon.datasets.dataset.open_dataset`. minari: a Minari dataset, an
    episode for each mech of both teams and each battle (`pip install 'echelon-marl[minari]'`)."""
    battles: Annotated[int, PLAYED] = 64
    """Between each two of them."""
    arena: tyro.conf.OmitArgPrefixes[ArenaArgs] = field(default_factory=lambda: ArenaArgs(batch=64))
    quiet: bool = False
    """No progress bar."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.battles % 2 == 0, "--battles", "even, because each seed is played on both sides", self.battles)
        is_list = 0 < len(self.commanders) == len(set(self.commanders))
        require(is_list, "--commanders", "at least one, each once", self.commanders)

    def run(self) -> None:
        battles = self.schedule()
        settings = self.arena.settings().of_match(len(battles))
        commanders = {name: resolve(name) for name in self.commanders}
        env = in_split(self.config([*commanders.values()]), self.split)
        policies = {name: commander.policy(env, settings.device) for name, commander in commanders.items()}
        with self.file() as path:
            with DatasetWriter(path, env, self.commanders) as writer:
                arena = BatchArena(env, policies.__getitem__, settings)
                starts = range(0, len(battles), settings.batch)
                for start in track(starts, "batches", console=terminal(stderr=True), disable=self.quiet):
                    arena.play(battles[start : start + settings.batch], sink=writer)
            rows, size = writer.lengths["rows"], path.stat().st_size
        summary = f"{len(battles)} battles, {rows} decisions, {size / 1e6:.1f} MB"
        terminal(stderr=True).print(f"dataset     {self.out}: {summary}")

    @contextmanager
    def file(self) -> Iterator[Path]:
        """The file that battles are written into; of another format a hidden one beside it, which is converted."""
        if self.format == "echelon":
            yield self.out
            return
        from echelon.datasets import minari  # an extra

        minari.name_of(self.out)
        path = self.out.expanduser().parent / f".{self.out.name}.{os.getpid()}.safetensors"
        try:
            yield path
            minari.write_minari(open_dataset(path), self.out)
        finally:
            path.unlink(missing_ok=True)

    def schedule(self) -> list[Battle]:
        """Every pair on every seed, once per side."""
        names = self.commanders if len(self.commanders) > 1 else self.commanders * 2
        return round_robin(names, battle_seeds(self.seed, self.battles))
