"""A map file to a scenario: exact voxels, places of the teams, refusals, and files of strangers."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies
from map_files import board, csv_layer, model, tmx, vox, write_examples

import echelon
from echelon.arena.config import ArenaConfig
from echelon.arena.match import named_match
from echelon.pipelines.import_map import ImportMap
from echelon.rules.catalog import Catalog, Material
from echelon.rules.config import WorldConfig
from echelon.rules.position import Box, Position, Unit
from echelon.rules.scenario import read_scenario
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.scenarios.importers import boxes, teams
from echelon.scenarios.importers.boxes import boxes_of
from echelon.scenarios.importers.ground import Crop, Ground, dense_materials
from echelon.scenarios.importers.import_map import ImportSettings, imported, read_map
from echelon.scenarios.importers.teams import APART_VOX, ENEMIES_VOX, walk_on
from echelon.serve.edit_server import playable_scenario
from echelon.world.authored_maps import ground_of

WALL = '<property name="solid" type="bool" value="true"/>'
EXAMPLES = {
    "hills.png": {},
    "hills.npy": {"height": 5},
    "N44W072.hgt": {"scale": 0.5},
    "town.vox": {"margin": 16},
    "forest.tmx": {"material": "walls=solid:4"},
    "rivervalley.board": {},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("maps")
    write_examples(path)
    return path


def voxels_of(scenario):
    """`[Z, Y, X]` materials of the map that a battle has."""
    return ground_of(scenario.position, scenario.settings.world)[0].numpy()


def open_ground(dense):
    """The floor of dirt where nothing else is."""
    dense = dense.copy()
    dense[0][dense[0] == Material.AIR] = Material.DIRT
    return dense


@given(strategies.randoms(use_true_random=False), strategies.integers(1, 3))
@settings(max_examples=6, deadline=None)
def test_boxes_reproduce_voxels_exactly(random, materials):
    rng = np.random.default_rng(random.randrange(1 << 30))
    dense = np.zeros((8, 32, 32), np.uint8)
    columns = rng.integers(0, 9, (6, 6)) >= np.arange(1, 9)[:, None, None]
    filled = rng.integers(0, materials + 1, (8, 6, 6))
    dense[:, 3:9, 5:11] = np.where(columns & (filled > 0), Material.SOLID - 1 + filled, 0)
    dense[:, 20:, 5:11] = dense[:, 3:4, 5:11]  # long walls
    world = WorldConfig(32, 32, 8)
    position = Position((), boxes_of("it", dense))
    assert (ground_of(position, world)[0].numpy() == open_ground(dense)).all()


def test_hill_needs_one_box_per_contour():
    """Steps 1, 2, 3 within each other are three boxes, where pieces without overlap are nine."""
    dense = np.zeros((3, 32, 32), np.uint8)
    for z in range(3):
        dense[z, 4 + z : 20 - z, 4 + z : 20 - z] = Material.SOLID
    assert boxes_of("it", dense) == tuple(Box((4 + z, 4 + z, 0), (20 - z, 20 - z, z + 1), "solid") for z in range(3))


def test_too_many_boxes_are_refused_before_boxes_are_made(monkeypatch):
    monkeypatch.setattr(boxes, "Box", SimpleNamespace(most_entries=Box.most_entries))  # a call raises TypeError
    dense = (np.indices((20, 100, 100)).sum(0) % 2 * Material.SOLID).astype(np.uint8)
    said = (
        r"^it: boxes of the ground must be at most 4,000: --scale, --crop or a "
        r"smaller --height makes fewer, got 'more'$"
    )
    with pytest.raises(FileError, match=said):
        boxes_of("it", dense)


@pytest.mark.parametrize(("name", "flags"), EXAMPLES.items())
def test_ground_of_a_battle_is_that_of_the_file(folder, name, flags):
    """Voxel by voxel, in the middle of the map; the teams are apart, stand on the ground, and see the zone between."""
    words = flags | {"material": (flags["material"],)} if "material" in flags else flags
    read = read_map(folder / name, ImportSettings(**words)).unique()
    scenario = echelon.import_map(folder / name, **flags)
    found, world = voxels_of(scenario), scenario.settings.world
    low = [(side - own) // 2 for side, own in zip(world.size, read.size[:2], strict=False)]
    assert (found == open_ground(dense_materials(read, world.size, low))).all()
    places = {team: np.array([(u.x, u.y) for u in scenario.units if u.team == team]) for team in ("blue", "red")}
    assert [len(each) for each in places.values()] == [5, 5]
    assert abs(places["blue"][:, None] - places["red"]).max(2).min() >= ENEMIES_VOX
    for each in places.values():
        gaps = abs(each[:, None] - each).max(2)
        assert gaps[~np.eye(5, dtype=bool)].min() >= APART_VOX
    env = echelon.scene(scenario, num_envs=2, device="cpu")
    assert env.rollout(2)["blue", "mask"].all()


def test_a_scenario_is_the_same_each_time_and_after_its_file(folder, tmp_path):
    one, two = (echelon.import_map(folder / "hills.png", margin=4) for _ in range(2))
    assert one == two
    one.save(tmp_path / "hills.json")
    assert read_scenario(tmp_path / "hills.json") == one
    assert playable_scenario(one.as_json()) == one, "the editor checks and saves it"


@pytest.mark.long
def test_shipped_champion_plays_on_an_imported_map(folder):
    config = echelon.import_map(folder / "hills.png", height=4).config
    config = replace(config, rules=replace(config.rules, max_episode_s=3.0))
    match = named_match("trained:champion", "heuristic:hard", config, 2, ArenaConfig(torch.device("cpu")))
    (result,) = match.play(0).values()
    assert result.as_json()["battles"] == 2


def ground(cells, size, **more):
    places = np.array([cell[:3] for cell in cells], np.int32)
    return Ground("it", size, places, np.array([cell[3] for cell in cells], np.uint8), **more)


def test_half_filled_voxels_stay_when_ground_is_reduced():
    """Of 2 x 2 x 2 voxels four are half: they stay; three do not. The most frequent material counts."""
    four = [(0, 0, 0, 4), (1, 0, 0, 8), (0, 1, 0, 8), (1, 1, 0, 8)]
    three = [(2, 0, 0, 4), (3, 0, 0, 4), (2, 1, 0, 4)]
    found = ground(four + three, (4, 2, 2)).scaled(0.5)
    assert (found.size, found.places.tolist(), found.materials.tolist()) == ((2, 1, 1), [[0, 0, 0]], [8])


def test_enlarged_voxels_are_blocks_and_columns_keep_their_height():
    one = ground([(1, 0, 0, 4)], (2, 1, 1))
    assert sorted(map(tuple, one.scaled(2).places.tolist())) == [
        (x, y, z) for x in (2, 3) for y in (0, 1) for z in (0, 1)
    ]
    columns = ground([(1, 0, 0, 4)], (2, 1, 1), has_columns=True)
    assert columns.scaled(2).size == (4, 2, 1)
    assert columns.scaled(2, height=3).size == (4, 2, 3)


def test_crop_and_scale_move_mechs_and_zone():
    unit, far = Unit("blue", "light", 6, 4), Unit("red", "light", area=(0, 0, 2, 2))
    whole = ground([(5, 3, 0, 4), (0, 0, 0, 4)], (8, 8, 1), units=(unit, far), zone=(6.0, 5.0, 2.0))
    part = whole.cropped(Crop(4, 2, 4, 4)).scaled(2)
    assert part.units == (Unit("blue", "light", 4, 4),) and part.zone == (4.0, 6.0, 4.0)
    assert part.notes == ("1 mechs beyond the crop left out",)
    with pytest.raises(ConfigError, match=r"^--crop must be within the 8 x 8 columns of it, got '4 2 5 4'$"):
        whole.cropped(Crop(4, 2, 5, 4))


def test_walking_is_the_one_of_the_rules():
    """A step of one voxel joins two levels, one of two does not; a hull of 5 columns needs their room."""
    dense = np.zeros((16, 32, 32), np.uint8)
    dense[0, :, 16:] = Material.SOLID
    walk = walk_on(dense, 2, Catalog())
    assert walk.part[16, 4] == walk.part[16, 28] >= 0 and walk.level[16, 28] == 1
    assert walk.part[1, 4] == -1, "the edge of the map"
    dense[1, :, 16:] = Material.SOLID
    walk = walk_on(dense, 2, Catalog())
    assert walk.part[16, 4] != walk.part[16, 28]


def write(tmp_path, name, text):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / name


SQUARES = """<objectgroup name="blue"><object class="heavy" x="{}" y="320"/></objectgroup>
<objectgroup name="red"><object class="scout" x="560" y="320"/></objectgroup>"""
FENCE = np.zeros((40, 40), int)
FENCE[:, 10:30] = 1
FULL = np.ones((40, 40), int)


@pytest.mark.parametrize(
    ("name", "text", "flags", "said"),
    [
        ("a.png", b"", {"scale": 0.5}, r"^a.png must be a PNG file"),
        (
            "a.gif", b"", {},
            r"^a.gif: file must be one whose name ends in .vox, .png, .npy, .hgt, .tif, .tiff, .tmx, "
            r".tmj, .board, got '.gif'$",
        ),
        ("a.board", board([[0] * 12] * 12), {}, r"^a.board: ground must be of at least one voxel, got 'none'$"),
        (
            "a.board", board([[0] * 200] * 4), {},
            r"^a.board: ground must be at most 500 x 500 columns: --scale 0.625 or --crop makes it "
            r"smaller, got '800 x 18'$",
        ),
        (
            "a.board", board([[0, 40]] * 2), {},
            r"^a.board: ground must be at most 31 vox high: --height 24 makes it lower, got 40$",
        ),
        (
            "a.vox", vox(model((1, 1, 62), [(0, 0, z, 1) for z in range(62)])), {},
            r"^a.vox: ground must be at most 31 vox high: --scale 0.5 or --height 24 makes it lower, got 62$",
        ),
        (
            "a.tmx", tmx(csv_layer("a", FULL, WALL)), {"material": ("a=lava",)},
            r"^a.tmx: ground must be with level places 5 vox wide",
        ),
        (
            "a.tmx", tmx(csv_layer("a", FENCE, WALL) + SQUARES.format(100)), {},
            r"^a.tmx: blue heavy at 6.25, 20 must be joined on foot with the zone at 20, 20, got 'no way'$",
        ),
        ("a.tmx", tmx(csv_layer("a", FENCE, WALL) + SQUARES.format(320)), {}, r"^a.tmx: "),
        (
            "a.tmx", tmx(csv_layer("a", FENCE, WALL) + SQUARES.format(100).split("\n")[0]), {},
            r"^a.tmx: mechs of red must be at least one, as the other team has, got 0$",
        ),
        (
            "a.board", board([[0, 1]] * 2), {"crop": (0, 0, 99, 1)},
            r"^--crop must be within the 8 x 10 columns of a.board, got '0 0 99 1'$",
        ),
        ("a.board", board([[0, 1]] * 2), {"crop": (0, 0, 9)}, r"^--crop must be X Y WIDTH DEPTH, got \(0, 0, 9\)$"),
        ("a.board", board([[0, 1]] * 2), {"material": ("os",)}, r"^--material must be one of air, dirt, "),
        (
            "a.board", board([[0, 1]] * 2), {"material": ("solid:4",)},
            r"^--material must be NAME, KEY=NAME or KEY=NAME:HEIGHT, got 'solid:4'$",
        ),
        (
            "a.board", board([[0, 1]] * 2), {"scale": float("nan")},
            r"^ImportSettings.scale must be a finite number, got nan$",
        ),
        ("a.board", board([[0, 1]] * 2), {"scale": 0}, r"^ImportSettings.scale must be 0.001..64, got 0$"),
        (
            "a.board", board([[0, 1]] * 2), {"preset": "tiny"},
            r"^--preset must be one of small, standard, large, got 'tiny'$",
        ),
        ("missing.vox", None, {}, r"^missing.vox: cannot be read: No such file or directory$"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_scenario_is_refused_in_one_line(tmp_path, name, text, flags, said):
    path = tmp_path / name if text is None else write(tmp_path, name, text)
    before = sorted(tmp_path.iterdir())
    with pytest.raises((FileError, ConfigError), match=said) as raised:
        imported(path, ImportSettings(**flags))
    assert "\n" not in str(raised.value)
    assert sorted(tmp_path.iterdir()) == before


def test_mechs_and_zone_of_a_file_are_kept(tmp_path):
    objects = (
        SQUARES.format(100)
        + '<objectgroup><object class="zone" x="160" y="160" width="128" height="128"/></objectgroup>'
    )
    rows = np.zeros((40, 40), int)
    rows[3, 20] = 1
    scenario = echelon.import_map(write(tmp_path, "a.tmx", tmx(csv_layer("a", rows, WALL) + objects)))
    assert scenario.units == (Unit("blue", "heavy", 6.25, 20), Unit("red", "scout", 35, 20, facing_deg=180))
    assert scenario.zone == (14, 26, 4)


def test_the_command_writes_nothing_after_a_refusal(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ImportMap(file=folder / "hills.png").run()
    assert [path.name for path in tmp_path.iterdir()] == ["hills.json"]
    before = (tmp_path / "hills.json").read_bytes()
    bad = write(tmp_path, "hills.board", "size 1 1\n")
    with pytest.raises(FileError):
        ImportMap(file=bad, out=tmp_path / "hills.json").run()
    assert (tmp_path / "hills.json").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hills.board", "hills.json"]
    assert "ground      64 x 64 x 16 vox" in capsys.readouterr().out


def broken(data, rng, count):
    """A file cut somewhere, or with some bits turned over."""
    for _ in range(count):
        if rng.integers(2):
            yield data[: rng.integers(len(data))]
        else:
            copy = bytearray(data)
            for _ in range(rng.integers(1, 9)):
                copy[rng.integers(len(copy))] ^= 1 << rng.integers(8)
            yield bytes(copy)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_broken_files_end_in_one_line_or_in_ground(folder, tmp_path, name, seed):
    rng, ends = np.random.default_rng(seed), []
    path = tmp_path / name
    for data in broken((folder / name).read_bytes(), rng, 40):
        path.write_bytes(data)
        try:
            read_map(path, ImportSettings(**({"material": ("walls=solid",)} if "tmx" in name else {})))
            ends.append("ground")
        except (FileError, ConfigError) as error:
            assert "\n" not in str(error)
            ends.append("refused")
    assert "refused" in ends


BOMBS = {
    "a.npy": b"\x93NUMPY\x01\0\x76\0"
    + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }".ljust(117)
    + b"\n",
    "a.vox": vox(model((256, 256, 256), []) + b"XYZI\xff\xff\xff\x7f\0\0\0\0"),
    "b.board": b'size 1 1\nhex 0101 0 "' + b"a:1;" * 3_000_000 + b'" ""\n',
    "a.board": board([[-500]] + [[500]] * 3000),
    "a.tmx": tmx(f"<layer name='a' width='4096' height='4096'><properties>{WALL}</properties></layer>" * 9, 4096, 4096),
    "a.tmj": b"[" * 1_000_000,
    "b.tmx": tmx(
        f"<layer name='a' width='400' height='400'><properties>{WALL}</properties>"
        f"<data encoding='csv'>{'9' * 9000}{',1' * 159_999}</data></layer>",
        400,
        400,
    ),
    "b.vox": vox(model((200, 200, 200), [(i % 200, i // 200, 9 * z, 1) for z in range(20) for i in range(40_000)])),
}


@pytest.mark.long
def test_bombs_are_refused_in_one_line_and_1_gb(tmp_path):
    """In a process of its own, whose peak of memory counts what compiled libraries allocate, too."""
    for name, data in BOMBS.items():
        write(tmp_path, name, data)
    program = """
import resource
from pathlib import Path
from types import SimpleNamespace
from echelon.scenarios.importers.import_map import ImportSettings, imported
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sorted(Path.cwd().iterdir()):
    try:
        imported(path, ImportSettings())
    except ValueError as error:
        print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *lines, megabytes = done.stdout.splitlines()
    assert [line.partition(":")[0].partition(" ")[0] for line in lines] == sorted(BOMBS), "one line each"
    assert int(megabytes) < 1000, done.stdout


def test_teams_too_near_each_other_are_refused(tmp_path):
    """13 x 13 places in a field of lava have room for both teams, but not 12 vox between them."""
    lava = np.ones((40, 40), int)
    lava[11:28, 11:28] = 0
    path = write(tmp_path, "a.tmx", tmx(csv_layer("a", lava, WALL)))
    said = r"^a.tmx: connected ground of x \d+..\d+, y \d+..\d+: distance of the teams must be at least 12 vox: --crop"
    with pytest.raises(FileError, match=said):
        imported(path, ImportSettings(material=("a=lava:1",)))


def test_ways_are_searched_once_for_each_width_of_hull(monkeypatch):
    """On a map of 500 x 500 columns a search takes half a second."""
    dense = np.zeros((8, 40, 40), np.uint8)
    dense[0] = Material.DIRT
    reaches = []
    monkeypatch.setattr(teams, "walk_on", lambda *given: reaches.append(given[1]) or walk_on(*given))
    units = [Unit("blue", hull, 10, 4 * i) for i, hull in enumerate(("heavy", "scout", "heavy", "scout", "scout"), 1)]
    teams.check_ways("a", dense, units, (20, 20, 7.5), Catalog())
    assert len(reaches) == len(set(reaches)) == 2
