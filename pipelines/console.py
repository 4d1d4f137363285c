"""What every program does with a terminal: read its command line, print text, end with a one-line error."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
import tyro
from rich.console import Console

from echelon.learn.models.registry import allow_module
from echelon.pipelines.output import open_missing_streams, replace_unknown_letters, widen_narrow_terminal
from echelon.pipelines.tyro_errors import error_line
from echelon.runtime import compile_progress
from echelon.runtime.device import is_out_of_memory
from echelon.runtime.errors import ConfigError, one_line, require
from echelon.runtime.files import FileError
from echelon.runtime.imports import import_module
from echelon.runtime.interrupts import EXIT_CODE, handle_as_usual
from echelon.runtime.limits import check_text

T = TypeVar("T")
ALLOW_MODULE = (
    "--allow-module package.module imports a module of yours, whose code runs: files may then name its models, and "
    "what it registers, such as biomes. May be given several times."
)
"""Help of the flag that `arguments` takes out."""
EMPTY_FLAGS = ("resume", "parent", "start", "profile", "save", "device")
"""Last words of flags whose value may be empty, and then means none, or the usual one."""


class Terminal(Console):
    """A console that prints text as one line of printable letters, so that a name from a file moves no cursor and
    fills no screen."""

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print lines and tables."""
        super().print(*(one_line(each) if isinstance(each, str) else each for each in objects), **settings)


def terminal(**settings: Any) -> Console:
    """A console that prints text verbatim: without line wrapping, markup or emoji codes."""
    return Terminal(**{"soft_wrap": True, "markup": False, "emoji": False, **settings})


def pop_flag(words: Sequence[str], name: str) -> tuple[list[str], list[str]]:
    """The values of every `name VALUE` and `name=VALUE` among the words of a command, and the other words."""
    values, rest, left = [], [], iter(words)
    for word in left:
        flag, equals, value = word.partition("=")
        if flag == name:
            values.append(value if equals else next(left, ""))
        else:
            rest.append(word)
    return values, rest


def check_words(words: Sequence[str]) -> None:
    """Refuse words that no path, name or number is: empty ones, with a NUL, or longer than a name can be."""
    flag = ""
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        where, text = (name or flag or "an argument", value if equals or not name else name)
        may_be_empty = (name or flag).rpartition(".")[2].lstrip("-") in EMPTY_FLAGS
        require(text != "" or may_be_empty, where, "a value", text)
        check_text(where, text)
        flag = name if name and not equals else ""


def arguments() -> list[str]:
    """The command's arguments without those of `ALLOW_MODULE`; without that flag no file causes an import."""
    check_words(sys.argv[1:])
    modules, rest = pop_flag(sys.argv[1:], "--allow-module")
    for module in modules:
        is_module = bool(module) and all(part.isidentifier() for part in module.split("."))
        require(is_module, "--allow-module", "package.module", module)
        allow_module(module)
        # At once, because what it registers (a biome, say) may be named before any model is read.
        import_module(module, f"--allow-module {module}")
    return rest


def parse(read: Callable[[], T], command: str = "") -> T:
    """Call tyro through `read`, for a subcommand if there is one. Help is printed as usual."""
    check_words(sys.argv[1:])
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            return read()
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(error_line(output.getvalue(), command)) from None


def settings(kind: type[T], description: str | None) -> T:
    """The settings of a program without commands, read by tyro alone."""
    widen_narrow_terminal()
    return tyro.cli(kind, description=description)


def parse_command(commands: Mapping[str, Callable[..., Any]], words: Sequence[str], description: str) -> Any:
    """The command that the words name, with its settings."""
    command = words[0] if words and words[0] in commands else ""
    cli = tyro.extras.subcommand_cli_from_dict
    return parse(lambda: cli(dict(commands), args=words, description=description), command)


def run(main: Callable[[], None]) -> None:
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
        told = str(error).partition("\n")[0] or "out of memory"
        sys.exit(f"error: {told}; play or train fewer battles at once (--batch, --num-envs)")
    except OSError as error:
        write_no_more()
        sys.exit(f"error: {error.filename or 'output'}: {error.strerror or error}")


class ErrorOutput(logging.Handler):
    """Prints messages to the standard error output, as a progress bar may have replaced it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        print(one_line(record.getMessage()), file=sys.stderr, flush=True)


def show_compilations() -> None:
    """Print what is being compiled, on the first of several processes: a first start takes minutes."""
    logger = compile_progress.logger
    if os.environ.get("RANK", "0") == "0" and not logger.handlers:
        logger.addHandler(ErrorOutput())
        logger.setLevel(logging.INFO)
        # A run's progress bar prints all other messages.
        logger.propagate = False


def write_no_more() -> None:
    """What is left to write cannot be written either, and Python would say so once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
