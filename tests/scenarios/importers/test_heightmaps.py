"""Heightmaps: orientation, bits, voids, and what other programs' files hold."""

import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from map_files import hills
from PIL import Image

from echelon.runtime.files import FileError
from echelon.scenarios.importers import heightmap
from echelon.scenarios.importers.ground import MOST_CELLS, Crop, Heights, ReadOptions, dense_materials

OPTIONS = ReadOptions()
RAMP = np.array([[0, 10, 20], [30, 40, 50]])
"""Two rows, the first one north."""


def read(tmp_path, name, data):
    return heightmap.read(tmp_path / name, data, OPTIONS)


def png(values, mode=None):
    file = io.BytesIO()
    picture = Image.fromarray(values) if mode is None else Image.fromarray(values).convert(mode)
    picture.save(file, "PNG")
    return file.getvalue()


def npy(values, **more):
    file = io.BytesIO()
    np.save(file, values, **more)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("it.png", png(RAMP.astype(np.uint8))),
        ("it.png", png(RAMP.astype(np.uint16))),
        ("it.png", png(np.repeat(RAMP.astype(np.uint8)[..., None], 3, 2))),
        ("it.npy", npy(RAMP.astype(np.float32))),
        ("it.npy", npy(np.asfortranarray(RAMP.astype(">f8")))),
    ],
)
def test_row_0_of_the_file_is_the_north(tmp_path, name, data):
    assert read(tmp_path, name, data).values.tolist() == RAMP[::-1].tolist()


def test_damaged_png_is_refused(tmp_path):
    """Pillow 13.0 loads 23 of 218 files with a changed bit as other heights."""
    data = png((np.arange(64 * 64).reshape(64, 64) % 251).astype(np.uint8))
    first = data.index(b"IDAT") + 4
    for at in range(first, first + int.from_bytes(data[first - 8 : first - 4], "big")):
        with pytest.raises(FileError, match=r"^it.png: not a PNG that can be read: "):
            read(tmp_path, "it.png", data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])


def test_16_bit_grey_is_exact(tmp_path):
    values = np.array([[0, 255, 256], [1000, 65534, 65535]], np.uint16)
    assert read(tmp_path, "it.png", png(values)).values[::-1].tolist() == values.tolist()


@pytest.mark.parametrize(("bits", "factor"), [(1, 1), (2, 85), (4, 17)])
def test_greys_of_few_bits_are_even_steps(tmp_path, bits, factor):
    """Pillow scales 2 and 4 bits to 0..255. Heights are stretched, so a factor changes nothing."""
    content = b"".join(b"\0" + bytes([value << (8 - bits)]) for value in range(1 << bits))
    header = struct.pack(">IIBBBBB", 1, 1 << bits, bits, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(content)), (b"IEND", b"")]
    data = heightmap.PNG + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
    values = read(tmp_path, "it.png", data).values
    assert values[::-1, 0].tolist() == [value * factor for value in range(1 << bits)]


def test_colours_of_16_bits_are_refused(tmp_path):
    """Pillow reads them by their high byte: 1000 would be 3, 255 would be 0."""
    header = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    data = heightmap.PNG + struct.pack(">I", 13) + b"IHDR" + header + bytes(20)
    with pytest.raises(
        FileError, match=r"^it.png: picture of 16 bits must be grey without alpha: .* got 'colour type 2'$"
    ):
        read(tmp_path, "it.png", data)


def test_heights_are_stretched_to_the_highest_column():
    """0, 10, 20, 30, 40, 50 to at most 5: 0, 1, 2, 3, 4, 5; 8 by default: 0, 1.6, 3.2, 4.8, 6.4, 8, rounded."""
    heights = Heights("it", RAMP.astype(np.float32), ReadOptions(height=5))
    assert columns(heights.ground()).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert columns(Heights("it", RAMP.astype(np.float32), OPTIONS).ground()).tolist() == [[0, 2, 3], [5, 6, 8]]


def columns(ground):
    return (dense_materials(ground, ground.size) > 0).sum(0)


def test_crop_counts_from_the_south_west_and_scale_averages():
    heights = Heights("it", np.arange(16, dtype=np.float32).reshape(4, 4), OPTIONS)
    assert heights.cropped(Crop(1, 2, 2, 1)).values.tolist() == [[9, 10]]
    assert heights.scaled(0.5).values.tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert heights.cropped(Crop(0, 0, 2, 1)).scaled(2).values.tolist() == [[0, 0, 1, 1]] * 2


def test_voids_are_left_out_of_means_and_filled_from_the_nearest_sample():
    values = np.array([[np.nan, 2, 0, 0], [4, 6, 0, 8]], np.float32)
    heights = Heights("it", values, OPTIONS)
    assert heights.scaled(0.5).values.tolist() == [[4, 2]]
    filled, notes = heights.filled()
    assert filled.tolist() == [[2, 2, 0, 0], [4, 6, 0, 8]] or filled.tolist() == [[4, 2, 0, 0], [4, 6, 0, 8]]
    assert notes == ("1 of 8 samples without a height: as the nearest sample",)
    with pytest.raises(FileError, match=r"^it: samples without a height must be at most half, got '3 of 4 samples'$"):
        Heights("it", np.array([[np.nan, 1], [np.nan, np.nan]], np.float32), OPTIONS).filled()


def test_an_srtm_tile_is_big_endian_and_its_voids_are_no_heights(tmp_path):
    values = np.array([[100, 200, -32768], [-5, 0, 1908], [1, 2, 3]])
    found = read(tmp_path, "N44W072.hgt", values.astype(">i2").tobytes()).values[::-1]
    assert np.isnan(found[0, 2]) and np.nan_to_num(found).tolist() == [[100, 200, 0], [-5, 0, 1908], [1, 2, 3]]


BOMB = heightmap.PNG + struct.pack(">I", 13) + b"IHDR" + struct.pack(">IIBBBBB", 40000, 40000, 8, 0, 0, 0, 0) + bytes(9)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("it.png", b"", r"must be a PNG file, got b''"),
        ("it.png", png(RAMP.astype(np.uint8))[:40], r"not a PNG that can be read: "),
        ("it.png", BOMB, rf"samples must be 1..{MOST_CELLS:,}: .* got '40000 x 40000'"),
        ("it.png", png(np.eye(3, dtype=np.uint8) * 255, "RGB"), None),
        ("it.npy", b"\x93NUMPY\x01\0\x10\0{}", r"not an .npy file of version 1 or 2"),
        ("it.npy", npy(np.array([[None]]), allow_pickle=True), r"dtype must be of real numbers, got 'object'"),
        ("it.npy", npy(np.zeros((2, 2), complex)), r"dtype must be of real numbers, got 'complex128'"),
        ("it.npy", npy(np.zeros((2, 2, 2))), r"shape must be \[Y, X\], got \(2, 2, 2\)"),
        ("it.npy", npy(np.zeros((2, 2)))[:-1], r"bytes of numbers must be 32, got 31"),
        ("it.npy", npy(np.array([[0, np.nan]])), r"row 0, column 1 must be a finite number below 1e38, got nan"),
        ("it.npy", npy(np.array([[0], [np.inf]])), r"row 1, column 0 must be a finite number below 1e38, got inf"),
        ("it.npy", npy(np.zeros((2, 2))).replace(b"(2, 2)", b"(9**9,)"), r"not an .npy file|shape must be"),
        ("it.npy", npy(np.zeros((10, 10))).replace(b"(10, 10)", b"(99999,99999)"), r"not an .npy file|samples must be"),
        ("it.hgt", b"\0" * 9, r"bytes must be those of a square of samples of 2 bytes, .* got 9"),
        ("it.hgt", b"", r"bytes must be those of a square"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path, name, data, said):
    if said is None:  # equal red, green and blue are grey
        assert read(tmp_path, name, data).values.max() == 255
        return
    with pytest.raises(FileError, match=said) as raised:
        read(tmp_path, name, data)
    assert str(raised.value).startswith(name) and "\n" not in str(raised.value)


def test_coloured_pictures_are_refused(tmp_path):
    values = np.zeros((2, 2, 3), np.uint8)
    values[0, 0] = 1, 2, 3
    with pytest.raises(FileError, match=r"^it.png: picture must be grey: its brightness is the height, got 'colours'$"):
        read(tmp_path, "it.png", png(values))


def test_flat_ground_is_refused():
    with pytest.raises(FileError, match=r"^it: heights must be of more than one height, got 7.0$"):
        Heights("it", np.full((40, 40), 7, np.float32), OPTIONS).ground()


def test_ground_that_is_too_wide_names_the_flags():
    said = (
        r"^it: ground must be at most 500 x 500 columns: --scale 0.416 or --crop makes it smaller, got '1201 x 1201'$"
    )
    with pytest.raises(FileError, match=said):
        Heights("it", np.arange(1201.0**2, dtype=np.float32).reshape(1201, 1201), OPTIONS).ground()


class TestGeoTiff:
    """Files that tifffile wrote, with the tags of GDAL."""

    @staticmethod
    def read(tmp_path, values, tags=(), **more):
        tifffile = pytest.importorskip("tifffile")
        from echelon.scenarios.importers import geotiff

        file = io.BytesIO()
        tifffile.imwrite(file, values, extratags=[(*tag, True) for tag in tags], **more)
        return geotiff.read(tmp_path / "it.tif", file.getvalue(), OPTIONS)

    @pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "float32", "float64"])
    @pytest.mark.parametrize("order", ["<", ">"])
    def test_row_0_is_the_north(self, tmp_path, dtype, order):
        assert self.read(tmp_path, RAMP.astype(dtype), byteorder=order).values.tolist() == RAMP[::-1].tolist()

    def test_a_transform_may_put_the_south_first(self, tmp_path):
        matrix = [30.0, 0, 0, 5, 0, 30.0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1]
        found = self.read(tmp_path, RAMP.astype("int16"), [(34264, "d", 16, matrix)])
        assert found.values.tolist() == RAMP.tolist()
        rotated = [30.0, 1.0, *matrix[2:]]
        with pytest.raises(FileError, match=r"^it.tif: transform must be without a rotation: warp it first"):
            self.read(tmp_path, RAMP.astype("int16"), [(34264, "d", 16, rotated)])

    @pytest.mark.parametrize(
        ("dtype", "value", "text"),
        [("int16", -32768, "-32768"), ("float32", np.nan, "nan"), ("float32", -3.4028234663852886e38, "-3.4e38")],
    )
    def test_nodata_is_no_height(self, tmp_path, dtype, value, text):
        """GDAL writes the number as text; rounded, as in a real file, it stands for the lowest number of float32."""
        values = RAMP.astype(dtype)
        values[0, 1] = value
        found = self.read(tmp_path, values, [(42113, "s", len(text) + 1, text)]).values[::-1]
        assert np.isnan(found).tolist() == [[False, True, False], [False] * 3]

    def test_a_negative_scale_turns_heights_over(self, tmp_path):
        xml = '<GDALMetadata><Item name="SCALE" sample="0" role="scale">-0.5</Item></GDALMetadata>'
        found = self.read(tmp_path, RAMP.astype("int16"), [(42112, "s", len(xml) + 1, xml)])
        assert found.values.tolist() == (-RAMP[::-1]).tolist()

    def test_several_bands_are_refused(self, tmp_path):
        with pytest.raises(FileError, match=r"^it.tif: bands must be one, of heights, got 3$"):
            self.read(tmp_path, np.zeros((4, 4, 3), np.uint8), photometric="rgb")

    def test_nan_without_nodata_is_refused(self, tmp_path):
        values = RAMP.astype("float32")
        values[1, 2] = np.nan
        with pytest.raises(FileError, match=r"^it.tif: row 1, column 2 must be a finite number"):
            self.read(tmp_path, values)

    def test_compressed_tiles_are_those_of_plain_strips(self, tmp_path):
        values = hills(64).astype("float32")
        plain = self.read(tmp_path, values).values
        assert (self.read(tmp_path, values, compression="zlib", tile=(16, 16)).values == plain).all()

    def test_a_block_that_expands_without_end_is_refused_before_tifffile_expands_it(self, tmp_path, monkeypatch):
        tifffile = pytest.importorskip("tifffile")
        from echelon.scenarios.importers import geotiff

        path, sizes = tmp_path / "it.tif", []
        tifffile.imwrite(path, np.zeros((64, 64), np.uint8), compression="zlib", rowsperstrip=64)
        with tifffile.TiffFile(path) as file:
            offset, count = (file.pages[0].tags[number] for number in (273, 279))
        data, bomb = bytearray(path.read_bytes()), zlib.compress(bytes(1 << 26))
        for tag, value in ((offset, len(data)), (count, len(bomb))):
            data[tag.offset + 2 : tag.offset + 12] = struct.pack("<HII", 4, 1, value)
        path.write_bytes(data + bomb)
        monkeypatch.setattr(tifffile.TiffPage, "asarray", lambda *_: sizes.append(0))
        tracemalloc.start()
        with pytest.raises(FileError, match=r"^it.tif: bytes of a block must be at most 4,096, got 'more'$"):
            geotiff.read(path, path.read_bytes(), OPTIONS)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert not sizes and peak < 1 << 23

    def test_an_unbounded_compression_is_refused(self, tmp_path):
        said = r"^it.tif: compression must be one of none, LZW, deflate, PackBits, got 34925$"
        with pytest.raises(FileError, match=said):
            self.read(tmp_path, RAMP.astype("uint8"), compression="lzma")
