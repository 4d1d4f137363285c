"""Decisions that hang by a hair, where a float32 game and this float64 reference may rightly part."""

import math

HAIR = 5e-5
"""Numbers nearer to each other than this, yet not equal, are too close to call."""

doubts: list[str] = []
"""What was too close to call since the list was last cleared."""


def weigh(a: float, b: float, what: str) -> None:
    """Note a pair of numbers whose order rounding may turn around."""
    if a != b and abs(a - b) < HAIR:
        doubts.append(f"{what}: {a:.7f} and {b:.7f}")


def below(a: float, b: float, what: str) -> bool:
    """a < b."""
    weigh(a, b, what)
    return a < b


def at_most(a: float, b: float, what: str) -> bool:
    """a <= b."""
    weigh(a, b, what)
    return a <= b


def cell_of(coordinate: float) -> int:
    """The cell that holds a coordinate."""
    weigh(coordinate, round(coordinate), "cell")
    return math.floor(coordinate)


def cells_between(low: float, high: float) -> range:
    """The cells that an interval reaches into; touching a cell's face is not reaching into it."""
    weigh(low, round(low), "low side")
    weigh(high, round(high), "high side")
    return range(math.floor(low), math.ceil(high))
