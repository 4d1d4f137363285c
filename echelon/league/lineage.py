"""Whether children beat their parents: how age and rating go together along a line of descent."""

from __future__ import annotations

from collections.abc import Sequence

from echelon.league.store import Entry


def longest_line(entries: Sequence[Entry]) -> list[Entry]:
    """The longest line from an entry over its parents, oldest first."""
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
    """The place of each value from below, equals sharing the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Rank correlation (Spearman 1904): 1 where both rise together, 0 where one says nothing of the other."""
    x, y = ranks(xs), ranks(ys)
    mean = (len(x) - 1) / 2
    both = sum((a - mean) * (b - mean) for a, b in zip(x, y, strict=True))
    spread = (sum((a - mean) ** 2 for a in x) * sum((b - mean) ** 2 for b in y)) ** 0.5
    return both / spread if spread > 0 else 0.0
