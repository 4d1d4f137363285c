"""Map files of other programs' formats, written byte by byte, for tests of importers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

Voxel = tuple[int, int, int, int]
"""x, y, z, index of a colour."""


def chunk(kind: str, content: bytes = b"", children: bytes = b"") -> bytes:
    """A chunk of a .vox file."""
    return kind.encode() + struct.pack("<ii", len(content), len(children)) + content + children


def text(words: str) -> bytes:
    return struct.pack("<i", len(words)) + words.encode()


def attributes(values: Mapping[str, str]) -> bytes:
    """A DICT of a .vox file."""
    return struct.pack("<i", len(values)) + b"".join(text(key) + text(value) for key, value in values.items())


def model(size: Sequence[int], voxels: Sequence[Voxel]) -> bytes:
    """The chunks SIZE and XYZI of a model."""
    content = struct.pack("<i", len(voxels)) + b"".join(bytes(voxel) for voxel in voxels)
    return chunk("SIZE", struct.pack("<iii", *size)) + chunk("XYZI", content)


def transform(
    node: int,
    child: int,
    frames: Sequence[Mapping[str, str]] = ({},),
    layer: int = -1,
    own: Mapping[str, str] | None = None,
) -> bytes:
    """A chunk nTRN."""
    content = struct.pack("<i", node) + attributes(own or {}) + struct.pack("<iiii", child, -1, layer, len(frames))
    return chunk("nTRN", content + b"".join(map(attributes, frames)))


def group(node: int, children: Sequence[int]) -> bytes:
    """A chunk nGRP."""
    content = struct.pack("<i", node) + attributes({}) + struct.pack("<i", len(children))
    return chunk("nGRP", content + struct.pack(f"<{len(children)}i", *children))


def shape(node: int, *models: int) -> bytes:
    """A chunk nSHP."""
    content = struct.pack("<i", node) + attributes({}) + struct.pack("<i", len(models))
    return chunk("nSHP", content + b"".join(struct.pack("<i", each) + attributes({}) for each in models))


def layer(number: int, own: Mapping[str, str]) -> bytes:
    """A chunk LAYR."""
    return chunk("LAYR", struct.pack("<i", number) + attributes(own) + struct.pack("<i", -1))


def vox(*chunks: bytes, version: int = 200) -> bytes:
    """A .vox file."""
    return b"VOX " + struct.pack("<i", version) + chunk("MAIN", b"", b"".join(chunks))


def hills(side: int = 64) -> np.ndarray:
    """`[Y, X]` float64: two smooth hills of different heights, row 0 at the top."""
    y, x = np.indices((side, side)) / side
    return 200 * np.exp(-(((x - 0.4) ** 2 + (y - 0.25) ** 2) * 40)) + 120 * np.exp(
        -(((x - 0.6) ** 2 + (y - 0.8) ** 2) * 30)
    )


def tmx(layers: str, width: int = 40, height: int = 40, more: str = "", orientation: str = "orthogonal") -> str:
    """A .tmx file with tiles of 16 pixels."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<map version="1.10" orientation="{orientation}" '
        f'renderorder="left-up" '
        f'width="{width}" height="{height}" tilewidth="16" tileheight="16" infinite="0">{more}{layers}</map>'
    )


def csv_layer(name: str, rows: np.ndarray, properties: str = "", more: str = "") -> str:
    """A layer of a .tmx file."""
    numbers = ",".join(str(number) for number in rows.reshape(-1).tolist())
    own = f"<properties>{properties}</properties>" if properties else ""
    return (
        f'<layer id="1" name="{name}" width="{rows.shape[1]}" height="{rows.shape[0]}" {more}>{own}'
        f'<data encoding="csv">{numbers}</data></layer>'
    )


def board(levels: Sequence[Sequence[int]], terrains: Mapping[tuple[int, int], str] | None = None) -> str:
    """A .board file of hexes by row; terrains by column and row from 0."""
    width, terrains = len(levels[0]), terrains or {}
    lines = [f"size {width} {len(levels)}"]
    for row, line in enumerate(levels):
        for column, level in enumerate(line):
            lines.append(f'hex {column + 1:02}{row + 1:02} {level} "{terrains.get((column, row), "")}" "grass"')
    return "\n".join([*lines, "end", ""])


def write_examples(folder: Path) -> None:
    """The map files that `docs/MAPS.md` names, small ones of each format."""
    from PIL import Image

    heights = hills()
    Image.fromarray((heights / heights.max() * 65535).astype(np.uint16)).save(folder / "hills.png")
    np.save(folder / "hills.npy", heights)
    tile = np.tile(heights, (2, 2)).astype(">i2")[:96, :96]
    (folder / "N44W072.hgt").write_bytes(tile.tobytes())
    walls = [
        (x, y, z, 5 if z < 3 else 9) for x in range(8) for y in range(8) for z in range(6) if x in (0, 7) or y == 0
    ]
    (folder / "town.vox").write_bytes(vox(model((8, 8, 6), walls)))
    rows = np.zeros((40, 40), int)
    rows[10:30, 18:20] = 1
    rows[18:22, 18:20] = 0
    (folder / "forest.tmx").write_text(tmx(csv_layer("walls", rows)))
    levels = [[1 if 3 <= column <= 5 and 3 <= row <= 8 else 0 for column in range(12)] for row in range(12)]
    (folder / "rivervalley.board").write_text(board(levels, {(8, 4): "woods:1", (8, 5): "water:1"}))
