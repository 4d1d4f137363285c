"""Handle interrupts (SIGINT, Ctrl-C) and a deleted current folder while a program imports its modules, which takes
seconds."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

SCRIPTS = ("echelon", "echelon-arena", "echelon-train")
PIPELINES = Path(__file__).parents[2] / "pipelines"
"""Programs of this package: installed scripts, and the folder of programs in a clone."""
EXIT_CODE = 128 + signal.SIGINT
"""Exit code of an interrupted program."""


def end(number: int, frame: FrameType | None) -> None:
    """Signal handler that prints one line and ends the process immediately. During imports there is nothing to clean
    up."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, b"interrupted\n")
    os._exit(EXIT_CODE)


def end_while_importing() -> None:
    """Let `end` handle interrupts until `handle_as_usual` is called. This function does nothing outside programs of
    this package."""
    is_ours = is_program(sys.orig_argv) and threading.current_thread() is threading.main_thread()
    if is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def check_current_folder() -> None:
    """Exit or raise `ImportError` if the current folder was deleted, because torch cannot be imported there."""
    with suppress(FileNotFoundError):
        os.getcwd()
        return
    if "torch._dynamo.config" not in sys.modules:
        line = "the current folder was deleted, so torch cannot be imported; change to an existing folder"
        if is_program(sys.orig_argv):
            sys.exit(f"error: {line}")
        raise ImportError(line)


def is_program(words: Sequence[str]) -> bool:
    """Return True if the interpreter's command line runs a program of this package, not a user's `train.py`."""
    index = next((i for i, word in enumerate(words) if i and not word.startswith("-")), 0)
    program = words[index]
    if words[index - 1] == "-m":
        return program.partition(".")[0] == "echelon"
    if words[index - 1] in ("-c", "-"):
        return False
    return index > 0 and (Path(program).name in SCRIPTS or Path(program).absolute().parent == PIPELINES)


def handle_as_usual() -> None:
    """Undo `end_while_importing`: an interrupt raises `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
