"""What every program does with a terminal: read its command line, print text, end with a one-line error."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import os
import re
import select
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import torch
import tyro
from rich.console import Console

from echelon.learn.models.registry import allow_module
from echelon.runtime import compile
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
EMPTY_FLAGS = ("init", "resume", "parent", "start", "profile", "save", "device")
"""Last words of flags whose value may be empty, and then means none, or the usual one."""


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


def pop_flag(words: Sequence[str], name: str) -> tuple[list[str], list[str]]:
    """The values of every `name VALUE` and `name=VALUE` among the words of a command, and the other words. A flag may
    be written with underscores."""
    values, rest, remaining = [], [], iter(words)
    for argument in remaining:
        flag, equals, value = argument.partition("=")
        if flag.replace("_", "-") == name:
            values.append(value if equals else next(remaining, ""))
        else:
            rest.append(argument)
    return values, rest


def check_words(words: Sequence[str]) -> None:
    """Refuse words that no path, name or number is: empty ones, with a NUL, or longer than a name can be."""
    flag = ""
    for argument in words:
        name, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        label, text = (name or flag or "an argument", value if equals or not name else name)
        may_be_empty = (name or flag).rpartition(".")[2].lstrip("-") in EMPTY_FLAGS
        require(text != "" or may_be_empty, label, "a value", text)
        check_text(label, text)
        flag = name if name and not equals else ""


def arguments() -> list[str]:
    """The command's arguments without those of `ALLOW_MODULE`; without that flag no file causes an import."""
    check_words(sys.argv[1:])
    modules, rest = pop_flag(sys.argv[1:], "--allow-module")
    for module in modules:
        is_module = bool(module) and all(name.isidentifier() for name in module.split("."))
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
        line = error_line(output.getvalue(), command)
        raise ConfigError("; ".join([line, *switch_hint(line, sys.argv[1:])])) from None


SWITCH_VALUE = re.compile(r"(Unrecognized options:|does not take) (.*[ ,])?(true|false)\b", re.IGNORECASE)
"""An error about the value of a flag that takes none."""


def switch_hint(line: str, words: Sequence[str]) -> list[str]:
    """The two forms of the first flag that was given true or false, where `line` says that the value is unknown."""
    values = ("true", "false")
    pairs = [word.partition("=")[::2] for word in words if word.startswith("--")]
    pairs += [(word, value) for word, value in itertools.pairwise(words) if word.startswith("--")]
    flags = [flag for flag, value in pairs if value.lower() in values]
    if not flags or not SWITCH_VALUE.search(line):
        return []
    parts = flags[0].lstrip("-").split(".")
    on = ".".join([*parts[:-1], parts[-1].removeprefix("no-")])
    off = ".".join([*parts[:-1], f"no-{parts[-1].removeprefix('no-')}"])
    return [f"{flags[0]} takes no value: give --{on} or --{off}"]


def settings(kind: type[T], description: str | None) -> T:
    """The settings of a program without commands, read by tyro alone."""
    widen_narrow_terminal()
    return tyro.cli(kind, description=description)


def parse_command(commands: Mapping[str, Callable[..., Any]], words: Sequence[str], description: str) -> Any:
    """The command that the words name, with its settings."""
    command = words[0] if words and words[0] in commands else ""
    cli = tyro.extras.subcommand_cli_from_dict
    try:
        return parse(lambda: cli(dict(commands), args=words, description=description), command)
    except ConfigError as error:
        raise ConfigError("; ".join([str(error), *count_hint(commands.get(command), words)])) from None


def count_hint(command: Any, words: Sequence[str]) -> list[str]:
    """Which flag sets the number of battles of a command that was given the other one of `--battles`, `--seeds`."""
    names = {field.name for field in fields(command)} if is_dataclass(command) else set()
    given = {word.partition("=")[0] for word in words}
    return [
        f"--{own} sets its number of battles"
        for own, other in (("seeds", "battles"), ("battles", "seeds"))
        if own in names and other not in names and f"--{other}" in given
    ]


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


MEANT, COMMANDS, UNKNOWN = "Perhaps you meant", "Available subcommands", "Unrecognized options: "
"""How parts of the boxes begin."""
APPLIED = re.compile(r"(\S+) \(applied to ([^)]+)\)")
"""A word that a subcommand does not know, and the program with that subcommand."""
KNOWN_TO = re.compile(r"\bin \S+ (\S+) --help")
"""A subcommand that has an option."""


def error_line(text: str, command: str = "") -> str:
    """One line of the first box that tyro printed: what is wrong, and what was probably meant.

    Args:
        command: the subcommand that was given; empty for a program that has none.
    """
    lines = [line.strip(" │|") for line in text.splitlines()]
    blocks: list[list[str]] = []
    for line in lines:
        # Drawn boxes have their title in the upper rule, ASCII ones above it.
        is_rule = line.startswith("╭") or not line.strip("─-├┤╰╯ ")
        if line and is_rule:
            blocks.append([])
        elif blocks and line:
            blocks[-1].append(line)
    wrong, *hints = [block for block in blocks if block] or [[line for line in lines if line]]
    meant = options_of([line for block in hints if block[0].startswith(MEANT) for line in block[1:]])
    unknown = APPLIED.findall(" ".join(wrong))
    if unknown:
        return unknown_to_subcommand([word for word, _ in unknown], unknown[0][1].split()[-1], meant)
    if command and wrong[0].startswith(UNKNOWN):
        return unknown_to_subcommand(" ".join(wrong).removeprefix(UNKNOWN).split(", "), command, meant)
    subcommands = [" ".join(block) for block in hints if block[0].startswith(COMMANDS)]
    return "; ".join([" ".join(wrong), *subcommands, *did_you_mean(meant)])


def options_of(hint: list[str]) -> dict[str, list[str]]:
    """The subcommands of each option of a hint, whose texts are told below it; none where it is the program's own."""
    texts: dict[str, str] = {}
    for line in hint:
        name = line.split(",")[0].split()[0] if line[0] == "-" else next(reversed(texts), "")
        texts[name] = f"{texts.get(name, '')} {line}"
    return {name: KNOWN_TO.findall(text) for name, text in texts.items()}


def unknown_to_subcommand(words: list[str], command: str, meant: dict[str, list[str]]) -> str:
    """The line for words that a subcommand does not know: its own options like them, else whose they are."""
    options = [word for word in words if word[0] == "-"]
    owners = dict.fromkeys(owner for option in options for owner in meant.get(option, ()))
    hints = did_you_mean({name: owners for name, owners in meant.items() if command in owners})
    if owners and not hints:
        hints = [f"that belongs to {' and '.join(owners)}"]
    return "; ".join([f"{command} does not take {' '.join(options or words)}", *hints])


def did_you_mean(meant: dict[str, list[str]]) -> list[str]:
    """What was probably meant, if anything; the settings of one group in the order of the alphabet."""
    is_group = len({name.rpartition(".")[0] for name in meant}) == 1
    return [f"did you mean {' or '.join(sorted(meant) if is_group else meant)}?"] if meant else []


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
