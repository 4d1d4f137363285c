"""Records comparisons of nearly equal numbers. Float32 simulation and float64 reference may decide them differently."""

import math

HAIR = 5e-5
"""Unequal numbers with a smaller difference are too close to compare."""

doubts: list[str] = []
"""Comparisons that were too close since the list was last cleared."""


def weigh(a: float, b: float, what: str) -> None:
    """Record a pair of numbers whose order may depend on rounding."""
    if a != b and abs(a - b) < HAIR:
        doubts.append(f"{what}: {a:.7f} and {b:.7f}")


def below(a: float, b: float, what: str) -> bool:
    """Return a < b, and record a close pair."""
    weigh(a, b, what)
    return a < b


def at_most(a: float, b: float, what: str) -> bool:
    """Return a <= b, and record a close pair."""
    weigh(a, b, what)
    return a <= b


def cell_of(coordinate: float) -> int:
    """Return the cell of a coordinate."""
    weigh(coordinate, round(coordinate), "cell")
    return math.floor(coordinate)


def cells_between(low: float, high: float) -> range:
    """Return the cells that an interval overlaps. Touching the face of a cell is no overlap."""
    weigh(low, round(low), "low side")
    weigh(high, round(high), "high side")
    return range(math.floor(low), math.ceil(high))
