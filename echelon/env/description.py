"""What every column of an environment's tensors means, as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

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
        """The leaf as JSON values."""
        plain = {"key": list(self.key), "kind": self.kind, "shape": list(self.shape), "axes": list(self.axes)}
        return {**plain, "dtype": self.dtype, "columns": [column.to_json() for column in self.columns]}


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
        wanted = (key,) if isinstance(key, str) else tuple(key)
        for leaf in self.leaves:
            if leaf.key == wanted:
                return leaf
        raise KeyError(f"no entry {wanted}, expected one of {[leaf.key for leaf in self.leaves]}")

    def __iter__(self) -> Iterator[Leaf]:
        return iter(self.leaves)

    def __len__(self) -> int:
        return len(self.leaves)

    def of_kind(self, kind: Kind) -> tuple[Leaf, ...]:
        """The leaves of one kind; rewards with their terms, outcomes with their statistics."""
        return tuple(leaf for leaf in self.leaves if leaf.kind == kind)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {"groups": list(self.groups), "leaves": [leaf.to_json() for leaf in self.leaves]}
