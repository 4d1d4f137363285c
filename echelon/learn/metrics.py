"""Metrics of a run: one CSV row an iteration, and optional TorchRL loggers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.env.observation.layout import GROUPS
from echelon.env.reward import TERMS
from echelon.learn.ppo.update import DIAGNOSTICS, LOSSES, REPORTED
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, append_whole, read_file, write_whole

COLUMN_OF = {"loss_objective": "loss_policy", "loss_critic": "loss_value"}
"""Columns that are called otherwise than the entry of the loss."""
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
    *(COLUMN_OF.get(name, name) for name in LOSSES),
)
"""Columns of `metrics.csv`. Rates, returns and counts are means over the battles that ended, empty if none did;
`return_TERM` is the undiscounted return of a reward term per mech, `return` the sum over all terms;
`stage_win_rate` covers battles against the scripted commander since the stage began, older ones discounted.
Other values of a row begin columns behind these: `win_rate_blue` and `win_rate_red` where the rosters differ, the
`return_TERM` of the user's own terms."""

ITERATION = "iteration"
LONGEST_TABLE = 256 << 20
"""Bytes of a table that is read: some 250,000 iterations."""
CLOCKS = ("iteration", "agent_steps")
"""What the others are drawn over."""
MEASURED = ("seconds", "agent_steps_per_s", "env_s", "act_s", "learn_s")
"""Wall-clock columns, the only ones in which two deterministic runs differ."""


class CsvTable:
    """A CSV file that is appended to by rows; a resumed run continues an existing file, whose columns stay in place.

    A value under a new name begins a new column behind the others, empty in older rows. TorchRL's `CSVLogger` writes
    one file per metric.

    Args:
        columns: column names to begin with, with `iteration` among them.
    """

    def __init__(self, path: Path, columns: Sequence[str], after_iteration: int = 0) -> None:
        self.path = path
        rows = [row for row in read_table(path) if number_in(path, row, ITERATION) <= after_iteration]
        stored = read_columns(path) if rows else []
        self.columns = [*stored, *(name for name in columns if name not in stored)]
        self._rewrite(rows)

    def _rewrite(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Replace the file by the columns of now and these rows, atomically."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(self.path, encoded(text))

    def write(self, values: Mapping[str, object]) -> None:
        """Append a row with fsync, so that a checkpoint is never ahead of the table. A missing value is an empty cell.

        Raises:
            FileError: the row cannot be written; then the file is as it was.
        """
        if added := [name for name in values if name not in self.columns]:
            self.columns += added
            self._rewrite(read_table(self.path))
        text = io.StringIO()
        csv.DictWriter(text, self.columns, restval="").writerow(values)
        append_whole(self.path, encoded(text))


class MetricsLog:
    """Writes `metrics.csv` and optionally to TensorBoard or Weights & Biases through TorchRL's loggers.

    Args:
        after_steps: agent steps of that iteration; TensorBoard hides what an earlier process told of later ones.
        logger: csv, tensorboard or wandb; the latter two are imported only if selected.
    """

    def __init__(self, folder: Path, after_iteration: int = 0, after_steps: int = 0, logger: str = "csv") -> None:
        self.table = CsvTable(folder / "metrics.csv", COLUMNS, after_iteration)
        self.board: Any = None
        if logger != "csv":
            has_logger = find_spec(logger) is not None
            require(has_logger, "--logger", "csv, or installed (pip install -e '.[log]')", logger)
            from torchrl.record.loggers import get_logger

            self.board = get_logger(
                logger, str(folder), logger, **({"project": "echelon"} if logger == "wandb" else {})
            )
            if logger == "tensorboard":
                # The file that is open begins without this mark; the next value opens another one, which bears it.
                self.board.experiment.close()
                self.board.experiment.purge_step = after_steps + 1

    @property
    def path(self) -> Path:
        return self.table.path

    def write(self, values: Mapping[str, float | None]) -> None:
        """Append a row of `COLUMNS` and any others; None for an empty cell."""
        for name, value in values.items():
            is_number = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
            require(is_number, f"metrics[{name!r}]", "a number or None (of a tensor: value.item())", value)
        self.table.write(values)
        if self.board is not None:
            for name, value in values.items():
                if value is not None and name not in CLOCKS:
                    self.board.log_scalar(name, value, step=int(values["agent_steps"] or 0))

    def write_evaluation(self, rows: Sequence[Mapping[str, Any]], agent_steps: int) -> None:
        """Send rows of `evaluations.csv` to the logger, each number as `evaluation/RIVAL/COLUMN`; a logger of none has
        them in that file."""
        if self.board is None:
            return
        for row in rows:
            for name, value in row.items():
                if isinstance(value, int | float):
                    self.board.log_scalar(f"evaluation/{row['rival']}/{name}", value, step=agent_steps)

    def write_image(self, name: str, picture: np.ndarray, agent_steps: int) -> None:
        """Send a picture `[H, W, 3]` uint8 to the logger, if there is one."""
        if self.board is None:
            return
        writer = self.board.experiment
        if hasattr(writer, "add_image"):
            writer.add_image(name, picture, agent_steps, dataformats="HWC")
        else:
            import wandb

            writer.log({name: wandb.Image(picture), "trainer/step": agent_steps})

    def close(self) -> None:
        if self.board is not None:
            writer = self.board.experiment
            writer.close() if hasattr(writer, "close") else writer.finish()


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, without their empty cells; none if there is no such file. An incomplete last row, of
    a writer that was killed, is dropped.
    """
    if not path.exists():
        return []
    try:
        # A spreadsheet program marks its UTF-8 at the beginning.
        text = read_file(path, LONGEST_TABLE).decode("utf-8-sig").rpartition("\n")[0]
        rows = list(csv.DictReader(io.StringIO(text)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileError(f"{path}: expected a table, got what is none: {error}") from None
    head = text.partition("\n")[0]
    if "," not in head and (delimiters := [mark for mark in (";", "\t") if mark in head]):
        saved = f"{delimiters[0]!r}, as a spreadsheet program saves it: save it with commas and points, or move it away"
        raise FileError(f"{path}: expected commas between the columns, got {saved}")
    for number, row in enumerate(rows, 1):
        if None in row:
            raise FileError(f"{path}: row {number} must have a cell a column at most, got {len(row[None])} more")
    return [{k: v for k, v in row.items() if v not in ("", None)} for row in rows]


def number_in(path: Path, row: Mapping[str, str], name: str) -> float:
    """A number of a row of the table at `path`."""
    text = row.get(name, "")
    try:
        return float(text)
    except ValueError:
        raise FileError(f"{path}: {name} must be a number in every row, got {text!r:.200}") from None


def encoded(text: io.StringIO) -> bytes:
    """UTF-8; a path of a commander need not be that, and its other bytes are written as Python shows them."""
    return text.getvalue().encode(errors="backslashreplace")


def read_columns(path: Path) -> list[str]:
    return next(csv.reader(io.StringIO(read_file(path, LONGEST_TABLE).decode("utf-8-sig"))), [])


def read_metrics(path: Path) -> list[dict[str, float]]:
    return [{name: number_in(path, row, name) for name in row} for row in read_table(path)]


def all_reduce_sums(sums: Mapping[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Sum each tensor over all processes, in one all-reduce."""
    sizes = [value.numel() for value in sums.values()]
    parts = ranks.sum(torch.cat([value.flatten() for value in sums.values()])).split(sizes)
    return {name: part.view_as(sums[name]) for name, part in zip(sums, parts, strict=True)}


def read(values: Mapping[str, Tensor]) -> dict[str, list[float]]:
    """Copy tensors to the host in one transfer, flattened to lists of floats."""
    numbers = iter(torch.cat([value.detach().float().flatten() for value in values.values()]).cpu().tolist())
    return {name: list(islice(numbers, value.numel())) for name, value in values.items()}


def summarise(
    report: Mapping[str, list[float]], terms: Sequence[str], stat_names: Sequence[str], past: str
) -> dict[str, float | None]:
    """Columns of `metrics.csv`, with sums over battles divided by their number; None where no battle ended.

    Args:
        report: what `read` returned.
    """
    value = {name: numbers[0] for name, numbers in report.items()}
    stats = dict(zip(stat_names, report["stats"], strict=True))

    def mean(amount: float, battles: float) -> float | None:
        return amount / battles if battles > 0 else None

    battles = value["battles"]
    returns = {f"return_{term}": mean(sums, battles) for term, sums in zip(terms, report["returns"], strict=True)}
    unchanged = (*REPORTED, "epochs", "skipped", "battles", "dead_share", "target_mean", "target_std")
    return {
        **{COLUMN_OF.get(name, name): value[name] for name in (*unchanged, "explained_variance")},
        "win_rate": mean(value["won"], battles),
        "loss_rate": mean(value["lost"], battles),
        "battle_decisions": mean(value["decisions"], battles),
        "return": mean(math.fsum(report["returns"]), battles),
        **returns,
        **{name: mean(stats[name], battles) for name in ("damage", "kills", "deaths", "zone_s")},
        **{
            f"win_rate_{side}": mean(value[f"won_as_{side}"], value[f"battles_as_{side}"])
            for side in GROUPS
            if f"won_as_{side}" in value
        },
        "past_win_rate": mean(value.get(f"won_{past}", 0.0), value.get(f"battles_{past}", 0.0)),
    }
