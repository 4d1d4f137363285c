"""Training on several machines with separate networks, homes, caches and working folders, as documented."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from nodes import NAMES, network
from page_commands import command, exported, with_flags
from patience import STUCK_S
from runs import TINY, without_clock

from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint, run_file
from echelon.learn.metrics import read_table

pytestmark = pytest.mark.long
ITERATIONS = 6
TRAIN = [*TINY, "--checkpoint-every", "1", "--total-agent-steps", str(2 * 160 * ITERATIONS)]


@pytest.fixture
def two(tmp_path):
    with network(tmp_path, 2) as nodes:
        yield nodes


@pytest.fixture
def three(tmp_path):
    with network(tmp_path, 3) as nodes:
        yield nodes


def words(run_dir: str, nodes: int = 2, *more: str) -> list[str]:
    """Start the documented command on each machine, with a tiny run and one process each."""
    found = command("MANY_MACHINES.md", "--nnodes 2 --nproc-per-node 8 --max-restarts 3")
    changed = {"--nnodes": str(nodes), "--nproc-per-node": "1", "--run-dir": run_dir}
    (name,) = exported("MANY_MACHINES.md")
    return ["env", name, *with_flags(found, changed), *TRAIN, *more]


def end(*processes: subprocess.Popen[str], status: int = 0) -> list[tuple[str, str]]:
    """Return outputs and errors of programs that end with this status."""
    found = [process.communicate(timeout=STUCK_S) for process in processes]
    for process, (said, errors) in zip(processes, found, strict=True):
        assert (process.returncode == 0) == (status == 0), (said, errors)
    return found


def errors_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("error: ")]


def iterations(folder: Path) -> int:
    return len(read_table(folder / "metrics.csv"))


def wait_for(folder: Path, count: int, *processes: subprocess.Popen[str]) -> None:
    """Wait until a run has trained this number of iterations."""
    while iterations(folder) < count:
        assert all(process.poll() is None for process in processes), [each.communicate() for each in processes]
        time.sleep(0.02)


def files_of(folder: Path) -> dict[str, str]:
    """Return the hashes of all files in the last checkpoint."""
    return open_checkpoint(newest_checkpoint(folder / "checkpoints")).metadata["files"]


def test_two_machines_equal_two_processes_despite_kills(two, tmp_path):
    """One machine starts late and is slow. A process of it is killed, then the whole machine, which is restarted."""
    first, second = two
    whole, broken = tmp_path / "whole", tmp_path / "shared" / "broken"
    local = with_flags(command("MANY_MACHINES.md", "--nproc-per-node 4 pipelines/train.py"), {"--nproc-per-node": "2"})
    end(first.start(*with_flags(local, {"--run-dir": str(whole)}), *TRAIN))

    early = first.start(*words(str(broken)))
    time.sleep(3)
    assert not first.trainers(), "training starts only when all machines are present"
    second.start(*words(str(broken)))
    wait_for(broken, 1, early)
    second.signal(signal.SIGSTOP, slow := second.trainers())
    time.sleep(3)
    second.signal(signal.SIGCONT, slow)
    wait_for(broken, 2, early)
    second.signal(signal.SIGKILL, second.trainers())
    wait_for(broken, 4, early)
    second.lose_power()
    late = second.start(*words(str(broken)))
    (said, _), _ = end(early, late)
    for table in ("metrics.csv", "evaluations.csv"):
        assert without_clock(broken / table) == without_clock(whole / table)
    assert files_of(broken) == files_of(whole) and run_file(1) in files_of(whole)
    assert f"resumes from {broken}/checkpoints/" in said


def test_run_resumes_on_other_number_of_machines(three, tmp_path):
    folder = tmp_path / "shared" / "run"
    more = ("--total-agent-steps", "640")
    end(*(node.start(*words(str(folder), 2, *more)) for node in three[:2]))
    before = files_of(folder)
    assert iterations(folder) == 2 and run_file(2) not in before
    more = ("--total-agent-steps", str(640 + 3 * 160 * 2))
    (said, _), *_ = end(*(node.start(*words(str(folder), 3, *more)) for node in three))
    assert "battles start anew: battles.processes is 3 here and 2 there" in said
    assert iterations(folder) == 4 and run_file(2) in files_of(folder)
    counters = open_checkpoint(newest_checkpoint(folder / "checkpoints")).metadata["counters"]
    assert counters["agent_steps"] == 640 + 3 * 160 * 2


def test_unshared_folder_is_named_on_every_rank(three):
    once = with_flags(words("runs/own", 3), {"--max-restarts": "0"})
    processes = [node.start(*once) for node in three]
    found = end(*processes, status=1)
    told = "--run-dir must be a folder that all machines share: "
    names = NAMES if three[0].network else ()
    for _, errors in found:
        (line,) = errors_of(errors)
        assert told in line and line.count("does not see it") == 2 and line.endswith("got 'runs/own'")
        assert sum(f"on {name} does not see it" in line for name in names) == 2 * bool(names)
    ranks = sorted(errors_of(errors)[0].partition(" of 3:")[0] for _, errors in found)
    assert ranks == [f"error: rank {rank}" for rank in range(3)]
    assert not any(list((node.work / "runs").glob("*/*")) for node in three), "no files are left"
