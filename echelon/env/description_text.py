"""Prints a description: tables for a terminal, or a page of Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from echelon.env.description import Column, Description, Leaf

HEADINGS = ("column", "name", "range", "unit", "needs", "meaning")
SECTIONS = {
    "action": "Actions",
    "observation": "Observations",
    "reward": "Rewards",
    "done": "Ends of battles",
    "outcome": "Outcomes and statistics",
}
"""Heading of the leaves of each kind."""


def print_tables(description: Description, console: Console) -> None:
    """A table for each tensor; groups that see the same share one."""
    for title, leaf in distinct(description):
        console.print(Text(title))
        table = Table(*HEADINGS)
        for heading in table.columns[:3]:
            heading.no_wrap = True
        for cells in rows(leaf):
            table.add_row(*map(Text, cells))
        console.print(table)


def markdown(description: Description) -> Iterator[str]:
    """The lines of the same tables in Markdown, under a heading for each kind."""
    heading = ""
    for title, leaf in sorted(distinct(description), key=lambda one: list(SECTIONS).index(one[1].kind)):
        if heading != SECTIONS[leaf.kind]:
            heading = SECTIONS[leaf.kind]
            yield from (f"## {heading}", "")
        yield from (f"### `{title}`", "", f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS))
        for cells in rows(leaf):
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""


def distinct(description: Description) -> list[tuple[str, Leaf]]:
    """The leaves under a title each, those of several groups once where their columns and axes agree."""
    titles: dict[tuple[object, ...], tuple[str, Leaf]] = {}
    for leaf in description:
        of_group = bool(leaf.key[1:]) and leaf.key[0] in description.groups
        name = leaf.key[1:] if of_group else leaf.key
        title = (
            f"{'(group) ' if of_group else ''}{'.'.join(name)}  {layout_of(leaf)} {leaf.dtype.removeprefix('torch.')}"
        )
        same = (of_group, name, leaf.columns, leaf.axes, leaf.dtype, leaf.shape[-1])
        titles.setdefault(same, (title, leaf))
    return list(titles.values())


def layout_of(leaf: Leaf) -> str:
    """The axes of a tensor in brackets, with how many there are of what no group or batch decides."""
    counted = ("battle", "mech")
    axes = zip(leaf.axes, leaf.shape, strict=True)
    return f"[{', '.join(axis if axis in counted else f'{axis} {size}' for axis, size in axes)}]"


def rows(leaf: Leaf) -> Iterator[tuple[str, ...]]:
    """The cells of each column's row, in the order of `HEADINGS`."""
    numbered = leaf.axes[-1] == "column"
    for number, column in enumerate(leaf.columns):
        needs = ", ".join(column.switches)
        yield (str(number) if numbered else "", column.name, range_of(column), column.unit, needs, column.meaning)


def range_of(column: Column) -> str:
    """`-1 .. 1`, or what bounds it of that."""
    low, high = column.low, column.high
    if math.isinf(low) and math.isinf(high):
        return "any"
    return f">= {low:g}" if math.isinf(high) else f"{low:g} .. {high:g}"
