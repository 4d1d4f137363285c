"""Numbers beyond 64 bits or beyond float32 in JSON, metadata, states and catalog rows."""

import json
import shutil

import pytest
import torch
from tiny_runs import TINY

from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import METADATA, Counters, open_checkpoint
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.catalog import Catalog, read_catalog
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.config_json import as_json, from_json
from echelon.runtime import json_checks
from echelon.runtime.files import parse_json
from echelon.runtime.tensor_files import StateDict

from .refusals import refusal, refused_or_taken

pytestmark = pytest.mark.long

LONG = 10**400
HUGE = {
    "400 digits": LONG,
    "minus 400 digits": -LONG,
    "2^63": 2**63,
    "-2^63 - 1": -(2**63) - 1,
    "2^64": 2**64,
    "1e300": 1e300,
    "-1e300": -1e300,
    "largest float": 1.7976931348623157e308,
}
TINY_ONES = {"5e-324": 5e-324, "-5e-324": -5e-324, "1e-300": 1e-300}
TOO_LONG = {
    "400 digits": "1" + "0" * 400,
    "minus 400 digits": "-" + "9" * 400,
    "5,000 digits": "7" * 5000,
    "2^63": str(2**63),
    "-2^63 - 1": str(-(2**63) - 1),
    "2^64": str(2**64),
    "1e400": "1e400",
    "-1e400": "-1e400",
    "400 digits and a point": "9" * 400 + ".5",
    "NaN": "NaN",
    "Infinity": "Infinity",
}


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("text", TOO_LONG.values(), ids=TOO_LONG)
def test_json_refuses_numbers_beyond_64_bits(text):
    refusal(lambda: parse_json("a.json", b'{"a": [0, ' + text.encode() + b"]}"), "a.json: ")


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1, 1e300, 5e-324])
def test_json_preserves_64_bit_numbers(number):
    assert parse_json("a.json", json.dumps(number).encode()) == number


# Battle settings from a file


def numbers_in(values, where=()):
    """Yield the path of each number in nested settings."""
    found = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += numbers_in(value, (*where, name))
        elif type(value) in (int, float):
            found.append((*where, name))
    return found


def put(values, path, value):
    """Return nested settings with another value at a path."""
    if len(path) > 1:
        return {**values, path[0]: put(values[path[0]], path[1:], value)}
    return {**values, path[0]: value}


SIGNATURE = EnvConfig.small().signature()
SETTINGS = numbers_in({part: SIGNATURE[part] for part in SIGNATURE if part != "catalog"})
CATALOG = as_json(Catalog())
ROWS = [path for path in numbers_in(CATALOG) if path[0] != "weapons" or path[1] in ("laser", "gauss", "missile")]


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("path", SETTINGS, ids=".".join)
def test_huge_setting_is_refused(path):
    for number in HUGE.values():
        refusal(lambda number=number: env_from_json(put(SIGNATURE, path, number)), path[-1])
    for number in TINY_ONES.values():
        refused_or_taken(lambda number=number: env_from_json(put(SIGNATURE, path, number)), path[-1])


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("path", ROWS, ids=".".join)
def test_huge_catalog_value_is_refused(path):
    for number in HUGE.values():
        refusal(lambda number=number: from_json(Catalog, put(CATALOG, path, number), "catalog"), path[-1])
    for number in TINY_ONES.values():
        refused_or_taken(lambda number=number: from_json(Catalog, put(CATALOG, path, number), "catalog"), path[-1])


@pytest.mark.parametrize("text", ["1" + "0" * 400, "-" + "9" * 30, "1e300", "5e-324", str(2**63)])
def test_catalog_file_with_huge_number_is_refused(text, tmp_path):
    (tmp_path / "own.json").write_text('{"weapons": {"gauss": {"speed_vox_per_s": ' + text + "}}}")
    refusal(lambda: read_catalog(tmp_path / "own.json"), "own.json" if len(text) > 18 else "speed_vox_per_s")


# Checkpoints


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A checkpoint."""
    config, path = EnvConfig.small(), tmp_path_factory.mktemp("whole") / "checkpoint"
    policy = TINY.build(PolicySpecs(config.comm_dim))
    save_checkpoint(path, policy, ValueNorm(), config, Counters(1, 160, 2.0), {"a": torch.zeros(1)})
    return path


CLAIMED = [
    *(("counters", name) for name in ("iterations", "agent_steps", "seconds")),
    *(("curriculum", name) for name in ("stage", "battles", "won")),
    *(("value_norm", name) for name in ("mean", "square", "weight")),
    *(("model", name) for name in ("hidden", "body_width", "initial_std")),
    ("comm_dim",),
    ("processes",),
    ("version",),
    ("env", "rules_version"),
    ("env", "map_pool"),
    ("env", "rules", "dt_s"),
]


def read_all(path):
    """Read all metadata of a checkpoint, and its policy."""
    found = open_checkpoint(path)
    parts = (found.counters, found.curriculum, found.env, found.model, found.versions, found.value_norm().moments())
    return (*parts, found.policy())


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("number", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("path", CLAIMED, ids=".".join)
def test_huge_checkpoint_metadata_is_refused(path, number, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "own")
    metadata = json.loads((whole / METADATA).read_text())
    (tmp_path / "own" / METADATA).write_text(json.dumps(put(metadata, path, number)))
    assert read_all(whole)
    refusal(lambda: read_all(tmp_path / "own"), METADATA)


# State of a component


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("number", [*HUGE.values(), True, "1", None, [1]], ids=repr)
def test_huge_component_state_is_refused(number):
    state = StateDict({}, {"count": number}, "part")
    refusal(lambda: state.fact("count", json_checks.integer(0, 2**53)), "part.count")
    refusal(lambda: state.fact("count", json_checks.number(-1, 1)), "part.count")
