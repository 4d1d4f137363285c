"""Columns of observations and actions: the name, width, range, unit and meaning of each."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rules.catalog import Hull


class Feature(NamedTuple):
    """A named group of consecutive columns, with width, range, unit and meaning."""

    name: str
    width: int
    low: float
    high: float
    unit: str = ""
    """The unit of a value of 1; empty for a number without a unit."""
    meaning: str = ""
    parts: tuple[str, ...] = ()
    """Name of each column of the run; empty if columns are numbered."""
    switches: tuple[str, ...] = ()
    """Fields of `FeaturesConfig`. If one is off, these columns are 0 in an observation and ignored in an action."""
    unswitched: tuple[str, ...] = ()
    """Names of `parts` that do not depend on `switches`."""


def flag(name: str, meaning: str = "", *switches: str) -> Feature:
    """Return a feature of one column that is 0 or 1."""
    return Feature(name, 1, 0.0, 1.0, "flag", meaning, (), switches)


MAP_SIDE, FULL, TEN_VOX_PER_S = "longest side of the map", "share of full", "10 vox/s"
BEST_QUALITY = "best quality of sensors"
AHEAD_LEFT, AHEAD_LEFT_UP, SIN_COS = ("ahead", "left"), ("ahead", "left", "up"), ("sin", "cos")
HULLS = tuple(hull.name.lower() for hull in Hull)
SORTS = ("closest", "biggest", "most_damaged")
SPEED_SCALE = 10.0
"""Velocities are divided by this value (vox/s)."""


def width(features: tuple[Feature, ...]) -> int:
    """Return the number of columns of a stream."""
    return sum(feature.width for feature in features)


def bounds(features: tuple[Feature, ...]) -> tuple[Tensor, Tensor]:
    """Return the lowest `[F]` and highest `[F]` value of each column, float32 on the CPU."""
    ends = [(f.low, f.high) for f in features for _ in range(f.width)]
    low, high = torch.tensor(ends, dtype=torch.float32, device="cpu").view(-1, 2).T
    return low, high


def columns(features: tuple[Feature, ...], name: str) -> slice:
    """Return the columns of a feature in its stream, as a slice of the last axis.

    Args:
        features: features of the stream, such as `layout.EGO`, `layout.CONTACT` or `layout.SQUAD`.
        name: name of the feature, as in docs/COLUMNS.md.

    Returns:
        A slice of the stream's last axis.

    Raises:
        KeyError: if the stream has no feature of that name.
    """
    start = 0
    for feature in features:
        if feature.name == name:
            return slice(start, start + feature.width)
        start += feature.width
    raise KeyError(f"no feature {name!r}, expected one of {[f.name for f in features]}")


def pack(
    features: tuple[Feature, ...], values: dict[str, Tensor], visible: Tensor, always: Collection[str] = ()
) -> Tensor:
    """Concatenate named values along the last axis, in the order of `features`, as float32.

    Args:
        features: features of the stream.
        values: for each feature `[..., width]`, or `[...]` if its width is 1.
        visible: which rows are visible, `[...]` bool; all other rows are zero.
        always: names of features that keep their values in rows that are not visible.
    """

    def column(name: str) -> Tensor:
        value = values[name] if values[name].dim() > visible.dim() else values[name][..., None]
        value = value.to(torch.float32)
        # Zero hidden entries column by column: a pass over all columns at the end would read and write them once more.
        return value if name in always else torch.where(visible[..., None], value, 0.0)

    return torch.cat([column(feature.name) for feature in features], -1)
