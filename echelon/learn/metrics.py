"""Metrics of a run: one CSV row an iteration, and TensorBoard where it is installed."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

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
    "entropy",
    "kl",
    "clip_fraction",
    "gradient_norm",
    "loss_objective",
    "loss_critic",
    "loss_entropy",
)
"""Columns of `metrics.csv`; rates, returns and counts are means over the battles that ended, empty if none did."""


class MetricsLog:
    """Writes rows of `COLUMNS`; goes on where an earlier run in the folder stopped."""

    def __init__(self, folder: Path, after_iteration: int = 0) -> None:
        self.path = folder / "metrics.csv"
        kept = [row for row in read_metrics(self.path) if row["iteration"] <= after_iteration]
        with open(self.path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows([["" if row.get(name) is None else row[name] for name in COLUMNS] for row in kept])
        self.board = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder / "tensorboard"))

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


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The rows of a `metrics.csv`, without their empty cells; none if there is no such file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return [{k: float(v) for k, v in row.items() if v not in ("", None)} for row in csv.DictReader(file)]
