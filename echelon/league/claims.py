"""Claims on battles: which process plays which battle, so that none is played twice."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence

from echelon.arena.batch_arena import Battle
from echelon.league.store import Store
from echelon.runtime.files import FileError, held, writing_to

FOLDER = "fighting"
"""Subfolder of a league with one lock file per playing process, locked as long as the process lives."""


class Claims:
    """The battles that this process has claimed; use `claiming` to create it."""

    def __init__(self, store: Store, owner: str) -> None:
        self.store, self.owner = store, owner

    def claim(self, battles: Sequence[Battle], most: int) -> tuple[list[Battle], bool]:
        """Claim the first battles that are neither played nor claimed by a living process.

        Returns:
            The claimed battles, and whether other candidates remain unplayed. If nothing was claimed, those are
            being played by other processes.
        """
        store = self.store
        with store.writing():
            for owner in owners(store) - {self.owner}:
                if self.is_dead(owner):
                    release(store, owner)
            played, claimed_by_others = store.played(battles), claimed(store)
            unplayed = [battle for battle in battles if battle not in played]
            new = [battle for battle in unplayed if battle not in claimed_by_others][:most]
            store.database.insert("claims", [(*battle, self.owner) for battle in new])
        return new, len(unplayed) > len(new)

    def is_dead(self, owner: str) -> bool:
        """Whether the process that claimed battles as `owner` has ended."""
        try:
            with held(self.store.folder / FOLDER / owner):
                pass
        except FileError:
            return False
        return True


@contextlib.contextmanager
def claiming(store: Store) -> Iterator[Claims]:
    """Context manager that yields the claims of this process and releases the unplayed ones on exit."""
    path = store.folder / FOLDER / uuid.uuid4().hex
    with writing_to(path):
        path.parent.mkdir(exist_ok=True)
    with held(path):
        try:
            yield Claims(store, path.name)
        except KeyboardInterrupt:
            store.database.patience_s = 0.0
            raise
        finally:
            # If it fails, the claims of an owner whose file is not locked count as released.
            with contextlib.suppress(FileError):
                release(store, path.name)


def claimed(store: Store) -> set[Battle]:
    return {Battle._make(row) for row in store.execute("SELECT blue, red, seed FROM claims")}


def owners(store: Store) -> set[str]:
    """Names of the processes that hold claims."""
    # Each is the name of a file.
    return {owner for (owner,) in store.read("claims", ("owner",), "SELECT DISTINCT owner FROM claims")}


def release(store: Store, owner: str) -> None:
    with store.writing():
        store.execute("DELETE FROM claims WHERE owner = ?", owner)
