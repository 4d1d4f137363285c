"""The standard streams of a program: missing (`>&-`), or gone while it is running."""

from __future__ import annotations

import contextlib
import io
import os
import select
import shutil
import sys
from collections.abc import Iterator
from typing import Any

LEAST_WIDTH = 40
"""Letters of a line of text, however narrow a terminal is, or says it is."""


class LastingOutput(io.FileIO):
    """Standard output that loses what cannot be written, told once on stderr, and never fails: its reader has gone
    (`| head`), its disk is full, its terminal was closed."""

    is_told = False

    def write(self, data: Any) -> int:
        """Write some of `data`, and wait where that is not possible yet; returns how many bytes are done with."""
        try:
            while (written := super().write(data)) is None:
                select.select((), (self,), ())
            return written
        except OSError as error:
            if not self.is_told:
                self.is_told = True
                with contextlib.suppress(OSError):
                    os.write(2, f"output: {error.strerror}: going on without it; Ctrl-C stops and saves\n".encode())
            return memoryview(data).nbytes


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Context manager in which no output of this process fails, see `LastingOutput`."""
    usual = sys.stdout
    if usual is not sys.__stdout__ or not isinstance(usual, io.TextIOWrapper):
        yield  # somebody else's, a test's or a notebook's
        return
    usual.flush()
    raw = LastingOutput(usual.fileno(), "w", closefd=False)
    buffer: Any = raw if usual.write_through else io.BufferedWriter(raw)
    how = (usual.encoding, usual.errors, None, usual.line_buffering, usual.write_through)
    sys.stdout = io.TextIOWrapper(buffer, *how)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stdout = usual


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
