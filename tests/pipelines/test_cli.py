"""The programs as a user runs them."""

import importlib
import io
import json
import shutil
import sys

import pytest
import torch
from leagues import checkpoint_of
from rich.console import Console
from runs import TINY, run, without_clock

from echelon.arena.eval_callback import EvalCallback, Summary
from echelon.learn import train_flags
from echelon.learn.callbacks.progress import ProgressBar
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.trainer import Trainer
from echelon.replay.file import read
from echelon.runtime.terminal import LEAST_WIDTH, widen_narrow_terminal
from echelon.runtime.terminal import run as run_program


def test_train_then_play_then_resume(tmp_path):
    folder = tmp_path / "run"
    done = run("train.py", *TINY, "--total-agent-steps", "320", "--run-dir", str(folder))
    assert done.returncode == 0, done.stderr
    assert "before against heuristic:easy" in done.stdout and "after  against heuristic:easy" in done.stdout
    best = folder / "checkpoints" / "iteration_000002"
    assert str(best) in done.stdout.replace("\n", "")
    assert (folder / "metrics.png").stat().st_size > 10_000 and (folder / "metrics.pdf").stat().st_size > 5_000
    assert f"report      {folder / 'report.html'}" in done.stdout and "mech-s" in done.stdout
    assert '"state":"finished"' in (folder / "report.html").read_text()
    assert len((folder / "metrics.csv").read_text().splitlines()) == 3
    # Evaluations before and after training against a tier, and after it against the best policy.
    assert len((folder / "evaluations.csv").read_text().splitlines()) == 1 + 1 + 2

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


def test_last_evaluation_can_name_best_policy(tmp_path, monkeypatch):
    config = train_flags.read_config([*TINY, "--total-agent-steps", "160", "--run-dir", str(tmp_path)])
    said, panel = io.StringIO(), EvalCallback()
    console = Console(file=said, width=1000)
    Trainer(config, tmp_path, callbacks=[ProgressBar(console), panel, Summary(panel)]).train()
    assert panel.evaluator.best_iteration in (0, 1)
    best = tmp_path / "checkpoints" / f"iteration_{panel.evaluator.best_iteration:06d}"
    assert f"best        {best}\n" in said.getvalue()


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
    "preset": (["--preset", "huge"], "error: --preset must be one of quick, quick-gru, standard, large, got 'huge'"),
    "no preset": (["--preset"], "error: --preset must be one of quick, quick-gru, standard, large, got ''"),
    "value": (
        ["--num-envs", "3"],
        "error: Error parsing TrainConfig: TrainConfig.num_envs must be even",
    ),
    "type": (["--num-envs", "many"], "error: Error parsing --num-envs: invalid literal for int()"),
    "flag": (["--nun-envs", "4"], "error: Unrecognized options: --nun-envs"),
    "run folder": (["--run-dir", "/proc/nowhere"], "error: --run-dir must be a writable folder, got '/proc/nowhere'"),
    "taken": (
        ["--run-dir", "{tmp}"],
        "error: --run-dir must be a folder without a run, or continue its run with --resume latest",
    ),
    "opponent": (
        ["--opponent", "unknown"],
        "error: unknown: expected a tier, heuristic[:tier], a checkpoint or run folder, line:PIECE, scenario:TIER, "
        "style:NAME, trained:NAME, league:FOLDER/NAME, llm:FILE, recorded:FILE, orders:SCRIPT[/MECHS], or "
        "package.module:Commander, found none; "
        "--opponent also takes curriculum, self, past and league:FOLDER",
    ),
    "tier": (["--opponent", "heuristic:godlike"], "error: a scripted commander must be heuristic:trivial|easy|normal"),
    "stage": (
        ["--curriculum.opponents", "easy", "godlike"],
        "error: godlike: expected a tier, heuristic[:tier], a checkpoint or run folder, ",
    ),
    "panel": (
        ["--evaluation.tiers", "easy", "missing.module:Commander"],
        "error: missing.module:Commander: no module missing.module in ",
    ),
    "attribute": (
        ["--opponent", "json:Commander"],
        "error: json:Commander: json must have a class or function Commander, got None",
    ),
    "policy": (
        ["--opponent", "math:sqrt"],
        "error: math:sqrt: expected a class or function that builds a policy from the battle's EnvConfig, got ",
    ),
    "weapon use": (
        ["--curriculum.opponents", "easy", "math:sqrt", "--curriculum.weapon-use", "0.5"],
        "error: CurriculumConfig.weapon_use must be 1 in a stage against math:sqrt, which is not a scripted commander",
    ),
    "entry": (
        ["--opponent", "league:{tmp}/league/someone"],
        "error: {tmp}/league/someone/league.sqlite: expected the file of a league, found none",
    ),
    "device": (["--device", "abacus"], "error: device must be auto, cpu, cuda or cuda:N, got 'abacus'"),
    "term": (
        ["--extra-reward", "missing.module:pay=1", "--run-dir", "{tmp}/none"],
        "error: missing.module:pay: no module missing.module in ",
    ),
    "weight": (
        ["--extra-reward", "missing.module:pay"],
        "error: Error parsing TrainConfig: --extra-reward must be package.module:function=WEIGHT",
    ),
    "resume": (
        ["--resume", "latest", "--run-dir", "{tmp}/none"],
        "error: {tmp}/none/checkpoints: expected a",
    ),
}


@pytest.fixture
def refusal(monkeypatch):
    """Run a program in this process, which has already imported torch; return the last printed line."""

    def answer(program: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"{program}.py", *arguments])
        with pytest.raises(SystemExit) as stop:
            run_program(importlib.import_module(f"echelon.pipelines.{program}").main)
        return str(stop.value.code)

    return answer


@pytest.mark.parametrize("case", BAD)
def test_invalid_input_prints_one_line_and_writes_nothing(tmp_path, refusal, case):
    (tmp_path / "checkpoints" / "iteration_000001").mkdir(parents=True)
    arguments, message = BAD[case]
    before = sorted(tmp_path.rglob("*"))
    said = refusal("train", "--preset", "quick", "--backend", "eager", *(a.format(tmp=tmp_path) for a in arguments))
    assert said.startswith(message.format(tmp=tmp_path)) and "\n" not in said
    assert sorted(tmp_path.rglob("*")) == before


def test_maps_are_drawn(tmp_path):
    sheet = tmp_path / "maps.png"
    done = run("arena.py", "maps", "--out", str(sheet), "--env", "small", "--maps", "3")
    assert done.returncode == 0, done.stderr
    assert "19 maps" in done.stdout and sheet.read_bytes().startswith(b"\x89PNG")


BAD_ARENA = {
    "no place": (["--replay", "/proc/nowhere/x.echelon"], "error: /proc/nowhere/x.echelon: cannot be written"),
    "a folder": (["--replay", "{tmp}"], "error: {tmp}: expected a file name, got a folder"),
    "none": (
        ["--replay", "{tmp}/x.echelon", "--replay-battles", "0"],
        "error: --replay-battles must be 1..256, battles of the first --batch, got 0",
    ),
}


@pytest.mark.parametrize("case", BAD_ARENA)
def test_unwritable_replay_stops_match_before_it_starts(tmp_path, refusal, case):
    arguments, message = BAD_ARENA[case]
    commanders = ("play", "--blue", "heuristic", "--red", "heuristic", "--battles", "1000000")
    said = refusal("arena", *commanders, *(a.format(tmp=tmp_path) for a in arguments))
    assert said.startswith(message.format(tmp=tmp_path)) and "\n" not in said


@pytest.mark.long
def test_training_without_compiler_logs_fallback(tmp_path):
    for number, (flags, said) in enumerate((((), False), (("--compile-policy", "act"), True))):
        folder = tmp_path / str(number)
        done = run(
            "train.py", *TINY, "--total-agent-steps", "1", "--run-dir", str(folder), *flags, PATH="/nowhere", CXX=""
        )
        assert done.returncode == 0, done.stderr
        line = "fallback: cpu runs without torch.compile, which needs a C++ compiler"
        assert done.stderr.splitlines().count(line) == said


@pytest.mark.long
def test_custom_reward_term_trains_and_resumes(tmp_path):
    """The example's term, named on the command line. A run stopped after one of two iterations gives the same
    result."""
    term = ["--extra-reward", "tests.examples.cool_reward:stays_cool=0.1..0.02"]
    steps = ["--evaluation.every", "0", "--total-agent-steps", "320", "--checkpoint-every", "1"]
    for folder, flags in (
        ("whole", []),
        ("cut", ["--max-minutes", "1e-6"]),
        ("cut", ["--resume", "latest"]),
    ):
        done = run("train.py", *TINY, *steps, *term, *flags, "--run-dir", str(tmp_path / folder))
        assert done.returncode == 0, done.stderr
    whole, cut = (without_clock(tmp_path / folder / "metrics.csv") for folder in ("whole", "cut"))
    assert [row["iteration"] for row in whole] == ["1.0", "2.0"]
    assert any("return_stays_cool" in row for row in whole)
    assert cut == whole
    refused = run("train.py", *TINY, *steps, "--run-dir", str(tmp_path / "cut"), "--resume", "latest")
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert "env.reward.extra is None here and {'stays_cool': 0.1} there" in refused.stderr


@pytest.mark.long
def test_a_script_that_registers_a_biome_trains_in_it(tmp_path):
    more = ["--total-agent-steps", "160", "--env.world.biomes", "craters", "--run-dir", str(tmp_path / "run")]
    done = run("../tests/examples/crater_biome.py", *TINY, *more)
    assert done.returncode == 0, done.stderr
    metadata = open_checkpoint(newest_checkpoint(tmp_path / "run" / "checkpoints")).metadata
    assert metadata["env"]["world"]["biomes"] == ["craters"]


def test_help_is_complete_and_formatted():
    assert "--preset NAME, one of quick, quick-gru, standard, large" in run("train.py", "--help").stdout
    said = " ".join(run("arena.py", "play", "--help").stdout.replace("│", "").split())
    names = "a tier, heuristic[:tier], a checkpoint or run folder, league:FOLDER/NAME, or "
    assert f"{names}package.module:Commander" in said


@pytest.mark.parametrize("program", ["train.py", "arena.py", "torchrl_ppo.py", "../benchmarks/rollout.py"])
def test_help_finishes_in_one_column_terminal(program):
    done = run(program, "--help", COLUMNS="1")
    assert done.returncode == 0, done.stderr
    boxes = [line for line in done.stdout.splitlines() if line.startswith(("│", "╭"))]
    assert boxes and {len(line) for line in boxes} == {LEAST_WIDTH}


@pytest.mark.parametrize(("columns", "width"), [("1", 40), ("39", 40), ("40", 40), ("120", 120)])
def test_narrow_terminal_uses_minimum_width(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    widen_narrow_terminal()
    assert shutil.get_terminal_size().columns == width


def test_out_of_memory_is_one_line(monkeypatch):
    def plays() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.\nAnd more")

    monkeypatch.setattr("echelon.runtime.terminal.handle_as_usual", lambda: None)
    with pytest.raises(SystemExit) as told:
        run_program(plays)
    assert str(told.value) == (
        "error: CUDA out of memory. Tried to allocate 9.00 GiB.; play or train fewer battles at once"
        " (--batch, --num-envs)"
    )
