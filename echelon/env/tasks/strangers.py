"""Protocol 2 of a task: against whom, beside whom and with which teams a policy is judged, in three splits."""

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
"""Of the battles of protocol 2: none of the other protocols, and no league, has these."""


@dataclass(frozen=True)
class Population:
    """Who is met in a split of a task, and the teams that fight there."""

    opponents: tuple[str, ...]
    """Names of commanders, as `echelon.agents.names` takes them."""
    partners: tuple[str, ...]
    """The same, of those who command the rest of the policy's own team."""
    rosters: tuple[tuple[str, ...], ...]
    """Hull names of a team, of which battles take turns; both teams have the same."""


@dataclass(frozen=True)
class Strangers:
    """What protocol 2 of a task is. No opponent, partner or roster is in two splits, and no map and no position is,
    since these follow from the seeds of a split (`echelon.world.splits`)."""

    train: Population
    validation: Population
    test: Population
    battles: Annotated[int, JUDGED] = 128
    """Of the policy's whole team against each opponent; every seed is played once per side."""
    beside: Annotated[int, JUDGED] = 8
    """Of each partner beside the policy, against each opponent, for each number of mechs that the policy has."""
    pieces: Annotated[int, Limits(0, 10**6, "seeds a piece")] = 16
    """Seeds of each set piece."""
    seed: Annotated[int, SEED] = STRANGERS_SEED
    """From which the seeds of battles are derived."""
    seeds_sha256: str = ""
    """Of the seeds that are derived from it, which commits them; empty in a task of one's own."""

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("battles", "beside"):
            limit = "even (each seed is played on both sides)"
            require(getattr(self, name) % 2 == 0, f"Strangers.{name}", limit, getattr(self, name))
        limit = f"at most Strangers.battles, {self.battles}, whose seeds they share"
        require(self.beside <= self.battles, "Strangers.beside", limit, self.beside)
        sizes = sorted({len(roster) for split in self.splits.values() for roster in split.rosters})
        is_one = len(sizes) == 1 and sizes[0] > 1
        require(is_one, "Strangers: rosters", "of one number of mechs, at least 2", sizes)
        for kind in ("opponents", "partners", "rosters"):
            names = [entry for split in self.splits.values() for entry in getattr(split, kind)]
            lacking = any(not getattr(split, kind) for split in self.splits.values())
            twice = next((entry for entry in names if names.count(entry) > 1), None)
            require(twice is None and not lacking, f"Strangers: {kind}", "some in each split, none twice", twice)

    @property
    def splits(self) -> dict[Split, Population]:
        """By name of the split."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


def hash_of_seeds(seeds: list[int]) -> str:
    """sha256 of a list of seeds."""
    return hashlib.sha256(json.dumps(seeds).encode()).hexdigest()


def shares_of(mechs: int) -> tuple[int, ...]:
    """How many of a team's mechs a policy has beside strangers: one, half, all but one."""
    return tuple(dict.fromkeys((1, mechs // 2, mechs - 1)))
