"""Untrusted files that are too large are refused before voxels, tiles, samples or hexes are expanded."""

import base64
import tracemalloc
import zlib

import numpy as np
import pytest
from map_files import board, chunk, csv_layer, group, model, shape, tmx, transform, vox

from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.scenarios.importers import board as boards
from echelon.scenarios.importers import ground as grounds
from echelon.scenarios.importers import heightmap, tiled
from echelon.scenarios.importers import vox as scenes
from echelon.scenarios.importers.ground import MOST_VOXELS, Crop, Ground, ReadOptions
from echelon.scenarios.importers.import_map import ImportSettings, read_map

WALL = '<property name="solid" type="bool" value="true"/>'
RAISED = '<property name="bottom" type="int" value="1"/><property name="height" type="int" value="30"/>'


def full_layer(side, properties=WALL, data=None):
    """A compressed layer of `side` x `side` tiles 1."""
    text = base64.b64encode(zlib.compress(np.ones(side * side, "<u4").tobytes(), 1)).decode()
    data = data or f'<data encoding="base64" compression="zlib">{text}</data>'
    return f'<layer name="a" width="{side}" height="{side}"><properties>{properties}</properties>{data}</layer>'


def bar(length, copies):
    """A scene of a row of models of `length` voxels along x, one behind the other."""
    nodes = [transform(2 + i, 99, [{"_t": f"{length * i} 0 0"}]) for i in range(copies)]
    children = group(1, [2 + i for i in range(copies)])
    return vox(model((length, 1, 1), [(x, 0, 0, 1) for x in range(length)]), transform(0, 1), children, *nodes,
               shape(99, 0))  # fmt: skip


@pytest.fixture
def work(monkeypatch):
    """Count calls of functions that expand parts of a file, and the numbers that they return."""
    counts = {}

    def count(module, name):
        inner = getattr(module, name)

        def counted(*words):
            found = inner(*words)
            calls, size = counts.get(name, (0, 0))
            counts[name] = calls + 1, size + (found.size if isinstance(found, np.ndarray) else 0)
            return found

        monkeypatch.setattr(module, name, counted)

    count(scenes, "placed_voxels")
    count(tiled, "tile_numbers")
    count(boards, "hex_of")
    count(heightmap, "expect_finite")
    return counts


def read(tmp_path, name, text, **settings):
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return read_map(tmp_path / name, ImportSettings(**settings))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.vox", vox(model((1, 1, 200), [(0, 0, z, 1) for z in range(200)])), "at most 31 vox high: --scale 0.155 or"),
        ("a.vox", bar(250, 3), r"500 x 500 columns: --scale 0.666 or --crop makes it smaller, got '750 x 1'"),
        ("a.tmx", tmx(full_layer(600), 600, 600), r"500 x 500 columns: .*, got '600 x 600'"),
        ("a.board", board([[0] * 200] * 4), r"500 x 500 columns: .*, got '800 x 18'"),
        ("a.npy", None, r"500 x 500 columns: .*, got '501 x 2'"),
    ],
)
def test_too_large_file_is_refused_before_it_is_expanded(tmp_path, work, name, text, said):
    if text is None:
        np.save(tmp_path / name, np.zeros((2, 501)))
        text = (tmp_path / name).read_bytes()
    with pytest.raises(FileError, match=said):
        read(tmp_path, name, text)
    assert work == {}


def test_files_within_the_limits_are_expanded(tmp_path, work):
    """The counters of the test above count."""
    np.save(tmp_path / "b.npy", np.arange(4.0).reshape(2, 2))
    texts = {"a.vox": bar(100, 3), "a.tmx": tmx(full_layer(40)), "a.board": board([[0, 1]] * 2)}
    for name, text in {**texts, "b.npy": (tmp_path / "b.npy").read_bytes()}.items():
        read(tmp_path, name, text)
    expected = {"placed_voxels": (3, 900), "tile_numbers": (1, 1600), "hex_of": (4, 0), "expect_finite": (1, 0)}
    assert work == expected


def test_crop_outside_the_file_is_refused_before_it_is_expanded(tmp_path, work):
    with pytest.raises(ConfigError, match=r"--crop must be within the 600 x 600 columns of a.tmx"):
        read(tmp_path, "a.tmx", tmx(full_layer(600), 600, 600), crop=(590, 0, 20, 20))
    assert work == {}


def test_crop_of_a_large_map_makes_only_its_own_voxels(tmp_path, monkeypatch):
    """1,440,000 walls, of which 400 are imported."""
    made = []
    monkeypatch.setattr(tiled, "column_voxels", lambda heights: made.append(heights) or grounds.column_voxels(heights))
    found = read(tmp_path, "a.tmx", tmx(full_layer(1200), 1200, 1200), crop=(7, 5, 20, 20))
    assert np.argwhere(made[0]).min(0).tolist() == [5, 7] and made[0].sum() == 4 * 400
    assert found.size == (20, 20, 4) and len(found.places) == 4 * 400


def test_raised_columns_are_counted_before_they_become_voxels(tmp_path):
    """600 x 600 columns of 30 voxels: 10,800,000."""
    sheet = tiled.TiledGrid("a.tmx", (600, 600), (0, 0), (16, 16))
    tracemalloc.start()
    row, x = np.indices((600, 600)).reshape(2, -1)
    with pytest.raises(FileError, match=f"a.tmx: voxels must be at most {MOST_VOXELS:,}, got 'more'"):
        sheet.add(row, x, np.broadcast_to(np.array([1, 31, 2], np.uint8), (len(x), 3)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sheet.raised == [] and peak < 100 << 20, "16 bytes for each voxel would be 173 MB"


def test_long_number_of_a_csv_layer_takes_no_memory_per_tile(tmp_path):
    """An array of strings has the width of the longest one: 100,000 times 3,000 characters would be 1.2 GB."""
    layer = f'<layer name="a" width="400" height="250"><data encoding="csv">{"9" * 3000}{",1" * 99_999}</data></layer>'
    data = tmx(layer, 400, 250).encode()
    tracemalloc.start()
    with pytest.raises(FileError, match="layer 'a': tiles must be integers of 32 bits"):
        tiled.read(tmp_path / "a.tmx", data, ReadOptions())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.tmx", tmx("<layer/>" * 200_000), r"a.tmx: XML elements must be at most 131,072: save tiles as CSV"),
        ("a.tmj", '{"layers": [' + "{}," * 200_000 + "{}]}", r"a.tmj: objects and lists must be at most 131,072"),
        ("a.board", 'size 1 1\nhex 0101 0 "' + "a:1;" * 65 + '" ""\n', r"line 2 must be at most 64 terrains, got 65"),
        (
            "a.vox", vox(model((1, 1, 1), [(0, 0, 0, 1)]), *[chunk("note", bytes(1 << 20))] * 9),
            r"a.vox: bytes of other chunks must be at most 8,388,608, got 8388620",
        ),
    ],
)  # fmt: skip
def test_too_many_parts_are_refused(tmp_path, name, text, said):
    with pytest.raises(FileError, match=said):
        read(tmp_path, name, text)


def test_blocks_of_rows_give_the_same_ground(tmp_path, monkeypatch):
    """A layer is read in blocks; here of one row each."""
    rows = np.random.default_rng(0).integers(0, 4, (40, 40))
    tile = '<tile id="{}"><properties><property name="height" type="int" value="{}"/>{}</properties></tile>'
    bottom = '<property name="bottom" type="int" value="6"/>'
    tiles = tile.format(0, 2, "") + tile.format(1, 3, bottom)
    text = tmx(csv_layer("a", rows), 40, 40, f'<tileset firstgid="1">{tiles}</tileset>')
    whole = read(tmp_path, "a.tmx", text).unique()
    monkeypatch.setattr(tiled, "BLOCK_TILES", 40)
    parts = read(tmp_path, "a.tmx", text).unique()
    assert np.array_equal(whole.places, parts.places) and np.array_equal(whole.materials, parts.materials)
    dense = grounds.dense_materials(whole, whole.size)
    expected = np.zeros_like(dense, bool)
    expected[:2], expected[6:9] = (rows == 1)[::-1], (rows == 2)[::-1]
    assert np.array_equal(dense > 0, expected)


def test_unique_voxels_are_the_same_with_and_without_a_dense_array(monkeypatch):
    rng = np.random.default_rng(0)
    ground = Ground("it", (9, 8, 7), rng.integers(0, 7, (300, 3)).astype(np.int32), rng.integers(0, 4, 300, np.uint8))
    dense = ground.unique()
    monkeypatch.setattr(grounds, "MOST_DENSE", 0)
    listed = ground.unique()
    assert len(dense.places) < 300
    assert np.array_equal(dense.places, listed.places) and np.array_equal(dense.materials, listed.materials)


def test_limits_hold_without_a_command(tmp_path):
    """Readers refuse by `ReadOptions`, which `--crop` and `--scale` set."""
    options = ReadOptions(crop=Crop(0, 0, 300, 10), scale=2.0)
    with pytest.raises(FileError, match=r"got '600 x 20'"):
        options.expect_fits("it", (400, 10))
    ReadOptions(scale=0.5).expect_fits("it", (1000, 10, 62), has_columns=False)
    with pytest.raises(FileError, match=r"31 vox high: --height 24 makes it lower, got 62"):
        ReadOptions(scale=0.5).expect_fits("it", (1000, 10, 62))
