"""Definition of a refusal: a ConfigError or FileError with one short line, raised quickly."""

from collections.abc import Callable

import pytest

from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

LONGEST_LINE = 900
"""Maximum number of characters of a message."""


def refusal(act: Callable[[], object], *says: str) -> str:
    """Assert that `act` is refused, and return its message: one short line with each of `says`."""
    with pytest.raises((ConfigError, FileError)) as error:
        act()
    message = str(error.value)
    assert "\n" not in message and "\0" not in message and len(message) < LONGEST_LINE, message[:2000]
    for part in says:
        assert part in message
    return message


def refused_or_taken(act: Callable[[], object], *says: str) -> bool:
    """Return whether `act` succeeds; otherwise assert a refusal."""
    try:
        act()
    except (ConfigError, FileError):
        refusal(act, *says)
        return False
    return True
