"""Verifies a checkpoint and reports its contents, without building anything from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echelon.learn.checkpoint.files import find_checkpoint
from echelon.learn.checkpoint.format import CLAIMS, Checkpoint, open_checkpoint
from echelon.runtime.files import FileError
from echelon.runtime.tensor_files import check_finite, read_tensors


@dataclass(frozen=True)
class FileReport:
    """Result for one file of a checkpoint."""

    name: str
    bytes: int = 0
    tensors: int = 0
    numbers: int = 0
    """Elements in all of its tensors."""
    problem: str = ""
    """Why it is invalid, in one line; empty if it is valid."""


@dataclass(frozen=True)
class CheckpointReport:
    """Result for a whole checkpoint."""

    path: str
    claims: dict[str, Any] = field(default_factory=dict)
    """Contents of `checkpoint.json`; empty if that is invalid."""
    files: list[FileReport] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    """Versions of the rules and of the map maker that it was trained under, whether or not the file names them."""
    provenance: dict[str, list[str]] = field(default_factory=dict)
    """What it was trained against, whether or not the file tells."""

    @property
    def is_valid(self) -> bool:
        return all(not found.problem for found in self.files)


def inspect_checkpoint(path: Path) -> CheckpointReport:
    """Read every file of a checkpoint, or of the newest one of a run folder, and verify hashes, headers and that all
    numbers are finite."""
    try:
        path = find_checkpoint(path)
        found = open_checkpoint(path)
    except FileError as error:
        return CheckpointReport(str(path), files=[FileReport(CLAIMS, problem=str(error))])
    files = [inspect_file(found, name) for name in sorted(found.claims["files"])]
    return CheckpointReport(str(path), found.claims, files, found.versions.as_json(), found.provenance.as_json())


def inspect_file(found: Checkpoint, name: str) -> FileReport:
    path = found.path / name
    try:
        tensors, _ = read_tensors(path, found.claims["files"][name], found.most_bytes(name))
        for key, value in tensors.items():
            check_finite(name, key, value)
    except FileError as error:
        return FileReport(name, problem=str(error))
    return FileReport(name, path.stat().st_size, len(tensors), sum(value.numel() for value in tensors.values()))
