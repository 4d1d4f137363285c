"""Ground as importers read it (a list of voxels, or heights of columns), with cropping and scaling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from echelon.rules.catalog import Material
from echelon.rules.limits import SIDE
from echelon.rules.position import Unit
from echelon.runtime.errors import require
from echelon.runtime.files import expect

MOST_BYTES = 1 << 27
"""Size of a map file."""
MOST_CELLS = 1 << 24
"""Samples of a heightmap, tiles of a layer."""
MOST_VOXELS = 1 << 23
"""Voxels of a map before it is scaled: eight million, more than the largest ground holds."""
MOST_DENSE = 1 << 26
"""Cells of an array that holds a whole map."""
HIGHEST = 31
MATERIALS = {material.name.lower(): int(material) for material in Material}
REPAIR = "--scale or --crop makes it smaller"


@dataclass(frozen=True)
class ReadOptions:
    """Options of a reader."""

    material: str = "solid"
    """Default material."""
    materials: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Material by the name of a layer or a terrain, or by the index of a colour, and its height (0: as in the file)."""
    height: int = 0
    """Height of the highest column, vox; 0: 8 of a heightmap, as in the file otherwise."""
    crop: Crop | None = None
    """Part of the file that is imported."""
    scale: float = 1.0
    """Columns of ground for each column of the file."""

    def expect_fits(self, name: str, size: Sequence[int], has_columns: bool = True) -> None:
        """Reject a file whose ground, after cropping and scaling, is larger than a map may be.

        Importers call this as soon as they know the size, before they expand voxels, tiles or samples.

        Args:
            name: name of the file, for error messages.
            size: columns of the file along x and y, and optionally its voxels along z.
            has_columns: whether the file has heights of columns, which `scale` does not change.
        """
        sides = (self.crop.width, self.crop.depth) if self.crop else size[:2]
        if self.crop:
            self.crop.check(name, (size[0], size[1]))
        expect_columns(name, [round(side * self.scale) for side in sides])
        if len(size) == 3 and not self.height:
            top = size[2] if has_columns else round(size[2] * self.scale)
            smaller = "" if has_columns else f"--scale {factor_to(size[2], HIGHEST)} or "
            line = f"at most {HIGHEST} vox high: {smaller}--height 24 makes it lower"
            expect(top <= HIGHEST, f"{name}: ground", line, top)


class ColumnSpan(NamedTuple):
    """A vertical stack of voxels with one material: bottom <= z < top."""

    bottom: int
    top: int
    material: int


@dataclass(frozen=True)
class Crop:
    """A rectangle of the file's columns: low <= (x, y) < high, counted from the lower left corner."""

    x: int
    y: int
    width: int
    depth: int

    def check(self, name: str, size: tuple[int, int]) -> None:
        """Reject a crop rectangle that is not inside ground of `size` columns."""
        inside = self.x + self.width <= size[0] and self.y + self.depth <= size[1]
        require(inside, "--crop", f"within the {size[0]} x {size[1]} columns of {name}", self.words)

    @property
    def slices(self) -> tuple[slice, slice]:
        """Return the slices of the rectangle in an array `[Y, X]`."""
        return slice(self.y, self.y + self.depth), slice(self.x, self.x + self.width)

    @property
    def words(self) -> str:
        return f"{self.x} {self.y} {self.width} {self.depth}"


@dataclass(frozen=True)
class Ground:
    """Voxels of a map, in the order of the file. If several voxels are at the same position, the last one counts.

    Materials are values of `Material`. The material `Material.AIR` removes an earlier voxel.
    """

    name: str
    """The file, for errors."""
    size: tuple[int, int, int]
    """Voxels along x, y and z."""
    places: np.ndarray
    """`[K, 3]` int32: x, y, z of each voxel."""
    materials: np.ndarray
    """`[K]` uint8."""
    units: tuple[Unit, ...] = ()
    """Mechs that the file names, places in columns of this ground."""
    zone: tuple[float, ...] = ()
    """Column x, y and radius of the zone, if the file names one."""
    notes: tuple[str, ...] = ()
    """What was left out or filled in, a line each."""
    has_columns: bool = False
    """The file has heights of columns, not voxels: a factor does not scale the heights."""

    def cropped(self, crop: Crop) -> Ground:
        """Return the columns inside a rectangle, with the mechs that are inside."""
        crop.check(self.name, self.size[:2])
        low, high = np.array([crop.x, crop.y]), np.array([crop.x + crop.width, crop.y + crop.depth])
        inside = ((self.places[:, :2] >= low) & (self.places[:, :2] < high)).all(1)
        places = self.places[inside] - np.array([crop.x, crop.y, 0], np.int32)
        size = (crop.width, crop.depth, self.size[2])
        moved = replace(self, size=size, places=places, materials=self.materials[inside])
        return moved.with_places(1.0, (-crop.x, -crop.y))

    def scaled(self, factor: float, height: int = 0) -> Ground:
        """Return the ground with every side `factor` times as long.

        If the ground shrinks, a new voxel is filled if at least half of the old voxels in it are filled, with their
        most frequent material; an old voxel belongs to the new voxel in which its centre lies. If the ground grows, a
        new voxel is a copy of the old voxel at its centre.

        Args:
            height: number of voxels along z; 0 means the old number times `factor`, or the old number for a file with
                heights of columns.
        """
        flat = 1.0 if self.has_columns else factor
        sides = (self.size[0] * factor, self.size[1] * factor, height or self.size[2] * flat)
        x, y, z = (max(round(side), 1) for side in sides)
        hint = f"at most {MOST_VOXELS:,} voxels: {REPAIR}"
        expect(x * y * z <= MOST_VOXELS, f"{self.name}: scaled ground", hint, (x, y, z))
        smaller = (min(x, self.size[0]), min(y, self.size[1]), min(z, self.size[2]))
        return self._reduced(smaller)._enlarged((x, y, z)).with_places(factor, (0, 0))

    def _enlarged(self, size: tuple[int, int, int]) -> Ground:
        if size == self.size:
            return self
        old = dense_materials(self, self.size)
        x, y, z = (old_index(new, side) for new, side in zip(size, self.size, strict=True))
        places, materials = listed(old[np.ix_(z, y, x)])
        return replace(self, size=size, places=places, materials=materials)

    def _reduced(self, size: tuple[int, int, int]) -> Ground:
        if size == self.size:
            return self
        only = self.unique()
        index = [new_index(side, new) for side, new in zip(self.size, size, strict=True)]
        x, y, z = (index[axis][only.places[:, axis]] for axis in range(3))
        cells, inverse = np.unique((z * size[1] + y) * size[0] + x, return_inverse=True)
        counts = np.zeros((len(Material), len(cells)), np.int32)
        for material in Material:
            counts[material] = np.bincount(inverse[only.materials == material], minlength=len(cells))
        x, y, z = cells % size[0], cells // size[0] % size[1], cells // (size[0] * size[1])
        sides = [np.bincount(each, minlength=new) for each, new in zip(index, size, strict=True)]
        is_filled = 2 * counts.sum(0) >= sides[0][x] * sides[1][y] * sides[2][z]
        places = np.stack((x, y, z), 1).astype(np.int32)[is_filled]
        return replace(self, size=size, places=places, materials=counts.argmax(0).astype(np.uint8)[is_filled])

    def unique(self) -> Ground:
        """Return the ground with one voxel per position, and without air."""
        if math.prod(self.size) <= MOST_DENSE:
            places, materials = listed(dense_materials(self, self.size))
            return replace(self, places=places, materials=materials)
        x, y, z = self.places.T.astype(np.int64)
        spot = ((z * self.size[1] + y) * self.size[0] + x)[::-1]
        _, last = np.unique(spot, return_index=True)
        index = len(spot) - 1 - last
        index = index[self.materials[index] != Material.AIR]
        return replace(self, places=self.places[index], materials=self.materials[index])

    def with_places(self, factor: float, shift: Sequence[float]) -> Ground:
        """Return the ground with mechs and zone moved by `shift` columns, then scaled.

        Mechs and a zone outside of the map are left out.
        """
        units = tuple(moved for unit in self.units if (moved := moved_unit(unit, factor, shift, self.size)))
        zone = self.zone
        if zone:
            zone = ((zone[0] + shift[0]) * factor, (zone[1] + shift[1]) * factor, zone[2] * factor)
            zone = zone if 0 <= zone[0] < self.size[0] and 0 <= zone[1] < self.size[1] else ()
        lost = len(self.units) - len(units)
        notes = (*self.notes, f"{lost} mechs beyond the crop left out") if lost else self.notes
        return replace(self, units=units, zone=zone, notes=notes)


def moved_unit(unit: Unit, factor: float, shift: Sequence[float], size: Sequence[int]) -> Unit | None:
    """Return a mech's data for ground that was moved and scaled; None if the mech is outside of `size`."""

    def moved(values: Sequence[float]) -> list[float]:
        return [(value + shift[i % 2]) * factor for i, value in enumerate(values)]

    corners = moved(unit.area or (unit.x, unit.y))
    if not all(0 <= value <= size[i % 2] for i, value in enumerate(corners)):
        return None
    if unit.area:
        return replace(unit, area=tuple(corners))
    return replace(unit, x=corners[0], y=corners[1])


@dataclass(frozen=True)
class Heights:
    """A heightmap: row 0 is the south, column 0 is the west. Samples without a height are NaN."""

    name: str
    values: np.ndarray
    """`[Y, X]` float32."""
    options: ReadOptions
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """Samples along x and y."""
        return self.values.shape[1], self.values.shape[0]

    def cropped(self, crop: Crop) -> Heights:
        """Return the samples inside a rectangle."""
        crop.check(self.name, self.size)
        return replace(self, values=self.values[crop.slices])

    def scaled(self, factor: float, height: int = 0) -> Heights:
        """Return the heightmap with `factor` times as many columns.

        A smaller heightmap has the mean of the samples with a height in each column, a larger one the nearest sample.
        The heights themselves are scaled later, by `ground`.
        """
        if factor == 1.0:
            return self
        rows, columns = self.values.shape
        size = max(round(rows * factor), 1), max(round(columns * factor), 1)
        if factor > 1:
            return replace(self, values=self.values[np.ix_(old_index(size[0], rows), old_index(size[1], columns))])
        is_known = np.isfinite(self.values)
        sums = block_sums(np.where(is_known, self.values, 0), size)
        counts = block_sums(is_known, size)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return replace(self, values=means.astype(np.float32))

    def ground(self) -> Ground:
        """Return ground whose columns have 0 voxels (lowest sample) to `options.height` voxels (highest sample).

        A sample without a height gets the height of the nearest sample.
        """
        expect_columns(self.name, self.size)
        values, notes = self.filled()
        low, high = float(values.min()), float(values.max())
        expect(high > low, f"{self.name}: heights", "of more than one height", low)
        top = self.options.height or 8
        columns = np.floor((values - low) * (top / (high - low)) + 0.5).astype(np.int32)
        return columns_ground(self.name, columns, MATERIALS[self.options.material], (*self.notes, *notes))

    def filled(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return the samples as float64 with missing heights filled in, and notes about them."""
        is_void = ~np.isfinite(self.values)
        count = int(is_void.sum())
        if count == 0:
            return self.values.astype(np.float64), ()
        share = f"{count} of {is_void.size} samples"
        expect(2 * count <= is_void.size, f"{self.name}: samples without a height", "at most half", share)
        from scipy.ndimage import distance_transform_edt

        rows, columns = distance_transform_edt(is_void, return_distances=False, return_indices=True)
        return self.values[rows, columns].astype(np.float64), (f"{share} without a height: as the nearest sample",)


def new_index(old: int, new: int) -> np.ndarray:
    """For each of `old` cells, return the index of the one of `new` (fewer) cells in which its centre lies, `[old]`."""
    return np.minimum(((np.arange(old) + 0.5) * new / old).astype(np.int64), new - 1)


def old_index(new: int, old: int) -> np.ndarray:
    """For each of `new` cells, return the index of the one of `old` cells that contains its centre, `[new]`."""
    return np.minimum(((np.arange(new) + 0.5) * old / new).astype(np.int64), old - 1)


def block_sums(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return the sums of values per new cell, `size` float64.

    A value belongs to the new cell that contains the centre of its old cell.
    """
    for axis, new in enumerate(size):
        old = values.shape[axis]
        first = np.searchsorted(new_index(old, new), np.arange(new))
        values = np.add.reduceat(values, first, axis=axis, dtype=np.float64)
    return values


def columns_ground(name: str, columns: np.ndarray, material: int, notes: tuple[str, ...] = ()) -> Ground:
    """Return ground of one material whose column at y, x is `columns[y, x]` voxels high."""
    places, _ = column_voxels(columns)
    size = (columns.shape[1], columns.shape[0], int(columns.max(initial=0)))
    return Ground(name, size, places, np.full(len(places), material, np.uint8), notes=notes, has_columns=True)


def column_voxels(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the voxels of columns; the column at y, x is `columns[y, x]` voxels high.

    Returns:
        The position x, y, z of each voxel, `[K, 3]` int32, and the index of its column in the flattened array, `[K]`
        int64.
    """
    flat = columns.reshape(-1)
    filled = np.flatnonzero(flat)
    heights = flat[filled].astype(np.int64)
    index = np.repeat(filled, heights)
    z = np.arange(len(index)) - np.repeat(np.cumsum(heights) - heights, heights)
    width = columns.shape[1]
    return np.stack((index % width, index // width, z), 1).astype(np.int32), index


def expect_columns(name: str, size: Sequence[int]) -> None:
    """Reject ground that is too wide; the error names flags that make it smaller."""
    most = int(SIDE.high)
    hint = f"at most {most} x {most} columns: --scale {factor_to(max(size), most)} or --crop makes it smaller"
    expect(max(size[:2]) <= most, f"{name}: ground", hint, f"{size[0]} x {size[1]}")


def factor_to(size: int, most: int) -> str:
    """Return the largest factor with three decimals that reduces `size` to at most `most`."""
    thousandths = most * 1000 // max(size, 1)
    return f"{max(thousandths, 1) / 1000:g}"


def dense_materials(ground: Ground, size: Sequence[int], shift: Sequence[int] = (0, 0)) -> np.ndarray:
    """Return the materials of ground as an array `[Z, Y, X]` uint8 of `size`, moved by `shift` columns.

    Cells without a voxel are air.
    """
    dense = np.zeros((size[2], size[1], size[0]), np.uint8)
    x, y, z = ground.places.T
    # NumPy writes in order: of two voxels in one place the later one stays.
    dense[z, y + shift[1], x + shift[0]] = ground.materials
    return dense


def listed(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions `[K, 3]` and the materials `[K]` of all cells of `[Z, Y, X]` that are not air."""
    z, y, x = np.nonzero(dense)
    return np.stack((x, y, z), 1).astype(np.int32), dense[z, y, x]
