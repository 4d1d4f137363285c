"""The terrain as triangle meshes, one per material, with the faces of voxels that border on air."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

AXES = ((0, 0, 1), (0, 1, 0), (1, 0, 0))
"""Unit steps of the axes of a ground `[Z, Y, X]`, as (x, y, z)."""


def ground_meshes(ground: np.ndarray, air: int = 0) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield a mesh for each material of a map.

    A face lies between a voxel and air, or between a voxel and the outside of the map. The bottom of the map has no
    faces.

    Args:
        ground: materials `[Z, Y, X]` uint8.
        air: number of the material that has no faces.

    Yields:
        The material's number, corners `[V, 3]` float32 as x, y, z in vox, and triangles `[F, 3]` uint32 as indices of
        corners, counter-clockwise seen from outside.
    """
    filled = np.pad(ground != air, 1)
    faces = [free_faces(filled, axis, sign) for axis in range(3) for sign in (1, -1)]
    cells = np.concatenate([cells for cells, _ in faces])
    corners = np.concatenate([corners for _, corners in faces])
    materials = ground[tuple(cells.T)]
    for material in np.unique(materials).tolist():
        quads = corners[materials == material]
        starts = np.arange(len(quads), dtype=np.uint32)[:, None, None] * 4
        triangles = starts + np.array([[0, 1, 2], [0, 2, 3]], np.uint32)
        yield material, quads.reshape(-1, 3), triangles.reshape(-1, 3)


def free_faces(filled: np.ndarray, axis: int, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the faces of voxels that border on air in one direction.

    Args:
        filled: mask `[Z + 2, Y + 2, X + 2]` bool of voxels that are not air, padded by one voxel on each side.
        axis: axis of the array that is perpendicular to the faces, 0 for z.
        sign: 1 for the direction of higher coordinates, -1 for the opposite one.

    Returns:
        The voxels `[Q, 3]` as z, y, x, and the four corners of each face, `[Q, 4, 3]` float32 as x, y, z in vox.
    """
    free = (filled & ~np.roll(filled, -sign, axis))[1:-1, 1:-1, 1:-1]
    if axis == 0 and sign == -1:
        free[0] = False
    cells = np.argwhere(free)
    normal = np.array(AXES[axis], np.float32)
    first, second = (np.array(AXES[other], np.float32) for other in range(3) if other != axis)
    if (np.cross(first, second) @ normal > 0) != (sign > 0):
        first, second = second, first
    start = normal * (sign > 0)
    corners = np.stack((start, start + first, start + first + second, start + second))
    return cells, cells[:, None, ::-1].astype(np.float32) + corners
