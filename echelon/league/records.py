"""Rows of the database of a league: entries, matches, standings and changes."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import NamedTuple

from echelon.arena.batch_arena import Battle


class Entry(NamedTuple):
    """A participant of a league."""

    id: str
    """sha256 of its weights, or of the name of a scripted tier."""
    kind: str
    """One of `schema.KINDS`."""
    name: str
    parent: str | None
    """Id of the entry it descends from."""
    env: str
    """Signature of the environment config it was trained with, as JSON."""
    created: float
    """Unix time, s."""

    @property
    def is_scripted(self) -> bool:
        """Whether it is a scripted tier; only their names contain a colon."""
        return ":" in self.name


class MatchRecord(NamedTuple):
    """A recorded battle."""

    blue: str
    red: str
    seed: int
    recipe: str
    """JSON: map seed and precision."""
    winner: int
    """0 for a draw, 1 for blue, 2 for red."""
    reason: str
    decisions: int
    duration_s: float
    stats: str
    """JSON: per side (blue, red) the values of `echelon.env.outcome.stat_names`, and the score."""
    state_hash: str = ""
    """Hash of the final state, see `echelon.arena.fingerprint.state_hash`; empty in records of older versions."""

    @property
    def key(self) -> str:
        """Unique key of the match, from commanders, seed and recipe."""
        return match_key(Battle(self.blue, self.red, self.seed), self.recipe)

    def points(self, who: str) -> float:
        """Points of one of the two entries: 1 for a win, 0.5 for a draw, 0 for a loss."""
        return 0.5 if self.winner == 0 else float((self.blue, self.red)[self.winner - 1] == who)


MATCH_COLUMNS = ", ".join(MatchRecord._fields)
"""Columns of the table `matches` that form a `MatchRecord`."""


def match_key(battle: Battle, recipe: str) -> str:
    """Unique key of a match."""
    return f"{recipe}/{battle.seed}/{battle.blue}/{battle.red}"


class Standing(NamedTuple):
    """Rating of an entry after the last closed period, and totals of all its games."""

    id: str
    name: str
    kind: str
    rating: float
    deviation: float
    volatility: float
    games: int
    score: float
    """Points in these games: a win is 1, a draw 0.5."""

    def conservative(self, conservatism: float) -> float:
        """Conservative rating r - k RD, with k = `conservatism`."""
        return self.rating - conservatism * self.deviation


@dataclass(frozen=True)
class Change:
    """A recorded change of an entry or a role, with its reason."""

    period: int
    name: str
    change: str
    reason: str


def scripted_entry(tier: str) -> Entry:
    """The entry of a scripted tier."""
    name = f"heuristic:{tier}"
    return Entry(hashlib.sha256(name.encode()).hexdigest(), "scripted", name, None, "{}", time.time())
