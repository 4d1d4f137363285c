"""A sheet of maps from above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from echelon.plan.caption import font
from echelon.plan.ground import shade
from echelon.plan.palette import GOLD, TEAM, WHITE
from echelon.runtime.files import replacing

TILE, GAP, CAPTION = 300, 14, 26
PAPER, INK = (250, 249, 246), (40, 44, 52)


@dataclass(frozen=True)
class Tile:
    """One map of the sheet."""

    caption: str
    ground: np.ndarray
    """[Z, Y, X] uint8 materials."""
    zone: tuple[float, float, float] | None = None
    """x, y and radius, vox."""
    spawns: Sequence[tuple[float, float, int]] = ()
    """x, y and team (0 blue, 1 red) of every mech."""


def draw_contact_sheet(tiles: Sequence[Tile], materials: list[str], path: Path, columns: int = 4) -> None:
    """Draw maps side by side into a PNG.

    Args:
        materials: the name of each material by its number.
    """
    rows = -(-len(tiles) // columns)
    sheet = Image.new("RGB", (columns * (TILE + GAP) + GAP, rows * (TILE + CAPTION + GAP) + GAP), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, tile in enumerate(tiles):
        left = GAP + number % columns * (TILE + GAP)
        top = GAP + number // columns * (TILE + CAPTION + GAP)
        pen.text((left, top), tile.caption, INK, font(17))
        sheet.paste(draw_map(tile, materials), (left, top + CAPTION))
    with replacing(path) as draft:
        sheet.save(draft, format="PNG", optimize=True)


def draw_map(tile: Tile, materials: list[str]) -> Image.Image:
    """One map, +y up."""
    size_y, size_x = tile.ground.shape[1:]
    scale = TILE / max(size_x, size_y)
    size = (round(size_x * scale), round(size_y * scale))
    picture = Image.fromarray(shade(tile.ground, materials)[::-1]).resize(size, Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(picture)

    def circle(x: float, y: float, radius: float) -> tuple[float, float, float, float]:
        sides = (x - radius, size_y - y - radius, x + radius, size_y - y + radius)
        west, north, east, south = (side * scale for side in sides)
        return west, north, east, south

    if tile.zone is not None:
        pen.ellipse(circle(*tile.zone), outline=GOLD, width=3)
    for x, y, team in tile.spawns:
        pen.ellipse(circle(x, y, 1.2), fill=TEAM[team], outline=WHITE)
    return picture
