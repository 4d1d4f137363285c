"""Content-addressed store for the weights of a league, with a cache of loaded policies.

Each policy has a folder named by the sha256 of its weights, with `checkpoint.json` and `policy.safetensors` of a
checkpoint. Folders are written under a temporary name, synced to disk and renamed before the database refers to them.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from echelon.learn.checkpoint.format import CLAIMS, POLICY, Checkpoint, open_checkpoint
from echelon.learn.models.actor_critic import ActorCritic
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, new_folder, read_file, sync_folder, write_through
from echelon.runtime.json_checks import SHA256

FOLDER = "weights"


class WeightStore:
    """The folder `weights` of a league, with an LRU cache of policies."""

    def __init__(self, league: Path, capacity: int = 64) -> None:
        require(capacity >= 1, "a weight store's capacity", ">= 1 policies", capacity)
        self.folder = league / FOLDER
        self.load = functools.lru_cache(capacity)(lambda digest: self.open(digest).policy())

    def path(self, digest: str) -> Path:
        """Folder of the weights with this sha256, which may not exist."""
        SHA256(FOLDER, digest)
        return self.folder / digest

    def add(self, checkpoint: Checkpoint) -> str:
        """Validate the policy of a checkpoint, copy it into the store and return its sha256. Idempotent.

        Raises:
            FileError: the checkpoint is invalid, or cannot be copied; then nothing of it is in the store.
        """
        checkpoint.policy()
        digest = str(checkpoint.claims["files"][POLICY])
        path = self.path(digest)
        if path.exists():
            return digest
        try:
            with new_folder(path, self.folder / f".{digest}.{os.getpid()}") as draft:
                for name in (CLAIMS, POLICY):
                    write_through(draft / name, read_file(checkpoint.path / name))
        except FileError:
            if not path.exists():  # else another process was faster; its content is identical
                raise
        self.open(digest)
        sync_folder(self.folder.parent)
        return digest

    def open(self, digest: str) -> Checkpoint:
        """Open a stored checkpoint and verify its metadata; the hash of the weights is verified when they are read."""
        path = self.path(digest)
        if path.is_symlink():
            raise FileError(f"{FOLDER}/{digest}: expected a folder, got a link")
        checkpoint = open_checkpoint(path)
        claimed_hash = checkpoint.claims["files"].get(POLICY)
        if claimed_hash != digest:
            raise FileError(f"{FOLDER}/{digest}: sha256 mismatch: expected {digest}, got {claimed_hash}")
        return checkpoint

    def policy(self, digest: str) -> ActorCritic:
        """Load a policy on the CPU in evaluation mode. It is shared through the cache and must not be modified."""
        return self.load(digest)

    @property
    def hit_rate(self) -> float:
        info = self.load.cache_info()
        return info.hits / max(1, info.hits + info.misses)
