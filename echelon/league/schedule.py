"""Schedules of battles: pairs of entries, each seed played once per side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from echelon.arena.batch_arena import Battle
from echelon.runtime.errors import require

MOST_SEEDS = 1 << 20
"""Seeds reserved per period: period p has the seeds from p * `MOST_SEEDS`."""
MOST_RATED = MOST_SEEDS // 2
"""Seeds of a period for rated battles; the others are for unrated evaluations."""


def period_seeds(period: int, count: int, rated: bool = True) -> range:
    """Seeds of a period, deterministic and disjoint from those of other periods.

    Args:
        rated: whether the battles are rated. Entries selected by evaluations are rated on other seeds, because
            otherwise their ratings would be biased upwards.
    """
    require(1 <= count <= MOST_RATED, "seeds", f"1..{MOST_RATED}", count)
    first = period * MOST_SEEDS + (0 if rated else MOST_RATED)
    return range(first, first + count)


def from_both_sides(pairs: Sequence[tuple[str, str]], seeds: Sequence[int]) -> list[Battle]:
    """Battles of every pair on every seed, with either entry as blue. Ordered by seed, then by pair."""
    return [Battle(*sides, seed) for seed in seeds for x, y in pairs for sides in ((x, y), (y, x))]


def round_robin(ids: Sequence[str], seeds: Sequence[int]) -> list[Battle]:
    """Battles of all pairs of entries, see `from_both_sides`."""
    return from_both_sides(list(combinations(ids, 2)), seeds)


def one_against(who: str, others: Sequence[str], seeds: Sequence[int]) -> list[Battle]:
    """Battles of the entry `who` against each of the others, see `from_both_sides`."""
    return from_both_sides([(who, other) for other in others if other != who], seeds)
