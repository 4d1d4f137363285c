"""The programs, as a user runs them."""

import importlib
import io
import json
import sys

import pytest
from leagues import checkpoint_of
from rich.console import Console
from runs import TINY, run

from echelon.arena.eval_callback import EvalCallback
from echelon.learn.callbacks.signals import Stop
from echelon.learn.trainer import Trainer
from echelon.pipelines import train
from echelon.pipelines.console import run as run_program
from echelon.pipelines.session import Session
from echelon.replay.file import read


def test_train_then_play_then_resume(tmp_path):
    folder = tmp_path / "run"
    done = run("train.py", *TINY, "--total-agent-steps", "320", "--run-dir", str(folder))
    assert done.returncode == 0, done.stderr
    assert "before against heuristic:normal" in done.stdout and "after  against heuristic:easy" in done.stdout
    best = folder / "checkpoints" / "iteration_000002"
    assert str(best) in done.stdout.replace("\n", "")
    assert (folder / "metrics.png").stat().st_size > 10_000
    assert len((folder / "metrics.csv").read_text().splitlines()) == 3
    # Before and after, against three tiers and the best policy.
    assert len((folder / "evaluations.csv").read_text().splitlines()) == 1 + 2 * 4

    played = run("arena.py", "play", "--blue", str(best), "--red", "heuristic", "--battles", "4", "--json")
    assert played.returncode == 0, played.stderr
    said = json.loads(played.stdout)
    assert said["battles"] == 4 == said["x_wins"] + said["y_wins"] + said["draws"]
    assert len(said["outcomes"]) == 4 and len(said["x_win_rate_95"]) == 2

    more = run("train.py", *TINY, "--total-agent-steps", "480", "--run-dir", str(folder), "--resume", "latest")
    assert more.returncode == 0, more.stderr
    assert len((folder / "metrics.csv").read_text().splitlines()) == 4

    weights = best / "policy.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    refused = run("arena.py", "play", "--blue", str(best), "--red", "heuristic")
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: policy.safetensors: sha256 mismatch: expected ")
    assert refused.stderr.count("\n") == 1


def test_the_last_evaluation_may_name_the_best(tmp_path, monkeypatch):
    config = train.read_config([*TINY, "--total-agent-steps", "160", "--run-dir", str(tmp_path)])
    trainer, said = Trainer(config, tmp_path), io.StringIO()
    panel = EvalCallback(trainer.policy, config, tmp_path)
    with Stop() as stop:
        session = Session(trainer, panel, None, stop, Console(file=said, width=1000))
        trainer.iterate()
        session.finish()
    assert panel.best_iteration == 1
    assert f"best        {tmp_path / 'checkpoints' / 'iteration_000001'}\n" in said.getvalue()


def test_play_records_and_watch_draws(tmp_path):
    kept, page, strip, gif = (tmp_path / name for name in ("kept.echelon", "page.html", "strip.png", "battle.gif"))
    policy = str(checkpoint_of(tmp_path, 1))
    played = run(
        *("arena.py", "play", "--blue", policy, "--red", "heuristic:normal", "--battles", "4"),
        *("--replay", str(kept), "--replay-battles", "2"),
    )
    assert played.returncode == 0, played.stderr
    seen = run("arena.py", "watch", str(kept), "--out", str(page), "--strip", str(strip), "--gif", str(gif))
    assert seen.returncode == 0, seen.stderr
    assert page.read_text().lower().startswith("<!doctype html>") and 100_000 < page.stat().st_size < 5_000_000
    assert strip.read_bytes().startswith(b"\x89PNG") and gif.read_bytes().startswith(b"GIF8")
    replay = read(kept)
    assert [(b.about["blue"], b.about["red"]) for b in replay.battles] == [
        (policy, "heuristic:normal"),
        ("heuristic:normal", policy),
    ]

    kept.write_bytes(kept.read_bytes()[:-1000])
    for arguments, message in (
        ([str(kept)], "error: kept.echelon: not a safetensors file"),
        ([str(tmp_path / "gone.echelon")], "error: gone.echelon: cannot be read: No such file or directory"),
    ):
        refused = run("arena.py", "watch", *arguments)
        assert refused.returncode == 1 and refused.stderr.startswith(message) and refused.stderr.count("\n") == 1


BAD = {
    "preset": (["--preset", "huge"], "error: --preset must be one of quick, standard, large, got 'huge'"),
    "no preset": (["--preset"], "error: --preset must be one of quick, standard, large, got ''"),
    "value": (
        ["--num-envs", "3"],
        "error: Error parsing TrainConfig: TrainConfig.num_envs must be even",
    ),
    "type": (["--num-envs", "many"], "error: Error parsing --num-envs: invalid literal for int()"),
    "flag": (["--nun-envs", "4"], "error: Unrecognized options: --nun-envs"),
    "run folder": (["--run-dir", "/proc/nowhere"], "error: --run-dir must be a writable folder, got '/proc/nowhere'"),
    "taken": (["--run-dir", "{tmp}"], "error: --run-dir must be a folder without a run, or go on with --resume latest"),
    "opponent": (
        ["--opponent", "nobody"],
        "error: a scripted commander must be heuristic:trivial|easy|normal|hard|expert",
    ),
    "device": (["--device", "abacus"], "error: device must be auto, cpu, cuda or cuda:N, got 'abacus'"),
    "resume": (
        ["--resume", "latest", "--run-dir", "{tmp}/none"],
        "error: {tmp}/none/checkpoints: expected a",
    ),
}


@pytest.fixture
def refusal(monkeypatch):
    """Runs a program in this process, which has read torch already; returns the line that it ends with."""

    def answer(program: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"{program}.py", *arguments])
        with pytest.raises(SystemExit) as stop:
            run_program(importlib.import_module(f"echelon.pipelines.{program}").main)
        return str(stop.value.code)

    return answer


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_line_and_leaves_nothing(tmp_path, refusal, case):
    (tmp_path / "checkpoints" / "iteration_000001").mkdir(parents=True)
    arguments, message = BAD[case]
    before = sorted(tmp_path.rglob("*"))
    said = refusal("train", "--preset", "quick", "--no-compiled", *(a.format(tmp=tmp_path) for a in arguments))
    assert said.startswith(message.format(tmp=tmp_path)) and "\n" not in said
    assert sorted(tmp_path.rglob("*")) == before


def test_maps_are_drawn(tmp_path):
    sheet = tmp_path / "maps.png"
    done = run("arena.py", "maps", "--out", str(sheet), "--env", "small", "--maps", "3")
    assert done.returncode == 0, done.stderr
    assert "19 maps" in done.stdout and sheet.read_bytes().startswith(b"\x89PNG")


BAD_ARENA = {
    "no place": (["--replay", "/proc/nowhere/x.echelon"], "error: /proc/nowhere/x.echelon: cannot be written"),
    "a folder": (["--replay", "{tmp}"], "error: {tmp}: expected the name of a file, got a folder"),
    "none": (
        ["--replay", "{tmp}/x.echelon", "--replay-battles", "0"],
        "error: --replay-battles must be 1..256, those of the first --batch, got 0",
    ),
}


@pytest.mark.parametrize("case", BAD_ARENA)
def test_a_match_that_could_not_be_recorded_is_not_fought(tmp_path, refusal, case):
    arguments, message = BAD_ARENA[case]
    commanders = ("play", "--blue", "heuristic", "--red", "heuristic", "--battles", "1000000")
    said = refusal("arena", *commanders, *(a.format(tmp=tmp_path) for a in arguments))
    assert said.startswith(message.format(tmp=tmp_path)) and "\n" not in said


def test_without_a_compiler_it_trains_eagerly_and_says_so(tmp_path):
    tiny = [word for word in TINY if word != "--no-compiled"]
    folder = tmp_path / "run"
    done = run("train.py", *tiny, "--total-agent-steps", "1", "--run-dir", str(folder), PATH="/nowhere", CXX="")
    assert done.returncode == 0, done.stderr
    assert "without torch.compile" in done.stdout


def test_help_reads_well():
    assert "--preset NAME, one of quick, standard, large" in run("train.py", "--help").stdout
    said = run("arena.py", "play", "--help").stdout
    assert "heuristic[:tier], a checkpoint folder, or" in said
