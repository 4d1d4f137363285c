"""Programs started as a user starts them, and flags of a run that takes seconds."""

import contextlib
import importlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import STUCK_S

from echelon.learn.metrics import MEASURED, read_table
from echelon.pipelines import console

ROOT = Path(__file__).parents[2]
TINY = [
    *("--preset", "quick", "--device", "cpu", "--num-envs", "4", "--evaluation.battles", "2"),
    *("--evaluation.final-battles", "2", "--env.map-pool", "2", "--env.rules.max-episode-s", "3"),
    *("--ppo.rollout-decisions", "8", "--ppo.chunk-decisions", "4"),
]


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One of the pipelines, to its end, in this process, which has imported it: what `run_alone` returns."""
    main = importlib.import_module(f"echelon.pipelines.{Path(program).stem}").main
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code: object = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.chdir(ROOT)
        patch.setattr(sys, "argv", [str(ROOT / "pipelines" / program), *arguments])
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setenv("COLUMNS", os.environ.get("COLUMNS", "80"))
        try:
            console.run(main)
        except SystemExit as stop:
            code = stop.code or 0
            if isinstance(code, str):
                print(code, file=err)
                code = 1
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess([program, *arguments], int(code), *texts)


def run_alone(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One of the pipelines, to its end, in a process of its own."""
    command = [sys.executable, str(ROOT / "pipelines" / program), *arguments]
    # On shared cores, threads that wait for each other cost more than they save.
    variables = {"OMP_NUM_THREADS": "1", **os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=STUCK_S, cwd=ROOT, env=variables)


def without_clock(path: Path) -> list[dict[str, str]]:
    """A table of a run but for what a clock told."""
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in read_table(path)]
