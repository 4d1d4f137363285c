"""Several processes, as started by `torchrun`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import STUCK_S
from runs import ROOT, TINY, without_clock

from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint, run_file
from echelon.learn.metrics import read_table

ITERATIONS = 8
FLAGS = [*TINY, "--checkpoint-every", "1"]
FLAGS += ["--total-agent-steps", str(2 * 160 * ITERATIONS)]


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    """Start two processes that train into a folder."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, "pipelines/train.py", *FLAGS, "--run-dir", str(folder), *more]
    return subprocess.Popen(command, stdout=-1, stderr=-1, text=True, cwd=ROOT)


def process_of(rank: int, launcher: int) -> int:
    """Return the id of one of a launcher's processes."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if parent == launcher and f"RANK={rank}".encode() in variables:
            return int(entry.name)
    raise AssertionError(f"no process of rank {rank}")


def iterations(folder: Path) -> list[float]:
    return [float(row["iteration"]) for row in read_table(folder / "metrics.csv")]


def wait_for(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    while len(iterations(folder)) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.requirement("R48")
@pytest.mark.long
def test_killed_rank_ends_run_in_one_line_and_run_resumes(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    said, errors = (done := start(whole)).communicate(timeout=STUCK_S)
    assert done.returncode == 0, errors
    assert "4 battles of 5 against 5 in each of 2 processes" in said
    assert iterations(whole) == list(range(1, ITERATIONS + 1)), "only one process writes"
    metadata = open_checkpoint(newest_checkpoint(whole / "checkpoints")).metadata
    assert metadata["processes"] == 2 and metadata["counters"]["agent_steps"] == 2 * 160 * ITERATIONS
    assert metadata["files"][run_file(0)] != metadata["files"][run_file(1)], "each process has its own battles"

    process = start(broken)
    wait_for(broken, 2, process)
    os.kill(process_of(1, process.pid), signal.SIGKILL)
    said, errors = process.communicate(timeout=STUCK_S)
    assert process.returncode != 0
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert lines == ["error: rank 0 of 2: rank 1 is gone, so the run ends here; continue with --resume latest"], errors
    assert "Signal 9 (SIGKILL)" in errors, "the launcher tells what became of rank 1"

    said, errors = (done := start(broken, "--resume", "latest")).communicate(timeout=STUCK_S)
    assert done.returncode == 0, errors
    for table in ("metrics.csv", "evaluations.csv"):
        assert without_clock(broken / table) == without_clock(whole / table)
    ours = open_checkpoint(newest_checkpoint(broken / "checkpoints")).metadata["files"]
    assert ours == metadata["files"]


@pytest.mark.requirement("R48")
@pytest.mark.long
def test_signal_and_error_on_one_rank_reach_both(tmp_path):
    process = start(tmp_path / "run")
    wait_for(tmp_path / "run", 2, process)
    os.kill(process_of(1, process.pid), signal.SIGTERM)
    said, _ = process.communicate(timeout=STUCK_S)
    assert process.returncode != 0 and "SIGTERM: stopped after iteration" in said
    assert "torchrun --nproc-per-node 2 pipelines/train.py" in said.splitlines()[-1]
    saved = newest_checkpoint(tmp_path / "run" / "checkpoints")
    metadata = open_checkpoint(saved).metadata
    assert metadata["counters"]["iterations"] == len(iterations(tmp_path / "run"))

    damaged = saved / run_file(1)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    _, errors = (done := start(tmp_path / "run", "--resume", "latest")).communicate(timeout=STUCK_S)
    assert done.returncode != 0
    lines = sorted(line for line in errors.splitlines() if line.startswith("error: "))
    assert lines[-1].startswith("error: rank 1 of 2: run_1.safetensors: not a safetensors file"), errors
    assert lines[0] == "error: rank 0 of 2: rank 1 is gone, so the run ends here; continue with --resume latest", errors
    assert len(lines) == 2 and "FutureWarning" not in errors, errors
