"""Which variants of a heavy test are in the usual tier."""

from collections.abc import Iterable

import pytest


def usually(values: Iterable, *kept) -> list:
    """The values as parameters of a test, a tuple for several names: those that are not `kept` run among the long tests
    only."""
    return [value if value in kept else marked_long(value) for value in values]


def marked_long(value):
    """A value, or the values of several names, as a long test."""
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long)
