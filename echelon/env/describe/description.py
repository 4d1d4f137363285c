"""The meaning of every column of an environment's tensors, as data, as a terminal table, and as a Markdown page."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

Kind = Literal["action", "observation", "reward", "done", "outcome"]


@dataclass(frozen=True)
class Column:
    """Description of one index of a tensor's last axis, or of all indices if they have the same meaning."""

    name: str
    unit: str = ""
    """The unit of a value of 1; empty for a number without a unit."""
    low: float = -math.inf
    high: float = math.inf
    """All values are in `low..high`; infinite if unbounded."""
    switches: tuple[str, ...] = ()
    """Fields of `FeaturesConfig` that the column needs: if one is off, an observation or a statistic is 0, and an
    action is ignored. Empty if no field affects it."""
    meaning: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values; an infinite bound is None."""
        low, high = (end if math.isfinite(end) else None for end in (self.low, self.high))
        return {**vars(self), "low": low, "high": high, "switches": list(self.switches)}


@dataclass(frozen=True)
class Leaf:
    """An input or output tensor of an environment."""

    key: tuple[str, ...]
    """Key in a TensorDict; rewards, done flags and outcomes of a step are under `next`."""
    kind: Kind
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    """Meaning of each axis. If the last one is `column`, `columns` has an entry per index of it, else a single entry
    for all numbers."""
    dtype: str
    """Name in torch, such as `torch.float32`."""
    columns: tuple[Column, ...]

    def to_json(self) -> dict[str, Any]:
        fields = {"key": list(self.key), "kind": self.kind, "shape": list(self.shape), "axes": list(self.axes)}
        return {**fields, "dtype": self.dtype, "columns": [column.to_json() for column in self.columns]}


@dataclass(frozen=True)
class Description:
    """All leaves of an environment's specs, without the memories of the user's policies.

    Indexing by key returns a `Leaf`, as in `description["agents", "observation"]`; iteration yields the leaves.
    """

    leaves: tuple[Leaf, ...]
    groups: tuple[str, ...] = field(default=())
    """Agent groups, the first part of keys; empty if mechs are rows of the batch."""

    def __getitem__(self, key: str | tuple[str, ...]) -> Leaf:
        """Return the leaf of a key; raise `KeyError` if there is none."""
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
PAGE_HEADINGS = ("column", "name", "range, unit", "meaning")


def print_tables(description: Description, console: Console) -> None:
    """Print a table for each tensor; groups with the same columns share a table."""
    for title, leaf in distinct(description):
        console.print(Text(title))
        table = Table(*HEADINGS)
        for heading in table.columns[:3]:
            heading.no_wrap = True
        for cells in rows(leaf):
            table.add_row(*map(Text, cells))
        console.print(table)


def markdown(description: Description) -> Iterator[str]:
    """Yield the Markdown lines of the page's tables of actions and observations; tensors with a single row share a
    table."""
    for kind in ("action", "observation"):
        cells = {title: list(merged(rows(leaf))) for title, leaf in distinct(description) if leaf.kind == kind}
        single = [(f"`{title}`", *of[0][1:]) for title, of in cells.items() if len(of) == 1]
        yield from (f"## {kind.capitalize()}s", "")
        for title, of in cells.items():
            yield from (f"### `{title}`", "", *table_lines(PAGE_HEADINGS, of), "") if len(of) > 1 else ()
        yield from (*table_lines(("entry", *PAGE_HEADINGS[1:]), single), "") if single else ()


def table_lines(headings: Sequence[str], cells_of_rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the Markdown lines of a table, without spaces around the cells."""
    yield from (f"|{'|'.join(headings)}|", "|" + "-|" * len(headings))
    for cells in cells_of_rows:
        yield f"|{'|'.join(cell.replace('|', chr(92) + '|') for cell in cells)}|"


def distinct(description: Description) -> list[tuple[str, Leaf]]:
    """Return each leaf with a title; groups with equal columns and axes share a leaf."""
    titles: dict[tuple[object, ...], tuple[str, Leaf]] = {}
    for leaf in description:
        of_group = bool(leaf.key[1:]) and leaf.key[0] in description.groups
        name = leaf.key[1:] if of_group else leaf.key
        title = (
            f"{'(group) ' if of_group else ''}{'.'.join(name)} {layout_of(leaf)} {leaf.dtype.removeprefix('torch.')}"
        )
        identity = (of_group, name, leaf.columns, leaf.axes, leaf.dtype, leaf.shape[-1])
        titles.setdefault(identity, (title, leaf))
    return list(titles.values())


def layout_of(leaf: Leaf) -> str:
    """Return the axes of a tensor in brackets, with sizes of all axes except battles and mechs."""
    counted = ("battle", "mech")
    axes = zip(leaf.axes, leaf.shape, strict=True)
    return f"[{', '.join(axis if axis in counted else f'{axis} {size}' for axis, size in axes)}]"


def rows(leaf: Leaf) -> Iterator[tuple[str, ...]]:
    """Yield one table row per column, as cells in the order of `HEADINGS`."""
    numbered = leaf.axes[-1] == "column"
    for i, column in enumerate(leaf.columns):
        switches = ", ".join(column.switches)
        yield (str(i) if numbered else "", column.name, range_of(column), column.unit, switches, column.meaning)


def merged(cells_of_columns: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield the table rows of the page, as cells in the order of `PAGE_HEADINGS`. Consecutive columns that differ
    only in number and name share a row."""
    for (bounds, unit, needs, meaning), group in itertools.groupby(cells_of_columns, key=lambda cells: cells[2:]):
        numbers, names = zip(*(cells[:2] for cells in group), strict=True)
        number = numbers[0] if len(numbers) == 1 else f"{numbers[0]}..{numbers[-1]}"
        values = unit if unit in ("flag", "one-hot") else f"{bounds} ({unit})" if unit else bounds
        yield number, joined_names(names), values, "; ".join(filter(None, (meaning, needs and f"needs {needs}")))


def joined_names(names: Sequence[str]) -> str:
    """Join names and write a common prefix only once, as in `hull.{scout, light}` and `message.{0..7}`."""
    begin = re.match(r".*\.|.*_", names[0])
    if len(names) == 1 or begin is None or not all(name.startswith(begin[0]) for name in names):
        return ", ".join(names)
    ends = [name.removeprefix(begin[0]) for name in names]
    is_counted = ends == [str(i) for i in range(len(ends))]
    return f"{begin[0]}{{{f'0..{len(ends) - 1}' if is_counted else ', '.join(ends)}}}"


def range_of(column: Column) -> str:
    """Return a range such as `-1 .. 1`, `>= 0` or `any`."""
    low, high = column.low, column.high
    if math.isinf(low) and math.isinf(high):
        return "any"
    return f">= {low:g}" if math.isinf(high) else f"{low:g} .. {high:g}"


PAGE = """# What a column means

`python -m echelon describe --env {env} --markdown > docs/COLUMNS.md` generates this page; a test checks that it is
current. `env.describe()` returns its content as dataclasses, for any environment or view.

- Shapes are those of the preset `{env}`. `hull.{{scout, light}}` means `hull.scout` and `hull.light`.
  A flag or one-hot column is 0 or 1.
- "needs" names fields of `FeaturesConfig`.
  If one of these fields is off, an observation or statistic is always 0, and an action has no effect.
- Empty rows of contacts and comrades are 0. Observations of a dead mech are 0 unless stated otherwise.
- `python -m echelon describe` also prints the entries under `("next", ...)`. `memory` belongs to the policy.
"""


def columns_page(env: str, description: Description) -> str:
    """Return the page `docs/COLUMNS.md` of a preset."""
    return "\n".join((PAGE.format(env=env), *markdown(description)))


PIPED_WIDTH = 200
"""Width of tables in characters if the output is not a terminal."""
