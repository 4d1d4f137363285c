"""Maps of Tiled: which tiles count, where they are, and objects."""

import base64
import functools
import gzip
import json
import zlib

import numpy as np
import pytest
from map_files import csv_layer, tmx

from echelon.rules.catalog import Material
from echelon.rules.position import Unit
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.scenarios.importers import tiled
from echelon.scenarios.importers.ground import ReadOptions, dense_materials

HEIGHT = '<property name="height" type="int" value="{}"/>'
WALL = '<property name="solid" type="bool" value="true"/>'
SET = '<tileset firstgid="1" name="a" tilewidth="16" tileheight="16" tilecount="8" columns="4">{}</tileset>'
ROWS = np.array([[5, 0, 2], [0, 5, 2]])
"""Row 0 is the north."""


def read(tmp_path, document, name="it.tmx", options=None):
    path = tmp_path / name
    data = document.encode() if isinstance(document, str) else document
    return tiled.read(path, data, options or ReadOptions())


def heights(ground):
    """`[Y, X]` with the north first."""
    return (dense_materials(ground, ground.size) > 0).sum(0)[::-1].tolist()


def tops(ground):
    """Material of the highest voxel, the north first."""
    dense = dense_materials(ground, ground.size)
    top = (dense > 0).sum(0) - 1
    return np.where(top < 0, 0, np.take_along_axis(dense, top.clip(0)[None], 0)[0])[::-1].tolist()


def encoded(encoding, compression, numbers):
    data = np.array(numbers, "<u4").tobytes()
    data = {"zlib": zlib.compress, "gzip": functools.partial(gzip.compress, mtime=0), "": bytes}[compression](data)
    words = f'encoding="{encoding}"' + (f' compression="{compression}"' if compression else "")
    return f"<data {words}>\n  {base64.b64encode(data).decode()}\n</data>"


@pytest.mark.parametrize(
    "data",
    [
        '<data encoding="csv">\n5,0,2,\n0,5,2\n</data>',
        encoded("base64", "", [5, 0, 2, 0, 5, 2]),
        encoded("base64", "zlib", [5, 0, 2, 0, 5, 2]),
        encoded("base64", "gzip", [5, 0, 2, 0, 5, 2]),
        "<data>" + "".join(f'<tile gid="{n}"/>' if n else "<tile/>" for n in [5, 0, 2, 0, 5, 2]) + "</data>",
    ],
)
def test_all_encodings_give_the_same_columns(tmp_path, data):
    layer = f'<layer name="walls" width="3" height="2"><properties>{WALL}</properties>{data}</layer>'
    assert heights(read(tmp_path, tmx(layer, 3, 2))) == [[4, 0, 4], [0, 4, 4]]


def test_flipped_tiles_give_the_same_columns(tmp_path):
    """Bits 31, 30 and 29 turn the picture of a tile: 5, 0, 2, 2 / 0, 5x, 5y, 5d is one tile 5 in three directions."""
    rows = np.array([[5, 0, 2, 2], [0, 5 | 1 << 31, 5 | 1 << 30, 5 | 1 << 29], [12, 5, 3, 7]])
    tileset = '<tileset firstgid="1"><tile id="4"><properties>{}</properties></tile></tileset>'
    found = read(tmp_path, tmx(csv_layer("a", rows), 4, 3, tileset.format(HEIGHT.format(7))))
    assert heights(found) == [[7, 0, 0, 0], [0, 7, 7, 7], [0, 7, 0, 0]]


def test_height_property_of_tile_is_the_column_height(tmp_path):
    """PyTMX gives 16 here, the tile's size in pixels."""
    tiles = '<tile id="4"><properties><property name="height" type="int" value="6"/></properties></tile>'
    assert heights(read(tmp_path, tmx(csv_layer("a", ROWS), 3, 2, SET.format(tiles)))) == [[6, 0, 0], [0, 6, 0]]


def test_tile_belongs_to_last_tileset_with_lower_first_number(tmp_path):
    one = f'<tileset firstgid="1"><tile id="4"><properties>{HEIGHT.format(1)}</properties></tile></tileset>'
    two = f'<tileset firstgid="5"><tile id="0"><properties>{HEIGHT.format(2)}</properties></tile></tileset>'
    assert heights(read(tmp_path, tmx(csv_layer("a", ROWS), 3, 2, two + one))) == [[2, 0, 0], [0, 2, 0]]


def test_external_tileset_is_read_relative_to_the_map(tmp_path):
    (tmp_path / "own.tsx").write_text(
        f'<tileset name="a"><tile id="4" class="rock"><properties>{HEIGHT.format(3)}</properties></tile></tileset>'
    )
    document = tmx(csv_layer("a", ROWS), 3, 2, '<tileset firstgid="1" source="own.tsx"/>')
    assert heights(read(tmp_path, document)) == [[3, 0, 0], [0, 3, 0]]
    by_class = ReadOptions("solid", {"rock": ("glass", 5)})
    assert heights(read(tmp_path, document, options=by_class)) == [[5, 0, 0], [0, 5, 0]]
    (tmp_path / "own.tsx").unlink()
    with pytest.raises(FileError, match=r"^own.tsx: cannot be read: No such file"):
        read(tmp_path, document)
    for source in ("/etc/passwd", "passwd", "/tmp/own.tsx"):
        with pytest.raises(FileError, match=r"^it.tmx: tileset must be a .tsx or .tsj file by a relative path"):
            read(tmp_path, document.replace("own.tsx", source))


def test_last_visible_layer_wins(tmp_path):
    low = csv_layer("low", np.array([[1, 1, 1]]), HEIGHT.format(1))
    high = csv_layer("high", np.array([[0, 1, 0]]), HEIGHT.format(3) + '<property name="material" value="glass"/>')
    hidden = csv_layer("hidden", np.array([[1, 1, 1]]), HEIGHT.format(9), 'visible="0"')
    group = f'<group visible="0">{csv_layer("in", np.array([[1, 1, 1]]), HEIGHT.format(8))}</group>'
    found = read(tmp_path, tmx(low + high + hidden + group, 3, 1))
    assert heights(found) == [[1, 3, 1]]
    assert tops(found) == [[Material.SOLID, Material.GLASS, Material.SOLID]]
    assert heights(read(tmp_path, tmx(high + low, 3, 1))) == [[1, 1, 1]]


def test_layer_with_bottom_is_placed_above_other_layers(tmp_path):
    ground = csv_layer("low", np.array([[1, 1]]), HEIGHT.format(1))
    bridge = csv_layer("deck", np.array([[0, 1]]), HEIGHT.format(1) + '<property name="bottom" type="int" value="6"/>')
    dense = dense_materials(found := read(tmp_path, tmx(ground + bridge, 2, 1)), found.size)
    assert dense[:, 0, 1].nonzero()[0].tolist() == [0, 6]


def test_layer_and_group_offsets_shift_whole_tiles(tmp_path):
    layer = csv_layer("a", np.array([[1, 0, 0]]), WALL, 'offsetx="16"')
    assert heights(read(tmp_path, tmx(f'<group offsetx="16">{layer}</group>', 3, 1))) == [[0, 0, 4]]
    with pytest.raises(FileError, match=r"^it.tmx: layer 'a': offset must be a multiple of the tiles"):
        read(tmp_path, tmx(layer.replace('offsetx="16"', 'offsetx="8"'), 3, 1))


def test_material_flag_selects_layers(tmp_path):
    document = tmx(csv_layer("walls", ROWS) + csv_layer("lake", np.array([[0, 3, 0], [0, 0, 0]])), 3, 2)
    options = ReadOptions("solid", {"walls": ("reinforced", 2), "lake": ("water", 0)})
    found = read(tmp_path, document, options=options)
    assert heights(found) == [[2, 1, 2], [0, 2, 2]]
    assert tops(found)[0] == [Material.REINFORCED, Material.WATER, Material.REINFORCED]
    with pytest.raises(
        ConfigError,
        match=r"^--material must be KEY=MATERIAL with a layer or a class of it.tmx as key: lake, walls.*got 'wall'$",
    ):
        read(tmp_path, document, options=ReadOptions("solid", {"wall": ("solid", 0)}))
    said = r"^it.tmx: tiles must be of known material, by a property .* one of the layers: walls, lake, got 'none'$"
    with pytest.raises(FileError, match=said):
        read(tmp_path, document)


OBJECTS = """<objectgroup name="blue team">
 <object id="1" class="heavy" x="32" y="48"><point/></object>
 <object id="2" type="scout" x="0" y="0" width="64" height="32"/>
</objectgroup>
<objectgroup name="places">
 <object id="3" x="160" y="160" gid="2147483653" width="16" height="16"><properties>
  <property name="team" value="red"/><property name="hull" value="medium"/>
  <property name="facing_deg" type="float" value="90.5"/></properties></object>
 <object id="4" class="zone" x="64" y="64" width="128" height="128"><ellipse/></object>
 <object id="5" class="water" x="0" y="144" width="32" height="16"/>
 <object id="6" class="tree" x="0" y="0"/>
 <object id="7" class="heavy" x="0" y="0" visible="0"/>
</objectgroup>"""


def test_objects_become_mechs_zone_and_columns(tmp_path):
    """Of a map of 10 x 10 tiles of 16 pixels: y = 10 - pixels / 16. A tile's place is its lower left corner."""
    rows = np.zeros((10, 10), int)
    rows[0, 0] = 1
    found = read(tmp_path, tmx(csv_layer("a", rows, WALL) + OBJECTS, 10, 10))
    assert found.units == (
        Unit("blue", "heavy", 2.0, 7.0),
        Unit("blue", "scout", area=(0, 8, 4, 10)),
        Unit("red", "medium", 10.5, 0.5, facing_deg=90.5),
    )
    assert found.zone == (8.0, 2.0, 4.0)
    assert tops(found)[9][:3] == [Material.WATER, Material.WATER, 0]
    assert found.notes == ("1 objects left out: of no hull, zone or material",)


def test_json_and_xml_give_the_same_ground(tmp_path):
    document = {
        "orientation": "orthogonal", "width": 3, "height": 2, "tilewidth": 16, "tileheight": 16, "infinite": False,
        "tilesets": [{"firstgid": 1, "tiles": [{"id": 4, "properties": [{"name": "height", "value": 6}]}]}],
        "layers": [{"type": "tilelayer", "name": "a", "width": 3, "height": 2, "data": [5, 0, 2, 0, 5, 2]}],
    }  # fmt: skip
    assert heights(read(tmp_path, json.dumps(document), "it.tmj")) == [[6, 0, 0], [0, 6, 0]]


def test_chunks_of_infinite_map_are_joined(tmp_path):
    chunks = (
        '<chunk x="-2" y="4" width="2" height="1">1,2</chunk><chunk x="0" y="3" width="2" height="2">0,0,0,3</chunk>'
    )
    data = f'<data encoding="csv">{chunks}</data>'
    layer = f'<layer name="a" width="9" height="9"><properties>{WALL}</properties>{data}</layer>'
    assert heights(read(tmp_path, tmx(layer, 9, 9))) == [[0, 0, 0, 0], [4, 4, 0, 4]]


@pytest.mark.parametrize("orientation", ["isometric", "staggered", "hexagonal"])
def test_non_orthogonal_map_is_refused(tmp_path, orientation):
    said = (
        rf"^it.tmx: orientation must be orthogonal: cells of other maps are not squares in rows, got '{orientation}'$"
    )
    with pytest.raises(FileError, match=said):
        read(tmp_path, tmx(csv_layer("a", ROWS, WALL), 3, 2, "", orientation))


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
PLAIN = tmx(csv_layer("a", ROWS, WALL), 3, 2)
BOMB = base64.b64encode(zlib.compress(bytes(1 << 26))).decode()


def layer_of(data, size='width="3" height="2"'):
    return tmx(f'<layer name="a" {size}><properties>{WALL}</properties>{data}</layer>', 3, 2)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("", r"it.tmx: not valid XML in UTF-8: no element found"),
        (b"\xff\xfe<", r"it.tmx: not valid XML in UTF-8: "),
        ("<map>", r"it.tmx: not valid XML in UTF-8: "),
        ("<svg/>", r"it.tmx: first element must be map or tileset, got 'svg'"),
        (PLAIN.replace("<map", LAUGHS + "<map"), r"it.tmx: XML must declare no entities, got <!ENTITY"),
        (PLAIN.replace('width="3"', 'width="99999999"', 1), r"it.tmx: width must be an integer 1..1048576"),
        (
            PLAIN.replace('width="3"', 'width="9999"', 1),
            r"it.tmx: map must be at most 8192 tiles a side, got '9999 x 2'",
        ),
        (layer_of('<data encoding="csv">1,2</data>'), r"layer 'a': tiles must be 6, got 2"),
        (layer_of('<data encoding="csv">1,2,x,4,5,6</data>'), r"layer 'a': tiles must be numbers: "),
        (layer_of('<data encoding="csv">1,2,-1,4,5,6</data>'), r"layer 'a': tiles must be integers of 32 bits"),
        (layer_of('<data encoding="csv">1,2,nan,4,5,6</data>'), r"layer 'a': tiles must be integers of 32 bits"),
        (
            layer_of('<data encoding="base64" compression="zstd">AA==</data>'),
            r"compression must be zlib, gzip or none: .*, got 'zstd'",
        ),
        (layer_of('<data encoding="base64">A</data>'), r"layer 'a': data cannot be decoded"),
        (layer_of('<data encoding="base64">AAAA</data>'), r"layer 'a': bytes of tiles must be 24, got 3"),
        (
            layer_of(f'<data encoding="base64" compression="zlib">{BOMB}</data>'),
            r"bytes of tiles must be 24, got 'more'",
        ),
        (
            layer_of(encoded("base64", "zlib", [1] * 6).replace("</data>", "")[:-14] + "</data>"),
            r"layer 'a': (data cannot be decoded|compressed data must be whole)",
        ),
        (
            layer_of("<data/>", 'width="8192" height="8192"'),
            r"tiles of all layers must be at most 16,777,216, got 67108864",
        ),
        (tmx("<group>" * 40 + "</group>" * 40), r"groups of layers must be at most 32 levels deep"),
        (
            PLAIN.replace('name="solid" type="bool" value="true"', 'name="material" value="os"'),
            r"material must be one of air",
        ),
        (
            PLAIN.replace('name="solid" type="bool" value="true"', 'name="height" value="99"'),
            r"height must be an integer 0..31",
        ),
        (
            tmx('<objectgroup name="x"><object class="heavy" x="0" y="0"/></objectgroup>', 3, 2),
            r"layer 'x': object '' must be of a team: property team, or a layer or name that begins with blue or red",
        ),
    ],
)  # fmt: skip
def test_invalid_file_raises_one_line(tmp_path, document, said):
    with pytest.raises(FileError, match=said) as raised:
        read(tmp_path, document)
    assert "\n" not in str(raised.value)
