"""`python -m echelon`: what a newcomer asks first."""

import json
import subprocess
import sys

from echelon.env import layout


def ask(*words: str) -> subprocess.CompletedProcess:
    """Run the program."""
    return subprocess.run([sys.executable, "-m", "echelon", *words], capture_output=True, text=True, timeout=120)


def test_layout_lists_every_feature_with_its_columns():
    printed = ask("layout").stdout
    for features in (layout.CONTACT, layout.SQUAD, layout.EGO):
        for feature in features:
            assert feature.name in printed
    pitch = layout.columns(layout.CONTACT, "lead_pitch").start
    assert any(line.split()[1:5:2] == [str(pitch), "lead_pitch"] for line in printed.splitlines() if "lead" in line)


def test_layout_speaks_json_with_the_hash_that_checkpoints_store():
    told = json.loads(ask("layout", "--comm-dim", "3", "--json").stdout)
    assert told["sha256"] == layout.layout_hash(3)
    assert told["layout"]["comms"] == [["message", 3, -1.0, 1.0]]


def test_an_unknown_command_is_named():
    asked = ask("lay-out")
    assert asked.returncode != 0 and "lay-out" in asked.stderr
