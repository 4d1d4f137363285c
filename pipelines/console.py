"""What every program does with a terminal: read its command line, print text, end with a one-line error."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from rich.console import Console

from echelon.learn.models.registry import allow_module
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError
from echelon.runtime.imports import import_module

T = TypeVar("T")
ALLOW_MODULE = (
    "--allow-module package.module imports a module of yours, whose code runs: files may then name its models, and "
    "what it registers, such as biomes. May be given several times."
)
"""Help of the flag that `arguments` takes out."""


def terminal(**settings: Any) -> Console:
    """A console that prints text verbatim: without line wrapping, markup or emoji codes."""
    return Console(**{"soft_wrap": True, "markup": False, "emoji": False, **settings})


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


def arguments() -> list[str]:
    """The command's arguments without those of `ALLOW_MODULE`; without that flag no file causes an import."""
    modules, rest = pop_flag(sys.argv[1:], "--allow-module")
    for module in modules:
        is_module = bool(module) and all(part.isidentifier() for part in module.split("."))
        require(is_module, "--allow-module", "package.module", module)
        allow_module(module)
        # At once, because what it registers (a biome, say) may be named before any model is read.
        import_module(module, f"--allow-module {module}")
    return rest


def parse(read: Callable[[], T]) -> T:
    """Call tyro through `read`. Help is printed as usual.

    Raises:
        ConfigError: if the command line is invalid; the message is one line.
    """
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            return read()
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(first_box(output.getvalue())) from None


def first_box(text: str) -> str:
    """Text of the first box that tyro printed: the lines between its title and the next rule."""
    lines = [line.strip(" │|") for line in text.splitlines()]
    words: list[str] = []
    rules = 0
    for line in lines:
        # Drawn boxes have their title in the upper rule, ASCII ones above it.
        is_rule = line.startswith("╭") or not line.strip("─-├┤╰╯ ")
        if line and is_rule:
            rules += 1
        elif rules == 1:
            words.append(line)
    return " ".join(words) or " ".join(line for line in lines if line)


def run(main: Callable[[], None]) -> None:
    """Run a program. Invalid input ends it with a one-line error and exit code 1, an interrupt with exit code 130."""
    torch.set_float32_matmul_precision("high")
    try:
        main()
    except (ConfigError, FileError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
