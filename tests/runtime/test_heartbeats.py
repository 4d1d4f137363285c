"""Processes wait for a process with a heartbeat, and end if one has none."""

import subprocess
import sys
from datetime import timedelta

import pytest
from patience import STUCK_S
from programs import ROOT
from torch import distributed as dist

from echelon.runtime import distributed
from echelon.runtime.distributed import BEATS, Heartbeats, Ranks

PROGRAM = """
import sys, time, torch
from echelon.runtime import distributed
distributed.PATIENCE_S = 2
ranks = distributed.init_ranks()
if ranks.is_first:
    time.sleep(6)
print("both", ranks.max(float(ranks.rank)), ranks.gather(torch.tensor(ranks.rank))[1].item(), flush=True)
distributed.destroy_ranks(ranks)
"""


class Work:
    """A collective that succeeds or fails after several waits."""

    def __init__(self, waits: int, error: str = "") -> None:
        self.waits, self.error, self.waited = waits, error, []

    def is_completed(self) -> bool:
        return self.waits == 0

    def wait(self, timeout: timedelta | None = None) -> None:
        self.waited.append(timeout)
        message = "Operation timed out!" if self.waits > 0 else self.error
        self.waits = max(self.waits - 1, 0)
        if message:
            raise RuntimeError(message)


class Beats:
    patience_s = 1800.0

    def __init__(self, *silent: list[int]) -> None:
        self.answers = list(silent)

    def silent(self) -> list[int]:
        return self.answers.pop(0)


def ranks_with(beats: Beats) -> Ranks:
    ranks = Ranks(1, 3)
    ranks.beats = beats
    return ranks


def test_collective_waits_while_all_processes_have_heartbeats():
    work = Work(40)
    ranks_with(Beats(*[[]] * 39))._wait(work)
    assert work.waited == [timedelta(seconds=1800 / BEATS)] * 40 + [None], "two hours"


def test_process_without_heartbeat_is_reported_by_rank():
    with pytest.raises(dist.DistError, match=r"^rank 0 and rank 2: no heartbeat for 1800 s$"):
        ranks_with(Beats([], [0, 2]))._wait(Work(40))


def test_failed_collective_raises_without_waiting():
    work = Work(2, "Connection closed by peer")
    with pytest.raises(RuntimeError, match="Connection closed by peer"):
        ranks_with(Beats([]))._wait(work)
    assert len(work.waited) == 3


def test_unchanged_counter_means_silent(monkeypatch):
    now = 100.0
    monkeypatch.setattr(distributed.time, "monotonic", lambda: now)
    store = dist.HashStore()
    beats = Heartbeats(store, rank=1, size=3, patience_s=50.0)
    beats.stop()
    for rank in (0, 2):
        store.set(f"heartbeat of rank {rank}", "0")
    assert beats.silent() == []
    now = 149.0
    store.set("heartbeat of rank 0", "9")
    assert beats.silent() == []
    now = 151.0
    assert beats.silent() == [1, 2]
    now = 200.0
    assert beats.silent() == [0, 1, 2]


@pytest.mark.long
def test_processes_wait_for_a_slow_one_with_heartbeats(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, str(tmp_path / "program.py")], cwd=ROOT, capture_output=True, text=True, timeout=STUCK_S
    )
    assert done.returncode == 0 and done.stdout.count("both 1.0 1") == 2, done.stderr
