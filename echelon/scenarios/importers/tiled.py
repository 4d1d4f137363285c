"""Importer of Tiled's orthogonal maps (`.tmx`, `.tmj`): tiles become columns, objects columns, mechs or the zone.

A tile's column is defined by the properties `material`, `height` and `bottom` of the tile or of its layer, or by
`--material` for its layer or its class. A tile without a material does not change the ground.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from echelon.rules.catalog import HULLS
from echelon.rules.position import TEAMS, Unit
from echelon.runtime.errors import require
from echelon.runtime.files import as_file_error, expect
from echelon.scenarios.importers.ground import (
    HIGHEST,
    MATERIALS,
    MOST_VOXELS,
    ColumnSpan,
    Ground,
    ReadOptions,
    column_voxels,
)
from echelon.scenarios.importers.tiled_file import (
    TILE_BITS,
    Values,
    check_cells,
    class_of,
    named_properties,
    read_document,
    read_tilesets,
    real,
    rows_of,
    tile_numbers,
    whole,
)

WALL_VOX, FLOOR_VOX = 4, 1
"""Default height of a column: of solid materials and foliage, and of materials that mechs stand in."""
FLOORS = ("dirt", "lava", "water", "debris_field")
WALLS = ("solid", "collides", "blocked")
"""Properties of type bool that mean a wall of the default material."""
WIDEST = 1 << 13
BLOCK_TILES = 1 << 20
"""Tiles of a layer that are read at a time."""
FACING = {"blue": 0.0, "red": 180.0}


class TiledLayer(NamedTuple):
    """A visible layer. The offsets of the groups that contain the layer are added to its offset."""

    where: str
    values: Values
    offset: tuple[float, float]
    """Right and down, pixels."""


@dataclass
class TiledGrid:
    """The voxels of a map while its layers are read."""

    name: str
    size: tuple[int, int]
    """Tiles along x and y."""
    origin: tuple[int, int]
    """Tile x, y (downwards) of the upper left corner."""
    pixels: tuple[int, int]
    """Size of a tile."""
    top: np.ndarray = field(init=False)
    """`[2, Y, X]` uint8: height and material of the last column in each place, row 0 at the top."""
    raised: list[np.ndarray] = field(default_factory=list)
    """`[K, 4]` int32 x, y, z, material of columns that stand above the floor."""
    raised_voxels: int = 0
    units: list[Unit] = field(default_factory=list)
    zone: tuple[float, ...] = ()
    left_out: int = 0

    def __post_init__(self) -> None:
        self.top = np.zeros((2, self.size[1], self.size[0]), np.uint8)

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Convert a position in pixels (y down) to column x, y of the ground (y up)."""
        return x / self.pixels[0] - self.origin[0], self.size[1] - (y / self.pixels[1] - self.origin[1])

    def add(self, row: np.ndarray, x: np.ndarray, columns: np.ndarray) -> None:
        """Put columns into the grid: a column on the floor replaces the present one; a raised column is added above it.

        Args:
            row: `[K]`.
            x: `[K]`.
            columns: bottom, top and material of each column, `[K, 3]` uint8.

        Raises:
            FileError: if there are too many voxels.
        """
        bottom, top, material = columns.T
        on_floor = bottom == 0
        self.top[:, row[on_floor], x[on_floor]] = top[on_floor], material[on_floor]
        raised = np.flatnonzero(~on_floor)
        counts = (top - bottom)[raised].astype(np.int64)
        self.raised_voxels += int(counts.sum())
        expect(self.raised_voxels <= MOST_VOXELS, f"{self.name}: voxels", f"at most {MOST_VOXELS:,}", "more")
        index = np.repeat(raised, counts)
        z = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts) + bottom[index]
        voxels = x[index], self.size[1] - 1 - row[index], z, material[index]
        self.raised.append(np.stack(voxels, 1).astype(np.int32))

    def fill(self, rows: slice, x: slice, column: ColumnSpan) -> None:
        """Put the same column into each place of a rectangle."""
        if column.bottom == 0:
            self.top[0, rows, x], self.top[1, rows, x] = column.top, column.material
            return
        row, across = np.mgrid[rows, x].reshape(2, -1)
        self.add(row, across, np.broadcast_to(np.array(column, np.uint8), (len(row), 3)))


def read(path: Path, data: bytes, options: ReadOptions) -> Ground:
    """The ground of a map. Row 0 of the map is the north; where several layers overlap, the last visible one counts.

    Raises:
        FileError: if the map is not orthogonal, too large or invalid, or if nothing defines the material of its tiles.
        ConfigError: if a key of `--material` is neither a layer nor a class.
    """
    name = path.name
    document = read_document(name, data, path.suffix.lower() == ".tmx")
    orientation = document.get("orientation")
    line = "orthogonal: cells of other maps are not squares in rows"
    expect(orientation == "orthogonal", f"{name}: orientation", line, orientation)
    pixels = whole(name, document, "tilewidth", 1, 4096), whole(name, document, "tileheight", 1, 4096)
    layers = list(visible_layers(name, rows_of(name, document, "layers"), (0.0, 0.0)))
    tiles = tiles_of(name, read_tilesets(path, document, len(data)))
    check_keys(name, layers, tiles, options)
    origin, size = extent(name, document, layers)
    options.expect_fits(name, size)
    sheet = TiledGrid(name, size, origin, pixels)
    total = 0
    for layer in layers:
        if layer.values.get("type") == "tilelayer":
            for rows, columns, numbers in parts_of(sheet, layer):
                total += numbers.size
                check_cells(name, total)
                add_tiles(sheet, layer, (rows, columns), numbers, tiles, options)
        elif layer.values.get("type") == "objectgroup":
            for each in rows_of(layer.where, layer.values, "objects"):
                add_object(sheet, layer, each, tiles, options)
    return ground_of(sheet, layers, options)


def ground_of(sheet: TiledGrid, layers: list[TiledLayer], options: ReadOptions) -> Ground:
    """Return the ground from the grid that holds all layers.

    Columns outside of the crop rectangle are removed before they become voxels.
    """
    heights, materials = sheet.top[:, ::-1]
    is_empty = not heights.any() and not sheet.raised_voxels
    named = ", ".join(str(layer.values.get("name", "")) for layer in layers)[:300]
    hint = f"property material or height, or --material LAYER=solid, for one of the layers: {named}"
    expect(not is_empty, f"{sheet.name}: tiles", f"of known material, by a {hint}", "none")
    if options.crop:
        cropped = np.zeros_like(heights)
        cropped[options.crop.slices] = heights[options.crop.slices]
        heights = cropped
    count = int(heights.sum(dtype=np.int64))
    expect(count <= MOST_VOXELS, f"{sheet.name}: voxels", f"at most {MOST_VOXELS:,}: --crop", count)
    places, index = column_voxels(heights)
    standing = np.column_stack((places, materials.reshape(-1)[index].astype(np.int32)))
    voxels = np.concatenate((standing, *sheet.raised))
    size = (*sheet.size, int(voxels[:, 2].max(initial=0)) + 1)
    notes = (f"{sheet.left_out} objects left out: of no hull, zone or material",) if sheet.left_out else ()
    return Ground(
        sheet.name, size, voxels[:, :3], voxels[:, 3].astype(np.uint8), tuple(sheet.units), sheet.zone, notes, True
    )


def visible_layers(name: str, rows: list[Values], offset: tuple[float, float], depth: int = 0) -> Iterator[TiledLayer]:
    """Yield the visible layers in order, including the layers of visible groups."""
    expect(depth <= 32, f"{name}: groups of layers", "at most 32 levels deep", depth)
    for values in rows:
        if values.get("visible", True) in (False, 0):
            continue
        where = f"{name}: layer {values.get('name', '')!r}"
        own = (offset[0] + real(where, values, "offsetx"), offset[1] + real(where, values, "offsety"))
        if values.get("type") == "group":
            yield from visible_layers(name, rows_of(where, values, "layers"), own, depth + 1)
        else:
            yield TiledLayer(where, values, own)


def tiles_of(name: str, tilesets: list[Values]) -> dict[int, tuple[str, Values]]:
    """Return class and properties of tiles, keyed by their number on the map.

    A tile number belongs to the last tileset whose first number is at most this number.
    """
    found = {}
    ends = [*(each["firstgid"] for each in tilesets), TILE_BITS + 1]
    for each, end in zip(tilesets, ends[1:], strict=True):
        for tile in rows_of(name, each, "tiles"):
            number = int(each["firstgid"]) + whole(f"{name}: tile", tile, "id", 0, TILE_BITS)
            if number < end:
                found[number] = (class_of(tile), named_properties(name, tile))
    return found


def check_keys(name: str, layers: list[TiledLayer], tiles: dict[int, tuple[str, Values]], options: ReadOptions) -> None:
    """Raise `ConfigError` for a key of `--material` that is neither a visible layer nor a class of tiles."""
    names = {str(layer.values.get("name", "")) for layer in layers} | {kind for kind, _ in tiles.values()} - {""}
    for key in options.materials:
        limit = f"KEY=MATERIAL with a layer or a class of {name} as key: {', '.join(sorted(names))}"
        require(key in names, "--material", limit, key)


def extent(name: str, document: Values, layers: list[TiledLayer]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return tile x, y of the map's upper left corner, and its size in tiles.

    For an infinite map these are the bounds of its chunks.
    """
    chunks = [each for layer in layers for each in rows_of(layer.where, layer.values, "chunks")]
    if chunks:
        spans = [chunk_span(name, each) for each in chunks]
        low = min(span[0] for span in spans), min(span[1] for span in spans)
        high = max(span[0] + span[2] for span in spans), max(span[1] + span[3] for span in spans)
    else:
        low = (0, 0)
        high = whole(name, document, "width", 1, 1 << 20), whole(name, document, "height", 1, 1 << 20)
    size = high[0] - low[0], high[1] - low[1]
    expect(max(size) <= WIDEST, f"{name}: map", f"at most {WIDEST} tiles a side", f"{size[0]} x {size[1]}")
    check_cells(name, size[0] * size[1])
    return low, size


def chunk_span(where: str, chunk: Values) -> tuple[int, int, int, int]:
    """Return tile x, y of a chunk's upper left corner, and the chunk's width and height in tiles."""
    x, y = (whole(f"{where}: chunk", chunk, key, -(1 << 24), 1 << 24) for key in "xy")
    width, height = (whole(f"{where}: chunk", chunk, key, 1, WIDEST) for key in ("width", "height"))
    return x, y, width, height


def parts_of(sheet: TiledGrid, layer: TiledLayer) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield each part (chunk) of a layer: row and column of its upper left tile on the grid, and its tiles `[Y, X]`."""
    values, where = layer.values, layer.where
    encoding, compression = (str(values.get(key, "")) for key in ("encoding", "compression"))
    encoding = encoding or "csv"
    if "chunks" in values:
        for chunk in rows_of(where, values, "chunks"):
            x, y, width, height = chunk_span(where, chunk)
            check_cells(where, width * height)
            numbers = tile_numbers(where, chunk.get("data"), encoding, compression, (height, width))
            yield y - sheet.origin[1], x - sheet.origin[0], numbers
    elif "data" in values:
        width = whole(where, values, "width", 1, WIDEST, sheet.size[0])
        height = whole(where, values, "height", 1, WIDEST, sheet.size[1])
        check_cells(where, width * height)
        yield 0, 0, tile_numbers(where, values["data"], encoding, compression, (height, width))


def add_tiles(
    sheet: TiledGrid,
    layer: TiledLayer,
    corner: tuple[int, int],
    numbers: np.ndarray,
    tiles: dict[int, tuple[str, Values]],
    options: ReadOptions,
) -> None:
    """Put the tiles of a layer that have a material into the grid, a block of rows at a time."""
    known = np.array(sorted(tiles), np.uint32)
    columns = np.zeros((len(known) + 1, 3), np.uint8)  # bottom, top, material; the last row is for all other tiles
    has_column, is_resolved = np.zeros((2, len(known) + 1), bool)
    step = max(BLOCK_TILES // numbers.shape[1], 1)
    for first in range(0, len(numbers), step):
        row, x = np.nonzero(numbers[first : first + step])
        found = numbers[row + first, x]
        index = np.searchsorted(known, found)
        index[~np.isin(found, known)] = len(known)
        for each in np.unique(index[~is_resolved[index]]).tolist():
            column = column_of_tile(layer, int(known[each]) if each < len(known) else 0, tiles, options)
            is_resolved[each], has_column[each] = True, column is not None
            columns[each] = column or 0
        shift_x, shift_y = shift_of(sheet, layer) if has_column[index].any() else (0, 0)
        row, x = row + first + corner[0] + shift_y, x + corner[1] + shift_x
        inside = (row >= 0) & (row < sheet.size[1]) & (x >= 0) & (x < sheet.size[0]) & has_column[index]
        sheet.add(row[inside], x[inside], columns[index[inside]])


def column_of_tile(
    layer: TiledLayer, number: int, tiles: dict[int, tuple[str, Values]], options: ReadOptions
) -> ColumnSpan | None:
    """Return the voxel column for a tile; None if the tile does not change the ground."""
    kind, properties = tiles.get(number, ("", {}))
    return (
        column_by_name(kind, options)
        or column_by_properties(f"{layer.where}: tile {number}", properties, options)
        or column_by_name(str(layer.values.get("name", "")), options)
        or column_by_properties(layer.where, named_properties(layer.where, layer.values), options)
    )


def shift_of(sheet: TiledGrid, layer: TiledLayer) -> tuple[int, int]:
    """Return the offset of a layer in tiles, to the right and down."""
    x, y = (layer.offset[axis] / sheet.pixels[axis] for axis in (0, 1))
    is_whole = x == int(x) and y == int(y)
    expect(is_whole, f"{layer.where}: offset", f"a multiple of the tiles, {sheet.pixels} pixels", layer.offset)
    return int(x), int(y)


def column_by_name(name: str, options: ReadOptions) -> ColumnSpan | None:
    """Return the column that `--material` defines for a layer or a class; None if it defines none."""
    if name not in options.materials:
        return None
    material, height = options.materials[name]
    return ColumnSpan(0, height or usual_height(material), MATERIALS[material])


def column_by_properties(where: str, properties: Values, options: ReadOptions) -> ColumnSpan | None:
    """Return the column that the properties of a tile, a layer or an object define; None if they define none."""
    is_wall = any(properties.get(key) is True for key in WALLS)
    if "material" not in properties and "height" not in properties and not is_wall:
        return None
    material = properties.get("material", options.material)
    expect(material in MATERIALS, f"{where}: material", f"one of {', '.join(MATERIALS)}", material)
    height = whole(where, properties, "height", 0, HIGHEST, usual_height(material))
    bottom = whole(where, properties, "bottom", 0, HIGHEST, 0)
    expect(bottom + height <= HIGHEST, f"{where}: bottom and height", f"at most {HIGHEST} vox", bottom + height)
    return ColumnSpan(bottom, bottom + height, MATERIALS[material])


def usual_height(material: str) -> int:
    return FLOOR_VOX if material in FLOORS else WALL_VOX


def add_object(
    sheet: TiledGrid, layer: TiledLayer, values: Values, tiles: dict[int, Any], options: ReadOptions
) -> None:
    """Put an object into the grid: a mech with its hull, the zone, or a rectangle of a material."""
    where = f"{layer.where}: object {values.get('name') or values.get('id', '')!r}"
    if values.get("visible", True) in (False, 0):
        return
    properties = named_properties(where, values)
    number = whole(where, values, "gid", 0, (1 << 32) - 1, 0) & TILE_BITS
    kind, of_tile = tiles.get(number, ("", {})) if number else ("", {})
    kind, properties = class_of(values) or kind, {**of_tile, **properties}
    left, top = real(where, values, "x") + layer.offset[0], real(where, values, "y") + layer.offset[1]
    width, height = real(where, values, "width"), real(where, values, "height")
    if number:  # the place of a tile is its lower left corner, that of other objects the upper left one
        top -= height
    hull = str(properties.get("hull", kind)).lower()
    if hull in HULLS:
        sheet.units.append(unit_of(sheet, layer, where, values, hull, (left, top, width, height), properties))
    elif kind.lower() == "zone":
        center = sheet.point(left + width / 2, top + height / 2)
        sheet.zone = (*center, min(width / sheet.pixels[0], height / sheet.pixels[1]) / 2)
    else:
        named = {**properties, "material": kind.lower()} if kind.lower() in MATERIALS else properties
        column = column_by_properties(where, named, options)
        if column is None or width <= 0 or height <= 0:
            sheet.left_out += 1
            return
        (low_x, high_y), (high_x, low_y) = sheet.point(left, top), sheet.point(left + width, top + height)
        first_x, end_x = centres_between(low_x, high_x, sheet.size[0])
        first_y, end_y = centres_between(low_y, high_y, sheet.size[1])
        sheet.fill(slice(sheet.size[1] - end_y, sheet.size[1] - first_y), slice(first_x, end_x), column)


def centres_between(low: float, high: float, count: int) -> tuple[int, int]:
    """Return the first column of 0..`count` whose centre is between `low` and `high`, and the end after the last."""
    first = min(max(math.floor(low + 0.5), 0), count)
    return first, min(max(math.ceil(high - 0.5), first), count)


def unit_of(
    sheet: TiledGrid,
    layer: TiledLayer,
    where: str,
    values: Values,
    hull: str,
    frame: tuple[float, float, float, float],
    properties: Values,
) -> Unit:
    """Return the mech of an object.

    A rectangle is the area in which the mech starts; for a point or a tile, the mech starts at its centre.
    """
    left, top, width, height = frame
    words = (properties.get("team"), layer.values.get("name"), values.get("name"))
    team = next((team for word in words for team in TEAMS if str(word or "").lower().startswith(team)), None)
    expect(team is not None, where, "of a team: property team, or a layer or name that begins with blue or red", words)
    facing = real(where, properties, "facing_deg", FACING[str(team)])
    is_area = width > 0 and height > 0 and not values.get("gid")
    with as_file_error(where):
        if is_area:
            (low_x, high_y), (high_x, low_y) = sheet.point(left, top), sheet.point(left + width, top + height)
            return Unit(str(team), hull, facing_deg=facing, area=(low_x, low_y, high_x, high_y))  # type: ignore[arg-type]
        x, y = sheet.point(left + width / 2, top + height / 2)
        return Unit(str(team), hull, x, y, facing_deg=facing)  # type: ignore[arg-type]
