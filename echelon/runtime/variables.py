"""Environment variables of Echelon: each chooses one of a few values."""

from __future__ import annotations

import os
from collections.abc import Sequence

from echelon.runtime.errors import require


def variable(name: str, values: Sequence[str]) -> str:
    """The value of an environment variable, the first of `values` where it is not set or empty."""
    value = os.environ.get(name, "") or values[0]
    require(value in values, name, f"one of {', '.join(values)}", value)
    return value
