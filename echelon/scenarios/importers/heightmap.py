"""Importers of heightmaps: grey PNG of 1 to 16 bits, NumPy's `.npy`, and SRTM tiles (`.hgt`)."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np

from echelon.runtime.files import FileError, expect
from echelon.scenarios.importers.ground import MOST_CELLS, Heights, ReadOptions

PNG = b"\x89PNG\r\n\x1a\n"
VOID = -32768
"""Sample of an SRTM tile that has no height."""


def read(path: Path, data: bytes, options: ReadOptions) -> Heights:
    """Read a heightmap. In all three formats, the first row of the file is the north.

    Raises:
        FileError: if the file is truncated, too large, or contains something else than heights.
    """
    readers = {".png": read_png, ".npy": read_npy, ".hgt": read_hgt}
    values = readers[path.suffix.lower()](path.name, data, options)
    return Heights(path.name, values[::-1].astype(np.float32), options)


def expect_cells(name: str, rows: int, columns: int, options: ReadOptions) -> None:
    """Reject a heightmap that has no samples, more than `MOST_CELLS`, or more columns than a map may have."""
    limit = f"1..{MOST_CELLS:,}: make it smaller in the program that wrote it"
    expect(1 <= rows * columns <= MOST_CELLS, f"{name}: samples", limit, f"{columns} x {rows}")
    options.expect_fits(name, (columns, rows))


def read_png(name: str, data: bytes, options: ReadOptions) -> np.ndarray:
    """Return the grey values `[Y, X]` of a PNG.

    Pillow reduces 16-bit colours, and 16-bit grey with alpha, to 8 bits, so such files are rejected; 8-bit colours are
    accepted if red, green and blue are equal, and their alpha is ignored.
    """
    from PIL import Image

    expect(data[:8] == PNG and data[12:16] == b"IHDR" and len(data) >= 29, name, "a PNG file", data[:8])
    columns, rows = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    bits, colour = data[24], data[25]
    expect_cells(name, rows, columns, options)
    line = "grey without alpha: colours and alpha are read with 8 bits only"
    expect(bits <= 8 or colour == 0, f"{name}: picture of {bits} bits", line, f"colour type {colour}")
    try:
        # `load` reads damaged bytes as other heights; `verify` compares the checksums of all chunks.
        Image.open(io.BytesIO(data), formats=["PNG"]).verify()
        with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
            picture.load()
            if picture.mode in ("1", "L", "I", "I;16"):
                return np.asarray(picture)
            channels = np.asarray(picture.convert("RGBA"))[..., :3]
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError) as error:
        raise FileError(f"{name}: not a PNG that can be read: {error}") from None
    is_grey = bool((channels == channels[..., :1]).all())
    expect(is_grey, f"{name}: picture", "grey: its brightness is the height", "colours")
    return channels[..., 0]


def read_npy(name: str, data: bytes, options: ReadOptions) -> np.ndarray:
    """Return a two-dimensional array `[Y, X]` of real, finite numbers.

    Only the header and the numbers are read, and arrays of Python objects are rejected, so no code can run.
    """
    file = io.BytesIO(data)
    try:
        major, _ = np.lib.format.read_magic(file)
        read_header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}[major]
        shape, is_fortran, dtype = read_header(file)
    except (ValueError, KeyError, TypeError, SyntaxError, EOFError, RecursionError, MemoryError) as error:
        raise FileError(f"{name}: not an .npy file of version 1 or 2: {error}") from None
    expect(dtype.kind in "buif", f"{name}: dtype", "of real numbers", str(dtype))
    expect(len(shape) == 2, f"{name}: shape", "[Y, X]", shape)
    rows, columns = shape
    expect_cells(name, rows, columns, options)
    needed, left = math.prod(shape) * dtype.itemsize, len(data) - file.tell()
    expect(needed == left, f"{name}: bytes of numbers", str(needed), left)
    flat = np.frombuffer(data, dtype, offset=file.tell())
    values = flat.reshape(shape, order="F" if is_fortran else "C")
    expect_finite(name, values)
    return values


def expect_finite(name: str, values: np.ndarray) -> None:
    """Reject NaN, infinity, and numbers beyond the range of float32."""
    is_bad = ~(np.abs(values.astype(np.float64)) < 1e38)
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0].tolist()
        expect(False, f"{name}: row {row}, column {column}", "a finite number below 1e38", float(values[row, column]))


def read_hgt(name: str, data: bytes, options: ReadOptions) -> np.ndarray:
    """Return the heights of an SRTM tile in metres, `[Y, X]` float32; NaN where a height is missing.

    The format is int16, big-endian, without a header.
    """
    side = math.isqrt(len(data) // 2)
    limit = "those of a square of samples of 2 bytes, such as 1201 x 1201 or 3601 x 3601"
    expect(side > 1 and 2 * side * side == len(data), f"{name}: bytes", limit, len(data))
    expect_cells(name, side, side, options)
    values = np.frombuffer(data, ">i2").reshape(side, side).astype(np.float32)
    values[values == VOID] = np.nan
    return values
