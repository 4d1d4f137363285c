"""Converts voxels to the boxes of which a scenario's ground consists."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from echelon.rules.catalog import Material
from echelon.rules.position import Box
from echelon.runtime.files import expect

Rectangle = tuple[int, int, int, int]
"""x0, y0, x1, y1: columns with x0 <= x < x1 and y0 <= y < y1."""


def boxes_of(name: str, dense: np.ndarray) -> tuple[Box, ...]:
    """Return boxes that produce exactly the given voxels on open ground.

    A run is a vertical stack of voxels of a single material. Runs are grouped by their material and their lowest voxel.
    Within a group, the boxes up to a given height cover all runs that reach this height. A hill therefore needs only
    one box per contour line.

    Args:
        name: name of the file, for error messages.
        dense: material numbers `[Z, Y, X]` uint8, values of `Material`.

    Raises:
        FileError: if more boxes are needed than a scenario may have.
    """
    names = [material.name.lower() for material in Material]
    boxes: list[Box] = []
    for bottom in range(dense.shape[0]):
        starts = dense[bottom] != (dense[bottom - 1] if bottom else Material.AIR)
        for material in np.unique(dense[bottom][starts & (dense[bottom] != Material.AIR)]).tolist():
            begins = starts & (dense[bottom] == material)
            tops = bottom + np.cumprod(dense[bottom:] == material, 0, dtype=np.uint8).sum(0)
            for top in np.unique(tops[begins]).tolist():
                for x0, y0, x1, y1 in rectangles_of(begins & (tops >= top)):
                    boxes.append(Box((x0, y0, bottom), (x1, y1, top), names[material]))
                expect(
                    len(boxes) <= Box.most_entries,
                    f"{name}: boxes of the ground",
                    f"at most {Box.most_entries:,}: --scale, --crop or a smaller --height makes fewer",
                    "more",
                )
    return tuple(boxes)


def rectangles_of(mask: np.ndarray) -> list[Rectangle]:
    """Return rectangles that cover the True cells of `mask [Y, X]` exactly, without overlap.

    They are built from runs along x or from runs along y, whichever gives fewer rectangles.
    """
    along_x = list(runs_of(mask))
    along_y = [(x0, y0, x1, y1) for y0, x0, y1, x1 in runs_of(mask.T)]
    return min(along_x, along_y, key=len)


def runs_of(mask: np.ndarray) -> Iterator[Rectangle]:
    """Yield rectangles that cover the runs of True cells in each row.

    Equal runs of adjacent rows are joined to one rectangle.
    """
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    begins, ends = starts.tolist(), np.nonzero(edges == -1)[1].tolist()
    current: dict[tuple[int, int], int] = {}
    first = np.searchsorted(rows, np.arange(len(mask) + 1)).tolist()
    for row in range(len(mask)):
        runs = set(zip(begins[first[row] : first[row + 1]], ends[first[row] : first[row + 1]], strict=True))
        for run in [run for run in current if run not in runs]:
            yield run[0], current.pop(run), run[1], row
        for run in runs:
            current.setdefault(run, row)
    yield from ((x0, y, x1, len(mask)) for (x0, x1), y in current.items())
