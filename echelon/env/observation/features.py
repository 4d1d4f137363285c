"""Columns of observations and actions: the name, width, range, unit and meaning of each."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rules.catalog import Hull


class Feature(NamedTuple):
    """One named run of columns: the range of its numbers, and what they mean."""

    name: str
    width: int
    low: float
    high: float
    unit: str = ""
    """What 1 stands for; empty for a number without a unit."""
    meaning: str = ""
    parts: tuple[str, ...] = ()
    """Name of each column of the run; empty where they are numbered."""
    switches: tuple[str, ...] = ()
    """Fields of `FeaturesConfig`: with any of them off its columns are 0, and those of an action are not heard."""
    unswitched: tuple[str, ...] = ()
    """Those of `parts` that do not depend on `switches`."""


def flag(name: str, meaning: str = "", *switches: str) -> Feature:
    """A column that is 0 or 1."""
    return Feature(name, 1, 0.0, 1.0, "flag", meaning, (), switches)


MAP_SIDE, FULL, TEN_VOX_PER_S = "longest side of the map", "share of full", "10 vox/s"
BEST_QUALITY = "best quality of sensors"
AHEAD_LEFT, AHEAD_LEFT_UP, SIN_COS = ("ahead", "left"), ("ahead", "left", "up"), ("sin", "cos")
HULLS = tuple(hull.name.lower() for hull in Hull)
SORTS = ("closest", "biggest", "most_damaged")
SPEED_SCALE = 10.0
"""Velocities are shown in tens of vox/s."""


def width(features: tuple[Feature, ...]) -> int:
    """Columns of a stream."""
    return sum(feature.width for feature in features)


def bounds(features: tuple[Feature, ...]) -> tuple[Tensor, Tensor]:
    """`[F]` lowest and `[F]` highest value of each column."""
    ends = [(f.low, f.high) for f in features for _ in range(f.width)]
    low, high = torch.tensor(ends, dtype=torch.float32, device="cpu").view(-1, 2).T
    return low, high


def columns(features: tuple[Feature, ...], name: str) -> slice:
    """Where a feature sits in its stream, as a slice of the last axis.

    Args:
        features: those of the stream, such as `layout.EGO`, `layout.CONTACT` or `layout.SQUAD`.
        name: of the feature, as docs/COLUMNS.md has it.

    Raises:
        KeyError: the stream has none of that name.
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
    """Lay named values out as columns, in the order of `features`.

    Args:
        values: for each feature `[..., width]`, or `[...]` where its width is 1.
        visible: `[...]` bool; the other rows are zero.
    """

    def column(name: str) -> Tensor:
        value = values[name] if values[name].dim() > visible.dim() else values[name][..., None]
        value = value.to(torch.float32)
        # Zeroed one by one: a pass over all columns at the end would read and write them once more.
        return value if name in always else torch.where(visible[..., None], value, 0.0)

    return torch.cat([column(feature.name) for feature in features], -1)
