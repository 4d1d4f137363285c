"""Command lines: parse flags with tyro, and report errors in one line."""

import contextlib
import io
import itertools
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import tyro

from echelon.runtime.errors import ConfigError, require
from echelon.runtime.imports import allow_module, import_module
from echelon.runtime.limits import check_text
from echelon.runtime.renamed import current_flags
from echelon.runtime.terminal import widen_narrow_terminal

T = TypeVar("T")
ALLOW_MODULE = (
    "--allow-module package.module imports your module and runs its code. Files may then use its models and everything "
    "that it registers, such as biomes. Can be repeated."
)
"""Help text of the flag that `arguments` removes."""
EMPTY_FLAGS = ("init", "init-from", "resume", "parent", "start", "profile", "save", "device")
"""Last parts of flags that accept an empty value, which means none or the default."""


def pop_flag(words: Sequence[str], name: str) -> tuple[list[str], list[str]]:
    """Return the values of all flags `name VALUE` or `name=VALUE` in a command line, and the remaining words.

    Underscores in flags count as hyphens.
    """
    values, rest, remaining = [], [], iter(words)
    for argument in remaining:
        flag, equals, value = argument.partition("=")
        if flag.replace("_", "-") == name:
            values.append(value if equals else next(remaining, ""))
        else:
            rest.append(argument)
    return values, rest


def check_words(words: Sequence[str]) -> None:
    """Raise `ConfigError` for words that are empty, contain NUL or are longer than a path can be."""
    flag = ""
    for argument in words:
        name, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        label, text = (name or flag or "an argument", value if equals or not name else name)
        may_be_empty = (name or flag).rpartition(".")[2].lstrip("-") in EMPTY_FLAGS
        require(text != "" or may_be_empty, label, "a value", text)
        check_text(label, text)
        flag = name if name and not equals else ""


def arguments() -> list[str]:
    """Return the command-line arguments without `--allow-module` flags, and with old names of flags replaced by the
    current names.

    Imports the modules that `--allow-module` names.
    """
    check_words(sys.argv[1:])
    modules, rest = pop_flag(sys.argv[1:], "--allow-module")
    for module in modules:
        is_module = bool(module) and all(name.isidentifier() for name in module.split("."))
        require(is_module, "--allow-module", "package.module", module)
        allow_module(module)
        # Import now, because a registered name, such as a biome, may be used before any model is read.
        import_module(module, f"--allow-module {module}")
    return current_flags(rest)


def parse(read: Callable[[], T], command: str = "") -> T:
    """Call `read`, which calls tyro, and convert tyro's errors to a one-line `ConfigError`. The help of `--help` is
    printed as usual."""
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
"""An error about a value for a flag that takes no value."""


def switch_hint(line: str, words: Sequence[str]) -> list[str]:
    """Return a hint with the on and off forms of a switch, if `line` is an error about a switch with the value true or
    false."""
    values = ("true", "false")
    pairs = [word.partition("=")[::2] for word in words if word.startswith("--")]
    pairs += [(word, value) for word, value in itertools.pairwise(words) if word.startswith("--")]
    flags = [flag for flag, value in pairs if value.lower() in values]
    if not flags or not SWITCH_VALUE.search(line):
        return []
    parts = flags[0].lstrip("-").split(".")
    on = ".".join([*parts[:-1], parts[-1].removeprefix("no-")])
    off = ".".join([*parts[:-1], f"no-{parts[-1].removeprefix('no-')}"])
    return [f"{flags[0]} takes no value: use --{on} or --{off}"]


def settings(kind: type[T], description: str | None) -> T:
    """Parse the settings of a program without subcommands."""
    widen_narrow_terminal()
    return tyro.cli(kind, description=description)


def parse_command(commands: Mapping[str, Callable[..., Any]], words: Sequence[str], description: str) -> Any:
    """Parse a command line with a subcommand, and return the result of the subcommand's function or dataclass."""
    command = words[0] if words and words[0] in commands else ""
    cli = tyro.extras.subcommand_cli_from_dict
    try:
        return parse(lambda: cli(dict(commands), args=words, description=description), command)
    except ConfigError as error:
        raise ConfigError("; ".join([str(error), *count_hint(commands.get(command), words)])) from None


def count_hint(command: Any, words: Sequence[str]) -> list[str]:
    """Return a hint if a command that has `--seeds` got `--battles`, or the reverse."""
    names = {field.name for field in fields(command)} if is_dataclass(command) else set()
    given = {word.partition("=")[0] for word in words}
    return [
        f"--{own} sets the number of battles"
        for own, other in (("seeds", "battles"), ("battles", "seeds"))
        if own in names and other not in names and f"--{other}" in given
    ]


MEANT, COMMANDS, UNKNOWN = "Perhaps you meant", "Available subcommands", "Unrecognized options: "
"""First words of parts of tyro's error boxes."""
APPLIED = re.compile(r"(\S+) \(applied to ([^)]+)\)")
"""An unknown word, and the program and subcommand that it was passed to."""
KNOWN_TO = re.compile(r"\bin \S+ (\S+) --help")
"""The subcommand that has a suggested option."""


def error_line(text: str, command: str = "") -> str:
    """Convert tyro's error output to one line: the error, and the most likely intended options.

    Args:
        text: the output.
        command: the subcommand; empty for a program without subcommands.
    """
    lines = [line.strip(" │|") for line in text.splitlines()]
    blocks: list[list[str]] = []
    for line in lines:
        # tyro writes a box's title into its upper border, or above the border in ASCII mode.
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
    """Return the options that a hint suggests, each with the subcommands that have this option."""
    texts: dict[str, str] = {}
    for line in hint:
        name = line.split(",")[0].split()[0] if line[0] == "-" else next(reversed(texts), "")
        texts[name] = f"{texts.get(name, '')} {line}"
    return {name: KNOWN_TO.findall(text) for name, text in texts.items()}


def unknown_to_subcommand(words: list[str], command: str, meant: dict[str, list[str]]) -> str:
    """Return the error line for words that a subcommand does not accept. The line suggests similar options, or else
    subcommands that accept the words."""
    options = [word for word in words if word[0] == "-"]
    owners = dict.fromkeys(owner for option in options for owner in meant.get(option, ()))
    hints = did_you_mean({name: owners for name, owners in meant.items() if command in owners})
    if owners and not hints:
        hints = [f"that belongs to {' and '.join(owners)}"]
    return "; ".join([f"{command} does not take {' '.join(options or words)}", *hints])


def did_you_mean(meant: dict[str, list[str]]) -> list[str]:
    """Return a hint with the suggested options, if any. If all options belong to one group (such as `ppo.`), they are
    sorted by name."""
    is_group = len({name.rpartition(".")[0] for name in meant}) == 1
    return [f"did you mean {' or '.join(sorted(meant) if is_group else meant)}?"] if meant else []


def program_words(script: str) -> list[str]:
    """Return the words that start a program again: with this Python, or as a console script."""
    return [command_word(sys.executable), script] if script.endswith(".py") else [command_word(script)]


def this_command() -> str:
    """Return the command line that starts this process again."""
    return shlex.join([*program_words(sys.argv[0]), *sys.argv[1:]])


def command_word(path: str) -> str:
    """Return the name of a program if the shell finds it by that name, else its path."""
    program = Path(path).absolute()
    for name in (program.name, "python"):
        on_path = shutil.which(name)
        if on_path is not None and Path(on_path).absolute() == program:
            return name
    return str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else path
