"""What both programs do with their command line: flags from dataclasses, errors in one line."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from rich.console import Console

from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

T = TypeVar("T")


def terminal(**settings: Any) -> Console:
    """Where a program speaks to people: in lines that are not broken, names and paths as they are, brackets too."""
    return Console(**{"soft_wrap": True, "markup": False, "emoji": False, **settings})


def parse(read: Callable[[], T]) -> T:
    """Call tyro by `read`; help goes to the screen, and an error becomes a `ConfigError` of one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return read()
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(first_box(said.getvalue())) from None


def first_box(text: str) -> str:
    """The words in the first of tyro's boxes: what lies between its title and the next rule."""
    lines = [line.strip(" │|") for line in text.splitlines()]
    words: list[str] = []
    rules = 0
    for line in lines:
        # The title is part of the upper rule where the box is drawn, and stands above it where it is typed.
        is_rule = line.startswith("╭") or not line.strip("─-├┤╰╯ ")
        if line and is_rule:
            rules += 1
        elif rules == 1:
            words.append(line)
    return " ".join(words) or " ".join(line for line in lines if line)


def run(main: Callable[[], None]) -> None:
    """Run a program; bad input ends it with one line, an interrupt with code 130."""
    try:
        main()
    except (ConfigError, FileError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
