"""Numbers as they are shown."""

from __future__ import annotations


def rounded(value: float, digits: int) -> float:
    """`value` with so many digits behind the point; none that rounds to zero has a sign."""
    return round(value, digits) + 0.0
