"""Importer of MegaMek's boards (`.board`): each hex becomes a square of ground columns.

A hex becomes a square with a side of `HEX_VOX` columns. Every second column of hexes lies half a square lower, as in
the game, so each square touches the six squares that its hex touches. The importer reads hexes in file order.
MegaMek does the same and ignores the numbers of hexes, which differ from the order in 3 of 1,123 boards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from echelon.rules.catalog import Material
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, expect
from echelon.scenarios.importers.ground import MATERIALS, MOST_VOXELS, ColumnSpan, Ground, ReadOptions

HEX_VOX = 4
"""Columns along a side of a hex's square."""
MOST_HEXES = 1 << 16
MOST_TERRAINS = 64
"""Terrains of a hex."""
MOST_BYTES = 1 << 23
"""Maximum size of a file in bytes. Parsed text takes many times this memory."""
LEVELS = 1 << 10
TOKEN = re.compile(r'"[^"\n]*"|[^\s"]+')
"""A word, or a quoted text."""
STANDS_FOR = {
    "woods": "foliage",
    "jungle": "foliage",
    "water": "water",
    "building": "solid",
    "fuel_tank": "solid",
    "heavy_industrial": "solid_debris",
    "bridge": "reinforced",
    "magma": "lava",
}
"""Material by terrain. Other terrains do not change the ground."""
ELEVATIONS = {"building": "bldg_elev", "bridge": "bridge_elev", "fuel_tank": "fuel_tank_elev", "woods": "foliage_elev"}
ELEVATIONS["jungle"] = "foliage_elev"
"""Name of the terrain that holds the height of another terrain."""

USUAL_HEIGHT = {"woods": 2, "jungle": 2}
HARD = 3
"""Lowest construction of a building that becomes reinforced: heavy (3) and hardened (4)."""


class Hex(NamedTuple):
    """A hex of the file."""

    level: int
    terrains: dict[str, int]


def read(path: Path, data: bytes, options: ReadOptions) -> Ground:
    """Return the ground of a MegaMek board. One level of the board is one voxel, and the lowest ground has height 0.

    Raises:
        FileError: if the file is not a board, its number of hexes does not match its size, or it is too large.
        ConfigError: if `--material` names a terrain that the board does not have.
    """
    name = path.name
    width, depth, hexes = parse(name, data, options)
    known = {terrain for each in hexes for terrain in each.terrains}
    for key in options.materials:
        limit = f"KEY=MATERIAL with a terrain of {name} as key: {', '.join(sorted(known))}"
        require(key in known, "--material", limit, key)
    bottoms = [ground_of(each) for each in hexes]
    base, ceiling = min(bottoms), max(each.level for each in hexes)
    expect(ceiling - base <= LEVELS, f"{name}: levels", f"at most {LEVELS}", ceiling - base)
    size_x, size_y = columns_of(width, depth)
    places, materials, total = [], [], 0
    for index, each in enumerate(hexes):
        x, y = place_of(index, width, size_y)
        for low, high, material in spans_of(each, base, options):
            total += max(high - low, 0) * HEX_VOX**2
            expect(total <= MOST_VOXELS, f"{name}: voxels", f"at most {MOST_VOXELS:,}", "more")
            block = np.indices((HEX_VOX, HEX_VOX, max(high - low, 0))).reshape(3, -1).T + np.array((x, y, low))
            places.append(block)
            materials.append(np.full(len(block), material, np.uint8))
    found = np.concatenate([*places, np.zeros((0, 3), np.int64)]).astype(np.int32)
    size = (size_x, size_y, int(found[:, 2].max(initial=0)) + 1)
    left_out = sorted(known - STANDS_FOR.keys() - set(ELEVATIONS.values()) - options.materials.keys())
    notes = (f"terrains left out: {', '.join(left_out)}",) if left_out else ()
    return Ground(name, size, found, np.concatenate([*materials, np.zeros(0, np.uint8)]), notes=notes, has_columns=True)


def columns_of(width: int, depth: int) -> tuple[int, int]:
    """Return the number of ground columns along x and y for a board of `width` x `depth` hexes."""
    return width * HEX_VOX, depth * HEX_VOX + (HEX_VOX // 2 if width > 1 else 0)


def parse(name: str, data: bytes, options: ReadOptions) -> tuple[int, int, list[Hex]]:
    """Return the width, the depth and the hexes of a board; hexes are row by row from the top, as in the file.

    The importer ignores the numbers of hexes (0102 is column 1, row 2), as MegaMek does.
    """
    expect(len(data) <= MOST_BYTES, f"{name}: bytes", f"at most {MOST_BYTES:,}", len(data))
    text = data.decode("utf-8", "replace")
    size: tuple[int, int] | None = None
    hexes: list[Hex] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = [word.strip('"') for word in TOKEN.findall(line)]
        if not words or words[0].startswith("#"):
            continue
        where = f"{name}: line {number}"
        if words[0].lower() == "size":
            expect(size is None, where, "the only size", line.strip())
            width, depth = integers(where, words[1:3], 2)
            expect(
                min(width, depth) >= 1 and width * depth <= MOST_HEXES, where, f"1..{MOST_HEXES} hexes", line.strip()
            )
            size = width, depth
            options.expect_fits(name, columns_of(width, depth))
        elif words[0].lower() == "hex":
            expect(size is not None, where, "a size before the first hex", line.strip())
            assert size is not None
            hexes.append(hex_of(where, words, len(hexes), size))
        elif words[0].lower() == "end":
            break
    if size is None:
        raise FileError(f"{name} must be a board of MegaMek with a line 'size WIDTH DEPTH', got none")
    expect(len(hexes) == size[0] * size[1], f"{name}: hexes", f"{size[0] * size[1]}: truncated?", len(hexes))
    return (*size, hexes)


def integers(where: str, words: list[str], count: int) -> tuple[int, ...]:
    """Check that there are `count` words and return them as integers."""
    is_valid = len(words) == count and all(re.fullmatch(r"-?\d{1,6}", word, re.ASCII) for word in words)
    expect(is_valid, where, f"{count} integers", words)
    return tuple(map(int, words))


def hex_of(where: str, words: list[str], index: int, size: tuple[int, int]) -> Hex:
    """Parse a line `hex CCRR LEVEL "TERRAIN:LEVEL;..." "THEME"` into a hex."""
    expect(len(words) >= 3, where, 'hex CCRR LEVEL "TERRAINS"', " ".join(words))
    expect(index < size[0] * size[1], where, f"at most {size[0] * size[1]} hexes", index + 1)
    (level,) = integers(where, words[2:3], 1)
    terrains: dict[str, int] = {}
    text = words[3] if len(words) > 3 else ""
    expect(text.count(";") <= MOST_TERRAINS, where, f"at most {MOST_TERRAINS} terrains", text.count(";"))
    for entry in filter(None, text.split(";")):
        parts = entry.split(":")
        terrain = parts[0].strip().lower()
        value = parts[1].strip() if len(parts) > 1 else "1"
        expect(re.fullmatch(r"-?\d{1,6}", value, re.ASCII) is not None, where, "terrains with a level", entry)
        terrains[terrain] = int(value)
    return Hex(level, terrains)


def ground_of(each: Hex) -> int:
    """Return the level of a hex's ground, which is below its water."""
    return each.level - max(each.terrains.get("water", 0), 0)


def place_of(index: int, width: int, size_y: int) -> tuple[int, int]:
    """Return column x, y of the lower left corner of the square of a hex.

    Row 0 is at the top. Every second column of hexes lies half a square lower.
    """
    column, row = index % width, index // width
    return column * HEX_VOX, size_y - (row + 1) * HEX_VOX - (HEX_VOX // 2 if column % 2 else 0)


def spans_of(each: Hex, base: int, options: ReadOptions) -> Iterator[ColumnSpan]:
    """Yield the voxel columns of a hex, with heights above the lowest ground of the board."""
    ground, surface = ground_of(each) - base, each.level - base
    yield ColumnSpan(0, ground, MATERIALS[options.material])
    if "water" in each.terrains:
        material, _ = material_of("water", options)
        yield ColumnSpan(ground, max(surface, ground + 1), material)
    for terrain, level in each.terrains.items():
        material, height = material_of(terrain, options)
        if terrain == "water" or material == Material.AIR:
            continue
        if terrain == "building" and terrain not in options.materials and level >= HARD:
            material = int(Material.REINFORCED)
        top = height or max(each.terrains.get(ELEVATIONS.get(terrain, ""), USUAL_HEIGHT.get(terrain, 1)), 0)
        if terrain == "bridge":
            yield ColumnSpan(surface + max(top - 1, 0), surface + max(top, 1), material)
        elif material == Material.LAVA:
            # Lava replaces the top voxel of the ground, because a mech must stand in lava to be burned.
            yield ColumnSpan(max(surface - 1, 0), max(surface, 1), material)
        else:
            yield ColumnSpan(surface, surface + top, material)


def material_of(terrain: str, options: ReadOptions) -> tuple[int, int]:
    """Return the material and the height of a terrain.

    Height 0 means the height in the file. Material air means that the terrain does not change the ground.
    """
    name, height = options.materials.get(terrain, (STANDS_FOR.get(terrain, "air"), 0))
    return MATERIALS[name], height
