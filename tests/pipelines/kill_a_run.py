"""Trains one run to its end, and another that is killed and resumed again and again; `test_stopping` starts it.

One import serves all: each attempt is a fork. Prints one JSON line.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "pipelines"))
import train
from command_line import run
from runs import TINY

ITERATIONS = 24
RICH = [
    *TINY,
    *("--num-envs", "8", "--past-share", "0.5", "--past-blocks", "2", "--past-every", "1", "--past-kept", "3"),
    *("--env.map-spares", "1", "--renew-maps-every", "2", "--checkpoint-every", "2", "--keep-checkpoints", "2"),
    *("--evaluation.every", "3", "--evaluation.tiers", "easy", "--total-agent-steps", str(320 * ITERATIONS)),
]


def attempt(folder: Path, *more: str) -> int:
    """A process that trains; returns its id."""
    process = os.fork()
    if process == 0:
        os.dup2(os.open(folder.with_suffix(".log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND), 1)
        os.dup2(1, 2)
        sys.argv = ["pipelines/train.py", *RICH, "--run-dir", str(folder), *more]
        code = 0
        try:
            run(train.main)
        except SystemExit as end:
            print(end.code)
            code = 1
        sys.stdout.flush()
        os._exit(code)
    return process


def seconds_until(holds: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not holds():
        time.sleep(0.02)
    return time.monotonic() - began


def finish(process: int) -> None:
    """Wait for a process, which must succeed."""
    _, status = os.waitpid(process, 0)
    assert status == 0, status


def main(home: Path, kills: int) -> None:
    torch.set_num_threads(1)
    unbroken, broken = home / "unbroken", home / "broken"
    table = unbroken / "metrics.csv"
    process = attempt(unbroken)
    to_first_s = seconds_until(lambda: table.exists() and table.read_bytes().count(b"\n") > 1)
    began = time.monotonic()
    finish(process)
    iteration_s = (time.monotonic() - began) / (ITERATIONS - 1)
    chance, killed, begun = random.Random(0), 0, 0
    while killed < kills:
        started = any((broken / "checkpoints").glob("[!.]*"))
        begun += started
        process = attempt(broken, *(["--resume", "latest"] if started else []))
        time.sleep(chance.uniform(0, to_first_s + 2 * iteration_s))
        if os.waitpid(process, os.WNOHANG) != (0, 0):
            break
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        killed += 1
    finish(attempt(broken, "--resume", "latest"))
    print(json.dumps({"killed": killed, "resumed": begun + 1}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
