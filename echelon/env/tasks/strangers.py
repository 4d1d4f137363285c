"""Evaluation protocol 2 of a task: a policy plays with opponents, partners and teams from three splits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated

from echelon.rules.config import Split
from echelon.runtime.errors import require
from echelon.runtime.limits import SEED, Limits, check_settings

JUDGED = Limits(2, 10**6, "battles, an even number")
STRANGERS_SEED = 4_000_037
"""Seed of the battles of protocol 2; other protocols and leagues use other seeds."""


@dataclass(frozen=True)
class Population:
    """Opponents, partners and teams of one split of a task."""

    opponents: tuple[str, ...]
    """Names of commanders, as in `echelon.agents.names`."""
    partners: tuple[str, ...]
    """Names of the commanders of the other mechs in the policy's team."""
    rosters: tuple[tuple[str, ...], ...]
    """Hull names of teams; battles cycle through them, and both teams of a battle are equal."""


@dataclass(frozen=True)
class Strangers:
    """Definition of a task's evaluation protocol 2. Splits share no opponent, partner or roster. Splits share no map
    and no start position either, because maps and positions follow from the seeds of a split
    (`echelon.world.splits`)."""

    train: Population
    validation: Population
    test: Population
    battles: Annotated[int, JUDGED] = 128
    """Battles of the policy's whole team against each opponent; every seed is played once per side."""
    beside: Annotated[int, JUDGED] = 8
    """Battles of each partner with the policy, against each opponent, for each number of the policy's mechs."""
    pieces: Annotated[int, Limits(0, 10**6, "seeds a piece")] = 16
    """Seeds of each set piece."""
    seed: Annotated[int, SEED] = STRANGERS_SEED
    """Seed from which the seeds of battles are derived."""
    seeds_sha256: str = ""
    """sha256 of the derived seeds, which fixes them; empty in a user's task."""

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("battles", "beside"):
            limit = "even (each seed is played on both sides)"
            require(getattr(self, name) % 2 == 0, f"Strangers.{name}", limit, getattr(self, name))
        limit = f"at most Strangers.battles, {self.battles}, because they share seeds"
        require(self.beside <= self.battles, "Strangers.beside", limit, self.beside)
        sizes = sorted({len(roster) for split in self.splits.values() for roster in split.rosters})
        is_one = len(sizes) == 1 and sizes[0] > 1
        require(is_one, "Strangers: rosters", "of equal size, at least 2 mechs", sizes)
        for kind in ("opponents", "partners", "rosters"):
            names = [entry for split in self.splits.values() for entry in getattr(split, kind)]
            lacking = any(not getattr(split, kind) for split in self.splits.values())
            twice = next((entry for entry in names if names.count(entry) > 1), None)
            limit = "non-empty in each split, without an entry that is listed twice"
            require(twice is None and not lacking, f"Strangers: {kind}", limit, twice)

    @property
    def splits(self) -> dict[Split, Population]:
        """The populations, keyed by name of the split."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


def hash_of_seeds(seeds: list[int]) -> str:
    """Return the sha256 of a list of seeds."""
    return hashlib.sha256(json.dumps(seeds).encode()).hexdigest()


def shares_of(mechs: int) -> tuple[int, ...]:
    """Return how many mechs of a team a policy commands if partners command the others: one, half, or all but one."""
    return tuple(dict.fromkeys((1, mechs // 2, mechs - 1)))
