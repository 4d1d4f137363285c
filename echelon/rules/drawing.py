"""Ground drawn as rows of text: layers, seen from above, whose characters stand for boxes of voxels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from echelon.rules.config_json import typed
from echelon.rules.limits import LARGEST_MAP_VOX
from echelon.rules.position import Box
from echelon.runtime.errors import ConfigError, require

NOTHING = ". "
"""Characters that leave the ground as it is."""


@dataclass(frozen=True)
class Mark:
    """What a character of a drawing stands for."""

    material: str = "solid"
    """As in `Box`."""
    height: int = 4
    """Of its voxels above the underside of their layer, vox."""


LEGEND: Mapping[str, Mark] = {"#": Mark(), "=": Mark("reinforced"), "*": Mark("foliage"), "~": Mark("water", 1)}
"""What characters stand for where a legend does not say otherwise."""


@dataclass(frozen=True)
class Layer:
    """A drawing."""

    rows: tuple[str, ...]
    """Of equal length, the upper one first, as on a map: a character is a column of voxels."""
    low: tuple[int, ...] = (0, 0)
    """Column x, y of the lower left character."""
    bottom: int = 0
    """Height of the underside of its voxels, vox."""


def boxes_of(layer: Layer, legend: Mapping[str, Mark], where: str) -> list[Box]:
    """The boxes that a drawing stands for: the longest runs of a character, those of rows above each other in one.

    Raises:
        ConfigError: naming the row that is not as long as the first one or holds a character of no meaning.
    """
    require(len(layer.low) == 2, f"{where}.low", "x, y", layer.low)
    require(1 <= len(layer.rows) <= LARGEST_MAP_VOX, f"{where}.rows", f"1..{LARGEST_MAP_VOX} rows", len(layer.rows))
    width, marks = len(layer.rows[0]), {**LEGEND, **legend}
    runs: dict[tuple[int, int, str], list[int]] = {}
    boxes = []
    for i, row in enumerate(layer.rows):
        spot, y, start = f"{where}.rows[{i}]", layer.low[1] + len(layer.rows) - 1 - i, layer.low[0]
        require(len(row) == width, spot, f"{width} characters long, as the first row", len(row))
        above, runs = runs, {}
        for char, group in groupby(row):
            run = (start, start + len(list(group)), char)
            start = run[1]
            if char in marks:
                runs[run] = rows = above.get(run, [y, y])
                if rows[0] == y:
                    boxes.append((run, rows))
                rows[0] = y
            else:
                require(char in NOTHING, spot, f"of {''.join(sorted({*marks, *NOTHING}))!r}", char)
    return [
        Box((x0, y0, layer.bottom), (x1, y1 + 1, layer.bottom + marks[char].height), marks[char].material)
        for (x0, x1, char), (y0, y1) in boxes
    ]


def boxes_from_json(layers: Any, legend: Any, where: str) -> tuple[Box, ...]:
    """The boxes that the drawings of a scenario's file stand for.

    Args:
        layers: a list of objects with the fields of `Layer`.
        legend: an object of objects with the fields of `Mark`, by character.

    Raises:
        ConfigError: naming the field that is unknown, missing, of another type or outside its limits.
    """
    marks = typed(Mapping[str, Mark], legend, f"{where}.legend")
    for char in marks:
        require(len(char) == 1, f"{where}.legend", "by single characters", char)
    boxes: list[Box] = []
    for i, layer in enumerate(typed(tuple[Layer, ...], layers, f"{where}.layers")):
        spot = f"{where}.layers[{i}]"
        try:
            boxes += boxes_of(layer, marks, spot)
        except ConfigError as error:
            raise ConfigError(str(error) if str(error).startswith(spot) else f"{spot}: {error}") from None
    return tuple(boxes)
