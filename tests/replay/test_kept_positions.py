"""Replays of battles that start from given positions."""

import pytest
from builders import told
from forged import forged, taken_apart

import echelon
from echelon.env.env import EchelonEnv
from echelon.replay import file
from echelon.replay.ground import MapName, name_map, rebuild
from echelon.replay.recorder import Recorder
from echelon.rules.actions import Act
from echelon.runtime.files import FileError
from echelon.viewer.page import pack, unpack


def duel(height):
    scene = echelon.Scene().wall((19, 10), (21, 30), height, "glass")
    return scene.place("blue", "medium", at=(12, 20)).place("red", "heavy", at=(30, 20.5), facing_deg=180).scenario


@pytest.fixture(scope="module")
def kept():
    recorder = Recorder(range(4))
    env = EchelonEnv(echelon.scene_config([duel(2), duel(6)]), 4, "cpu", seed=1, observer=recorder)
    td = env.reset()
    for _ in range(4):
        _, td = env.step_and_maybe_reset(told(env, td, (1, Act.TERTIARY, 1.0), (0, Act.SPECIAL, 1.0)))
    return recorder.finish(["x"] * 4, ["y"] * 4), env


@pytest.fixture
def path(kept, tmp_path):
    file.save(kept[0], tmp_path / "duel.echelon")
    return tmp_path / "duel.echelon"


def test_file_restores_the_terrain_of_each_position(kept, path):
    _, env = kept
    found = file.read(path)
    which = env.state.map_id.tolist()
    assert [battle.about["map"] for battle in found.battles] == [{"position": place} for place in which]
    assert len(set(which)) == 2, "both positions occur"
    grounds = [rebuild(found, battle) for battle in found.battles]
    for place, battle, ground in zip(which, found.battles, grounds, strict=True):
        assert (ground == env.sim_model.maps.material[place].numpy()).all()
        assert name_map(found, battle) == MapName(place, [])
    page = unpack(pack(found, grounds))
    assert [battle["about"]["map"]["position"] for battle in page.battles] == which
    assert all((one["ground"] == ground).all() for one, ground in zip(page.arrays, grounds, strict=True))


HUGE, MANY = {"high": [9**9, 1, 1]}, {"boxes": [{"low": [0, 0, 0], "high": [1, 1, 1]}] * 4001}
CHANGES = [
    (lambda battle, env: battle.update(map={"position": 2}), r"map.position must be an integer 0..1, got 2"),
    (lambda battle, env: battle.update(map={"position": True}), r"map.position must be an integer 0..1, got True"),
    (lambda battle, env: battle["map"].update(seed=1), r"map.seed must be absent"),
    (lambda battle, env: battle.update(map={}), r"map.position is missing"),
    (lambda battle, env: env.update(positions=[]), r"battles\[0\].map"),
    (lambda battle, env: env.update(positions=[{"units": []}] * 1001), r"EnvConfig.positions must be at most 1000"),
    (lambda battle, env: env["positions"][0].update(MANY), r"Position.boxes must be at most 4000 entries"),
    (lambda battle, env: env["positions"][0]["boxes"][0].update(HUGE), r"Box.high must be 0..500 vox"),
    (lambda battle, env: env["positions"][0]["boxes"][0].update(material="os"), r"Box.material must be one of air"),
    (lambda battle, env: env["positions"][0]["units"].pop(), r"Scenario.units of red must be 1..20, got 0"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES, ids=[said for _, said in CHANGES])
def test_invalid_file_raises_one_line(path, change, said):
    tensors, metadata = taken_apart(path.read_bytes())
    change(metadata["battles"][0], metadata["replay"]["env"])
    path.write_bytes(forged(tensors, metadata))
    with pytest.raises(FileError, match=said) as caught:
        file.read(path)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 1000
