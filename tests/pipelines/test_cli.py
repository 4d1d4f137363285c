"""The two programs, as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = [
    *("--preset", "quick", "--no-compiled", "--device", "cpu", "--num-envs", "4", "--eval-battles", "2"),
    *("--env.map-pool", "2", "--env.rules.max-episode-s", "3", "--ppo.rollout-decisions", "8"),
]


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "pipelines" / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


def test_train_then_play_then_resume(tmp_path):
    folder = tmp_path / "run"
    done = run("train.py", *TINY, "--total-agent-steps", "320", "--run-dir", str(folder))
    assert done.returncode == 0, done.stderr
    assert "untrained against heuristic:normal" in done.stdout and "trained   against" in done.stdout
    best = folder / "checkpoints" / "iteration_000002"
    assert str(best) in done.stdout.replace("\n", "")
    assert (folder / "metrics.png").stat().st_size > 10_000
    assert len((folder / "metrics.csv").read_text().splitlines()) == 3

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


BAD = {
    "preset": (["--preset", "huge"], "error: --preset must be one of quick, standard, large, got 'huge'"),
    "run folder": (["--run-dir", "/proc/nowhere"], "error: --run-dir must be a writable folder, got '/proc/nowhere'"),
    "opponent": (["--opponent", "nobody", "--run-dir", "{tmp}"], "error: opponent must be one of heuristic:normal"),
    "device": (["--device", "abacus", "--run-dir", "{tmp}"], "error: device must be auto, cpu or cuda"),
    "resume": (["--resume", "latest", "--run-dir", "{tmp}"], "error: {tmp}/checkpoints: expected a checkpoint"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_line(tmp_path, case):
    arguments, message = BAD[case]
    refused = run("train.py", "--preset", "quick", *(a.format(tmp=tmp_path) for a in arguments))
    assert refused.returncode == 1
    assert refused.stderr.strip().splitlines()[-1].startswith(message.format(tmp=tmp_path))
    assert "Traceback" not in refused.stderr
