"""Which battles a process fights at the moment, so that no other process fights them too."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence

from echelon.arena.batch_arena import Battle
from echelon.league.store import Store
from echelon.runtime.files import FileError, held

FOLDER = "fighting"
"""Of a league: a file for every process that fights, locked for as long as it lives."""


class Claims:
    """The battles that this process has taken to fight. Made by `claiming`."""

    def __init__(self, store: Store, owner: str) -> None:
        self.store, self.owner = store, owner

    def take(self, battles: Sequence[Battle], most: int) -> tuple[list[Battle], bool]:
        """The first of these that were not fought yet and that nobody else who lives has taken, at most so many.

        Returns:
            These, and whether battles remain unfought beside them: where none were taken, others fight those.
        """
        store = self.store
        with store.writing():
            for owner in store.claimants() - {self.owner}:
                if self.is_dead(owner):
                    store.release(owner)
            fought, claimed = store.fought(), store.claimed()
            left = [battle for battle in battles if battle not in fought]
            taken = [battle for battle in left if battle not in claimed][:most]
            store.claim(taken, self.owner)
        return taken, len(left) > len(taken)

    def is_dead(self, owner: str) -> bool:
        """Whether the process has ended that took battles under this name."""
        try:
            with held(self.store.folder / FOLDER / owner):
                pass
        except FileError:
            return False
        return True


@contextlib.contextmanager
def claiming(store: Store) -> Iterator[Claims]:
    """For as long as this process fights: what it has taken and not fought by its end is free again."""
    path = store.folder / FOLDER / uuid.uuid4().hex
    path.parent.mkdir(exist_ok=True)
    with held(path):
        try:
            yield Claims(store, path.name)
        finally:
            store.release(path.name)
