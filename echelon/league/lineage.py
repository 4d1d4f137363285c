"""Correlation of age and rating along a line of descent: whether later entries are stronger than their ancestors."""

from __future__ import annotations

from collections.abc import Sequence

from echelon.league.records import Entry


def longest_line(entries: Sequence[Entry]) -> list[Entry]:
    """The longest chain of parents, oldest entry first."""
    by_id = {entry.id: entry for entry in entries}
    best: list[Entry] = []
    for entry in entries:
        line, seen = [entry], {entry.id}
        while (parent := line[-1].parent) in by_id and parent not in seen:
            line.append(by_id[str(parent)])
            seen.add(str(parent))
        best = max(best, line, key=len)
    return best[::-1]


def ranks(values: Sequence[float]) -> list[float]:
    """Ascending ranks from 0; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Rank correlation coefficient (Spearman 1904) in -1 .. 1; 0 if one side is constant."""
    x, y = ranks(xs), ranks(ys)
    mean = (len(x) - 1) / 2
    both = sum((a - mean) * (b - mean) for a, b in zip(x, y, strict=True))
    spread = (sum((a - mean) ** 2 for a in x) * sum((b - mean) ** 2 for b in y)) ** 0.5
    return both / spread if spread > 0 else 0.0
