"""What a checkpoint claims and whether it holds, told without building anything from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echelon.learn.checkpoint.format import CLAIMS, MAX_RUN_BYTES, Checkpoint, open_checkpoint
from echelon.runtime.files import FileError, check_finite, read_tensors


@dataclass(frozen=True)
class FileFound:
    """One file of tensors."""

    name: str
    bytes: int = 0
    tensors: int = 0
    numbers: int = 0
    """In all of them."""
    problem: str = ""
    """Why it does not hold, in one line; empty if it does."""


@dataclass(frozen=True)
class Survey:
    """A checkpoint as it was found."""

    path: str
    claims: dict[str, Any] = field(default_factory=dict)
    """Empty if `checkpoint.json` cannot be believed."""
    files: list[FileFound] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether every file is what the claims say."""
        return all(not found.problem for found in self.files)


def survey(path: Path) -> Survey:
    """Read every file of a checkpoint: hashes, headers, finite numbers."""
    try:
        found = open_checkpoint(path)
    except FileError as error:
        return Survey(str(path), files=[FileFound(CLAIMS, problem=str(error))])
    return Survey(str(path), found.claims, [look_at(found, name) for name in sorted(found.claims["files"])])


def look_at(found: Checkpoint, name: str) -> FileFound:
    """One file of a checkpoint."""
    path = found.path / name
    try:
        tensors, _ = read_tensors(path, found.claims["files"][name], MAX_RUN_BYTES)
        for key, value in tensors.items():
            check_finite(name, key, value)
    except FileError as error:
        return FileFound(name, problem=str(error))
    return FileFound(name, path.stat().st_size, len(tensors), sum(value.numel() for value in tensors.values()))
