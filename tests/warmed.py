"""Work that each program of `programs.py` does first, done once in their parent process: imports, loading compiled
loops, fonts of pictures. It computes no gradients: torch refuses gradients after a fork of a process that computed
some."""

import dataclasses
import tempfile
from pathlib import Path

import torch

import echelon.pipelines.arena
import echelon.pipelines.commands
import echelon.pipelines.train  # noqa: F401
from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.reports.plots import metrics_figure
from echelon.rules.config import EnvConfig
from echelon.viewer.paper import save

# Threads do not survive a fork.
torch.set_num_threads(1)
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=1)
EchelonEnv(CONFIG, 2, "cpu", seed=0).rollout(2)
Heuristic(CONFIG, "easy")
with tempfile.TemporaryDirectory() as folder:
    save(metrics_figure([], []), *(Path(folder) / name for name in ("metrics.png", "metrics.pdf")))
