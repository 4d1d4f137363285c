"""What ends a program while it is still reading its modules, which takes seconds: an interrupt (SIGINT, Ctrl-C), or a
current folder that has been removed."""

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
"""Programs of this package: installed scripts, and the files of a clone."""
EXIT_CODE = 128 + signal.SIGINT
"""Of a program that was interrupted."""


def end(number: int, frame: FrameType | None) -> None:
    """Signal handler that ends the process in one line: nothing was begun yet that could be tidied up."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, b"interrupted\n")
    os._exit(EXIT_CODE)


def end_while_importing() -> None:
    """Let `end` handle interrupts of this package's programs until `handle_as_usual`; those of others stay theirs."""
    is_ours = is_program(sys.orig_argv) and threading.current_thread() is threading.main_thread()
    if is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def check_current_folder() -> None:
    """Refuse a current folder that has been removed: there torch cannot be imported, nor the part that compiles."""
    with suppress(FileNotFoundError):
        os.getcwd()
        return
    if "torch._dynamo.config" not in sys.modules:
        line = "the current folder has been removed, and torch cannot be imported there; change to one that exists"
        if is_program(sys.orig_argv):
            sys.exit(f"error: {line}")
        raise ImportError(line)


def is_program(words: Sequence[str]) -> bool:
    """Whether a command line, that of the interpreter, runs a program of this package: no `train.py` of a user's."""
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
