"""Converts voxels to the boxes of which a scenario's ground consists."""

from __future__ import annotations

import numpy as np

from echelon.rules.catalog import Material
from echelon.rules.position import Box
from echelon.runtime.files import expect


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
                rectangles = rectangles_of(begins & (tops >= top))
                expect(
                    len(boxes) + len(rectangles) <= Box.most_entries,
                    f"{name}: boxes of the ground",
                    f"at most {Box.most_entries:,}: --scale, --crop or a smaller --height makes fewer",
                    "more",
                )
                for x0, y0, x1, y1 in rectangles.tolist():
                    boxes.append(Box((x0, y0, bottom), (x1, y1, top), names[material]))
    return tuple(boxes)


def rectangles_of(mask: np.ndarray) -> np.ndarray:
    """Return rectangles `[K, 4]` that cover the True cells of `mask [Y, X]` exactly, without overlap.

    Each row of the result is x0, y0, x1, y1 with x0 <= x < x1 and y0 <= y < y1. The rectangles are built from runs
    along x or from runs along y, whichever gives fewer rectangles.
    """
    return min(runs_of(mask), runs_of(mask.T)[:, [1, 0, 3, 2]], key=len)


def runs_of(mask: np.ndarray) -> np.ndarray:
    """Return rectangles `[K, 4]` that cover the runs of True cells in each row of a non-empty mask.

    Equal runs of adjacent rows are joined to one rectangle.
    """
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    order = np.lexsort((rows, ends, starts))
    rows, starts, ends = rows[order], starts[order], ends[order]
    is_new = (np.diff(rows) != 1) | (np.diff(starts) != 0) | (np.diff(ends) != 0)
    first, last = np.append(True, is_new), np.append(is_new, True)
    found = np.stack((starts[first], rows[first], ends[first], rows[last] + 1), 1)
    return found[np.lexsort((found[:, 0], found[:, 3]))]
