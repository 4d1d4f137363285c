"""Metrics of a run: one CSV row per iteration, and the names under which loggers receive them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from echelon.env.observation.layout import GROUPS
from echelon.env.reward import TERMS
from echelon.learn.ppo.update import DIAGNOSTICS, LOSSES, REPORTED
from echelon.runtime.distributed import Ranks
from echelon.runtime.files import FileError, append_whole, read_file, write_whole

COLUMN_OF = {"loss_objective": "loss_policy", "loss_critic": "loss_value"}
"""Columns whose name differs from the entry of the loss."""
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
"""Columns of `metrics.csv`. Rates, returns and counts are means over the battles that ended, empty if none ended.
`return_TERM` is the undiscounted return of a reward term per mech, and `return` is the sum over all terms.
`stage_win_rate` covers battles against the scripted commander since the stage began, with older ones discounted.
Further values add columns at the end: `win_rate_blue` and `win_rate_red` if the rosters differ, and `return_TERM` of
custom terms."""

ITERATION = "iteration"
LONGEST_TABLE = 256 << 20
"""Maximum size of a table in bytes, about 250,000 iterations."""
CLOCKS = ("iteration", "agent_steps")
"""Columns for the x axis of plots."""
MEASURED = ("seconds", "agent_steps_per_s", "env_s", "act_s", "learn_s")
"""Wall-clock columns; only these differ between two deterministic runs."""


COMMON_NAMES = {
    "charts/episodic_return": "return",
    "charts/episodic_length": "battle_decisions",
    "charts/learning_rate": "learning_rate",
    "charts/SPS": "agent_steps_per_s",
    "losses/policy_loss": "loss_policy",
    "losses/value_loss": "loss_value",
    "losses/entropy": "entropy",
    "losses/approx_kl": "kl",
    "losses/clipfrac": "clip_fraction",
    "losses/explained_variance": "explained_variance",
}
"""Columns by the names of CleanRL's scripts, which loggers receive too."""


class CsvTable:
    """A CSV file written row by row; a resumed run appends to the existing file and keeps the order of its columns.

    A value with a new name adds a column, which is empty in older rows. TorchRL's `CSVLogger` writes one file per
    metric instead.

    Args:
        columns: initial column names, including `iteration`.
    """

    def __init__(self, path: Path, columns: Sequence[str], after_iteration: int = 0) -> None:
        self.path = path
        rows = [row for row in read_table(path) if number_in(path, row, ITERATION) <= after_iteration]
        stored = read_columns(path) if rows else []
        self.columns = [*stored, *(name for name in columns if name not in stored)]
        self._rewrite(rows)

    def _rewrite(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Replace the file atomically by a new file with the current columns and these rows."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(self.path, encoded(text))

    def write(self, values: Mapping[str, object]) -> None:
        """Append a row with fsync, so that no checkpoint contains an iteration that the table lacks. A missing value is
        an empty cell.

        Raises:
            FileError: if the row cannot be written; the file is then unchanged.
        """
        if added := [name for name in values if name not in self.columns]:
            self.columns += added
            self._rewrite(read_table(self.path))
        text = io.StringIO()
        csv.DictWriter(text, self.columns, restval="").writerow(values)
        append_whole(self.path, encoded(text))


def for_loggers(values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the values that a logger receives: all columns except `CLOCKS` and empty cells, and a second time the
    columns in `COMMON_NAMES`, under their common names.
    """
    own = {name: value for name, value in values.items() if value is not None and name not in CLOCKS}
    return {**own, **{name: own[column] for name, column in COMMON_NAMES.items() if column in own}}


def read_table(path: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file, without empty cells; an empty list if there is no file. An incomplete last row, left
    by a killed writer, is dropped.
    """
    if not path.exists():
        return []
    try:
        # Spreadsheet programs add a byte order mark, which utf-8-sig skips.
        text = read_file(path, LONGEST_TABLE).decode("utf-8-sig").rpartition("\n")[0]
        rows = list(csv.DictReader(io.StringIO(text)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileError(f"{path}: expected a CSV table, got another file: {error}") from None
    head = text.partition("\n")[0]
    if "," not in head and (delimiters := [mark for mark in (";", "\t") if mark in head]):
        saved = f"{delimiters[0]!r}, as spreadsheet programs write: save it with commas and decimal points"
        raise FileError(f"{path}: expected commas between the columns, got {saved}")
    for number, row in enumerate(rows, 1):
        if None in row:
            raise FileError(f"{path}: row {number} must have at most one cell per column, got {len(row[None])} more")
    return [{k: v for k, v in row.items() if v not in ("", None)} for row in rows]


def number_in(path: Path, row: Mapping[str, str], name: str) -> float:
    """Return a number from a row of the table at `path`."""
    text = row.get(name, "")
    try:
        return float(text)
    except ValueError:
        raise FileError(f"{path}: {name} must be a number in every row, got {text!r:.200}") from None


def encoded(text: io.StringIO) -> bytes:
    """Encode as UTF-8; bytes of a commander's path that are not UTF-8 are escaped as in Python."""
    return text.getvalue().encode(errors="backslashreplace")


def read_columns(path: Path) -> list[str]:
    return next(csv.reader(io.StringIO(read_file(path, LONGEST_TABLE).decode("utf-8-sig"))), [])


def read_metrics(path: Path) -> list[dict[str, float]]:
    return [{name: number_in(path, row, name) for name in row} for row in read_table(path)]


def all_reduce_sums(sums: Mapping[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Sum each tensor over all processes in one all-reduce."""
    sizes = [value.numel() for value in sums.values()]
    parts = ranks.sum(torch.cat([value.flatten() for value in sums.values()])).split(sizes)
    return {name: part.view_as(sums[name]) for name, part in zip(sums, parts, strict=True)}


def read(values: Mapping[str, Tensor]) -> dict[str, list[float]]:
    """Copy tensors to the host in one transfer; return flat lists of floats."""
    numbers = iter(torch.cat([value.detach().float().flatten() for value in values.values()]).cpu().tolist())
    return {name: list(islice(numbers, value.numel())) for name, value in values.items()}


def summarise(
    report: Mapping[str, list[float]], terms: Sequence[str], stat_names: Sequence[str], past: str
) -> dict[str, float | None]:
    """Compute the columns of `metrics.csv`: sums over battles divided by the number of battles; None if no battle
    ended.

    Args:
        report: the result of `read`.
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
