"""Boards of MegaMek: where hexes are, and what terrains stand for."""

import numpy as np
import pytest
from map_files import board

from echelon.rules.catalog import Material
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.scenarios.importers.board import HEX_VOX, place_of, read
from echelon.scenarios.importers.ground import ReadOptions, dense_materials

AIR, SOLID, WATER, FOLIAGE = (int(Material[name]) for name in ("AIR", "SOLID", "WATER", "FOLIAGE"))


def dense(tmp_path, text, options=None):
    ground = read(tmp_path / "it.board", text.encode(), options or ReadOptions())
    return dense_materials(ground, ground.size)


def column(levels, terrains, tmp_path, options=None):
    """Materials from the floor up in the middle of the first of several hexes in a column."""
    found = dense(tmp_path, board([[level] for level in levels], {(0, 0): terrains}), options)
    return found[:, -2, 2].tolist()


def test_row_1_is_at_the_top_and_even_columns_are_half_a_hex_lower(tmp_path):
    """Levels 1 2 / 3 4 with hexes of 4 columns: 0101 above 0102, 0201 two columns of voxels lower."""
    found = (dense(tmp_path, board([[1, 2], [3, 4]])) > 0).sum(0)
    assert found.shape == (10, 8)
    # The lowest ground is 0, so heights are 0, 1, 2, 3.
    assert found[:, 0].tolist() == [0, 0, 2, 2, 2, 2, 0, 0, 0, 0]
    assert found[:, 4].tolist() == [3, 3, 3, 3, 1, 1, 1, 1, 0, 0]


def test_square_is_adjacent_to_the_six_neighbours_of_its_hex():
    """The neighbours of a hex of an odd and of an even column (from 1), as MegaMek counts them."""
    width, size_y = 5, 5 * HEX_VOX + HEX_VOX // 2

    def square(column, row):
        x, y = place_of(row * width + column, width, size_y)
        return {(x + i, y + j) for i in range(HEX_VOX) for j in range(HEX_VOX)}

    for column_, row in ((2, 2), (1, 2)):
        own = square(column_, row)
        near = {(x + dx, y + dy) for x, y in own for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1))} - own
        touching = {(c, r) for c in range(5) for r in range(5) if (c, r) != (column_, row) and square(c, r) & near}
        lower = column_ % 2  # columns 2, 4, ... lie lower: their side neighbours are in rows r and r + 1
        sides = {(column_ + dc, row + dr) for dc in (-1, 1) for dr in ((0, 1) if lower else (-1, 0))}
        assert touching == {(column_, row - 1), (column_, row + 1), *sides}


def test_water_replaces_ground(tmp_path):
    """The lowest ground is the bed of the water: level 0 of depth 2 is at -2."""
    assert column([0, 3], "water:2", tmp_path)[:4] == [WATER, WATER, AIR, AIR]
    assert column([1, -3], "water:1", tmp_path) == [SOLID, SOLID, SOLID, WATER]
    assert column([0, 0], "water:0", tmp_path)[:2] == [WATER]


@pytest.mark.parametrize(
    ("terrains", "expected"),
    [
        ("woods:1;foliage_elev:3", [SOLID, FOLIAGE, FOLIAGE, FOLIAGE]),
        ("woods:2", [SOLID, FOLIAGE, FOLIAGE]),
        ("building:2:9;bldg_elev:3;bldg_cf:40", [SOLID, SOLID, SOLID, SOLID]),
        ("building:4;bldg_elev:2", [SOLID, int(Material.REINFORCED), int(Material.REINFORCED)]),
        ("bridge:1;bridge_elev:2", [SOLID, AIR, int(Material.REINFORCED)]),
        ("magma:2", [int(Material.LAVA)]),
        ("road:1:8;pavement:1", [SOLID]),
    ],
)
def test_terrains_are_placed_on_the_ground(tmp_path, terrains, expected):
    found = column([1, 0], terrains, tmp_path)
    assert found == expected + [AIR] * (len(found) - len(expected))


def test_material_flag_changes_material_of_terrain(tmp_path):
    options = ReadOptions("dirt", {"woods": ("glass", 1), "rough": ("debris_field", 0)})
    dirt = int(Material.DIRT)
    assert column([1, 0], "woods:1;foliage_elev:3", tmp_path, ReadOptions("dirt", {"woods": ("glass", 1)}))[:2] == [
        dirt,
        int(Material.GLASS),
    ]
    with pytest.raises(
        ConfigError, match=r"^--material must be KEY=MATERIAL with a terrain of it.board as key: woods, got 'rough'$"
    ):
        column([1, 0], "woods:1", tmp_path, options)


def test_ignored_terrains_are_listed_in_notes(tmp_path):
    text = board([[1]], {(0, 0): "road:1:8;woods:1;rough:1"})
    assert read(tmp_path / "it.board", text.encode(), ReadOptions()).notes == ("terrains left out: road, rough",)


def test_comments_and_other_lines_are_skipped(tmp_path):
    text = '#A Board\nsize 1 1\noption exit_roads false\n\nhex 0101 2 "" ""\ntag "x"\nend\nhex 0102 1 "" ""\n'
    assert dense(tmp_path, text).shape == (1, 4, 4), "one hex, the lowest ground"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"it.board must be a board of MegaMek with a line 'size WIDTH DEPTH', got none"),
        ("size 2 2\n", r"it.board: hexes must be 4: truncated\?, got 0"),
        ("size 99999 99999\n", r"line 1 must be 1..65536 hexes, got 'size 99999 99999'"),
        ("size 0 3\n", r"line 1 must be 1..65536 hexes"),
        ("size 9999999999999 1\n", r"line 1 must be 2 integers"),
        ('size 1 1\nhex 0101 NaN "" ""\n', r"line 2 must be 1 integers, got \['NaN'\]"),
        ('size 1 1\nhex 0101 9999 "" ""\nhex 0102 0 "" ""\n', r"line 3 must be at most 1 hexes, got 2"),
        ('size 1 2\nhex 0101 9999 "" ""\nhex 0102 0 "" ""\n', r"levels must be at most 1024, got 9999"),
        ('size 1 1\nhex 0101 0 "woods:many" ""\n', r"line 2 must be terrains with a level, got 'woods:many'"),
        ('hex 0101 0 "" ""\n', r"line 1 must be a size before the first hex"),
        ('size 1 1\nsize 1 1\n', r"line 2 must be the only size"),
        (
            board([[0] * 120] * 120, {(c, r): "woods:1;foliage_elev:999" for c in range(12) for r in range(99)}),
            r"voxels must be at most",
        ),
    ],
)  # fmt: skip
def test_invalid_file_raises_one_line(tmp_path, text, said):
    with pytest.raises(FileError, match=said) as raised:
        dense(tmp_path, text)
    assert "\n" not in str(raised.value)


def test_numbers_of_hexes_are_ignored_as_in_megamek(tmp_path):
    """Of its 1,123 boards of 2019, 3 have numbers that differ from the order."""
    text = board([[1, 2], [3, 4]])
    assert np.array_equal(dense(tmp_path, text.replace("0201", "0101").replace("0102", "102")), dense(tmp_path, text))


def test_hexes_of_100_rows_and_more_have_longer_numbers(tmp_path):
    levels = [[row % 2] for row in range(120)]
    assert dense(tmp_path, board(levels)).shape == (1, 480, 4)
    assert np.array(levels).max() == 1
