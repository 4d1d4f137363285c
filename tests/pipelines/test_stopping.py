"""Runs that are stopped, killed and resumed."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import programs
import pytest
from patience import STUCK_S
from programs import Program
from runs import ROOT, TINY, without_clock

from echelon.learn.checkpoint.files import inspect_checkpoint, newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.metrics import read_table
from echelon.runtime.command_line import program_words

HERE = Path(__file__).parent


@pytest.mark.requirement("R7")
@pytest.mark.long
@pytest.mark.parametrize(("kills", "iterations"), [(30, 3), (100, 24)])
def test_repeatedly_killed_run_equals_unbroken_run(tmp_path, kills, iterations):
    """Kills at random moments, also before the first checkpoint and during the first evaluation."""
    command = [sys.executable, str(HERE / "kill_a_run.py"), str(tmp_path), str(kills), str(iterations)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=STUCK_S, cwd=ROOT)
    logs = "".join(path.read_text()[-2000:] for path in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stderr + logs
    told = json.loads(done.stdout)
    assert told["killed"] == kills and told["resumed"] > kills / 2, told
    unbroken = tmp_path / "unbroken"
    assert [row["iteration"] for row in without_clock(unbroken / "metrics.csv")] == [
        f"{n}.0" for n in range(1, iterations + 1)
    ]
    for broken in [tmp_path / f"broken_{number}" for number in range(told["runs"])]:
        for name in ("metrics.csv", "evaluations.csv"):
            assert without_clock(broken / name) == without_clock(unbroken / name)
        ours, theirs = (
            open_checkpoint(newest_checkpoint(folder / "checkpoints")).metadata for folder in (broken, unbroken)
        )
        for name in ("policy.safetensors", "learner.safetensors", "run_0.safetensors"):
            assert ours["files"][name] == theirs["files"][name]
        kept = [sorted(path.name for path in (folder / "checkpoints").iterdir()) for folder in (broken, unbroken)]
        assert kept[0] == kept[1] and 2 <= len(kept[0]) <= 3


def wait_for_rows(folder: Path, count: int, process: Program) -> None:
    """Wait until a run has done this number of iterations."""
    while len(read_table(folder / "metrics.csv")) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.mark.long
def test_signal_saves_and_prints_resume_command(tmp_path):
    folder = tmp_path / "run"
    train = ["pipelines/train.py", *TINY, "--total-agent-steps", "100000000"]
    process = Program(*train, "--run-dir", str(folder))
    wait_for_rows(folder, 2, process)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGINT, errors
    assert errors == "SIGINT: stopping and saving; repeat to end at once\n"
    assert "SIGINT: stopped after iteration" in said
    assert '"state":"stopped"' in (folder / "report.html").read_text() and (folder / "metrics.pdf").exists()
    done = len(read_table(folder / "metrics.csv"))
    saved = newest_checkpoint(folder / "checkpoints")
    assert open_checkpoint(saved).counters.iterations == done and inspect_checkpoint(saved).is_valid
    words = shlex.split(said.splitlines()[-1])
    assert words[:2] == program_words("pipelines/train.py") and words[-2:] == ["--resume", "latest"]
    words[words.index("100000000")] = str(160 * (done + 2))
    again = Program(*words[1:])
    said, errors = again.communicate()
    assert again.returncode == 0 and f"resumes from {saved}" in said, errors
    assert [float(row["iteration"]) for row in read_table(folder / "metrics.csv")] == list(range(1, done + 3))


def test_second_process_in_folder_names_the_first(tmp_path):
    folder = tmp_path / "run"
    train = ["pipelines/train.py", *TINY, "--run-dir", str(folder)]
    first = Program(*train, "--total-agent-steps", "100000000")
    wait_for_rows(folder, 1, first)
    try:
        for more in ([], ["--resume", "latest"]):
            second = programs.run(*train, *more)
            assert second.returncode == 1
            assert (
                f"{folder}: expected no other process that uses the folder, got process {first.pid} on" in second.stderr
            )
            assert len(second.stderr.strip().splitlines()) == 1
    finally:
        first.kill()
        first.communicate()
    done = programs.run(*train, "--resume", "latest", "--total-agent-steps", "160")
    assert done.returncode == 0, done.stderr


def test_second_signal_ends_process_at_once(tmp_path):
    program = """
import os, signal, time
from echelon.learn.callbacks.signals import SignalHandler
with SignalHandler() as stop:
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.signal == signal.SIGINT
    stop.run_interruptible(lambda: print("work that may be done again was begun"))
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    finally:
        print("not at once")
"""
    ended = programs.run("-c", program)
    assert ended.returncode == 128 + signal.SIGTERM and ended.stdout == "", ended.stderr
