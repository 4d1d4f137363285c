"""Models other than the default: built-in ones by name, and custom ones, from training to league and arena."""

import json
import subprocess
from pathlib import Path

import programs
import pytest
from runs import ROOT, TINY, without_clock

from echelon.league.config import LeagueConfig
from echelon.league.store import Store
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import METADATA, open_checkpoint

EXAMPLES = ROOT / "tests" / "examples"
SMALL = [f"--model.{name}-width=8" for name in ("contact", "squad", "comm", "map", "telemetry", "body")]
SMALL += ["--model.hidden=16", "--total-agent-steps", "480", "--checkpoint-every", "1", "--evaluation.every", "0"]


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start a program next to the user's modules."""
    return programs.run(str(ROOT / "pipelines" / program), *arguments, cwd=EXAMPLES)


def train(folder: Path, *arguments: str) -> str:
    done = run("train.py", *TINY, *SMALL, "--run-dir", str(folder), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gru", "mlp", "frame_stack:Config"])
def test_model_flag_selects_network(tmp_path, kind):
    brief = ("--total-agent-steps", "160", "--env.rules.max-episode-s", "1")
    train(tmp_path / "run", "--model", kind, "--snapshot-opponent-share", "0.5", "--past-blocks", "1", *brief)
    newest = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert json.loads((newest / METADATA).read_text())["model"]["kind"] == kind


@pytest.mark.long
def test_custom_model_trains_resumes_joins_league_and_plays(tmp_path):
    model = ("--model", "gru:Config", "--model.layers", "2")
    train(tmp_path / "whole", *model)
    checkpoints = sorted((tmp_path / "whole" / "checkpoints").iterdir())
    start = checkpoints[1]
    train(tmp_path / "further", *model, "--resume", str(start))
    whole, further = (without_clock(tmp_path / name / "metrics.csv") for name in ("whole", "further"))
    assert len(whole) == 3 and len(further) == 2 and further == whole[-2:]

    newest, league = str(checkpoints[-1]), str(tmp_path / "league")
    own, allowed = [newest, str(start)], ("--allow-module", "gru")
    Store.create(tmp_path / "league", open_checkpoint(newest).env, LeagueConfig())
    refused = run("arena.py", "add", *own, "--league", league)
    assert refused.returncode == 1 and "--allow-module gru" in refused.stderr and "Traceback" not in refused.stderr
    for words in (("add", *own), ("tournament", "--seeds", "1"), ("standings", "--json")):
        done = run("arena.py", *words, "--league", league, *allowed)
        assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) >= 2

    match = ("play", "--blue", newest, "--red", str(start), "--battles", "4", "--json")
    refused = run("arena.py", *match)
    assert refused.returncode == 1 and "--allow-module gru" in refused.stderr and "Traceback" not in refused.stderr
    done = run("arena.py", *match, *allowed)
    assert done.returncode == 0 and json.loads(done.stdout)["battles"] == 4, done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--model", "transformer"),
            "a model must be one of lstm, gru, mlp, or package.module:Config, got 'transformer'",
        ),
        (("--model", "nowhere:Config"), "nowhere:Config: no module nowhere in"),
        (("--model", "gru:Absent"), "gru:Absent: gru must have a class or function Absent"),
        (("--model", "gru:GRU"), "model gru:GRU must be a subclass of"),
        (("--allow-module", "no such"), "--allow-module must be package.module, got 'no such'"),
    ],
)
def test_invalid_model_prints_one_line(tmp_path, arguments, says):
    done = run("train.py", *TINY, "--run-dir", str(tmp_path / "run"), *arguments)
    assert done.returncode == 1 and says in done.stderr and len(done.stderr.splitlines()) == 1
