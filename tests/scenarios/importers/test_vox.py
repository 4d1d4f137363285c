"""Scenes of MagicaVoxel: where voxels stand, and which of them."""

import pytest
from map_files import chunk, group, layer, model, shape, text, transform, vox

from echelon.rules.catalog import Material
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.scenarios.importers.ground import ReadOptions
from echelon.scenarios.importers.vox import default_palette, parse, read

ONE = model((1, 1, 1), [(0, 0, 0, 1)])


def voxels(path, data, options=None):
    """Places and indices' materials, with the lowest corner at 0."""
    ground = read(path / "it.vox", data, options or ReadOptions())
    rows = [
        (*place, material) for place, material in zip(ground.places.tolist(), ground.materials.tolist(), strict=True)
    ]
    return ground.size, sorted(rows)


def places(path, data):
    return [row[:3] for row in voxels(path, data)[1]]


def scene_of(size, cells, **frame):
    """A model in a scene beside one voxel that stays at the origin."""
    marker = model((1, 1, 1), [(0, 0, 0, 1)])
    nodes = transform(0, 1) + group(1, [2, 4]) + transform(2, 3, [frame]) + shape(3, 0) + transform(4, 5) + shape(5, 1)
    return vox(model(size, cells), marker, nodes)


def relative(path, data):
    """Where the voxels of the first model are, seen from the marker: its place is 0, 0, 0."""
    ground = read(path / "it.vox", data, ReadOptions())
    return [tuple(place) for place in (ground.places[:-1] - ground.places[-1]).tolist()]


def test_one_model_is_read_voxel_by_voxel(tmp_path):
    data = vox(model((4, 3, 2), [(0, 0, 0, 1), (3, 2, 1, 255), (1, 2, 0, 7)]), version=150)
    size, rows = voxels(tmp_path, data)
    assert size == (4, 3, 2)
    assert [row[:3] for row in rows] == [(0, 0, 0), (1, 2, 0), (3, 2, 1)]


@pytest.mark.parametrize(("side", "corner"), [(20, -10), (3, -1), (2, -1), (1, 0)])
def test_a_model_stands_around_its_floored_middle(tmp_path, side, corner):
    """`_t` is the place of the corner floor(size / 2): with `_t` 0 the first voxel stands at -floor(size / 2)."""
    assert relative(tmp_path, scene_of((side,) * 3, [(0, 0, 0, 1)], _t="0 0 0")) == [(corner,) * 3]
    assert relative(tmp_path, scene_of((side,) * 3, [(0, 0, 0, 1)], _t="5 6 7")) == [
        (corner + 5, corner + 6, corner + 7)
    ]


@pytest.mark.parametrize(
    ("byte", "expected"),
    [
        (4, [(0, 0, 0), (1, 0, 0), (0, -1, 0)]),  # the identity
        (1 | 0 << 2 | 1 << 4, [(-1, 0, 0), (-1, 1, 0), (0, 0, 0)]),  # x' = -y, y' = x: a quarter turn
        (0 | 1 << 2 | 1 << 4, [(-1, 0, 0), (-2, 0, 0), (-1, -1, 0)]),  # x mirrored
    ],
)
def test_rotation_turns_voxels_about_the_middle(tmp_path, byte, expected):
    """From the middle of a model of 4 x 2 x 2 the centres are at (1/2, 1/2), (3/2, 1/2), (1/2, -1/2)."""
    cells = [(2, 1, 1, 1), (3, 1, 1, 1), (2, 0, 1, 1)]
    assert relative(tmp_path, scene_of((4, 2, 2), cells, _r=str(byte), _t="0 0 0")) == expected


def test_translations_add_up_and_rotations_multiply_down_the_tree(tmp_path):
    turn = str(1 | 0 << 2 | 1 << 4)
    inner = transform(2, 3, [{"_t": "3 0 0"}]) + shape(3, 0)
    data = vox(
        ONE, transform(0, 1, [{"_r": turn, "_t": "10 0 0"}]) + group(1, [2, 4]) + inner + transform(4, 5) + shape(5, 0)
    )
    # x' = -y, y' = x: the translation 3, 0, 0 becomes 0, 3, 0 beside the other one.
    assert sorted(places(tmp_path, data)) == [(0, 0, 0), (0, 3, 0)]


def test_one_shape_may_stand_in_several_places(tmp_path):
    nodes = transform(0, 1) + group(1, [2, 3]) + transform(2, 4) + transform(3, 4, [{"_t": "2 0 0"}]) + shape(4, 0)
    assert places(tmp_path, vox(ONE, nodes)) == [(0, 0, 0), (2, 0, 0)]


def test_hidden_nodes_and_layers_are_not_there(tmp_path):
    nodes = transform(0, 1) + group(1, [2, 4, 6])
    nodes += transform(2, 3, own={"_hidden": "1"}) + shape(3, 0)
    nodes += transform(4, 5, [{"_t": "5 0 0"}], layer=7) + shape(5, 0)
    nodes += transform(6, 7, [{"_t": "9 0 0"}], layer=6) + shape(7, 0)
    shown = vox(ONE, nodes, layer(6, {"_name": "x"}), layer(7, {"_hidden": "1"}))
    ground = read(tmp_path / "it.vox", shown, ReadOptions())
    assert len(ground.places) == 1
    with pytest.raises(FileError, match=r"^it.vox: scene must be of at least one visible voxel, got 'none'$"):
        read(tmp_path / "it.vox", vox(ONE, transform(0, 1, own={"_hidden": "1"}) + shape(1, 0)), ReadOptions())


def test_only_the_first_frame_is_there(tmp_path):
    other = model((1, 1, 2), [(0, 0, 0, 1), (0, 0, 1, 1)])
    packed = vox(chunk("PACK", b"\x02\0\0\0"), ONE, other, version=150)
    assert places(tmp_path, packed) == [(0, 0, 0)]
    frames = vox(ONE, other, transform(0, 1, [{"_f": "0"}, {"_t": "9 9 9", "_f": "5"}]) + shape(1, 0, 1))
    assert places(tmp_path, frames) == [(0, 0, 0)]


def test_materials_come_from_types_and_from_flags(tmp_path):
    types = b"".join(
        chunk("MATL", bytes((index, 0, 0, 0)) + b"\x01\0\0\0" + text("_type") + text(kind))
        for index, kind in ((1, "_glass"), (2, "_metal"), (3, "_emit"), (4, "_diffuse"))
    )
    cells = model((5, 1, 1), [(x, 0, 0, x + 1) for x in range(5)])
    colours = bytearray(1024)
    colours[4 * 4 : 4 * 4 + 4] = bytes((0x12, 0xAB, 0xEF, 255))  # entry 4 is the colour of index 5
    data = vox(cells, types, chunk("RGBA", bytes(colours)))
    own = [row[3] for row in voxels(tmp_path, data)[1]]
    assert own == [Material.GLASS, Material.REINFORCED, Material.SOLID, Material.SOLID, Material.SOLID]
    flags = ReadOptions("dirt", {"1": ("lava", 0), "#12ABEF": ("water", 0)})
    told = [row[3] for row in voxels(tmp_path, data, flags)[1]]
    assert told == [Material.LAVA, Material.REINFORCED, Material.DIRT, Material.DIRT, Material.WATER]
    with pytest.raises(ConfigError, match=r"^--material must be by an index 1..255 or a colour of it.vox, got '300'$"):
        voxels(tmp_path, data, ReadOptions("solid", {"300": ("lava", 0)}))


def test_palettes_begin_at_index_one(tmp_path):
    """The default palette begins white, then ff ff cc; of a file's own, entry i - 1 is index i."""
    default = default_palette()
    assert len(default) == 256
    assert (default[1], default[2], default[216], default[255]) == ("ffffff", "ffffcc", "ee0000", "111111")
    entries = bytes(value for entry in range(256) for value in (entry, 0, 255 - entry, 255))
    palette = parse("it", vox(ONE, chunk("RGBA", entries))).palette
    assert (palette[1], palette[255], len(palette)) == ("0000ff", "fe0001", 256)


def circle():
    return vox(ONE, transform(0, 1) + group(1, [0]))


def doubling():
    """A tree of 64 groups, each of which shows the next one twice: 2^63 models."""
    nodes = b"".join(group(n, [n + 1, n + 1]) for n in range(63))
    return vox(ONE, nodes, shape(63, 0))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", r"must be a file of MagicaVoxel, which begins with 'VOX ', got b''"),
        (b"PNG", r"which begins with 'VOX '"),
        (vox(ONE, version=199), r"version must be 150 or 200, got 199"),
        (vox(ONE)[:-3], r"expected 8 more bytes at byte \d+, got 5: truncated\?"),
        (vox(), r"models must be at least one, got 0"),
        (vox(model((1, 1, 1), [(1, 0, 0, 1)])), r"voxels must be within the size \(1, 1, 1\) of their model"),
        (vox(model((9**9, 1, 1), [])), r"size must be 0..256 a side"),
        (vox(model((4, 4, 4), [])), r"scene must be of at least one visible voxel"),
        (vox(chunk("SIZE", b"\1\0\0\0" * 3), chunk("XYZI", b"\xff\xff\xff\x7f")), r"expected 8589934588 more bytes"),
        (vox(chunk("SIZE", b"\1\0\0\0" * 3), chunk("XYZI", b"\xff\xff\xff\xff")), r"expected -4 more bytes"),
        (vox(chunk("NOTE") * 200_000), r"chunks must be at most 131,072, got 'more'"),
        (circle(), r"nodes must be at most 64 levels deep, in no circle"),
        (doubling(), r"nodes shown must be at most 65536|voxels of the scene"),
        (vox(ONE, transform(0, 9)), r"node must be one of the scene, got 9"),
        (vox(ONE, transform(0, 1) + shape(1, 3)), r"model must be 0..0, got 3"),
        (scene_of((1, 1, 1), [(0, 0, 0, 1)], _r="0"), r"_r must be a rotation, got 0"),
        (scene_of((1, 1, 1), [(0, 0, 0, 1)], _t="1 2"), r"_t must be three integers, got '1 2'"),
        (scene_of((1, 1, 1), [(0, 0, 0, 1)], _t="999999999 0 0"), r"scene must be at most 16384 voxels wide"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path, data, said):
    with pytest.raises(FileError, match=said) as raised:
        read(tmp_path / "it.vox", data, ReadOptions())
    assert str(raised.value).startswith("it.vox") and "\n" not in str(raised.value)
