"""Reads the boxes that tyro prints where a command line is wrong."""

from __future__ import annotations

MEANT, COMMANDS = "Perhaps you meant", "Available subcommands"
"""How parts of the boxes begin."""


def error_line(text: str) -> str:
    """One line of the first box that tyro printed: what is wrong, and what was probably meant."""
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
    meant = [
        line.split(",")[0].split()[0] for part in hints if part[0].startswith(MEANT) for line in part if line[0] == "-"
    ]
    others = [" ".join(part) for part in hints if part[0].startswith(COMMANDS)]
    guess = [f"did you mean {' or '.join(dict.fromkeys(meant))}?"] if meant else []
    return "; ".join([" ".join(wrong), *others, *guess])
