"""Vectors as lists of floats."""

import math

Vector = list[float]


def add(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def minus(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]


def times(a: Vector, factor: float) -> Vector:
    return [x * factor for x in a]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def norm(a: Vector) -> float:
    return math.sqrt(dot(a, a))


def apart(a: Vector, b: Vector) -> float:
    return norm(minus(a, b))


def unit(a: Vector) -> Vector:
    """Return the unit vector, zero for a zero vector."""
    length = norm(a)
    return times(a, 1 / length) if length > 0 else [0.0] * len(a)


def turned_by(angle: float) -> float:
    """Wrap an angle to -pi .. pi."""
    return math.remainder(angle, math.tau)
