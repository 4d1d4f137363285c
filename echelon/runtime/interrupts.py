"""What an interrupt (SIGINT, Ctrl-C) does while a program is still reading its modules, which takes seconds."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

PROGRAMS = ("arena.py", "train.py", "echelon", "echelon-arena", "echelon-train", "-m")
"""First word of the commands of this package; that of `python -m` while it imports the package it was given."""
EXIT_CODE = 128 + signal.SIGINT
"""Of a program that was interrupted."""


def end(number: int, frame: FrameType | None) -> None:
    """Signal handler that ends the process in one line: nothing was begun yet that could be tidied up."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, b"interrupted\n")
    os._exit(EXIT_CODE)


def end_while_importing() -> None:
    """Let `end` handle interrupts of this package's programs until `handle_as_usual`; those of others stay theirs."""
    is_ours = Path(sys.argv[0]).name in PROGRAMS and threading.current_thread() is threading.main_thread()
    if is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def handle_as_usual() -> None:
    """Undo `end_while_importing`: an interrupt raises `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
