"""The progress bar of many battles."""

from __future__ import annotations

from collections.abc import Iterable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from echelon.league.commands import B
from echelon.pipelines.console import terminal


def with_progress(batches: Iterable[B], total: int, quiet: bool) -> list[B]:
    """Consume all batches behind a progress bar with the speed in matches/s, and return them."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
        *(TimeElapsedColumn(), TimeRemainingColumn()),
    )
    consumed: list[B] = []
    with Progress(*columns, console=terminal(stderr=True), disable=quiet) as progress:
        task = progress.add_task("matches", total=total)
        for played in batches:
            consumed.append(played)
            speed = len(played) / played.seconds
            progress.update(task, advance=len(played), description=f"{speed:.1f} matches/s")
    return consumed
