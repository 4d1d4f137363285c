"""What every program of `programs.py` would do first, done once in the process that they are forked from: imports,
reading compiled loops, a picture's fonts. No gradients: torch refuses them after a fork of who has computed some."""

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

# Threads do not outlive a fork.
torch.set_num_threads(1)
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=1)
EchelonEnv(CONFIG, 2, "cpu", seed=0).rollout(2)
Heuristic(CONFIG, "easy")
with tempfile.TemporaryDirectory() as folder:
    save(metrics_figure([], []), *(Path(folder) / name for name in ("metrics.png", "metrics.pdf")))
