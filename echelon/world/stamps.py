"""A stamp is one kind of structure, repeated over the plots of a lattice.

Each plot has at most one structure, which does not extend beyond the plot. Each column therefore computes, from its own
coordinates, the structure that may cover it; no loop over structures is needed. The difficulty determines which plots
have a structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.rules.catalog import Material
from echelon.rules.config import WorldConfig
from echelon.world.draws import cells, chance, fractions, pick

Range = tuple[int, int]


class Shape(Enum):
    """Outline of a stamp seen from above."""

    BOX = 0
    DISC = 1


class Cut(Enum):
    """The columns of an outline that a part fills."""

    WHOLE = 0
    CROSS = 1
    """A cross through the middle, `CROSS_WIDTH` wide: gates and tunnels for the widest hull."""
    RAMP = 2
    """All columns, with a height that grows by one voxel every two columns, so that hulls can climb it."""
    STRIPES = 3
    """Rows along the structure, two columns wide and two columns apart."""


CROSS_WIDTH = 6
OPEN = 31
"""The top of a part that is open to the sky: at or above the top of every map."""


@dataclass(frozen=True)
class Part:
    """A part of a stamp: the outline, grown by `grow` voxels on all sides, of one material, from `bottom` to `top`."""

    material: Material
    grow: int = 0
    bottom: int = 0
    top: int | None = None
    """Top of the part, vox; None for the random height of the structure."""
    cut: Cut = Cut.WHOLE


@dataclass(frozen=True)
class Stamp:
    """One kind of structure. Sizes are in voxels, and ranges include both ends. Later parts of a stamp overwrite
    earlier parts."""

    shape: Shape
    plot: tuple[int, int]
    """Size of a plot, along and across. Each map draws the orientation of the lattice."""
    share: float
    """Share of the plots with a structure at difficulty 1."""
    length: Range
    width: Range
    height: Range
    parts: tuple[Part, ...]

    @property
    def margin(self) -> int:
        """Number of voxels that the widest part extends beyond the outline."""
        return max(0, *(part.grow for part in self.parts))


def box(plot: tuple[int, int], share: float, length: Range, width: Range, height: Range, *parts: Part) -> Stamp:
    """Return a stamp with a rectangular outline."""
    return Stamp(Shape.BOX, plot, share, length, width, height, parts)


def disc(plot: int, share: float, diameter: Range, height: Range, *parts: Part) -> Stamp:
    """Return a stamp with a circular outline."""
    return Stamp(Shape.DISC, (plot, plot), share, diameter, diameter, height, parts)


class Placement(NamedTuple):
    """The structure that may cover each column, `[M, Y, X]`."""

    along: Tensor  # int32 vox, distance from the structure's first column along its length
    across: Tensor  # int32 vox, distance from the structure's first column along its width
    length: Tensor  # int32 vox
    width: Tensor  # int32 vox
    height: Tensor  # int32 vox, 0 if the plot has no structure


def place(stamp: Stamp, seeds: Tensor, purpose: int, world: WorldConfig) -> Placement:
    """Draw the lattice of a stamp and the structures on its plots, for seeds `[M]`."""
    plot_u, plot_v = stamp.plot
    longest = world.longest_side
    count_u, count_v = longest // plot_u + 2, longest // plot_v + 2
    of_map, of_plot = 3, 6
    draws = fractions(seeds, purpose, of_map + of_plot * count_u * count_v)
    turned, shift_u, shift_v = draws[:, :of_map, None, None].unbind(1)

    # Draw the structure of each plot as tables [M, plots], from which each map column reads.
    by_plot = draws[:, of_map:].unflatten(1, (-1, of_plot)).unbind(2)
    length = pick(by_plot[0], *stamp.length)
    width = length if stamp.shape is Shape.DISC else pick(by_plot[1], *stamp.width)
    margin = stamp.margin
    start_u = pick(by_plot[2], margin, plot_u - margin - length)
    start_v = pick(by_plot[3], margin, plot_v - margin - width)
    built = chance(by_plot[5], stamp.share * world.difficulty)
    height = pick(by_plot[4], *stamp.height) * built

    x, y = cells(world.size_x, world.size_y, seeds.device)
    is_turned = chance(turned, 0.5)
    u = torch.where(is_turned, y, x) + pick(shift_u, 0, plot_u - 1)
    v = torch.where(is_turned, x, y) + pick(shift_v, 0, plot_v - 1)
    row, line = u // plot_u, v // plot_v
    plot_id = (line * count_u + row).flatten(1)

    def per_column(table: Tensor) -> Tensor:
        return table.int().gather(1, plot_id).view_as(u)

    along, across = ((u - row * plot_u).int(), (v - line * plot_v).int())
    return Placement(
        along - per_column(start_u),
        across - per_column(start_v),
        per_column(length),
        per_column(width),
        per_column(height),
    )


def covered(shape: Shape, at: Placement, part: Part) -> Tensor:
    """Return the columns that a part fills, `[M, Y, X]` bool."""
    grow, built = part.grow, at.height > 0
    # Use twice the distance from the middle, because it is an integer for even sizes too.
    off_u, off_v = 2 * at.along + 1 - at.length, 2 * at.across + 1 - at.width
    if shape is Shape.DISC:
        within = off_u**2 + off_v**2 < (at.width + 2 * grow).clamp_min(0) ** 2
    else:
        within = (off_u.abs() < at.length + 2 * grow) & (off_v.abs() < at.width + 2 * grow)
    if part.cut is Cut.CROSS:
        within = within & ((off_u.abs() < CROSS_WIDTH) | (off_v.abs() < CROSS_WIDTH))
    elif part.cut is Cut.STRIPES:
        within = within & (at.across % 4 >= 2)
    return built & within


def paint(material: Tensor, stamp: Stamp, where: Tensor, seeds: Tensor, purpose: int, world: WorldConfig) -> None:
    """Build a stamp in voxels `[M, Z, Y, X]`, in place, on the columns `where [M, Y, X]`, cut off at the map's top.

    Args:
        material: a `Material` per voxel, `[M, Z, Y, X]` uint8.
        stamp: the structure.
        where: columns that may change, `[M, Y, X]` bool.
        seeds: seeds of the maps, `[M]` int64.
        purpose: purpose of the random draws.
        world: size and difficulty of the maps.
    """
    placement = place(stamp, seeds, purpose, world)
    for part in stamp.parts:
        columns = covered(stamp.shape, placement, part) & where
        highest = min(stamp.height[1] if part.top is None else part.top, world.size_z)
        top = placement.height
        if part.cut is Cut.RAMP:
            top = top.minimum(placement.along // 2 + 1)
        for z in range(part.bottom, highest):
            reached = columns & (top > z) if part.top is None else columns
            material[:, z].masked_fill_(reached, int(part.material))


def clear(material: Tensor, where: Tensor) -> None:
    """Set the columns `where [M, Y, X]` of voxels `[M, Z, Y, X]` to one layer of dirt below air, in place."""
    material[:, 0].masked_fill_(where, int(Material.DIRT))
    material[:, 1:].masked_fill_(where[:, None], int(Material.AIR))
