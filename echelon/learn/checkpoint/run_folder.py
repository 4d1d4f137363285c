"""Choose, create and lock the folder of a run, and find the checkpoint to resume from."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from echelon.learn.checkpoint.files import checkpoint_path, checkpoints_in, newest_checkpoint, prune_checkpoints
from echelon.learn.checkpoint.format import METADATA, SAVED_AT, Checkpoint, open_checkpoint
from echelon.learn.config import TrainConfig
from echelon.learn.metrics import read_table
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import MAX_HEADER_BYTES, FileError, file_lock, parse_json, read_file, writing_to

LOCK = ".lock"
"""Name of the lock file of a run folder, locked while a process trains there."""
_locked: set[Path] = set()
"""Lock files held by this process."""


def choose_folder(config: TrainConfig) -> Path:
    """Return the folder of the run: the one given by `--run-dir`, the folder of the resumed run, or a new one."""
    is_named = "{time}" not in config.run_dir
    if config.resume not in ("", "latest") and not is_named:
        return Path(config.resume).absolute().parent.parent
    if config.resume == "latest" and not is_named:
        parent = Path(config.run_dir).parent
        runs = [path.parent for path in parent.glob("*/checkpoints")]
        if not runs:
            raise FileError(f"{parent}: expected a run to resume, found none")
        return max(runs, key=lambda folder: (last_saved_at(folder), folder.name))
    return Path(config.run_dir.replace("{time}", time.strftime("%Y%m%d-%H%M%S")))


def last_saved_at(folder: Path) -> float:
    """Return the time at which a run wrote its last checkpoint, Unix seconds, as stored in the checkpoint. File times
    would be wrong for copied or edited folders."""
    times = [0.0]
    for path in checkpoints_in(folder / "checkpoints"):
        # Skip an invalid checkpoint here; it raises an error only if it is chosen for resuming.
        with contextlib.suppress(FileError, OSError):
            metadata = parse_json(METADATA, read_file(path / METADATA, MAX_HEADER_BYTES))
            saved_at = metadata.get(SAVED_AT) if isinstance(metadata, dict) else None
            times.append(saved_at if isinstance(saved_at, int | float) else (path / METADATA).stat().st_mtime)
    return max(times)


def resolve_resume(config: TrainConfig) -> TrainConfig:
    """Resolve `--resume auto`, which requires a named run folder. `auto` means `latest` if the folder contains a run,
    and else a new run.
    """
    if config.resume != "auto":
        return config
    require("{time}" not in config.run_dir, "--resume auto", "given with a --run-dir", config.run_dir)
    return replace(config, resume="latest" if has_run(Path(config.run_dir)) else "")


def has_run(folder: Path) -> bool:
    return any((folder / "checkpoints").glob("[!.]*"))


def is_unlearnt(folder: Path) -> bool:
    """Return whether the run has only its initial checkpoint, as after an error in the first iteration."""
    names, first = [path.name for path in (folder / "checkpoints").glob("[!.]*")], checkpoint_path(folder, 0)
    if names != [first.name]:
        return False
    try:
        saved = open_checkpoint(first)
    except FileError:
        return False
    # `processes` is 0 if another program saved the policy here: such a checkpoint does not belong to a run.
    return saved.counters.iterations == 0 and saved.metadata["processes"] > 0 and not read_table(folder / "metrics.csv")


def clear_unlearnt(folder: Path) -> None:
    """Delete the initial checkpoint of a run that learnt nothing, so a new run can start in its folder."""
    if is_unlearnt(folder):
        with file_lock(folder / LOCK):
            # Check again under the lock: another process may have trained meanwhile.
            if is_unlearnt(folder):
                prune_checkpoints(folder, 0, best=None)


def check_folder(name: str, folder: Path, start: Checkpoint | None) -> None:
    """Raise `ConfigError` for a folder with a run that does not end at `start`, because names of checkpoints would
    collide.
    """
    if not has_run(folder):
        return
    require(start is not None, name, "a folder without an earlier run (pass `start` to resume a run)", str(folder))
    if start is not None:
        last, done = open_checkpoint(newest_checkpoint(folder / "checkpoints")), start.counters.iterations
        is_end = last.counters.iterations < done or last.metadata["files"] == start.metadata["files"]
        limit = f"a folder without checkpoints after iteration {done}, from which the run resumes"
        require(is_end, name, limit, str(last.path))


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder in a context, unless this process already holds it."""
    path = (folder / LOCK).absolute()
    if path in _locked:
        yield
        return
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with file_lock(path):
        _locked.add(path)
        try:
            yield
        finally:
            _locked.remove(path)


def make_new_folder(folder: Path) -> Path:
    """Create the folder of a new run with a default name, or NAME-2, NAME-3, ... if another process created that
    folder."""
    with needs_writable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            path = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                return path
    raise AssertionError("count ends")


@contextlib.contextmanager
def needs_writable(folder: Path) -> Iterator[None]:
    """Convert an `OSError` in the context to a one-line `ConfigError` about the run folder."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"--run-dir must be a writable folder, got {str(folder)!r}: {error.strerror}") from None


@contextlib.contextmanager
def lock_run_folder(folder: Path, resumes: bool, is_made: bool = False) -> Iterator[None]:
    """Create and lock the run folder in a context; remove a new folder that stays empty.

    Args:
        is_made: whether this process has just created the folder.
    """
    is_new = is_made or not folder.exists()
    with needs_writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    try:
        if not resumes:
            clear_unlearnt(folder)
        with locked(folder):
            limit = "a folder without a run, or continue its run with --resume latest"
            require(resumes or not has_run(folder), "--run-dir", limit, str(folder))
            yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def opened_run(config: TrainConfig, ranks: Ranks) -> Iterator[tuple[Path, Checkpoint | None]]:
    """Yield the locked folder of a run and the checkpoint to resume from, on every process."""
    is_unnamed = not config.resume and "{time}" in config.run_dir
    own = make_new_folder(choose_folder(config)) if is_unnamed and ranks.is_first else choose_folder(config)
    folder = Path(ranks.broadcast_text(str(own)))
    requested = ranks.gather_texts(config.resume)
    limit = "the same on all processes: do all of them see the run folder?"
    require(len(set(requested)) == 1, "--resume", limit, requested)
    if config.resume == "latest":
        # If there is no checkpoint, this call raises before the folder is created.
        newest_checkpoint(folder / "checkpoints")
    resumes = bool(config.resume)
    with lock_run_folder(folder, resumes, is_unnamed) if ranks.is_first else contextlib.nullcontext():
        # All processes read the folder after it is locked, and none writes to it before all have read it.
        ranks.check_shared("--run-dir", folder)
        start = find_start(config, folder)
        ranks.barrier()
        yield folder, start


def find_start(config: TrainConfig, folder: Path) -> Checkpoint | None:
    """Return the checkpoint to resume from, or None for a new run."""
    if not config.resume:
        return None
    latest = config.resume == "latest"
    start = open_checkpoint(newest_checkpoint(folder / "checkpoints") if latest else config.resume)
    initial = start.metadata["settings"].get("init_from", "")
    require(
        config.init_from == initial,
        "--init-from",
        f"{initial!r:.80}, the initial policy of the resumed run",
        config.init_from,
    )
    if not latest:
        check_folder("--run-dir", folder, start)
    return start
