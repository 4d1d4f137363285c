"""Terminal functions of all programs: print text, tables and progress bars, and end a program with a one-line error."""

import contextlib
import io
import json
import logging
import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, cast

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from echelon.runtime import compile
from echelon.runtime.device import is_out_of_memory
from echelon.runtime.errors import ConfigError, one_line
from echelon.runtime.files import FileError
from echelon.runtime.interrupts import EXIT_CODE, handle_as_usual

PIPE_WIDTH = 140
"""Width of tables in characters if the output is not a terminal."""


def show_table(rows: list[dict[str, Any]], as_json: bool, title: str, shorten: tuple[str, ...] = ()) -> None:
    """Print rows as a table, or as one JSON list.

    Args:
        rows: dicts with the same keys.
        as_json: whether to print JSON.
        title: title of the table.
        shorten: columns that are cut to 12 characters.
    """
    if as_json:
        print(json.dumps(rows))
        return
    table = Table(title=one_line(title))
    for column in rows[0] if rows else ():
        is_number = any(isinstance(row[column], int | float) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number or column == "name")
    for row in rows:
        cells = {name: "" if value is None else one_line(value) for name, value in row.items()}
        table.add_row(*(cell[:12] if name in shorten else cell for name, cell in cells.items()))
    # A pipe has no width.
    terminal(soft_wrap=False, width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)


class Terminal(Console):
    """A console that prints each string as one printable line. So a name from a file cannot move the terminal's
    cursor."""

    def print(self, *objects: Any, **settings: Any) -> None:
        super().print(*(one_line(item) if isinstance(item, str) else item for item in objects), **settings)

    @property
    def is_terminal(self) -> bool:
        """Whether the output is a terminal, in which a progress bar can be redrawn. The variable `FORCE_COLOR` is
        ignored, because notebooks set it although they would show each frame of a bar."""
        try:
            return super().is_terminal and self.file.isatty()
        except ValueError:  # a closed stream
            return False


def terminal(**settings: Any) -> Console:
    """Return a console that prints text verbatim: without line wrapping, markup or emoji codes."""
    return Terminal(**{"soft_wrap": True, "markup": False, "emoji": False, **settings})


def run(main: Callable[[], object]) -> None:
    """Run a program, and convert errors to one line and an exit code.

    Invalid input exits with code 1, an interrupt with 130. A closed pipe (`| head`) exits silently with 1.
    """
    torch.set_float32_matmul_precision("high")
    open_missing_streams()
    replace_unknown_letters()
    widen_narrow_terminal()
    show_compilations()
    try:
        handle_as_usual()
        try:
            main()
        finally:
            # Flush here, even after `--help`: if Python's own flush at exit fails, Python prints an error.
            sys.stdout.flush()
    except BrokenPipeError:
        write_no_more()
        sys.exit(1)
    except (ConfigError, FileError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt as interrupt:
        print(f"interrupted: {interrupt}" if str(interrupt) else "interrupted", file=sys.stderr)
        sys.exit(EXIT_CODE)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        message = str(error).partition("\n")[0] or "out of memory"
        sys.exit(f"error: {message}; play or train fewer battles at once (--batch, --num-envs)")
    except OSError as error:
        write_no_more()
        sys.exit(f"error: {error.filename or 'output'}: {error.strerror or error}")


class ErrorOutput(logging.Handler):
    """Prints log messages to the current `sys.stderr`, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        print(one_line(record.getMessage()), file=sys.stderr, flush=True)


def show_compilations() -> None:
    """Print what is being compiled, in the first process only, because the first start takes minutes."""
    logger = compile.logger
    if os.environ.get("RANK", "0") == "0" and not logger.handlers:
        logger.addHandler(ErrorOutput())
        logger.setLevel(logging.INFO)
        # Do not propagate these messages, because the progress bar of a run prints all messages of other loggers.
        logger.propagate = False


def write_no_more() -> None:
    """Discard further output. Otherwise Python would report at exit that the output cannot be written."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


LEAST_WIDTH = 40
"""Minimum width of lines in characters, even on a narrower terminal."""


class LastingOutput(io.FileIO):
    """Standard output that never fails: it discards output that cannot be written, and reports that once on stderr.

    Causes are a closed pipe (`| head`), a full disk or a closed terminal.
    """

    has_warned = False

    def write(self, data: Any) -> int:
        """Write a part of `data`, and wait if the output is not ready. Returns the number of written or lost bytes."""
        try:
            while (num_written := super().write(data)) is None:
                select.select((), (self,), ())
            return num_written
        except OSError as error:
            if not self.has_warned:
                self.has_warned = True
                with contextlib.suppress(OSError):
                    os.write(
                        2, f"output: {error.strerror}: continuing without output; Ctrl-C stops and saves\n".encode()
                    )
            return memoryview(data).nbytes


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Context manager in which output of this process never fails; see `LastingOutput`."""
    original = sys.stdout
    if original is not sys.__stdout__ or not isinstance(original, io.TextIOWrapper):
        yield  # A test or a notebook has replaced sys.stdout.
        return
    original.flush()
    raw = LastingOutput(original.fileno(), "w", closefd=False)
    buffer: Any = raw if original.write_through else io.BufferedWriter(raw)
    options = (original.encoding, original.errors, None, original.line_buffering, original.write_through)
    sys.stdout = io.TextIOWrapper(buffer, *options)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stdout = original


def open_missing_streams() -> None:
    """Open the null device for each closed standard stream (`>&-`).

    Otherwise the next opened file would get the stream's file descriptor, and receive its output.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The new file gets the lowest free descriptor, which is `number`.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if number == 0 else "w"))  # noqa: SIM115


def replace_unknown_letters() -> None:
    """Print `?` for characters that the output encoding lacks, as under `LC_ALL=C`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def widen_narrow_terminal() -> None:
    """Set a width of at least `LEAST_WIDTH`, because tyro hangs when it formats a help text for three columns."""
    if shutil.get_terminal_size().columns < LEAST_WIDTH:
        os.environ["COLUMNS"] = str(LEAST_WIDTH)


T = TypeVar("T")
B = TypeVar("B", bound=Sized)
"""A batch of results."""


FIRST_S, LINE_S = 2.0, 30.0
"""Time of the first progress line, and period of further lines, if the output is not a terminal, s."""


class Bar:
    """A progress bar on a terminal, or progress lines on other outputs."""

    def __init__(self, progress: Progress, total: float, unit: str) -> None:
        self.progress, self.total, self.unit, self.done = progress, total, unit, 0.0
        self.began = time.monotonic()
        self.next_line = self.began + FIRST_S
        self.task = progress.add_task(self.count(), total=max(total, 1e-9))

    def count(self) -> str:
        """Return the progress as text, in integers."""
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
    """Context manager that shows a progress bar with the remaining time, below other output."""
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
    clock = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    console = terminal(stderr=True, quiet=quiet)
    hidden = quiet or not console.is_terminal
    with Progress(
        *columns, *clock, console=console, disable=hidden, transient=True, speed_estimate_period=300.0
    ) as progress:
        yield Bar(progress, total, unit)


class CountedFile(io.RawIOBase):
    """A file that advances a progress bar by the MB read."""

    def __init__(self, file: BinaryIO, progress: Bar) -> None:
        self.file, self.progress = file, progress

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.progress.advance(len(data) / 1e6)
        return data


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Callable[[BinaryIO], BinaryIO]]:
    """Context manager with a progress bar for reading the file at `path`. The context manager yields a function that
    wraps the file."""
    size = path.stat().st_size if path.is_file() else 0
    with bar(size / 1e6, "MB") as progress:
        yield lambda file: cast(BinaryIO, CountedFile(file, progress))


def tracked(items: Iterable[T], unit: str, total: int) -> Iterator[T]:
    """Yield items, and advance a progress bar after each."""
    with bar(total, unit) as progress:
        for item in items:
            yield item
            progress.advance()


class Reporting(Protocol):
    """An object that reports its progress within a batch."""

    on_progress: Callable[[float], object] | None


def with_progress(batches: Iterable[B], total: int, arena: Reporting, quiet: bool) -> list[B]:
    """Return all batches of an arena's battles, with a progress bar that also advances within batches."""
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
