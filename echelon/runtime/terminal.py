"""What every program does with its terminal: print text, tables and progress bars, run, end with a one-line error."""

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
"""Width of tables, in characters, where the output is not a terminal."""


def show_table(rows: list[dict[str, Any]], as_json: bool, title: str, shorten: tuple[str, ...] = ()) -> None:
    """Print rows as a table, or as one JSON list.

    Args:
        shorten: columns cut to 12 characters.
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
    # A pipe reports no width.
    terminal(soft_wrap=False, width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)


class Terminal(Console):
    """A console that prints text as one line of printable letters, so that a name from a file moves no cursor and
    fills no screen."""

    def print(self, *objects: Any, **settings: Any) -> None:
        super().print(*(one_line(item) if isinstance(item, str) else item for item in objects), **settings)

    @property
    def is_terminal(self) -> bool:
        """Whether a bar can move on it. Notebooks set `FORCE_COLOR` for the programs of their cells, which is no word
        of a terminal: of a bar they would show each frame."""
        try:
            return super().is_terminal and self.file.isatty()
        except ValueError:  # a closed stream
            return False


def terminal(**settings: Any) -> Console:
    """A console that prints text verbatim: without line wrapping, markup or emoji codes."""
    return Terminal(**{"soft_wrap": True, "markup": False, "emoji": False, **settings})


def run(main: Callable[[], object]) -> None:
    """Run a program. Invalid input ends it with a one-line error and exit code 1, an interrupt with one line and exit
    code 130, a reader that has read enough (`| head`) with code 1 alone."""
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
            # Help ends in a `SystemExit`, and what Python cannot write at its own end it complains about.
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
    """Prints messages to the standard error output, as a progress bar may have replaced it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(one_line(record.getMessage()), file=sys.stderr, flush=True)


def show_compilations() -> None:
    """Print what is being compiled, on the first of several processes: a first start takes minutes."""
    logger = compile.logger
    if os.environ.get("RANK", "0") == "0" and not logger.handlers:
        logger.addHandler(ErrorOutput())
        logger.setLevel(logging.INFO)
        # A run's progress bar prints all other messages.
        logger.propagate = False


def write_no_more() -> None:
    """What is left to write cannot be written either, and Python would say so once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


LEAST_WIDTH = 40
"""Letters of a line of text, however narrow a terminal is, or says it is."""


class LastingOutput(io.FileIO):
    """Standard output that loses what cannot be written, told once on stderr, and never fails: its reader has gone
    (`| head`), its disk is full, its terminal was closed."""

    is_told = False

    def write(self, data: Any) -> int:
        """Write some of `data`, and wait where that is not possible yet; returns how many bytes are done with."""
        try:
            while (num_written := super().write(data)) is None:
                select.select((), (self,), ())
            return num_written
        except OSError as error:
            if not self.is_told:
                self.is_told = True
                with contextlib.suppress(OSError):
                    os.write(2, f"output: {error.strerror}: going on without it; Ctrl-C stops and saves\n".encode())
            return memoryview(data).nbytes


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Context manager in which no output of this process fails, see `LastingOutput`."""
    original = sys.stdout
    if original is not sys.__stdout__ or not isinstance(original, io.TextIOWrapper):
        yield  # somebody else's, a test's or a notebook's
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
    """Give a program that was started without a standard stream (`>&-`) an empty one: else the next file that is opened
    takes its number, and receives what was meant for it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if number == 0 else "w"))  # noqa: SIM115


def replace_unknown_letters() -> None:
    """Let a program write `?` for letters that the encoding of its output lacks, as under `LC_ALL=C`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def widen_narrow_terminal() -> None:
    """Let a program write at least `LEAST_WIDTH` letters a line: tyro does not return from a help of three columns."""
    if shutil.get_terminal_size().columns < LEAST_WIDTH:
        os.environ["COLUMNS"] = str(LEAST_WIDTH)


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
