"""Programs accept a custom catalog, and their files contain it."""

import json
from pathlib import Path

import pytest
from own_catalog import RAILGUN
from runs import TINY, run

from echelon.learn.checkpoint.format import open_checkpoint


@pytest.mark.long
def test_run_with_catalog_stores_it_in_checkpoints(tmp_path):
    folder = tmp_path / "run"
    flags = (*TINY, "--run-dir", str(folder))
    done = run("train.py", *flags, "--catalog", str(RAILGUN), "--total-agent-steps", "160")
    assert done.returncode == 0, done.stderr
    checkpoint = folder / "checkpoints" / "iteration_000001"
    assert "railgun" in open_checkpoint(checkpoint).env.catalog.weapons
    more = run("train.py", *flags, "--total-agent-steps", "320", "--resume", "latest")
    assert more.returncode == 0, more.stderr
    played = run("arena.py", "play", "--blue", str(checkpoint), "--red", "heuristic", "--battles", "2", "--json")
    assert played.returncode == 0, played.stderr
    assert "shots_railgun" in json.loads(played.stdout)["x_stats"]


def test_commanders_play_with_a_catalog(tmp_path):
    tiers = ("--blue", "heuristic:expert", "--red", "heuristic:normal", "--battles", "2", "--json")
    played = run("arena.py", "play", *tiers, "--catalog", str(RAILGUN))
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout)["x_stats"]["shots_railgun"] > 0
    Path(tmp_path / "bad.json").write_text('{"weapons": {"laser": {"power": 1}}}')
    refused = run("arena.py", "play", *tiers, "--catalog", str(tmp_path / "bad.json"))
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("error: bad.json.weapons.laser.power must be one of mounts, timer, range_vox")
