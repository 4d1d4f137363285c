"""Train one run to its end, and others that are killed and resumed repeatedly; started by `test_stopping`.

python tests/pipelines/kill_a_run.py FOLDER KILLS ITERATIONS

Starts as many runs of ITERATIONS as KILLS needs. All attempts are forks, so imports run once. Prints one JSON line.
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
from runs import TINY

from echelon.pipelines import train
from echelon.runtime.terminal import run

RICH = [
    *TINY,
    *(
        "--num-envs",
        "8",
        "--snapshot-opponent-share",
        "0.5",
        "--past-blocks",
        "2",
        "--past-every",
        "1",
        "--past-kept",
        "3",
    ),
    *("--env.map-spares", "1", "--renew-maps-every", "2", "--checkpoint-every", "2", "--keep-checkpoints", "2"),
    *("--evaluation.every", "3"),
]
STEPS = 320
"""Agent-steps per iteration."""


def attempt(folder: Path, iterations: int, *more: str) -> int:
    """Start a training process; return its id."""
    process = os.fork()
    if process == 0:
        os.dup2(os.open(folder.with_suffix(".log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND), 1)
        os.dup2(1, 2)
        sys.argv = [
            "pipelines/train.py",
            *RICH,
            "--total-agent-steps",
            str(STEPS * iterations),
            "--run-dir",
            str(folder),
        ]
        sys.argv += more
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
    """Wait for a process that must succeed."""
    _, status = os.waitpid(process, 0)
    assert status == 0, status


def main(home: Path, kills: int, iterations: int) -> None:
    torch.set_num_threads(1)
    unbroken = home / "unbroken"
    table = unbroken / "metrics.csv"
    process = attempt(unbroken, iterations)
    to_first_s = seconds_until(lambda: table.exists() and table.read_bytes().count(b"\n") > 1)
    began = time.monotonic()
    finish(process)
    span = to_first_s + 2 * (time.monotonic() - began) / max(iterations - 1, 1)
    chance, killed, resumed, runs = random.Random(0), 0, 0, 0
    while killed < kills:
        broken, ended = home / f"broken_{runs}", False
        runs += 1
        while not ended:
            begun = any((broken / "checkpoints").glob("[!.]*"))
            resumed += begun
            process = attempt(broken, iterations, *(["--resume", "latest"] if begun else []))
            if killed == kills:
                finish(process)
                break
            began = time.monotonic()
            until = began + chance.uniform(0, span)
            while not ended and time.monotonic() < until:
                who, status = os.waitpid(process, os.WNOHANG)
                assert status == 0, status
                ended = who != 0
                time.sleep(0.01)
            if ended:
                # Otherwise a run of few iterations would hardly ever be killed.
                span = min(span, time.monotonic() - began)
            else:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                killed += 1
    print(json.dumps({"killed": killed, "resumed": resumed, "runs": runs}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
