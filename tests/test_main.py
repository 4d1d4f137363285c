"""The commands of `python -m echelon`."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import programs
import pytest
from patience import STUCK_S

import echelon
from echelon import public
from echelon.__main__ import SUMMARIES
from echelon.env.describe.columns import describe_battle
from echelon.env.describe.description import columns_page
from echelon.env.observation import layout
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import Counters
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.pipelines.commands import COMMANDS
from echelon.rules.config import EnvConfig
from echelon.rules.versions import CHANGES, MAP_MAKER_VERSION, RULES_VERSION
from echelon.runtime.version import VERSION

README = Path(__file__).parents[1] / "README.md"


def ask(*words: str) -> subprocess.CompletedProcess:
    """Run the program and return its output."""
    return programs.run("-m", "echelon", *words)


def test_each_feature_is_listed_with_its_columns():
    printed = ask("describe").stdout
    for features in (layout.CONTACT, layout.SQUAD, layout.EGO):
        for feature in features:
            assert feature.name in printed
    pitch = layout.columns(layout.CONTACT, "lead_pitch").start
    assert any(line.split()[1:5:2] == [str(pitch), "lead_pitch"] for line in printed.splitlines() if "lead" in line)
    assert "paint_damage_scout" in printed and "approach" in printed


def test_columns_as_json_have_the_hash_of_checkpoints():
    told = json.loads(ask("describe", "--comm-dim", "3", "--json").stdout)
    assert told["sha256"] == layout.layout_hash(3)
    assert told["layout"]["comms"] == [["message", 3, -1.0, 1.0]]
    described = describe_battle(dataclasses.replace(EnvConfig.standard(), comm_dim=3))
    assert {name: told[name] for name in ("groups", "leaves")} == described.to_json()


def test_columns_as_markdown_match_the_page():
    asked = ask("describe", "--env", "small", "--markdown")
    assert asked.stdout == columns_page("small", describe_battle(EnvConfig.small()))
    asked = ask("describe", "--json", "--markdown")
    assert asked.returncode == 1 and "--json must be left out with --markdown" in asked.stderr


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_imports_neither_torch_nor_command_code(flag):
    """Both imports take seconds. The help lists all commands."""
    code = f"import runpy, sys; sys.argv = ['echelon', {flag!r}]; runpy.run_module('echelon', run_name='__main__'); "
    code += "print('loaded', *{'torch', 'numpy', 'tyro', 'echelon.pipelines'} & {*sys.modules})"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=STUCK_S).stdout
    *lines, loaded = printed.rpartition("\n\n")[2].splitlines()
    assert loaded == "loaded" and [line.split()[0] for line in lines] == [*SUMMARIES]
    assert SUMMARIES.keys() == COMMANDS.keys()


def test_public_names_are_imported_lazily():
    code = "import sys, echelon; print('torch' in sys.modules, 'versus' in dir(echelon))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=STUCK_S).stdout
    assert printed.split() == ["False", "True"]
    exec("from echelon import *", names := {})
    assert names["versus"].__module__ == "echelon.views.build" and echelon.env.__name__ == "echelon.env"
    assert names["evaluate"].__module__ == "echelon.arena.evaluate"
    shown = {name for name in vars(public) if not name.startswith("_")}
    assert {*shown, *echelon.MODULES, "__version__"} == {*echelon.__all__}
    with pytest.raises(AttributeError, match="module 'echelon' has no attribute 'verses'"):
        _ = echelon.verses


def test_unknown_command_is_named():
    asked = ask("lay-out")
    assert asked.returncode != 0 and "lay-out" in asked.stderr


def test_checkpoint_is_described_and_invalid_one_exits_with_1(tmp_path):
    policy, path = LSTMConfig(hidden=16).build(PolicySpecs(8)), tmp_path / "one"
    save_checkpoint(path, policy, ValueNorm(), EnvConfig.small(), Counters(7, 700, 1.5), {})
    printed = ask("checkpoint", str(path))
    assert printed.returncode == 0, printed.stderr
    assert "7 iterations, 700 agent_steps" in printed.stdout and "hidden 16" in printed.stdout
    assert f"rules       version {RULES_VERSION}, map maker {MAP_MAKER_VERSION}" in printed.stdout
    assert "history     splits unknown\n" in printed.stdout
    assert f"{policy.num_parameters()} numbers, sha256 and values are valid" in printed.stdout
    weights = path / "policy.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    asked = ask("checkpoint", str(path), "--json")
    told = json.loads(asked.stdout)
    assert told["versions"] == {"rules_version": RULES_VERSION, "map_maker": MAP_MAKER_VERSION}
    assert told["provenance"]["unknown"] == ["battles", "opponents", "partners", "rules", "splits"]
    assert asked.returncode == 1 and not told["holds"] and told["claims"]["counters"]["iterations"] == 7
    problems = {found["name"]: found["problem"] for found in told["files"]}
    assert problems["learner.safetensors"] == "" and "sha256 mismatch: expected" in problems["policy.safetensors"]
    gone = ask("checkpoint", str(tmp_path / "two"))
    assert gone.returncode == 1 and "expected a checkpoint folder with checkpoint.json" in gone.stdout


def test_checkpoint_accepts_policy_names():
    named = ask("checkpoint", "trained:quick")
    assert named.returncode == 0 and "trained/quick\n" in named.stdout and named.stdout.endswith("\nvalid\n")
    other = ask("checkpoint", "trained:none")
    assert other.returncode == 1 and other.stderr.startswith("error: a trained policy must be one of ")


def test_fingerprint_matches_the_record_linked_in_the_readme():
    (link,) = re.findall(r"\]\((\S*trajectories.json)\)", README.read_text())
    assert json.loads((README.parent / link).read_text())["fingerprint"] == ask("fingerprint").stdout.strip()


def test_each_task_is_listed_with_its_fingerprint():
    lines = [line.split() for line in ask("tasks").stdout.splitlines()]
    assert {line[0]: line[-1] for line in lines} == {name: task.fingerprint for name, task in echelon.tasks().items()}
    assert {line[-2] for line in lines} <= {change.echelon for change in CHANGES.values()}


def test_package_has_version_and_types():
    assert echelon.__version__ == VERSION and (Path(echelon.__file__).parent / "py.typed").exists()
