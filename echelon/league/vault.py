"""Weights of a league, each in a folder named by the sha256 of what it holds.

A folder is a checkpoint without its learner: `checkpoint.json` and `policy.safetensors`. It is written beside its
place, down to the disk, and renamed into it before the league's file mentions it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

from echelon.learn.checkpoint.format import CLAIMS, POLICY, Checkpoint, open_checkpoint
from echelon.runtime.files import FileError, read_file, sync_folder, write_through

FOLDER = "weights"
DIGEST = re.compile(r"[0-9a-f]{64}")


class Vault:
    """The folder `weights` of a league.

    Args:
        league: the league's folder.
    """

    def __init__(self, league: Path) -> None:
        self.folder = league / FOLDER

    def place(self, digest: str) -> Path:
        """Where the weights of this sha256 lie."""
        if not DIGEST.fullmatch(digest):
            raise FileError(f"{FOLDER}: expected a sha256 in hexadecimal, got {digest!r}")
        return self.folder / digest

    def keep(self, found: Checkpoint) -> str:
        """Copy the policy of a checkpoint, checked in full; returns its sha256. Keeping it twice is keeping it once."""
        found.policy()
        digest = str(found.claims["files"][POLICY])
        place = self.place(digest)
        if place.exists():
            return digest
        draft = self.folder / f".{digest}.{os.getpid()}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        for name in (CLAIMS, POLICY):
            write_through(draft / name, read_file(found.path / name))
        sync_folder(draft)
        with contextlib.suppress(OSError):  # somebody else was faster: theirs holds the same
            draft.rename(place)
        shutil.rmtree(draft, ignore_errors=True)
        self.open(digest)
        sync_folder(self.folder)
        sync_folder(self.folder.parent)
        return digest

    def open(self, digest: str) -> Checkpoint:
        """What lies there, its claims checked; its weights are hashed as they are read.

        Raises:
            FileError: nothing lies there, or something that does not belong there.
        """
        place = self.place(digest)
        if place.is_symlink():
            raise FileError(f"{FOLDER}/{digest}: expected a folder, got a link")
        found = open_checkpoint(place)
        claimed = found.claims["files"].get(POLICY)
        if claimed != digest:
            raise FileError(f"{FOLDER}/{digest}: sha256 mismatch: expected {digest}, got {claimed}")
        return found
