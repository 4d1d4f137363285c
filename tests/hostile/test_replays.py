"""Untrusted replays: each metadata value and each array is replaced by invalid values of all kinds.

Each file is refused in one line, or can be drawn completely.
"""

import functools
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from apart import apart
from forged import forged, taken_apart
from releases import REPLAY as KEPT

from echelon.pipelines.watch import Watch
from echelon.replay import file
from echelon.replay.battle import OPTIONAL, TABLES
from echelon.replay.ground import rebuild
from echelon.rules.orders import CommandConfig, OrderField, action_width
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.viewer.battle_picture import BattlePlan, framed, telling_times, vox_px
from echelon.viewer.page import pack
from hostile.values import DROPPED, VALUES, at, places, put

pytestmark = pytest.mark.long

TENSORS, METADATA = taken_apart(KEPT.read_bytes())
TENSORS["0/values"] = TENSORS["0/rewards"]
TENSORS["0/orders"] = np.zeros((*TENSORS["0/yaw"].shape, len(OrderField)), np.int32)
MECHS = METADATA["replay"]["mechs"]
SPOKEN = (
    -(-(len(TENSORS["0/yaw"]) - 1) // CommandConfig.period),
    max(mech["pack"] for mech in MECHS) + 1,
    action_width(max(end - first for first, end in METADATA["replay"]["teams"].values())),
)
TENSORS["0/commands"] = np.zeros(SPOKEN, np.float32)
"""The scripted commanders of the file have no value head and receive no orders."""
GIB = 1 << 30
IN_ENV = ("replay", "env")
PLACES = list(places(METADATA, ("weapon_specs", "stats")))
OBSERVED = "0/observation_ego"
SAID = [path for path in PLACES if path and path[:2] != IN_ENV and path[0] not in ("sha256", "claims_sha256")]
SETTINGS = [path for path in PLACES if path[:2] == IN_ENV and "catalog" not in path and "reward" not in path]


def each_of(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: ".".join(map(str, path)))


def outcome(path, same_ground=True):
    """Return the one-line error of a file, or None if it can be drawn completely."""
    try:
        replay = file.read(path)
        grounds = [GROUND() if same_ground else rebuild(replay, battle) for battle in replay.battles]
    except (FileError, ConfigError) as error:
        assert str(error).isprintable() and len(str(error)) <= 1000
        return str(error)
    pack(replay, grounds)
    for number, ground in enumerate(grounds):
        plan = BattlePlan(replay, number, ground, vox_px(replay, 64))
        for t in telling_times(plan, 3):
            framed(plan, replay.battles[number], t)
    return None


@functools.cache
def GROUND():
    replay = file.read(KEPT)
    return rebuild(replay, replay.battles[0])


def test_unchanged_replay_is_drawable(tmp_path):
    (tmp_path / "kept.echelon").write_bytes(forged(TENSORS, METADATA))
    assert outcome(tmp_path / "kept.echelon", same_ground=False) is None


@each_of(SAID)
def test_changed_metadata_is_refused_or_drawable(path, tmp_path):
    refused = 0
    for name, value in VALUES.items():
        if value is DROPPED and isinstance(path[-1], int):
            continue
        place = tmp_path / "kept.echelon"
        place.write_bytes(forged(TENSORS, put(METADATA, path, value)) if name != "400 digits" else digits(path))
        refused += outcome(place) is not None
    assert refused >= 12, f"only {refused} of {len(VALUES)} were refused"


def digits(path):
    """Write the metadata as text, because the hash of unreadable values is undefined."""
    return forged(TENSORS, METADATA, json.dumps(put(METADATA, path, 10**400)))


@each_of(SETTINGS)
def test_changed_setting_is_refused_or_map_is_generated(path, tmp_path):
    """Only a few values; `test_settings.py` covers values of wrong types."""
    for name in (
        "null",
        "a word",
        "zero",
        "below zero",
        "a fraction",
        "an empty list",
        "an empty object",
        "a list in lists",
    ):
        place = tmp_path / "kept.echelon"
        place.write_bytes(forged(TENSORS, put(METADATA, path, VALUES[name])))
        outcome(place, same_ground=path[2:3] not in (("world",), ("blue",), ("red",)))


@pytest.mark.parametrize(
    "path", [path for path in SAID if isinstance(at(METADATA, path), list)], ids=lambda p: ".".join(map(str, p))
)
def test_list_of_wrong_length_or_order_is_refused(path, tmp_path):
    values, place = at(METADATA, path), tmp_path / "kept.echelon"
    for other in (values[:-1], values * 2, [*values, None], [values]):
        if other != values:
            place.write_bytes(forged(TENSORS, put(METADATA, path, other)))
            told = outcome(place)
            # A list of any length may be shorter by one, a squad or the columns of the ego stream.
            assert told is not None or other == values[:-1] or path[-1] in ("squad", "weapons", "cooldowns")


@pytest.mark.parametrize(
    "path", [path for path in SAID if isinstance(at(METADATA, path), dict)], ids=lambda p: ".".join(map(str, p))
)
def test_unknown_metadata_is_refused(path, tmp_path):
    place = tmp_path / "kept.echelon"
    place.write_bytes(forged(TENSORS, put(METADATA, (*path, "surplus\x1b"), 1)))
    told = outcome(place)
    assert told is not None and "\\x1b" in told


def one_number(array, value):
    changed = array.copy()
    changed.reshape(-1)[changed.size // 2] = value
    return changed


def shorter(array, axis):
    return np.ascontiguousarray(np.delete(array, -1, axis)) if array.shape[axis] else array


def longer(array):
    return np.concatenate((array, array)) if array.size else np.zeros((10**5, *array.shape[1:]), array.dtype)


SHAPES = {
    "gone": lambda array: None,
    "of another type": lambda array: array.astype(np.float32),
    "of a wider type": lambda array: array.astype(np.int64),
    "of bools": lambda array: array.astype(bool),
    "flat": lambda array: array.reshape(-1),
    "a number": lambda array: np.zeros((), array.dtype),
    "with an axis more": lambda array: array[None],
    "empty": lambda array: array[:0],
    "empty behind": lambda array: array[..., :0],
    "shorter": lambda array: shorter(array, 0),
    "longer": lambda array: (
        np.concatenate((array, array)) if array.size else np.zeros((10**5, *array.shape[1:]), array.dtype)
    ),
    "narrower": lambda array: shorter(array, -1),
    "wider": lambda array: np.concatenate((array, array), -1),
    "turned": lambda array: np.ascontiguousarray(array.T),
}
VARIES = {"beams", "flights", "waypoints", "harms", "deaths", "conditions", "clouds", "voxels"}
"""Arrays of variable length; with fewer rows the replay may be valid."""
MAY_BE = {"empty", "shorter", "longer"}


@pytest.mark.parametrize("key", sorted(TENSORS))
@pytest.mark.parametrize("name", SHAPES)
def test_array_of_wrong_shape_is_refused_before_reading(key, name, tmp_path):
    place, array = tmp_path / "kept.echelon", SHAPES[name](TENSORS[key])
    if array is not None and (array.shape, array.dtype) == (TENSORS[key].shape, TENSORS[key].dtype):
        pytest.skip("it is the same")
    tensors = {other: value for other, value in TENSORS.items() if other != key}
    place.write_bytes(forged(tensors if array is None else {**tensors, key: array}, METADATA))
    told = outcome(place)
    contacts = key in ("0/contacts", "0/contact_facts")
    optional = key.removeprefix("0/") in OPTIONAL and name == "gone"
    varies = (key.removeprefix("0/") in VARIES and name in MAY_BE) or (contacts and name == "narrower")
    assert (told is None) if optional else (told is not None or varies)


INDICES = (
    *(
        "facts",
        "paint",
        "focus",
        "contacts",
        "contact_facts",
        "beams",
        "flights",
        "harms",
        "deaths",
        "conditions",
        "triggers",
        "clouds",
        "voxels",
    ),
)
"""Arrays of indices and codes."""
FREE = {("harms", 3), ("clouds", 1)}
"""Columns of these arrays without indices: damage, and the duration of smoke."""


@pytest.mark.parametrize("key", sorted(TENSORS))
def test_out_of_range_numbers_are_refused_or_drawable(key, tmp_path):
    place, array, short = tmp_path / "kept.echelon", TENSORS[key], key.removeprefix("0/")
    columns = range(array.shape[1]) if short in VARIES else [None]
    for column, extreme in itertools.product(columns, ("min", "max")):
        limits = np.finfo if array.dtype.kind == "f" else np.iinfo
        changed, value = array.copy(), getattr(limits(array.dtype), extreme)
        if column is None:
            changed = one_number(array, value)
        else:
            changed = changed if len(changed) else np.zeros((1, array.shape[1]), array.dtype)
            changed[-1, column] = value
        place.write_bytes(forged({**TENSORS, key: changed}, METADATA))
        told = outcome(place)
        if (short, column) not in FREE and short in INDICES and (value < -1 or (value > 0 and array.dtype != np.uint8)):
            assert told is not None, f"{short} column {column}: {value} was taken"


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.5])
def test_invalid_command_values_are_refused(value, tmp_path):
    array = TENSORS["0/commands"]
    for bad, refused in ((value, True), (-1.0, False)):
        (tmp_path / "kept.echelon").write_bytes(forged({**TENSORS, "0/commands": one_number(array, bad)}, METADATA))
        told = outcome(tmp_path / "kept.echelon")
        assert ("commands must be -1..1" in str(told)) if refused else told is None


EVENTS = ("beams", "flights", "harms", "deaths", "conditions", "clouds", "voxels")


@pytest.mark.parametrize("key", EVENTS)
def test_events_out_of_order_are_refused(key, tmp_path):
    array = TENSORS[f"0/{key}"]
    # A file may hold no more deaths than there are mechs.
    twice = np.concatenate((array, array)) if len(array) else np.zeros((2, array.shape[1]), np.int32)
    rows = array.copy() if len(array) > 1 else twice
    rows[0, 0], rows[-1, 0] = 3, 2
    if key in ("flights", "clouds"):
        rows[:, 1] = 90
    (tmp_path / "kept.echelon").write_bytes(forged({**TENSORS, f"0/{key}": rows}, METADATA))
    assert f"{key} must be sorted by" in str(outcome(tmp_path / "kept.echelon"))


def test_unsupported_record_is_refused(tmp_path):
    place = tmp_path / "kept.echelon"
    for record in (1, 3):
        place.write_bytes(forged(TENSORS, put(METADATA, ("replay", "record"), record)))
        assert f"replay.record must be 2, got {record}" in str(outcome(place))


def test_new_columns_are_checked(tmp_path):
    place = tmp_path / "kept.echelon"
    for key, column, bad in (("harms", 4, 7), ("flights", 9, 20), ("conditions", 1, -1), ("conditions", 2, 5)):
        rows = TENSORS[f"0/{key}"].copy() if len(TENSORS[f"0/{key}"]) else np.zeros((1, 3), np.int32)
        rows[-1, column] = bad
        place.write_bytes(forged({**TENSORS, f"0/{key}": rows}, METADATA))
        assert f"{key}.{TABLES[key][column]} must be" in str(outcome(place))
    for key, bad in (("switches", 64), ("triggers", 1 << 7)):
        place.write_bytes(forged({**TENSORS, f"0/{key}": one_number(TENSORS[f"0/{key}"], bad)}, METADATA))
        assert f"{key} must be 0.." in str(outcome(place))


def raw(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def listed(metadata):
    """Return the header of a valid replay with other metadata."""
    data = forged(TENSORS, METADATA)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    return raw({**header, "__metadata__": metadata}, data[8 + size :])


def renamed(old, new):
    return forged({new if key == old else key: value for key, value in TENSORS.items()}, METADATA)


def text_of(metadata):
    return forged(TENSORS, METADATA, metadata)


GOOD = json.dumps(METADATA)
FILES = {
    "empty": b"",
    "seven bytes": bytes(7),
    "a header beyond the file": (2**63).to_bytes(8, "little") + b"{}",
    "a header that is a list": raw(b"[]"),
    "a header that is a number": raw(b"7"),
    "a header that is no UTF-8": raw(b"\xff\xfe"),
    "metadata that is a list": listed([]),
    "metadata that is text": listed("claims"),
    "metadata of numbers": listed({"claims": 7}),
    "no entry": listed({}),
    "no metadata": listed({"other": "{}"}),
    "tensors that are lists": raw({"0/pos": []}),
    "tensors without a type": raw({"0/pos": {"shape": [0], "data_offsets": [0, 0]}}),
    "tensors without a shape": raw({"0/pos": {"dtype": "I16", "data_offsets": [0, 0]}}),
    "tensors of an unknown type": raw({"0/pos": {"dtype": "X9", "shape": [0], "data_offsets": [0, 0]}}),
    "a shape that is negative": raw({"0/pos": {"dtype": "I16", "shape": [-1], "data_offsets": [0, 0]}}),
    "a shape of fractions": raw({"0/pos": {"dtype": "I16", "shape": [0.5], "data_offsets": [0, 0]}}),
    "a shape of 2^63": raw({"0/pos": {"dtype": "I16", "shape": [2**63, 2**63], "data_offsets": [0, 0]}}),
    "a shape of zero times much": raw({"0/pos": {"dtype": "I16", "shape": [0, 2**39], "data_offsets": [0, 0]}}),
    "metadata twice": text_of('{"schema": "echelon-replay", "schema": "echelon-replay"}'),
    "metadata deep": text_of('{"a":' * 900 + "1" + "}" * 900),
    "metadata cut": text_of(GOOD[:-1]),
    "metadata with more behind": text_of(GOOD + "{}"),
    "metadata with NaN": text_of(GOOD.replace('"dt_s": 0.05', '"dt_s": NaN')),
    "metadata with infinity": text_of(GOOD.replace('"dt_s": 0.05', '"dt_s": 1e999')),
    "metadata with a surrogate": text_of(GOOD.replace("heuristic:hard", "\\ud800")),
    "metadata with a NUL": text_of(GOOD.replace("heuristic:hard", "\\u0000")),
    "metadata of a list": text_of("[[]]"),
    "metadata of a megabyte": text_of(GOOD + " " * (1 << 20)),
    "another schema": text_of(GOOD.replace("echelon-replay", "echelon-checkpoint")),
    "another version": text_of(GOOD.replace('"version": 1, "written', '"version": 2, "written')),
    "a version that is text": text_of(GOOD.replace('"version": 1, "written', '"version": "1", "written')),
    "rules of tomorrow": text_of(GOOD.replace('"rules_version": 3', '"rules_version": 99')),
    "an unknown biome": text_of(GOOD.replace('"urban_residential"', '"os.system:lair"')),
    "a battle more than claimed": forged({**TENSORS, "1/pos": TENSORS["0/pos"]}, METADATA),
    "a battle less than claimed": forged(TENSORS, put(METADATA, ("battles",), METADATA["battles"] * 2)),
    "an array of no battle": renamed("0/pos", "pos"),
    "an array of battle -1": renamed("0/pos", "-1/pos"),
    "an array of a stranger": renamed("0/pos", "0/__class__"),
    "an observation of a stranger": renamed("0/yaw", "0/observation_x"),
    "an observation of other moments": forged({**TENSORS, OBSERVED: np.zeros((1, 4, 3), np.float16)}, METADATA),
    "an observation of NaN": forged({**TENSORS, OBSERVED: np.full((41, 4, 3), np.nan, np.float16)}, METADATA),
    "an observation in int32": forged({**TENSORS, OBSERVED: np.zeros((41, 4, 3), np.int32)}, METADATA),
    "weights": safetensors.numpy.save({"w": np.zeros(3)}),
    "another zip": b"PK\x03\x04" + bytes(100),
    "a pickle": b"\x80\x04cos\nsystem\n",
    "no moment at all": forged({key: value[:0] for key, value in TENSORS.items()}, METADATA),
    "a flight over no waypoints": forged({**TENSORS, "0/waypoints": TENSORS["0/waypoints"][:1]}, METADATA),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_file_is_refused_in_one_line(name, tmp_path):
    (tmp_path / "kept.echelon").write_bytes(FILES[name])
    told = outcome(tmp_path / "kept.echelon")
    assert told is not None and told.startswith("kept.echelon: ")


def test_battle_of_one_moment_is_drawable(tmp_path):
    # Without a decision there are no commands either.
    empty = {*VARIES, "commands"}
    first = {key: value[: 0 if key.removeprefix("0/") in empty else 1] for key, value in TENSORS.items()}
    (tmp_path / "kept.echelon").write_bytes(forged(first, METADATA))
    assert outcome(tmp_path / "kept.echelon") is None


def test_every_header_bit_is_checked(tmp_path):
    data = forged(TENSORS, METADATA)
    size, rng = int.from_bytes(data[:8], "little"), np.random.default_rng(0)
    for place in rng.integers(0, 8 + size, 300).tolist():
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "kept.echelon").write_bytes(flipped)
        assert outcome(tmp_path / "kept.echelon") is not None, f"a bit of byte {place} was not noticed"


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file_is_refused(share, tmp_path):
    data = forged(TENSORS, METADATA)
    (tmp_path / "kept.echelon").write_bytes(data[: int(len(data) * share)])
    assert outcome(tmp_path / "kept.echelon") is not None


BAD = {
    "a mech of no hull": put(METADATA, ("replay", "mechs", 0, "hull"), "golem"),
    "no materials": put(METADATA, ("replay", "materials"), []),
    "an outcome of no reason": put(METADATA, ("battles", 0, "outcome", "reason"), None),
    "a map of other settings": put(METADATA, ("battles", 0, "map", "seed"), 7),
    "a zone of two numbers": put(METADATA, ("battles", 0, "zone"), [1.0, 2.0]),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_replay_writes_no_files(name, tmp_path):
    (tmp_path / "kept.echelon").write_bytes(forged(TENSORS, BAD[name]))
    watch = Watch(tmp_path / "kept.echelon", strip=tmp_path / "strip.png", gif=tmp_path / "moving.gif")
    with pytest.raises((FileError, ConfigError)):
        watch.run()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["kept.echelon"]


def sparse(path, header, size):
    """Write a sparse file whose header lists `size` bytes of tensors."""
    path.write_bytes(raw(header))
    os.truncate(path, path.stat().st_size + size)
    return str(path)


def test_missing_gibibyte_is_refused_in_little_memory(tmp_path):
    data = forged(TENSORS, METADATA)
    metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    size = GIB - (1 << 20)

    def entry(kind, shape):
        return {"dtype": kind, "shape": shape, "data_offsets": [0, size]}

    headers = {
        "no metadata": {"0/pos": entry("U8", [size])},
        "one array": {"__metadata__": metadata, "0/pos": entry("I16", [size // 8, 4, 1])},
        "a long battle": {"__metadata__": metadata, "0/yaw": entry("I16", [size // 8, 4])},
        "an observation": {"__metadata__": metadata, "0/observation_ego": entry("F16", [41, 4, size // 328])},
        "a shape that does not fill it": {"__metadata__": metadata, "0/pos": entry("I16", [21, 4, 3])},
    }
    for name, header in headers.items():
        path = sparse(tmp_path / f"{name}.echelon", header, size)
        said, seconds, needed = apart(lambda path=path: file.read(Path(path)))
        assert ".echelon: " in said and "\n" not in said, name
        assert seconds < 1 and needed < 100 << 20, name
