"""The meaning of every column of an environment's tensors, as data, as a terminal table, and as a Markdown page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

Kind = Literal["action", "observation", "reward", "done", "outcome"]


@dataclass(frozen=True)
class Column:
    """One number of a tensor's last axis, or of every place of it where all places mean the same."""

    name: str
    unit: str = ""
    """What 1 stands for; empty for a number without a unit."""
    low: float = -math.inf
    high: float = math.inf
    """Every value is within `low..high`; minus and plus infinity where nothing bounds it."""
    switches: tuple[str, ...] = ()
    """Fields of `FeaturesConfig` that it needs: with any of them off an observation or a statistic is 0, and an action
    is not heard. Empty where none turns it off."""
    meaning: str = ""

    def to_json(self) -> dict[str, Any]:
        """The column as JSON values; an end that nothing bounds is None."""
        low, high = (end if math.isfinite(end) else None for end in (self.low, self.high))
        return {**vars(self), "low": low, "high": high, "switches": list(self.switches)}


@dataclass(frozen=True)
class Leaf:
    """One tensor that an environment takes or gives."""

    key: tuple[str, ...]
    """Where it stands in a TensorDict; rewards, flags of the end and outcomes of a step stand below `next`."""
    kind: Kind
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    """What is counted along each axis. Where the last one is `column`, there is one of `columns` for each place of it,
    else a single one for all numbers."""
    dtype: str
    """As torch prints it, such as `torch.float32`."""
    columns: tuple[Column, ...]

    def to_json(self) -> dict[str, Any]:
        fields = {"key": list(self.key), "kind": self.kind, "shape": list(self.shape), "axes": list(self.axes)}
        return {**fields, "dtype": self.dtype, "columns": [column.to_json() for column in self.columns]}


@dataclass(frozen=True)
class Description:
    """All leaves of an environment's specs, but for what the user's own policies remember.

    It is a mapping in all but name: `description["agents", "observation"]` is a `Leaf`, iteration is over leaves.
    """

    leaves: tuple[Leaf, ...]
    groups: tuple[str, ...] = field(default=())
    """Agent groups, which keys begin with; empty where mechs are rows of the batch."""

    def __getitem__(self, key: str | tuple[str, ...]) -> Leaf:
        """The leaf under a key."""
        path = (key,) if isinstance(key, str) else tuple(key)
        for leaf in self.leaves:
            if leaf.key == path:
                return leaf
        raise KeyError(f"no entry {path}, expected one of {[leaf.key for leaf in self.leaves]}")

    def __iter__(self) -> Iterator[Leaf]:
        return iter(self.leaves)

    def __len__(self) -> int:
        return len(self.leaves)

    def to_json(self) -> dict[str, Any]:
        return {"groups": list(self.groups), "leaves": [leaf.to_json() for leaf in self.leaves]}


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
    """The lines of the same tables in Markdown, under a heading for each kind; tensors of one row share a table."""
    for kind, heading in SECTIONS.items():
        cells = {title: list(merged(rows(leaf))) for title, leaf in distinct(description) if leaf.kind == kind}
        single = [(f"`{title}`", *of[0][1:]) for title, of in cells.items() if len(of) == 1]
        yield from (f"## {heading}", "") if cells else ()
        for title, of in cells.items():
            yield from (f"### `{title}`", "", *table_lines(HEADINGS, of), "") if len(of) > 1 else ()
        yield from (*table_lines(("entry", *HEADINGS[1:]), single), "") if single else ()


def table_lines(headings: Sequence[str], cells_of_rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield from (f"| {' | '.join(headings)} |", "|" + "---|" * len(headings))
    for cells in cells_of_rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def distinct(description: Description) -> list[tuple[str, Leaf]]:
    """The leaves under a title each, those of several groups once where their columns and axes agree."""
    titles: dict[tuple[object, ...], tuple[str, Leaf]] = {}
    for leaf in description:
        of_group = bool(leaf.key[1:]) and leaf.key[0] in description.groups
        name = leaf.key[1:] if of_group else leaf.key
        title = (
            f"{'(group) ' if of_group else ''}{'.'.join(name)}  {layout_of(leaf)} {leaf.dtype.removeprefix('torch.')}"
        )
        identity = (of_group, name, leaf.columns, leaf.axes, leaf.dtype, leaf.shape[-1])
        titles.setdefault(identity, (title, leaf))
    return list(titles.values())


def layout_of(leaf: Leaf) -> str:
    """The axes of a tensor in brackets, with how many there are of what no group or batch decides."""
    counted = ("battle", "mech")
    axes = zip(leaf.axes, leaf.shape, strict=True)
    return f"[{', '.join(axis if axis in counted else f'{axis} {size}' for axis, size in axes)}]"


def rows(leaf: Leaf) -> Iterator[tuple[str, ...]]:
    """The cells of each column's row, in the order of `HEADINGS`."""
    numbered = leaf.axes[-1] == "column"
    for i, column in enumerate(leaf.columns):
        switches = ", ".join(column.switches)
        yield (str(i) if numbered else "", column.name, range_of(column), column.unit, switches, column.meaning)


def merged(cells_of_columns: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Merge consecutive rows that differ in number and name only: `18..25` and all of their names."""
    for same, group in itertools.groupby(cells_of_columns, key=lambda cells: cells[2:]):
        numbers, names = zip(*(cells[:2] for cells in group), strict=True)
        yield (numbers[0] if len(numbers) == 1 else f"{numbers[0]}..{numbers[-1]}", ", ".join(names), *same)


def range_of(column: Column) -> str:
    """`-1 .. 1`, or what bounds it of that."""
    low, high = column.low, column.high
    if math.isinf(low) and math.isinf(high):
        return "any"
    return f">= {low:g}" if math.isinf(high) else f"{low:g} .. {high:g}"


PAGE = """# What a column means

This page is generated: `python -m echelon describe --env {env} --markdown > docs/COLUMNS.md`. A test compares it with
the code. `env.describe()` returns the same for any environment or view, flat observations included, as dataclasses
(`to_json()` returns JSON values).

- Shapes are those of the preset `{env}`.
- Consecutive columns with the same range, unit and meaning share a row.
- *needs* lists fields of `FeaturesConfig`. If one of them is off, an observation or statistic is always 0, and an
  action has no effect.
- Rewards, done flags and outcomes are entries under `("next", ...)`.
- Empty rows of contacts and comrades are 0. All observations of a dead mech are 0, except where the table says
  otherwise.
- `memory` belongs to the policy and is not listed.
"""


def columns_page(env: str, description: Description) -> str:
    """The page `docs/COLUMNS.md` of a preset."""
    return "\n".join((PAGE.format(env=env), *markdown(description)))


PIPED_WIDTH = 200
"""Width of tables, in characters, where the output is not a terminal."""
