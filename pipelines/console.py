"""What the programs share: flags from dataclasses, errors in one line, tables and progress bars."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from echelon.league.league_arena import PlayedBatch
from echelon.league.records import MatchRecord
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

T = TypeVar("T")
PIPE_WIDTH = 140
"""Letters a line, where the output is not a terminal."""


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
    torch.set_float32_matmul_precision("high")
    try:
        main()
    except (ConfigError, FileError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def show(rows: list[dict[str, Any]], as_json: bool, title: str, shorten: tuple[str, ...] = ()) -> None:
    """Print rows as a table, or as one JSON list.

    Args:
        shorten: columns of which 12 letters are enough.
    """
    if as_json:
        print(json.dumps(rows))
        return
    table = Table(title=title)
    for column in rows[0] if rows else ():
        is_number = any(isinstance(row[column], int | float) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number or column == "name")
    for row in rows:
        cells = {name: "" if value is None else str(value) for name, value in row.items()}
        table.add_row(*(cell[:12] if name in shorten else cell for name, cell in cells.items()))
    # A pipe has no width of its own.
    terminal(soft_wrap=False, width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)


def with_progress(batches: Iterable[PlayedBatch], total: int, quiet: bool) -> list[MatchRecord]:
    """The matches of all batches, behind a progress bar that counts matches a second."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TimeElapsedColumn(), TimeRemainingColumn()),
    )
    matches: list[MatchRecord] = []
    with Progress(*columns, console=terminal(stderr=True), disable=quiet) as progress:
        task = progress.add_task("matches", total=total)
        for played in batches:
            matches += played.matches
            speed = len(played.matches) / played.seconds
            progress.update(task, advance=len(played.matches), description=f"{speed:.1f} matches/s")
    return matches
