"""A replay file restores its content, or raises one clear line."""

import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy
from builders import arena, told
from forged import forged, rewrite, taken_apart
from next_rules import NEXT, OURS, change_rules

from echelon.env.env import EchelonEnv
from echelon.replay import file
from echelon.replay.file import NAMES
from echelon.replay.ground import name_map, rebuild
from echelon.replay.recorder import Recorder
from echelon.rules.actions import Act
from echelon.rules.config import EnvConfig
from echelon.runtime.files import FileError, check_writable
from echelon.world.pool import write_recipes

SMALL = dataclasses.replace(EnvConfig.small(), map_pool=2)


def record(env, recorder, names=("x", "y")):
    """Record a few decisions of a battle with shots."""
    td = env.reset()
    for _ in range(4):
        _, td = env.step_and_maybe_reset(told(env, td, (3, Act.TERTIARY, 1.0), (0, Act.SPECIAL, 1.0)))
    return recorder.finish(*([name] * len(recorder.battles) for name in names))


@pytest.fixture(scope="module")
def replay():
    recorder = Recorder([0, 1], observations=True)
    return record(EchelonEnv(SMALL, 2, "cpu", seed=1, observer=recorder), recorder)


@pytest.fixture
def path(replay, tmp_path):
    file.save(replay, tmp_path / "kept.echelon")
    return tmp_path / "kept.echelon"


def test_round_trip(replay, path):
    found = file.read(path)
    assert found.about == json.loads(json.dumps(replay.about))
    for one, other in zip(replay.battles, found.battles, strict=True):
        assert one.about == other.about
        for name in NAMES:
            ours, theirs = getattr(one, name), getattr(other, name)
            assert ours.dtype == theirs.dtype and (ours == theirs).all(), name
        assert (one.rewards == other.rewards).all() and one.values is other.values is None
        assert one.observations.keys() == other.observations.keys() and len(one.observations) == 7
        for name in one.observations:
            assert (one.observations[name] == other.observations[name]).all(), name


def test_paths_may_be_strings(replay, path, tmp_path):
    file.save(replay, str(tmp_path / "copy.echelon"))
    assert file.read(str(tmp_path / "copy.echelon")).about == file.read(path).about


def test_values_are_stored(replay, tmp_path):
    values = replay.battles[0].rewards + 1
    changed = dataclasses.replace(replay, battles=[dataclasses.replace(replay.battles[0], values=values)])
    file.save(changed, tmp_path / "kept.echelon")
    assert np.array_equal(file.read(tmp_path / "kept.echelon").battles[0].values, values)


def test_equal_battles_give_equal_files(replay, path, tmp_path):
    file.save(replay, tmp_path / "again.echelon")
    assert (tmp_path / "again.echelon").read_bytes() == path.read_bytes()
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_terrain_is_rebuilt_from_its_recipe(replay):
    recorder = Recorder([0])
    env = EchelonEnv(SMALL, 1, "cpu", seed=1, observer=recorder)
    kept = record(env, recorder)
    material = rebuild(kept, kept.battles[0])
    assert (material == env.sim_model.maps.material[env.state.map_id[0]].numpy()).all()
    used = env.state.map_id[0]
    assert write_recipes(env.sim_model.maps[used : used + 1])[0].as_json() == kept.battles[0].about["map"]


def test_map_name_has_number_and_biomes():
    """A map of one biome has its name, and its number is the index in the pool."""
    world = dataclasses.replace(SMALL.world, biomes=("barrens",))
    config = dataclasses.replace(SMALL, world=world, map_pool=3)
    recorder = Recorder([0, 1, 2, 3])
    env = EchelonEnv(config, 4, "cpu", seed=3, observer=recorder)
    kept = record(env, recorder)
    named = [name_map(kept, battle) for battle in kept.battles]
    assert [one.number for one in named] == env.state.map_id.tolist() and len({one.number for one in named}) > 1
    assert all(one.biomes == ["barrens"] for one in named)
    strange = dataclasses.replace(kept.battles[0], about={**kept.battles[0].about, "map": {"version": 2}})
    with pytest.raises(FileError, match=r"replay: map.seed must be"):
        name_map(kept, strange)


def test_replay_of_earlier_rules_opens_and_of_later_rules_raises(replay, monkeypatch):
    """A replay contains the events; only the terrain is rebuilt, with the settings in the file."""
    ground = rebuild(replay, replay.battles[0])
    newer = dataclasses.replace(replay, about={**replay.about, "env": {**replay.about["env"], "rules_version": NEXT}})
    with pytest.raises(FileError) as caught:
        rebuild(newer, newer.battles[0])
    assert str(caught.value) == f"replay: env.rules_version must be at most {OURS}, got {NEXT}: use a newer Echelon"
    change_rules(monkeypatch)
    assert (rebuild(replay, replay.battles[0]) == ground).all()


def test_map_without_recipe_raises():
    recorder = Recorder([0])
    env = arena(SMALL)
    env.observer = recorder
    kept = record(env, recorder)
    with pytest.raises(FileError, match=r"the sha256 of map 0 must be [0-9a-f]{64}, .*, got '[0-9a-f]{64}'") as caught:
        rebuild(kept, kept.battles[0])
    assert "\n" not in str(caught.value)


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def set_metadata(**metadata):
    return lambda _, kept: kept.update(metadata)


def set_tensor(name, value):
    def change(tensors, metadata):
        tensors.pop(name)
        if value is not None:
            tensors[name] = value

    return change


DAMAGE = {
    "empty": (lambda path: path.write_bytes(b""), "truncated"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-40]), "not a safetensors file"),
    "cut in its header": (lambda path: path.write_bytes(path.read_bytes()[:500]), "truncated"),
    "one bit": (lambda path: flip(path, -100), "sha256 mismatch: expected .*, got"),
    "text": (lambda path: path.write_text("hello, this is no replay at all"), "truncated: header of"),
    "other schema": (
        lambda path: rewrite(path, set_metadata(schema="something")),
        "schema must be 'echelon-replay', got 'something'",
    ),
    "other version": (lambda path: rewrite(path, set_metadata(version=99)), "version must be 1, got 99"),
    "no battles": (lambda path: rewrite(path, set_metadata(battles={})), r"battles must be a list of 1..1024, got {}"),
    "metadata cut": (lambda path: rewrite(path, set_metadata(text="{")), "not valid JSON"),
    "metadata of another kind": (
        lambda path: rewrite(path, set_metadata(text="[]")),
        r"metadata must be an object, got \[\]",
    ),
    "weights": (
        lambda path: path.write_bytes(safetensors.numpy.save({"w": np.zeros(3)})),
        "schema must be 'echelon-replay', got None: is this a replay",
    ),
    "array gone": (
        lambda path: rewrite(path, set_tensor("1/pos", None)),
        "battle 1: pos must be of int16, got none",
    ),
    "wrong type": (
        lambda path: rewrite(path, set_tensor("0/hp", np.zeros((5, 10), np.float32))),
        "battle 0: hp must be of int16, got float32",
    ),
    "wrong length": (
        lambda path: rewrite(path, set_tensor("0/hp", np.zeros((3, 10), np.int16))),
        r"battle 0: hp must be of shape 5 x 10, got \(3, 10\)",
    ),
    "wrong mechs": (
        lambda path: rewrite(path, set_tensor("0/hp", np.zeros((5, 4), np.int16))),
        r"battle 0: hp must be of shape 5 x 10, got \(5, 4\)",
    ),
    "wrong columns": (
        lambda path: rewrite(path, set_tensor("0/harms", np.zeros((3, 9), np.int32))),
        r"battle 0: harms must be of shape at most 14000 x 5, got \(3, 9\)",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_file_raises_one_line(path, name):
    damage, message = DAMAGE[name]
    damage(path)
    with pytest.raises(FileError, match=message) as caught:
        file.read(path)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("kept.echelon")


def test_metadata_is_hashed_too(path):
    """Edit a seed and a commander's name in the file by hand, without updating the hash."""
    tensors, metadata = taken_apart(path.read_bytes())
    for change in ({"seed": 1}, {"red": "another name"}):
        battles = [{**metadata["battles"][0], **change}, *metadata["battles"][1:]]
        path.write_bytes(forged(tensors, metadata, json.dumps({**metadata, "battles": battles})))
        with pytest.raises(FileError, match=r"claims_sha256 mismatch: expected '[0-9a-f]{64}', got [0-9a-f]{64}"):
            file.read(path)
    without = {name: value for name, value in metadata.items() if name != "claims_sha256"}
    path.write_bytes(forged(tensors, metadata, json.dumps(without)))
    with pytest.raises(FileError, match=r"kept\.echelon\.claims_sha256 is missing"):
        file.read(path)


def test_commander_name_is_stored_printable(tmp_path):
    recorder = Recorder([0])
    kept = record(EchelonEnv(SMALL, 1, "cpu", seed=1, observer=recorder), recorder, names=("a\nb", "c\x1b[2J" * 900))
    file.save(kept, tmp_path / "kept.echelon")
    assert file.read(tmp_path / "kept.echelon").battles[0].about["blue"] == r"a\nb"


def test_missing_file_raises(tmp_path):
    with pytest.raises(FileError, match=r"gone.echelon: cannot be read: No such file"):
        file.read(tmp_path / "gone.echelon")


def test_unwritable_path_raises_before_and_after(replay, tmp_path):
    (tmp_path / "plain").write_text("a file")
    with pytest.raises(FileError, match="cannot be written"):
        file.save(replay, tmp_path / "plain" / "kept.echelon")
    with pytest.raises(FileError, match="cannot be written"):
        check_writable(tmp_path / "plain" / "kept.echelon")
    with pytest.raises(FileError, match="expected a file name, got a folder"):
        check_writable(tmp_path)
