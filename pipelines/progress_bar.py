"""The progress bar of the battles of a league."""

from __future__ import annotations

from collections.abc import Iterable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from echelon.league.league_arena import PlayedBatch
from echelon.league.records import MatchRecord
from echelon.pipelines.console import terminal


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
