"""A stamp is one kind of structure, repeated over the plots of a lattice.

At most one structure stands on a plot, and it stays within it, so every column finds the one that may cover
it by its own coordinates: no loop over structures, and difficulty only decides which plots are built on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.catalog import Material
from echelon.config import WorldConfig
from echelon.world.draws import cells, chance, fractions, pick

Range = tuple[int, int]


class Shape(Enum):
    """Outline of a stamp seen from above."""

    BOX = 0
    DISC = 1


@dataclass(frozen=True)
class Part:
    """One material of a stamp: its outline grown by `grow` voxels on all sides, from `bottom` to `top`."""

    material: Material
    grow: int = 0
    bottom: int = 0
    top: int | None = None
    """None reaches the height drawn for the stamp."""


@dataclass(frozen=True)
class Stamp:
    """One kind of structure. Sizes in voxels, ranges with both ends; later parts overwrite earlier ones."""

    shape: Shape
    plot: tuple[int, int]
    """Size of a plot along and across; each map turns the lattice or not."""
    share: float
    """Plots built on at difficulty 1."""
    length: Range
    width: Range
    height: Range
    parts: tuple[Part, ...]

    @property
    def margin(self) -> int:
        """Voxels the widest part reaches beyond the outline."""
        return max(0, *(part.grow for part in self.parts))


def box(plot: tuple[int, int], share: float, length: Range, width: Range, height: Range, *parts: Part) -> Stamp:
    """A rectangle of its own length and width."""
    return Stamp(Shape.BOX, plot, share, length, width, height, parts)


def disc(plot: int, share: float, diameter: Range, height: Range, *parts: Part) -> Stamp:
    """A circle."""
    return Stamp(Shape.DISC, (plot, plot), share, diameter, diameter, height, parts)


class Placement(NamedTuple):
    """The one structure that may cover each column, `[M, Y, X]`."""

    along: Tensor  # int64 vox from the structure's first column
    across: Tensor  # int64 vox
    length: Tensor  # int64 vox
    width: Tensor  # int64 vox
    height: Tensor  # int64 vox
    built: Tensor  # bool


def place(stamp: Stamp, seeds: Tensor, purpose: int, world: WorldConfig) -> Placement:
    """Draw a stamp's lattice and what stands on its plots, for seeds `[M]`."""
    plot_u, plot_v = stamp.plot
    longest = world.longest_side
    count_u, count_v = longest // plot_u + 2, longest // plot_v + 2
    of_map, of_plot = 3, 6
    drawn = fractions(seeds, purpose, of_map + of_plot * count_u * count_v)
    turned, shift_u, shift_v = drawn[:, :of_map, None, None].unbind(1)

    x, y = cells(world.size_x, world.size_y, seeds.device)
    is_turned = chance(turned, 0.5)
    u = torch.where(is_turned, y, x) + pick(shift_u, 0, plot_u - 1)
    v = torch.where(is_turned, x, y) + pick(shift_v, 0, plot_v - 1)
    plot_id = (v // plot_v * count_u + u // plot_u).flatten(1)

    def per_column(number: int) -> Tensor:
        table = drawn[:, of_map + number :: of_plot]
        return table.gather(1, plot_id).view_as(u)

    length = pick(per_column(0), *stamp.length)
    width = length if stamp.shape is Shape.DISC else pick(per_column(1), *stamp.width)
    margin = stamp.margin
    start_u = pick(per_column(2), margin, plot_u - margin - length)
    start_v = pick(per_column(3), margin, plot_v - margin - width)
    height = pick(per_column(4), *stamp.height)
    built = chance(per_column(5), stamp.share * world.difficulty)
    return Placement(u % plot_u - start_u, v % plot_v - start_v, length, width, height, built)


def covered(shape: Shape, at: Placement, grow: int) -> Tensor:
    """`[M, Y, X]` bool: columns under the outline grown by `grow`."""
    if shape is Shape.DISC:
        # Twice the distance from the middle, so that an even diameter needs no half voxels.
        off_u, off_v = 2 * at.along + 1 - at.length, 2 * at.across + 1 - at.width
        return at.built & (off_u**2 + off_v**2 < (at.width + 2 * grow).clamp_min(0) ** 2)
    within_u = (at.along >= -grow) & (at.along < at.length + grow)
    within_v = (at.across >= -grow) & (at.across < at.width + grow)
    return at.built & within_u & within_v


def paint(material: Tensor, stamp: Stamp, where: Tensor, seeds: Tensor, purpose: int, world: WorldConfig) -> None:
    """Build a stamp, in place, on columns `where [M, Y, X]` of voxels `[M, Z, Y, X]`, cut at the sky."""
    at = place(stamp, seeds, purpose, world)
    for part in stamp.parts:
        columns = covered(stamp.shape, at, part.grow) & where
        highest = min(stamp.height[1] if part.top is None else part.top, world.size_z)
        for z in range(part.bottom, highest):
            reached = columns & (at.height > z) if part.top is None else columns
            material[:, z].masked_fill_(reached, int(part.material))


def clear(material: Tensor, where: Tensor) -> None:
    """Level columns `where [M, Y, X]` of voxels `[M, Z, Y, X]` to dry ground under open sky, in place."""
    material[:, 0].masked_fill_(where, int(Material.DIRT))
    material[:, 1:].masked_fill_(where[:, None], int(Material.AIR))
