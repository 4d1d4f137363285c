"""The checkpoints of one run: the last few stay, and the best."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from echelon.learn.checkpoint.files import checkpoints_in
from echelon.runtime.files import sync_folder


def place_of(folder: Path, iteration: int) -> Path:
    """Where the checkpoint of an iteration stands in the run folder."""
    return folder / "checkpoints" / f"iteration_{iteration:06d}"


def thin_out(folder: Path, last: int, best: int | None) -> None:
    """Throw away all checkpoints of the run folder but the `last` few and that of the iteration `best`.

    One that goes is renamed first: whoever finds a checkpoint under its name finds all of it. Leftovers of writers
    that were killed go too.
    """
    shelf = folder / "checkpoints"
    spared = set() if best is None else {place_of(folder, best)}
    numbered = [path for path in checkpoints_in(shelf) if re.fullmatch(r"iteration_\d+", path.name)]
    for path in sorted(numbered, key=lambda path: int(path.name[len("iteration_") :]))[:-last]:
        if path not in spared:
            path.rename(path.parent / f".{path.name}.gone")
    sync_folder(shelf)
    for leftover in shelf.glob(".iteration_*"):
        shutil.rmtree(leftover)
