"""Keeps the last few checkpoints of a run and the best one, and deletes the others."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from echelon.learn.checkpoint.files import checkpoints_in
from echelon.runtime.files import sync_folder, writing_to


def checkpoint_path(folder: Path, iteration: int) -> Path:
    """Path of the checkpoint of an iteration in the run folder."""
    return folder / "checkpoints" / f"iteration_{iteration:06d}"


def prune_checkpoints(folder: Path, last: int, best: int | None) -> None:
    """Delete all checkpoints of the run folder but the `last` newest and that of iteration `best`.

    A checkpoint is renamed before it is deleted, so that one under its proper name is always complete. Unfinished
    drafts of killed processes are deleted too.
    """
    root = folder / "checkpoints"
    kept = set() if best is None else {checkpoint_path(folder, best)}
    numbered = [path for path in checkpoints_in(root) if re.fullmatch(r"iteration_\d+", path.name)]
    for path in sorted(numbered, key=lambda path: int(path.name[len("iteration_") :]))[: max(0, len(numbered) - last)]:
        if path not in kept:
            with writing_to(path):
                path.rename(path.parent / f".{path.name}.gone")
    with writing_to(root):
        sync_folder(root)
        for leftover in root.glob(".iteration_*"):
            shutil.rmtree(leftover)
