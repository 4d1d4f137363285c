"""Flags shared by all commands that play battles."""

from dataclasses import dataclass
from typing import Annotated, Any

import torch

from echelon.arena.config import ArenaConfig, Precision
from echelon.league.league_arena import LeagueArena
from echelon.league.store import Store
from echelon.learn.config import SWITCH, Switch
from echelon.rules.limits import MOST_BATTLES
from echelon.runtime.device import resolve_device, use_device
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits, Settings
from echelon.runtime.ray_tasks import RayTasks


@dataclass(frozen=True)
class ArenaArgs(Settings):
    """Settings of the arena, which plays the battles of a command."""

    device: str = "auto"
    batch: Annotated[int, Limits(1, MOST_BATTLES, "battles")] = 256
    """Maximum number of parallel battles; determines the memory use."""
    precision: Precision = "auto"
    """Dtype of the networks' matrix products. auto: bf16 on GPUs with native support, else fp32."""
    compiled: Switch = "auto"
    """Compile networks and, on a GPU, simulation and scripted commanders. auto: on a GPU, if this saves more time than
    compiling takes (`docs/LEAGUE.md`)."""
    cuda_graphs: Switch = "auto"
    """Capture a decision of all battles as a CUDA graph. auto: on a GPU."""

    def settings(self, tasks: RayTasks | None = None, battles: int | None = None) -> ArenaConfig:
        """Return the arena's settings for this process; `battles` is their number, as in `ArenaConfig`."""
        switches = SWITCH[self.compiled], SWITCH[self.cuda_graphs]
        return ArenaConfig(self.place(tasks), self.batch, self.precision, *switches, battles)

    def build(self, store: Store, tasks: RayTasks | None = None, battles: int | None = None) -> LeagueArena:
        """Build the arena of a league, which plays on this machine or on a Ray cluster."""
        return LeagueArena(store, self.settings(tasks, battles), tasks)

    def place(self, tasks: RayTasks | None) -> torch.device:
        """Return the device of this process: with a cluster the CPU, because this process then only stores policies."""
        if tasks is None:
            return use_device(resolve_device(self.device))
        require(
            self.device == "auto",
            "--device",
            "left out with --ray, because --ray-gpus sets the device of the workers",
            self.device,
        )
        return torch.device("cpu")

    def keywords(self, tasks: RayTasks | None = None) -> dict[str, Any]:
        """Return these settings as keyword arguments of `echelon.evaluate`."""
        settings = vars(self.settings(tasks))
        return {name: settings[name] for name in ("device", "batch", "precision", "compiled", "cuda_graph")}
