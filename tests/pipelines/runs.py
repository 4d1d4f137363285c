"""Start programs as a user does, with flags for a run of seconds."""

import subprocess
from pathlib import Path

import programs

from echelon.learn.metrics import MEASURED, read_table

ROOT = programs.ROOT
TINY = [
    *("--preset", "quick", "--device", "cpu", "--num-envs", "4", "--evaluation.battles", "2"),
    *("--evaluation.final-battles", "2", "--evaluation.tiers", "easy", "--env.map-pool", "2"),
    *("--env.rules.max-episode-s", "3"),
    *("--ppo.rollout-decisions", "8", "--ppo.chunk-decisions", "4"),
]


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one of the pipelines to its end."""
    return programs.run(str(ROOT / "pipelines" / program), *arguments, **environment)


def without_clock(path: Path) -> list[dict[str, str]]:
    """Read a table of a run without its wall-clock columns."""
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in read_table(path)]
