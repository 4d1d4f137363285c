"""The folder of a run: chosen, locked, and searched for the checkpoint to resume from."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import Checkpoint, open_checkpoint
from echelon.learn.config import TrainConfig
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError, held

LOCK = ".lock"
"""Lock file of a run folder, held while a process trains there."""


def choose_folder(config: TrainConfig) -> Path:
    """The run folder: the one given, or the one of the resumed run, or a new one.

    Raises:
        FileError: if there is no run to resume.
    """
    is_named = "{time}" not in config.run_dir
    if config.resume not in ("", "latest") and not is_named:
        return Path(config.resume).absolute().parent.parent
    if config.resume == "latest" and not is_named:
        parent = Path(config.run_dir).parent
        runs = [found.parent for found in parent.glob("*/checkpoints")]
        if not runs:
            raise FileError(f"{parent}: expected a run to resume, found none")
        return max(runs, key=lambda folder: folder.stat().st_mtime)
    return Path(config.run_dir.replace("{time}", time.strftime("%Y%m%d-%H%M%S")))


@contextlib.contextmanager
def lock_run_folder(folder: Path, resumes: bool) -> Iterator[None]:
    """Create and lock the run folder.

    Raises:
        ConfigError: if it is not writable, or holds a run already and `resumes` is false.
        FileError: if another process has locked it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"--run-dir must be a writable folder, got {str(folder)!r}: {error.strerror}") from None
    with held(folder / LOCK):
        has_run = any((folder / "checkpoints").glob("[!.]*"))
        limit = "a folder without a run, or go on with --resume latest"
        require(resumes or not has_run, "--run-dir", limit, str(folder))
        yield


@contextlib.contextmanager
def opened_run(config: TrainConfig, ranks: Ranks) -> Iterator[tuple[Path, Checkpoint | None]]:
    """The locked folder of a run and the checkpoint that it resumes from, on every process.

    Raises:
        ConfigError, FileError: as `lock_run_folder` and `find_start`.
    """
    folder = Path(ranks.broadcast_text(str(choose_folder(config))))
    if config.resume == "latest":
        # Fail before the folder is created.
        newest_checkpoint(folder / "checkpoints")
    with lock_run_folder(folder, resumes=bool(config.resume)) if ranks.is_first else contextlib.nullcontext():
        # No process reads before the folder is locked, and none writes before all have read.
        ranks.barrier()
        start = find_start(config, folder)
        ranks.barrier()
        yield folder, start


def find_start(config: TrainConfig, folder: Path) -> Checkpoint | None:
    """The checkpoint to resume from, or None for a new run.

    Raises:
        ConfigError: if the run folder holds a later checkpoint.
    """
    if not config.resume:
        return None
    if config.resume == "latest":
        return open_checkpoint(newest_checkpoint(folder / "checkpoints"))
    start = open_checkpoint(config.resume)
    if any((folder / "checkpoints").glob("[!.]*")):
        furthest = newest_checkpoint(folder / "checkpoints")
        last = open_checkpoint(furthest).counters.iterations
        limit = f"a folder without later checkpoints than iteration {start.counters.iterations}"
        require(last <= start.counters.iterations, "--run-dir", limit, str(furthest))
    return start
