"""Importer of heightmaps in GeoTIFF, with the package tifffile (the extra `maps`).

LZW and some predictors also need the package imagecodecs. The nodata value in a file may be rounded, such as `-3.4e38`.
"""

from __future__ import annotations

import io
import logging
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from echelon.runtime.errors import ConfigError, missing_package
from echelon.runtime.files import FileError, expect
from echelon.scenarios.importers.ground import Heights, ReadOptions
from echelon.scenarios.importers.heightmap import expect_cells, expect_finite

SCALE, TRANSFORM, NODATA, METADATA = 33550, 34264, 42113, 42112
"""Numbers of tags: ModelPixelScale, ModelTransformation, GDAL_NODATA, GDAL_METADATA."""

COMPRESSIONS = {1: "none", 5: "LZW", 8: "deflate", 32946: "deflate", 32773: "PackBits"}
"""Compressions that are read: imagecodecs expands LZW and PackBits to the size of a block at most."""
PIECE_BYTES = 1 << 20


def read(path: Path, data: bytes, options: ReadOptions) -> Heights:
    """Return the only band of a GeoTIFF: row 0 is the south, and samples without data are NaN.

    tifffile returns raw numbers. This function applies the row direction, the nodata value and the sign of the height
    scale.

    Raises:
        FileError: if the package is missing, or the file is truncated, too large, rotated, or has several bands.
    """
    name = path.name
    try:
        import tifffile
    except ImportError:
        raise FileError(f"{name}: {missing_package('to read GeoTIFF', 'tifffile', 'maps')}") from None
    expect(data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), name, "a TIFF file", data[:4])
    logging.getLogger("tifffile").addHandler(logging.NullHandler())
    logging.getLogger("tifffile").propagate = False
    try:
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            page: Any = file.pages[0]
            raw = raw_samples(name, page, data, options)
            tags = {
                number: page.tags[number].value
                for number in (SCALE, TRANSFORM, NODATA, METADATA)
                if number in page.tags
            }
    except (FileError, ConfigError):
        raise
    except Exception as error:  # tifffile raises errors of many types for an invalid file
        raise FileError(f"{name}: not a TIFF that can be read: {error}") from None
    flip_rows, flip_columns = directions(name, tags)
    values = raw.astype(np.float64)
    is_void = is_nodata(name, values, tags.get(NODATA))
    expect_finite(name, np.where(is_void, 0, values))
    sign = -1.0 if scale_of(tags.get(METADATA)) < 0 else 1.0
    heights = np.where(is_void, np.nan, values * sign).astype(np.float32)
    # Row 0 of the file is the north unless its transform says otherwise.
    heights = heights if flip_rows else heights[::-1]
    return Heights(name, heights[:, ::-1] if flip_columns else heights, options)


def raw_samples(name: str, page: Any, data: bytes, options: ReadOptions) -> np.ndarray:
    """Return the samples `[Y, X]` of a page of the TIFF file.

    All sizes are checked before tifffile decodes the page.
    """
    bands, count = int(page.samplesperpixel), math.prod(page.shape)
    rows, columns = int(page.imagelength), int(page.imagewidth)
    expect(bands == 1, f"{name}: bands", "one, of heights", bands)
    expect_cells(name, rows, columns, options)
    expect(count == rows * columns, f"{name}: samples", f"{columns} x {rows}", page.shape)
    kind = page.dtype
    expect(kind is not None and kind.kind in "buif", f"{name}: type of samples", "a real number", str(kind))
    # A tile or strip is decoded whole: what it holds must not be more than the picture by far.
    block = int(page.tilewidth or columns) * int(page.tilelength or page.rowsperstrip or rows)
    expect(block <= 4 * max(count, 1 << 16), f"{name}: samples of a block", f"at most {4 * count}", block)
    offsets, counts = len(page.dataoffsets), sum(page.databytecounts)
    most = 4 * max(count, 1 << 16) * 8
    line = f"at most {1 << 20:,} of {most:,} bytes in all"
    expect(offsets <= 1 << 20 and counts <= most, f"{name}: compressed blocks", line, f"{offsets} of {counts:,} bytes")
    compression = int(page.compression)
    readable = f"one of {', '.join(dict.fromkeys(COMPRESSIONS.values()))}"
    expect(compression in COMPRESSIONS, f"{name}: compression", readable, compression)
    if COMPRESSIONS[compression] == "deflate":
        for offset, length in zip(page.dataoffsets, page.databytecounts, strict=True):
            check_deflate(name, data[offset : offset + length], block * kind.itemsize)
    return np.asarray(page.asarray()).reshape(rows, columns)


def check_deflate(name: str, data: bytes, most: int) -> None:
    """Reject a block that expands to more than `most` bytes, because without imagecodecs tifffile expands it whole."""
    expander, total = zlib.decompressobj(), 0
    while data and not expander.eof:
        total += len(expander.decompress(data, PIECE_BYTES))
        expect(total <= most, f"{name}: bytes of a block", f"at most {most:,}", "more")
        data = expander.unconsumed_tail


def directions(name: str, tags: dict[int, Any]) -> tuple[bool, bool]:
    """Return whether row 0 of the file is the south, and whether column 0 is the east."""
    if TRANSFORM in tags:
        matrix = np.array(tags[TRANSFORM], np.float64).reshape(-1)
        expect(
            matrix.size == 16 and bool(np.isfinite(matrix).all()), f"{name}: transform", "of 16 numbers", matrix.size
        )
        is_straight = matrix[1] == matrix[4] == 0
        expect(
            is_straight,
            f"{name}: transform",
            "without a rotation: warp it first, as gdalwarp does",
            matrix[:6].tolist(),
        )
        return bool(matrix[5] > 0), bool(matrix[0] < 0)
    scale = np.array(tags.get(SCALE, (1.0, 1.0)), np.float64).reshape(-1)
    return bool(scale.size > 1 and scale[1] < 0), bool(scale.size > 0 and scale[0] < 0)


def is_nodata(name: str, values: np.ndarray, text: Any) -> np.ndarray:
    """Return a mask `[Y, X]` of the samples that have the file's nodata value."""
    if text is None:
        return np.zeros(values.shape, bool)
    try:
        number = float(str(text).strip("\0 "))
    except ValueError:
        raise FileError(f"{name}: nodata must be a number, got {str(text)[:40]!r}") from None
    if math.isnan(number):
        return np.isnan(values)
    # The text may be rounded: -3.4e38 stands for the lowest number of float32.
    return (
        (values == number) | np.isclose(values, number, rtol=1e-2, atol=0) if abs(number) > 1e30 else values == number
    )


def scale_of(metadata: Any) -> float:
    """Return the scale of heights in GDAL's metadata; 1 if there is none.

    Only the sign of the scale matters, because heights are stretched later.
    """
    text = str(metadata or "")
    _, found, rest = text.partition('role="scale">')
    try:
        return float(rest.partition("<")[0]) if found else 1.0
    except ValueError:
        return 1.0
