"""Policies that were read from the vault, the last used kept at hand."""

from __future__ import annotations

from collections import OrderedDict

from echelon.league.vault import Vault
from echelon.learn.models.actor_critic import MechPolicy
from echelon.runtime.errors import require


class Library:
    """A cache that forgets whom it was not asked for longest (least recently used).

    Args:
        vault: where the others are read from.
        capacity: how many policies are kept.
    """

    def __init__(self, vault: Vault, capacity: int = 64) -> None:
        require(capacity >= 1, "a library's capacity", ">= 1 policies", capacity)
        self.vault = vault
        self.capacity = capacity
        self.kept: OrderedDict[str, MechPolicy] = OrderedDict()
        self.hits = self.misses = 0

    def policy(self, digest: str) -> MechPolicy:
        """The policy of this sha256, on the CPU and in evaluation mode; not to be changed."""
        if digest in self.kept:
            self.hits += 1
            self.kept.move_to_end(digest)
            return self.kept[digest]
        self.misses += 1
        found = self.vault.open(digest).policy()
        self.kept[digest] = found
        if len(self.kept) > self.capacity:
            self.kept.popitem(last=False)
        return found

    @property
    def hit_rate(self) -> float:
        """Share of the requests that needed no reading."""
        return self.hits / max(1, self.hits + self.misses)
