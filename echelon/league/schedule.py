"""Which battles are to be fought: pairs of entries, each seed from both sides."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from echelon.arena.batch_arena import Battle
from echelon.runtime.errors import require

MOST_SEEDS = 1 << 20
"""Seeds of one period; the next period's begin where these end."""
MOST_RATED = MOST_SEEDS // 2
"""Of these, seeds of battles that are rated; the others belong to those by which somebody is let in."""


def period_seeds(period: int, count: int, rated: bool = True) -> range:
    """The seeds of a period: the same when a tournament is begun again, others in the next.

    Args:
        rated: whether its battles count. Who is chosen by some battles must be rated by others, or luck counts twice.
    """
    require(1 <= count <= MOST_RATED, "seeds", f"1..{MOST_RATED}", count)
    first = period * MOST_SEEDS + (0 if rated else MOST_RATED)
    return range(first, first + count)


def from_both_sides(pairs: Sequence[tuple[str, str]], seeds: Sequence[int]) -> list[Battle]:
    """Every seed of every pair, once with either as blue. Seed by seed, so that the first battles tell of all pairs."""
    return [Battle(*sides, seed) for seed in seeds for x, y in pairs for sides in ((x, y), (y, x))]


def round_robin(ids: Sequence[str], seeds: Sequence[int]) -> list[Battle]:
    """Everybody against everybody else."""
    return from_both_sides(list(combinations(ids, 2)), seeds)


def one_against(who: str, others: Sequence[str], seeds: Sequence[int]) -> list[Battle]:
    """One against each of the others."""
    return from_both_sides([(who, other) for other in others if other != who], seeds)
