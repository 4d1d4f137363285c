"""The programs of `benchmarks/baselines/`: every baseline makes a row, from which the table follows."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def run():
    """The module `run` of the baselines."""
    place = str(ROOT / "benchmarks" / "baselines")
    sys.path.insert(0, place)
    try:
        yield importlib.import_module("run")
    finally:
        sys.path.remove(place)


def args_of(run, path, baseline, **changes):
    given = {"task": "small-5v5-v1", "num_envs": 4, "agent_steps": 700, "battles": 2, "out": path, "seed": 1}
    return run.Args(**{**given, "baseline": baseline, **changes})


@pytest.mark.slow
@pytest.mark.parametrize("baseline", ["ippo-gru", "mappo-lstm", "mappo-mlp", "torchrl-ppo", "qmix", "bc-hard"])
def test_every_baseline_makes_a_row(run, tmp_path, baseline):
    out = tmp_path / "rows.jsonl"
    out.write_text('{"task": "earlier"}\n')
    assert run.main(args_of(run, out, baseline, save=str(tmp_path / "policies"))) == 0
    earlier, line = (json.loads(each) for each in out.read_text().splitlines())
    assert earlier == {"task": "earlier"}
    assert (line["task"], line["baseline"], line["seed"]) == ("small-5v5-v1", baseline, 1)
    assert line["agent_steps"] >= 700 and line["train_s"] > 0 and line["curve"] and not line["by_protocol"]
    for name, row in line["opponents"].items():
        assert name.startswith("heuristic:") and len(row["pairs"]) == 1 and int(row["pairs"]) == row["wins"]
    assert f"--baseline {baseline} --seed 1 --agent-steps 700 --num-envs 4 --battles 2" in line["command"]
    assert [path.name for path in (tmp_path / "policies").iterdir()] == [f"small-5v5-v1_{baseline}_1.safetensors"]


@pytest.mark.slow
def test_a_run_in_pieces_is_the_run_in_one(run, tmp_path):
    """Each piece is one iteration; it goes on exactly."""
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    assert run.main(args_of(run, whole, "ippo-mlp", agent_steps=2000)) == 0
    piece = args_of(run, parts, "ippo-mlp", agent_steps=2000, minutes=1e-9, folder=str(tmp_path / "run"))
    statuses = [run.main(piece)]
    while statuses[-1] == run.UNFINISHED and len(statuses) < 9:
        statuses.append(run.main(piece))
    assert statuses[-1] == 0 and len(statuses) > 1
    one, other = (json.loads(path.read_text()) for path in (whole, parts))
    for name in ("opponents", "agent_steps", "curve"):
        assert one[name] == other[name], name
