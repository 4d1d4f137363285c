"""Names of a network's input and output columns, either those of this version or those of the network's checkpoint.

A network built for an earlier layout selects its own columns from the current observation. New columns and streams are
ignored, so they break no checkpoint. A column that is missing in the current observation is an error.
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
"""Streams from which a network selects columns by name."""
WHOLE = ("action", "comms", "local_map", "telemetry")
"""Streams, and the action, that a network uses unchanged."""
MOST_STREAMS, MOST_COLUMNS, LARGEST = 64, 4096, 1e6
Columns = tuple[tuple[str, int, float, float], ...]
"""Name, width, lowest and highest value of each run of columns, in order."""
COLUMN = row(text(200), integer(0, MOST_COLUMNS), number(-LARGEST, LARGEST), number(-LARGEST, LARGEST))
CHECK = table(listed(COLUMN, 1, MOST_COLUMNS), MOST_STREAMS, text(200))


@dataclass(frozen=True)
class PolicyLayout:
    """Columns of the action and of each stream; hashable, so networks of equal architecture can be grouped."""

    streams: tuple[tuple[str, Columns], ...]

    @classmethod
    @functools.cache
    def current(cls, comm_dim: int) -> PolicyLayout:
        """Return the layout of this version for messages of `comm_dim` numbers."""
        return cls.of(layout.describe(comm_dim))

    @classmethod
    def of(cls, streams: Mapping[str, Any]) -> PolicyLayout:
        """Return the layout from a list as written by `layout.describe` or found in `checkpoint.json`."""
        return cls(tuple((name, tuple(map(tuple, columns))) for name, columns in streams.items()))

    def as_json(self) -> dict[str, Any]:
        """Return the layout in the form of `layout.describe`."""
        return {name: [list(column) for column in columns] for name, columns in self.streams}

    @property
    def sha256(self) -> str:
        """sha256 of the layout's JSON; equal layouts have equal hashes."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()

    @property
    def observed_streams(self) -> tuple[str, ...]:
        """Names of the listed streams of a mech, including masks, in the order of `layout.STREAMS`."""
        names = dict(self.streams)
        return tuple(name for name in layout.STREAMS if name.removesuffix("_mask") in names)

    def columns(self, stream: str) -> Columns:
        """Return the runs of columns of a stream."""
        return dict(self.streams)[stream]

    def width(self, stream: str) -> int:
        """Number of columns of a stream."""
        return sum(width for _, width, _, _ in self.columns(stream))

    def places(self, stream: str) -> dict[str, range]:
        """Column indices of each run, keyed by name."""
        start, places = 0, {}
        for name, width, _, _ in self.columns(stream):
            places[name] = range(start, start + width)
            start += width
        return places

    def index_into(self, today: PolicyLayout, stream: str) -> list[int] | None:
        """Return the indices of this layout's columns in the current layout of a stream; None if both layouts are
        equal.
        """
        if self.columns(stream) == today.columns(stream):
            return None
        places = today.places(stream)
        return [column for name, *_ in self.columns(stream) for column in places[name]]


def stored_layout(where: str, value: Any, comm_dim: int, written_by: str) -> PolicyLayout:
    """Check and return the layout of a checkpoint, before anything is allocated from it.

    Args:
        where: file and field, for messages.
        value: the JSON value of that field.
        written_by: version of Echelon that wrote the file.

    Raises:
        FileError: if the value is not a layout, lists a column twice, or lists a stream or column that this version
            lacks or has with another width or range.
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
            raise FileError(f"{where}.{stream}: expected all columns of this version, in its order; {hint}")
    if "alive" not in stored.places("ego"):  # The critic uses this column to mask dead mechs.
        raise FileError(f"{where}.ego: column 'alive': expected once, got none; {hint}")
    return stored


def size_of(column: tuple[str, int, float, float]) -> str:
    """Describe the width and the range of a run of columns for an error message."""
    _, width, low, high = column
    return f"{width} wide within {low:g}..{high:g}"


class ColumnReader(nn.Module):
    """Selects a network's own columns from the streams of the current observation.

    Args:
        own: the network's layout.
        today: layout of the current observation.
        names: the input streams in order; streams not in `SELECTABLE` pass unchanged.
        device: device of the indices.
    """

    def __init__(
        self, own: PolicyLayout, today: PolicyLayout, names: tuple[str, ...], device: torch.device | str
    ) -> None:
        super().__init__()
        self.names = names
        indices = {name: own.index_into(today, name) for name in names if name in SELECTABLE}
        self.selected = [name for name, index in indices.items() if index is not None]
        """Streams in which the network uses other columns than the current ones; usually none."""
        for name in self.selected:
            index = torch.tensor(indices[name], dtype=torch.int64, device=device)
            self.register_buffer(f"{name}_columns", index, persistent=False)

    def forward(self, *streams: Tensor) -> tuple[Tensor, ...]:
        """Return the streams `[..., F]` with the network's own columns."""
        if not self.selected:
            return streams
        return tuple(
            stream.index_select(-1, getattr(self, f"{name}_columns")) if name in self.selected else stream
            for name, stream in zip(self.names, streams, strict=True)
        )
