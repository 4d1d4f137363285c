"""Metrics of a run: one CSV row an iteration, and TensorBoard where it is installed."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from echelon.env.reward import TERMS

COLUMNS = (
    "iteration",
    "agent_steps",
    "seconds",
    "agent_steps_per_s",
    "act_s",
    "learn_s",
    "learning_rate",
    "battles",
    "win_rate",
    "loss_rate",
    "battle_decisions",
    "return",
    "damage",
    "kills",
    "deaths",
    "zone_s",
    *(f"reward_{term}" for term in TERMS),
    "entropy",
    "kl",
    "clip_fraction",
    "gradient_norm",
    "loss_objective",
    "loss_critic",
    "loss_entropy",
)
"""Columns of `metrics.csv`; rates, returns and counts are means over the battles that ended, empty if none did;
`reward_TERM` is what a term paid a mech a decision on average."""


class MetricsLog:
    """Writes rows of `COLUMNS`; goes on where an earlier run in the folder stopped."""

    def __init__(self, folder: Path, after_iteration: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "metrics.csv"
        kept = [row for row in read_metrics(self.path) if row["iteration"] <= after_iteration]
        draft = self.path.with_suffix(".draft")
        with open(draft, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows([["" if row.get(name) is None else row[name] for name in COLUMNS] for row in kept])
        draft.replace(self.path)
        self.board = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            after = int(kept[-1]["agent_steps"]) + 1 if kept else 0
            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=after)

    def write(self, values: Mapping[str, float | None]) -> None:
        """Add a row."""
        with open(self.path, "a", newline="") as file:
            csv.writer(file).writerow(["" if values[name] is None else values[name] for name in COLUMNS])
        if self.board is not None:
            for name in COLUMNS[2:]:
                if values[name] is not None:
                    self.board.add_scalar(name, values[name], int(values["agent_steps"] or 0))

    def close(self) -> None:
        """Flush what is buffered."""
        if self.board is not None:
            self.board.close()


class Stopwatch:
    """Seconds between marks on the device's own clock. Reading it waits for the device, marking does not."""

    def __init__(self, device: torch.device) -> None:
        self.is_cuda = device.type == "cuda"
        self.marks: list[Any] = []
        self.mark()

    def mark(self) -> None:
        """Note this moment."""
        if self.is_cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def laps(self) -> list[float]:
        """Seconds from each mark to the next."""
        if self.is_cuda:
            torch.cuda.synchronize()
            return [a.elapsed_time(b) / 1e3 for a, b in pairwise(self.marks)]
        return [b - a for a, b in pairwise(self.marks)]


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The rows of a `metrics.csv`, without their empty cells; none if there is no such file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return [{k: float(v) for k, v in row.items() if v not in ("", None)} for row in csv.DictReader(file)]
