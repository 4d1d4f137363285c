"""Programs started as a user starts them, and flags of a run that takes seconds."""

import os
import subprocess
import sys
from pathlib import Path

from patience import STUCK_S

from echelon.learn.metrics import MEASURED, read_table

ROOT = Path(__file__).parents[2]
TINY = [
    *("--preset", "quick", "--device", "cpu", "--num-envs", "4", "--evaluation.battles", "2"),
    *("--evaluation.final-battles", "2", "--env.map-pool", "2", "--env.rules.max-episode-s", "3"),
    *("--ppo.rollout-decisions", "8", "--ppo.chunk-decisions", "4"),
]


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One of the pipelines, to its end."""
    command = [sys.executable, str(ROOT / "pipelines" / program), *arguments]
    # On shared cores, threads that wait for each other cost more than they save.
    variables = {"OMP_NUM_THREADS": "1", **os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=STUCK_S, cwd=ROOT, env=variables)


def without_clock(path: Path) -> list[dict[str, str]]:
    """A table of a run but for what a clock told."""
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in read_table(path)]
