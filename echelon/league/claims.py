"""Which battles a process plays at the moment, so that no other process plays them too."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence

from echelon.arena.batch_arena import Battle
from echelon.league.store import Store
from echelon.runtime.files import FileError, held

FOLDER = "fighting"
"""Of a league: a file for every process that plays, locked for as long as it lives."""


class Claims:
    """The battles that this process has claimed. Made by `claiming`."""

    def __init__(self, store: Store, owner: str) -> None:
        self.store, self.owner = store, owner

    def claim(self, battles: Sequence[Battle], most: int) -> tuple[list[Battle], bool]:
        """Claim the first of these that are not played yet and that no living process has claimed, at most so many.

        Returns:
            These, and whether others remain unplayed: where none were taken, other processes play those.
        """
        store = self.store
        with store.writing():
            for owner in owners(store) - {self.owner}:
                if self.is_dead(owner):
                    release(store, owner)
            played, others = store.played(), claimed(store)
            left = [battle for battle in battles if battle not in played]
            taken = [battle for battle in left if battle not in others][:most]
            rows = [(*battle, self.owner) for battle in taken]
            store.database.executemany("INSERT INTO claims VALUES (?, ?, ?, ?)", rows)
        return taken, len(left) > len(taken)

    def is_dead(self, owner: str) -> bool:
        """Whether the process has ended that claimed battles under this name."""
        try:
            with held(self.store.folder / FOLDER / owner):
                pass
        except FileError:
            return False
        return True


@contextlib.contextmanager
def claiming(store: Store) -> Iterator[Claims]:
    """For as long as this process plays: what it has claimed and not played by its end is free again."""
    path = store.folder / FOLDER / uuid.uuid4().hex
    path.parent.mkdir(exist_ok=True)
    with held(path):
        try:
            yield Claims(store, path.name)
        finally:
            release(store, path.name)


def claimed(store: Store) -> set[Battle]:
    """Battles that some process has claimed."""
    return {Battle._make(row) for row in store.execute("SELECT blue, red, seed FROM claims")}


def owners(store: Store) -> set[str]:
    """The processes that have claimed any."""
    return {owner for (owner,) in store.execute("SELECT DISTINCT owner FROM claims")}


def release(store: Store, owner: str) -> None:
    """Give up what a process has claimed."""
    with store.writing():
        store.execute("DELETE FROM claims WHERE owner = ?", owner)
