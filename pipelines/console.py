"""Shared parts of the programs: parsing of flags, one-line errors, tables and progress bars."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from echelon.arena.batch_arena import Precision
from echelon.league.league_arena import LeagueArena, PlayedBatch
from echelon.league.records import MatchRecord
from echelon.league.store import Store
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

T = TypeVar("T")
PIPE_WIDTH = 140
"""Width of tables, in characters, where the output is not a terminal."""


def terminal(**settings: Any) -> Console:
    """A console that prints text verbatim: without line wrapping, markup or emoji codes."""
    return Console(**{"soft_wrap": True, "markup": False, "emoji": False, **settings})


@dataclass(frozen=True)
class ArenaArgs:
    """How battles are played."""

    device: str = "auto"
    batch: int = 256
    """Maximum number of battles in parallel, which determines the memory use."""
    precision: Precision = "fp32"
    """Dtype of the networks' matrix products."""
    compiled: bool = False
    """Compile simulation and networks; worthwhile for thousands of battles in batches of one size."""

    def build(self, store: Store) -> LeagueArena:
        """Build the arena of a league."""
        return LeagueArena(store, resolve_device(self.device), self.batch, self.precision, self.compiled)


def parse(read: Callable[[], T]) -> T:
    """Call tyro through `read`. Help is printed as usual.

    Raises:
        ConfigError: if the command line is invalid; the message is one line.
    """
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            return read()
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(first_box(output.getvalue())) from None


def first_box(text: str) -> str:
    """Text of the first box that tyro printed: the lines between its title and the next rule."""
    lines = [line.strip(" │|") for line in text.splitlines()]
    words: list[str] = []
    rules = 0
    for line in lines:
        # Drawn boxes have their title in the upper rule, ASCII ones above it.
        is_rule = line.startswith("╭") or not line.strip("─-├┤╰╯ ")
        if line and is_rule:
            rules += 1
        elif rules == 1:
            words.append(line)
    return " ".join(words) or " ".join(line for line in lines if line)


def run(main: Callable[[], None]) -> None:
    """Run a program. Invalid input ends it with a one-line error and exit code 1, an interrupt with exit code 130."""
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
        rows: all with the same keys.
        as_json: print JSON instead of a table.
        title: title of the table.
        shorten: columns cut to 12 characters.
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
    # A pipe reports no width.
    terminal(soft_wrap=False, width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)


def with_progress(batches: Iterable[PlayedBatch], total: int, quiet: bool) -> list[MatchRecord]:
    """Consume all batches behind a progress bar with the speed in matches/s, and return their matches."""
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
