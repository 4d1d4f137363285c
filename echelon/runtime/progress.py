"""Progress bars: how far a command has come, and how long it will take."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar, cast

from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from echelon.runtime.terminal import terminal

T = TypeVar("T")
B = TypeVar("B", bound=Sized)
"""A batch of results."""


FIRST_S, LINE_S = 2.0, 30.0
"""Where the output is no terminal: when the first line is printed, and how often further ones are."""


class Bar:
    """A bar on the screen, or lines where the output is no terminal."""

    def __init__(self, progress: Progress, total: float, unit: str) -> None:
        self.progress, self.total, self.unit, self.done = progress, total, unit, 0.0
        self.began = time.monotonic()
        self.next_line = self.began + FIRST_S
        self.task = progress.add_task(self.count(), total=max(total, 1e-9))

    def count(self) -> str:
        """How much is done, in whole numbers."""
        return f"{int(self.done + 1e-6):,}/{self.total:,.0f} {self.unit}"

    def advance(self, amount: float = 1.0) -> None:
        self.reach(self.done + amount)

    def reach(self, done: float) -> None:
        self.done = min(done, self.total)
        self.progress.update(self.task, completed=self.done, description=self.count())
        now_s, console = time.monotonic(), self.progress.console
        if not console.is_terminal and not console.quiet and now_s >= self.next_line and 0 < self.done < self.total:
            self.next_line = now_s + LINE_S
            time_left = timedelta(seconds=round((now_s - self.began) * (self.total / self.done - 1)))
            console.print(f"{self.count()}, about {time_left} left")


@contextlib.contextmanager
def bar(total: float, unit: str, quiet: bool = False) -> Iterator[Bar]:
    """Context manager that shows a bar with the time that is left, on a terminal and below what is printed."""
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
    clock = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    console = terminal(stderr=True, quiet=quiet)
    hidden = quiet or not console.is_terminal
    with Progress(
        *columns, *clock, console=console, disable=hidden, transient=True, speed_estimate_period=300.0
    ) as progress:
        yield Bar(progress, total, unit)


class CountedFile(io.RawIOBase):
    """A file that tells a bar how much of it was read, MB."""

    def __init__(self, file: BinaryIO, progress: Bar) -> None:
        self.file, self.progress = file, progress

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.progress.advance(len(data) / 1e6)
        return data


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Callable[[BinaryIO], BinaryIO]]:
    """Context manager that yields a function which puts a file behind a bar as long as the file at `path`."""
    size = path.stat().st_size if path.is_file() else 0
    with bar(size / 1e6, "MB") as progress:
        yield lambda file: cast(BinaryIO, CountedFile(file, progress))


def tracked(items: Iterable[T], unit: str, total: int) -> Iterator[T]:
    """The items, behind a bar that moves as each is done."""
    with bar(total, unit) as progress:
        for item in items:
            yield item
            progress.advance()


class Reporting(Protocol):
    """What reports its progress while it makes a batch."""

    on_progress: Callable[[float], object] | None


def with_progress(batches: Iterable[B], total: int, arena: Reporting, quiet: bool) -> list[B]:
    """Consume all batches of an arena's battles behind a bar that moves within batches, and return them."""
    consumed: list[B] = []
    done = 0
    with bar(total, "matches", quiet) as progress:
        arena.on_progress = progress.advance
        for batch in batches:
            consumed.append(batch)
            done += len(batch)
            progress.reach(done)
        arena.on_progress = None
    return consumed
