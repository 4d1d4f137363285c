"""Reads the boxes that tyro prints where a command line is wrong."""

from __future__ import annotations

import re

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
    parts: list[list[str]] = []
    for line in lines:
        # Drawn boxes have their title in the upper rule, ASCII ones above it.
        is_rule = line.startswith("╭") or not line.strip("─-├┤╰╯ ")
        if line and is_rule:
            parts.append([])
        elif parts and line:
            parts[-1].append(line)
    wrong, *hints = [part for part in parts if part] or [[line for line in lines if line]]
    meant = options_of([line for part in hints if part[0].startswith(MEANT) for line in part[1:]])
    unknown = APPLIED.findall(" ".join(wrong))
    if unknown:
        return unknown_to_subcommand([word for word, _ in unknown], unknown[0][1].split()[-1], meant)
    if command and wrong[0].startswith(UNKNOWN):
        return unknown_to_subcommand(" ".join(wrong).removeprefix(UNKNOWN).split(", "), command, meant)
    others = [" ".join(part) for part in hints if part[0].startswith(COMMANDS)]
    return "; ".join([" ".join(wrong), *others, *did_you_mean(meant)])


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
    """What was probably meant, if anything."""
    return [f"did you mean {' or '.join(meant)}?"] if meant else []
