"""Points and shapes of the ground, in voxels, drawn in pixels."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw

SMOOTH = 2
"""Drawn this many times as large, then brought down, so that edges are soft."""

Point = tuple[float, float]


class Canvas:
    """Where a point of the ground lies in a picture, whose top is +y.

    Args:
        size_y: of the map, vox.
        vox_px: pixels a voxel in the finished picture.
    """

    def __init__(self, size_y: float, vox_px: int) -> None:
        self.size_y = size_y
        self.vox_px = vox_px
        self.scale = vox_px * SMOOTH

    def enlarge(self, lit: np.ndarray) -> Image.Image:
        """The ground `[Y, X, 3]` uint8, as `ground.shade` lights it, at the scale that is drawn in."""
        size = (lit.shape[1] * self.scale, lit.shape[0] * self.scale)
        return Image.fromarray(lit[::-1]).resize(size, Image.Resampling.NEAREST)

    def spot(self, x: float, y: float) -> Point:
        return x * self.scale, (self.size_y - y) * self.scale

    def disc(
        self, pen: ImageDraw.ImageDraw, at: Point, radius: float, fill: tuple[int, ...] | None, **line: object
    ) -> None:
        """A circle around a point of the ground; radius in voxels."""
        (x, y), r = self.spot(*at), radius * self.scale
        pen.ellipse((x - r, y - r, x + r, y + r), fill, **line)  # type: ignore[arg-type]

    def line(self, pen: ImageDraw.ImageDraw, points: list[Point], colour: tuple[int, ...], wide: float) -> None:
        """A line over the ground, `wide` voxels."""
        pen.line([self.spot(*p) for p in points], colour, max(round(wide * self.scale), 1))

    def polygon(
        self,
        pen: ImageDraw.ImageDraw,
        at: list[Point],
        shape: tuple[Point, ...],
        size: float,
        yaw: float,
        fill: tuple[int, ...],
        edge: tuple[int, ...] | None,
    ) -> None:
        """A shape of the body frame, x ahead, around a point."""
        c, s, (x, y) = math.cos(yaw), math.sin(yaw), at[0]
        corners = [self.spot(x + size * (c * a - s * b), y + size * (s * a + c * b)) for a, b in shape]
        pen.polygon(corners, fill, edge, max(round(0.13 * self.scale), 1))
