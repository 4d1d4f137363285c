"""Untrusted checkpoints: invalid values in all metadata, and files longer than declared."""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from apart import apart
from releases import CHECKPOINT as KEPT

from echelon.learn.checkpoint.files import format_report, inspect_checkpoint
from echelon.learn.checkpoint.format import LEARNER, METADATA, POLICY, open_checkpoint, run_file
from echelon.rules.catalog import read_catalog
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from hostile.values import VALUES, at, places, put

pytestmark = pytest.mark.long

SAID = json.loads((KEPT / METADATA).read_text())
RUN = run_file(0)
GIB = 1 << 30


@pytest.fixture
def path(tmp_path):
    return Path(shutil.copytree(KEPT, tmp_path / "kept"))


def all_read(path):
    """Read a checkpoint completely; return the one-line error or None."""
    report = inspect_checkpoint(path)
    assert all(len(line) < 200_000 for line in format_report(report))
    try:
        found = open_checkpoint(path)
        found.policy()
        found.value_norm()
        found.tensors(LEARNER)
        found.parts(0)
        _ = found.env, found.counters, found.curriculum, found.extra_rewards, found.versions
    except (FileError, ConfigError) as error:
        assert str(error).isprintable() and len(str(error)) <= 1000
        return str(error)
    assert report.is_valid
    return None


def test_unchanged_checkpoint_is_readable(path):
    assert all_read(path) is None


CHANGED = [
    place
    for place in places(SAID, ("hulls", "weapons", "suites", "materials", "layout", "files"))
    if place and "settings" not in place[:-1] and place[:2] not in (("env", "catalog"), ("battles", "env"))
]
HARMLESS = {"written_by", "group_sizes", "settings", "battles", "reward", "layout", "seconds"}
"""Metadata that is only displayed, or compared with the resumed run."""
WRONG = (
    *("gone", "null", "true", "a word", "escape codes", "below zero", "a fraction", "an empty list", "an empty object"),
    "a list in lists",
)
"""Names in `VALUES`; `test_settings.py` covers the limits of numbers."""


@pytest.mark.parametrize("place", CHANGED, ids=lambda place: ".".join(map(str, place)))
def test_changed_metadata_is_refused_or_harmless(path, place):
    refused = 0
    for name in WRONG[1:] if isinstance(place[-1], int) else WRONG:
        (path / METADATA).write_text(json.dumps(put(SAID, place, VALUES[name])))
        refused += all_read(path) is not None
    assert refused >= 4 or HARMLESS & set(place), f"only {refused} were refused"


def put_file(path, name, data):
    (path / name).write_bytes(data)
    metadata = json.loads((path / METADATA).read_text())
    metadata["files"][name] = hashlib.sha256(data).hexdigest()
    (path / METADATA).write_text(json.dumps(metadata))


@pytest.mark.parametrize("size", [600 << 20, 3 * GIB, 15 * GIB, 64 * GIB])
@pytest.mark.parametrize("name", [POLICY, LEARNER, RUN])
def test_file_longer_than_declared_is_not_read(path, name, size):
    """Return a valid header of one tensor whose bytes are not on the disk."""
    text = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    (path / name).write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path / name, 8 + len(text) + size)
    told = str(all_read(path))
    assert told.startswith(f"{name}: expected at most ") and f"got {size + 8 + len(text)}" in told
    (problem,) = (file.problem for file in inspect_checkpoint(path).files if file.name == name)
    assert problem == told


def test_size_limit_follows_metadata():
    """The limit of the optimiser is three times that of the weights; the limit of a run grows with its battles."""
    found = open_checkpoint(KEPT)
    weights = sum(value.nbytes for value in found.policy().state_dict().values())
    assert weights < found.most_bytes(POLICY) < weights + (2 << 20)
    assert 3 * weights < found.most_bytes(LEARNER) < 3 * weights + (2 << 20)
    small = found.most_bytes(RUN)
    assert (KEPT / RUN).stat().st_size < small < 64 << 20
    found.metadata["settings"]["num_envs"] = 4096
    assert small + (100 << 20) < found.most_bytes(RUN) < 4 * GIB


def test_files_of_unimported_model_are_checked_against_weights(path):
    (path / METADATA).write_text(json.dumps(put(SAID, ("model", "kind"), "somebodys.package:Config")))
    report = inspect_checkpoint(path)
    assert report.is_valid and "somebodys" not in sys.modules
    os.truncate(path / LEARNER, 100 << 20)
    assert [file.name for file in inspect_checkpoint(path).files if "expected at most" in file.problem] == [LEARNER]


@pytest.mark.parametrize("number", [-1, 10**12, 0.5, "8", None, True, [8]])
@pytest.mark.parametrize("setting", ["num_envs", "past_blocks", "past_kept"])
def test_size_limit_requires_valid_settings(path, setting, number):
    (path / METADATA).write_text(json.dumps(put(SAID, ("settings", setting), number)))
    with pytest.raises(FileError, match=f"settings.{setting} must be 0..16777216, got"):
        open_checkpoint(path).parts(0)


@pytest.mark.parametrize("name", [METADATA, POLICY, LEARNER, RUN])
@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "link", "gone"])
def test_only_regular_files_are_read(path, name, kind):
    (path / name).unlink()
    make = {
        "fifo": lambda place: os.mkfifo(place),
        "folder": lambda place: place.mkdir(),
        "device": lambda place: place.symlink_to("/dev/zero"),
        "link": lambda place: place.symlink_to(KEPT / name),
        "gone": lambda place: None,
    }
    make[kind](path / name)
    assert str(all_read(path)).startswith(f"{name}: ")


TENSORS = safetensors.torch.load((KEPT / RUN).read_bytes())
FACTS = {"no facts": {}, "facts of a list": {"facts": "[]"}, "facts that are cut": {"facts": "{"}}
FACTS |= {"facts of numbers": {"facts": '{"battles": 1}'}, "facts of fewer parts": {"facts": '{"ppo": {}}'}}


@pytest.mark.parametrize("name", FACTS)
def test_run_file_with_invalid_facts_is_refused(path, name):
    put_file(path, RUN, safetensors.torch.save(TENSORS, FACTS[name]))
    assert str(all_read(path)).startswith(f"{RUN}: ")


@pytest.mark.parametrize("change", ["gone", "a type", "an axis", "a name", "NaN"])
def test_weights_must_match_model(path, change):
    weights = safetensors.torch.load((KEPT / POLICY).read_bytes())
    key = sorted(weights)[0]
    value = weights.pop(key)
    weights |= {
        "gone": {},
        "a type": {key: value.double()},
        "an axis": {key: value[None]},
        "a name": {f"{key}\x1b[2J": value},
        "NaN": {key: torch.full_like(value, torch.nan)},
    }[change]
    put_file(path, POLICY, safetensors.torch.save(weights))
    told = str(all_read(path))
    assert told.startswith(f"{POLICY}: ") and "\x1b" not in told


def test_oversized_json_is_not_parsed(path, tmp_path):
    """As a catalog file and as checkpoint metadata."""
    with open(tmp_path / "catalog.json", "wb") as file:
        file.write(b"[")
        for _ in range(125):
            file.write(b"0," * (1 << 20))
        file.write(b"0]")
    (path / METADATA).unlink()
    os.link(tmp_path / "catalog.json", path / METADATA)
    for read in (lambda: read_catalog(tmp_path / "catalog.json"), lambda: open_checkpoint(path)):
        said, seconds, needed = apart(read)
        assert "expected at most " in said and "\n" not in said
        assert seconds < 1 and needed < 100 << 20


@pytest.mark.parametrize("name", ["2^63", "400 digits", "a list in lists", "a long list", "null"])
def test_invalid_catalog_is_refused_in_one_line(tmp_path, name):
    (tmp_path / "catalog.json").write_text(json.dumps(VALUES[name]))
    with pytest.raises((FileError, ConfigError)) as caught:
        read_catalog(tmp_path / "catalog.json")
    assert str(caught.value).isprintable() and len(str(caught.value)) <= 1000


def test_all_metadata_paths_are_covered():
    assert len(CHANGED) > 60 and at(SAID, CHANGED[-1]) is not None
