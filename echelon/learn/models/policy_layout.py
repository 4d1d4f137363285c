"""The columns that a network reads and writes, by name: those of this version or those of its checkpoint.

A network that was built for an earlier layout reads its own columns from today's observation. New columns and streams
are left out, so they break no checkpoint; a column that today's observation lacks is refused by name.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from echelon.env.observation import layout
from echelon.runtime.errors import quoted
from echelon.runtime.files import FileError
from echelon.runtime.json_checks import integer, listed, number, row, table, text

SELECTABLE = ("contacts", "squad", "ego")
"""Streams whose columns a network reads by name."""
WHOLE = ("action", "comms", "local_map", "telemetry")
"""Streams that a network reads, and the action that it writes, as they are in this version."""
MOST_STREAMS, MOST_COLUMNS, LARGEST = 64, 4096, 1e6
Columns = tuple[tuple[str, int, float, float], ...]
"""Name, width, lowest and highest value of each run of columns, in their order."""
COLUMN = row(text(200), integer(0, MOST_COLUMNS), number(-LARGEST, LARGEST), number(-LARGEST, LARGEST))
CHECK = table(listed(COLUMN, 1, MOST_COLUMNS), MOST_STREAMS, text(200))


@dataclass(frozen=True)
class PolicyLayout:
    """The columns of the action and of each stream; hashable, so that networks of one architecture can be grouped."""

    streams: tuple[tuple[str, Columns], ...]

    @classmethod
    @functools.cache
    def current(cls, comm_dim: int) -> PolicyLayout:
        """The layout of this version for messages of `comm_dim` numbers."""
        return cls.of(layout.describe(comm_dim))

    @classmethod
    def of(cls, streams: Mapping[str, Any]) -> PolicyLayout:
        """The layout that `layout.describe` or `checkpoint.json` lists."""
        return cls(tuple((name, tuple(map(tuple, columns))) for name, columns in streams.items()))

    def as_json(self) -> dict[str, Any]:
        """As `layout.describe` has it."""
        return {name: [list(column) for column in columns] for name, columns in self.streams}

    @property
    def sha256(self) -> str:
        """sha256 of its JSON; equal layouts have equal hashes."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()

    @property
    def observed_streams(self) -> tuple[str, ...]:
        """Names of the streams of a mech that it lists, masks included, in the order of `layout.STREAMS`."""
        names = dict(self.streams)
        return tuple(name for name in layout.STREAMS if name.removesuffix("_mask") in names)

    def columns(self, stream: str) -> Columns:
        """The runs of columns of a stream."""
        return dict(self.streams)[stream]

    def width(self, stream: str) -> int:
        """Number of columns of a stream."""
        return sum(width for _, width, _, _ in self.columns(stream))

    def places(self, stream: str) -> dict[str, range]:
        """Numbers of the columns of each run, by its name."""
        start, places = 0, {}
        for name, width, _, _ in self.columns(stream):
            places[name] = range(start, start + width)
            start += width
        return places

    def index_into(self, today: PolicyLayout, stream: str) -> list[int] | None:
        """Where its columns lie in today's stream; None if it is today's."""
        if self.columns(stream) == today.columns(stream):
            return None
        places = today.places(stream)
        return [column for name, *_ in self.columns(stream) for column in places[name]]


def stored_layout(where: str, value: Any, comm_dim: int, written_by: str) -> PolicyLayout:
    """The layout of a checkpoint, checked before anything is allocated from it.

    Args:
        where: file and field, for messages.
        value: the JSON value of that field.
        written_by: the version of Echelon that wrote the file.

    Raises:
        FileError: it is not a layout, lists a column twice, or names a stream or column that this version lacks or
            has with another width or range.
    """
    CHECK(where, value)
    stored, today = PolicyLayout.of(value), PolicyLayout.current(comm_dim)
    hint = f"it was written by Echelon {quoted(written_by)}: use that version"
    for stream in (*SELECTABLE, *WHOLE):
        if stream not in value:
            raise FileError(f"{where}.{stream}: expected a list of columns, got none; {hint}")
    for stream, columns in stored.streams:
        if stream not in dict(today.streams):
            raise FileError(f"{where}.{stream}: expected a stream of this version, got one that it lacks; {hint}")
        known = {column[0]: column for column in today.columns(stream)}
        names = [column[0] for column in columns]
        for column in columns:
            name = f"{where}.{stream}: column {quoted(column[0])}"
            if names.count(column[0]) > 1:
                raise FileError(f"{name}: expected once, got {names.count(column[0])} times; {hint}")
            if column[0] not in known:
                raise FileError(f"{name}: expected a column of this version, got one that it lacks; {hint}")
            if column != known[column[0]]:
                raise FileError(f"{name}: expected {size_of(known[column[0]])}, got {size_of(column)}; {hint}")
        if stream in WHOLE and columns != today.columns(stream):
            raise FileError(f"{where}.{stream}: expected all columns of this version in their order; {hint}")
    if "alive" not in stored.places("ego"):  # The critic reads it to leave out the dead.
        raise FileError(f"{where}.ego: column 'alive': expected once, got none; {hint}")
    return stored


def size_of(column: tuple[str, int, float, float]) -> str:
    """Width and range of a run of columns, for a message."""
    _, width, low, high = column
    return f"{width} wide within {low:g}..{high:g}"


class ColumnReader(nn.Module):
    """Reads the columns that a network was built for from the streams of today's observation.

    Args:
        own: the network's layout.
        today: the layout of the observation.
        names: the streams that it is called with, in their order; those that are not `SELECTABLE` pass unchanged.
        device: where its indices are made.
    """

    def __init__(
        self, own: PolicyLayout, today: PolicyLayout, names: tuple[str, ...], device: torch.device | str
    ) -> None:
        super().__init__()
        self.names = names
        indices = {name: own.index_into(today, name) for name in names if name in SELECTABLE}
        self.selected = [name for name, index in indices.items() if index is not None]
        """The streams of which the network reads other columns than today's; usually none."""
        for name in self.selected:
            index = torch.tensor(indices[name], dtype=torch.int64, device=device)
            self.register_buffer(f"{name}_columns", index, persistent=False)

    def forward(self, *streams: Tensor) -> tuple[Tensor, ...]:
        """The streams `[..., F]`, each with the network's own columns."""
        if not self.selected:
            return streams
        return tuple(
            stream.index_select(-1, getattr(self, f"{name}_columns")) if name in self.selected else stream
            for name, stream in zip(self.names, streams, strict=True)
        )
