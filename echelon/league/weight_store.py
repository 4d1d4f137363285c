"""Weights of a league, each in a folder named by the sha256 of what it holds, and the policies last read from them.

A folder is a checkpoint without its learner: `checkpoint.json` and `policy.safetensors`. It is written beside its
place, down to the disk, and renamed into it before the league's file mentions it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections import OrderedDict
from pathlib import Path

from echelon.learn.checkpoint.format import CLAIMS, POLICY, Checkpoint, open_checkpoint
from echelon.learn.models.actor_critic import ActorCritic
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, read_file, sync_folder, write_through

FOLDER = "weights"
DIGEST = re.compile(r"[0-9a-f]{64}")


class WeightStore:
    """The folder `weights` of a league, with a cache of policies that forgets the least recently used.

    Args:
        league: the league's folder.
        capacity: how many policies the cache holds.
    """

    def __init__(self, league: Path, capacity: int = 64) -> None:
        require(capacity >= 1, "a weight store's capacity", ">= 1 policies", capacity)
        self.folder = league / FOLDER
        self.capacity = capacity
        self.cache: OrderedDict[str, ActorCritic] = OrderedDict()
        self.hits = self.misses = 0

    def path(self, digest: str) -> Path:
        """Where the weights of this sha256 lie."""
        if not DIGEST.fullmatch(digest):
            raise FileError(f"{FOLDER}: expected a sha256 in hexadecimal, got {digest!r}")
        return self.folder / digest

    def add(self, found: Checkpoint) -> str:
        """Copy the policy of a checkpoint, checked in full; returns its sha256. Adding it twice is adding it once."""
        found.policy()
        digest = str(found.claims["files"][POLICY])
        place = self.path(digest)
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
        place = self.path(digest)
        if place.is_symlink():
            raise FileError(f"{FOLDER}/{digest}: expected a folder, got a link")
        found = open_checkpoint(place)
        claimed = found.claims["files"].get(POLICY)
        if claimed != digest:
            raise FileError(f"{FOLDER}/{digest}: sha256 mismatch: expected {digest}, got {claimed}")
        return found

    def policy(self, digest: str) -> ActorCritic:
        """The policy of this sha256, on the CPU and in evaluation mode; not to be changed."""
        if digest in self.cache:
            self.hits += 1
            self.cache.move_to_end(digest)
            return self.cache[digest]
        self.misses += 1
        found = self.open(digest).policy()
        self.cache[digest] = found
        if len(self.cache) > self.capacity:
            self.cache.popitem(last=False)
        return found

    @property
    def hit_rate(self) -> float:
        """Share of the requests for a policy that needed no reading."""
        return self.hits / max(1, self.hits + self.misses)
