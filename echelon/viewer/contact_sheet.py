"""Contact sheets: top-down pictures of many maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.runtime.files import atomic_write
from echelon.viewer.paper import DPI, SMALL_PT, TEXT_PT, WIDTH_IN, blank, colour, paper_style, save
from echelon.viewer.topdown import GOLD, TEAM, shade

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS, ROWS = 4, 5
"""Maps per sheet, which has the size of a page."""
GAP_IN, CAPTION_IN = 0.08, 0.2


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
    parts: Sequence[tuple[float, float, str]] = ()
    """x, y of the centre of every named area of the map, and its name."""


@paper_style()
def draw_contact_sheet(tiles: Sequence[Tile], materials: list[str], path: Path) -> list[Path]:
    """Draw maps side by side, on as many sheets as needed: the pages of one PDF, or numbered PNG or SVG files.

    Returns:
        The paths of the files.
    """
    capacity = COLUMNS * ROWS
    sheets = [sheet_figure(tiles[start : start + capacity], materials) for start in range(0, len(tiles), capacity)]
    if path.suffix.lower() == ".pdf":
        from matplotlib.backends.backend_pdf import PdfPages

        with atomic_write(path) as draft, PdfPages(draft) as pages:
            for sheet in sheets:
                pages.savefig(sheet, dpi=DPI)
        return [path]
    numbered = [path.with_stem(f"{path.stem}_{number}") for number in range(1, len(sheets) + 1)]
    paths = numbered if len(sheets) > 1 else [path]
    for sheet, sheet_path in zip(sheets, paths, strict=True):
        save(sheet, sheet_path)
    return paths


def sheet_figure(tiles: Sequence[Tile], materials: list[str]) -> Figure:
    side = (WIDTH_IN - GAP_IN * (COLUMNS + 1)) / COLUMNS
    row = CAPTION_IN + side + GAP_IN
    height = -(-len(tiles) // COLUMNS) * row
    figure = blank(WIDTH_IN, height, layout=None)
    for number, tile in enumerate(tiles):
        left = GAP_IN + number % COLUMNS * (side + GAP_IN)
        top = height - number // COLUMNS * row
        figure.text(left / WIDTH_IN, (top - 0.06) / height, tile.caption, va="top", fontsize=TEXT_PT)
        size_y, size_x = tile.ground.shape[1:]
        map_width, map_height = side * size_x / max(size_x, size_y), side * size_y / max(size_x, size_y)
        box = (left / WIDTH_IN, (top - CAPTION_IN - map_height) / height, map_width / WIDTH_IN, map_height / height)
        draw_map(figure.add_axes(box), tile, materials)
    return figure


def draw_map(axis: Any, tile: Tile, materials: list[str]) -> None:
    """Draw one map, +y up."""
    from matplotlib.patches import Circle
    from matplotlib.patheffects import withStroke

    size_y, size_x = tile.ground.shape[1:]
    axis.set_axis_off()
    axis.imshow(shade(tile.ground, materials)[::-1], extent=(0, size_x, 0, size_y), interpolation="none")
    if tile.zone is not None:
        x, y, radius = tile.zone
        axis.add_patch(Circle((x, y), radius, fill=False, linewidth=1.4, color=colour(GOLD)))
    for x, y, team in tile.spawns:
        style = {"facecolor": colour(TEAM[team]), "edgecolor": "white", "linewidth": 0.5}
        axis.add_patch(Circle((x, y), max(1.0, size_x / 45), **style))
    for x, y, name in tile.parts:
        text_style = {"ha": "center", "va": "center", "fontsize": SMALL_PT, "linespacing": 0.95}
        axis.text(
            x, y, name.replace(" ", "\n"), path_effects=[withStroke(linewidth=1.6, foreground="white")], **text_style
        )
    axis.set_xlim(0, size_x)
    axis.set_ylim(0, size_y)
