"""Which variants of a heavy test are in the usual tier."""

from collections.abc import Iterable

import pytest


def usually(values: Iterable, *kept) -> list:
    """The values as parameters of a test: those that are not `kept` run among the long tests only."""
    return [value if value in kept else pytest.param(value, marks=pytest.mark.long) for value in values]
