"""Metrics of a run: one CSV row an iteration, and whoever else is told."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from echelon.env.reward import TERMS
from echelon.learn.ppo.objective import DIAGNOSTICS, LOSSES
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import write_whole

COLUMNS = (
    "iteration",
    "agent_steps",
    "seconds",
    "agent_steps_per_s",
    "env_s",
    "act_s",
    "learn_s",
    "learning_rate",
    "entropy_coef",
    "team_mix",
    "stage",
    "weapon_use",
    "stage_win_rate",
    "past_win_rate",
    "battles",
    "win_rate",
    "loss_rate",
    "battle_decisions",
    "return",
    *(f"return_{term}" for term in TERMS),
    "damage",
    "kills",
    "deaths",
    "zone_s",
    "dead_share",
    "explained_variance",
    "target_mean",
    "target_std",
    "epochs",
    "skipped",
    "gradient_norm",
    *DIAGNOSTICS,
    *LOSSES,
)
"""Columns of `metrics.csv`. Rates, returns and counts are means over the battles that ended, empty if none did;
`return_TERM` is what a term paid a mech from the beginning of a battle to its end, `return` the sum of them;
`stage_win_rate` counts the battles against the scripted commander since the stage began, older ones less."""

MEASURED = ("seconds", "agent_steps_per_s", "env_s", "act_s", "learn_s")
"""Columns that a clock told: two runs of the same numbers differ in these alone."""


class CsvTable:
    """A CSV file of numbers that grows by a row at a time; goes on where an earlier run stopped.

    TorchRL's `CSVLogger` writes a file for every number.

    Args:
        columns: of the file, `iteration` among them.
        after_iteration: rows of later iterations are dropped.
    """

    def __init__(self, path: Path, columns: Sequence[str], after_iteration: int = 0) -> None:
        self.path = path
        self.columns = columns
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(columns)
        for row in read_table(path):
            if float(row["iteration"]) <= after_iteration:
                writer.writerow([row.get(name, "") for name in columns])
        write_whole(path, text.getvalue().encode())

    def write(self, values: Mapping[str, object]) -> None:
        """Add a row, down to the disk: no checkpoint may know more than the table."""
        with open(self.path, "a", newline="") as file:
            csv.writer(file).writerow(["" if values[name] is None else values[name] for name in self.columns])
            file.flush()
            os.fsync(file.fileno())


class MetricsLog:
    """Tells `metrics.csv` and, if asked for, TensorBoard or Weights & Biases through TorchRL's loggers.

    Args:
        folder: of the run.
        after_iteration: where the run goes on.
        logger: csv, tensorboard or wandb; the latter two are imported only when they are asked for.
    """

    def __init__(self, folder: Path, after_iteration: int = 0, logger: str = "csv") -> None:
        self.table = CsvTable(folder / "metrics.csv", COLUMNS, after_iteration)
        self.board: Any = None
        if logger != "csv":
            if find_spec(logger) is None:
                raise ConfigError(f"--logger must be csv, or installed (pip install -e '.[log]'), got {logger!r}")
            from torchrl.record.loggers import get_logger

            self.board = get_logger(
                logger, str(folder), logger, **({"project": "echelon"} if logger == "wandb" else {})
            )

    @property
    def path(self) -> Path:
        """Where the rows are."""
        return self.table.path

    def write(self, values: Mapping[str, float | None]) -> None:
        """Add a row of `COLUMNS`."""
        self.table.write(values)
        if self.board is not None:
            for name in COLUMNS[2:]:
                if values[name] is not None:
                    self.board.log_scalar(name, values[name], step=int(values["agent_steps"] or 0))

    def close(self) -> None:
        """Flush what is buffered."""
        if self.board is not None:
            writer = self.board.experiment
            writer.close() if hasattr(writer, "close") else writer.finish()


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, without their empty cells; none if there is no such file. A row whose writer was killed
    before its end is no row."""
    if not path.exists():
        return []
    whole = path.read_text().rpartition("\n")[0]
    return [{k: v for k, v in row.items() if v not in ("", None)} for row in csv.DictReader(io.StringIO(whole))]


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The rows of a `metrics.csv` as numbers."""
    return [{name: float(value) for name, value in row.items()} for row in read_table(path)]
