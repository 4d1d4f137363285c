"""Select the variants of a heavy test that run in the usual tier."""

from collections.abc import Iterable

import pytest


def usually(values: Iterable, *kept) -> list:
    """Return test parameters (tuples for several names). Values that are not in `kept` run in the long tests only."""
    return [value if value in kept else marked_long(value) for value in values]


def marked_long(value):
    """Mark a parameter, or a tuple of parameters, as long."""
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long)
