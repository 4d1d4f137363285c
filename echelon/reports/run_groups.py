"""Groups of training runs: runs whose configs are equal except for the seed form a group, which has an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.metrics import read_metrics, read_table
from echelon.reports.plots import Curve
from echelon.rules.config_json import flat
from echelon.runtime.files import FileError

Statistic = Literal["mean", "iqm"]
SAME = (
    *(
        "seed",
        "run_dir",
        "resume",
        "device",
        "logger",
        "wandb",
        "callbacks",
        "profile",
        "replay_battles",
        "checkpoint_every",
    ),
    *("keep_checkpoints", "backend", "compiled", "compile_policy", "cuda_graphs", "deterministic", "evaluation"),
    "max_minutes",
)
"""Settings in which runs of one group may differ, because they are not compared."""
NUMBERS = ("agent_steps", "win_rate", "low", "high")
"""Columns of `evaluations.csv` that are drawn."""
WIDER, WIDER_TRIMMED = 0.3, 0.1
"""Factors by which Student's interval of a group of up to `SKEWED` runs is widened, of a mean and of a trimmed mean;
less for more runs. With it, 92 of 100 intervals of 3, 5 and 10 runs contain the value for skewed distributions too
(exponential, Beta(19, 1); 91 for 3 exponential runs), see `tests/reports/test_run_groups.py`."""
SKEWED = 10
FEW = 5
"""Below this number of runs, their values are shown beside the interval."""
BINS = 60
"""Points of a curve; rows of `metrics.csv` between two points are averaged."""


@dataclass(frozen=True)
class Run:
    """The content of a training run's folder."""

    name: str
    settings: Mapping[str, Any]
    """Each setting by its dotted name, except those in `SAME`."""
    metrics: list[dict[str, float]]
    """Rows of `metrics.csv`."""
    evaluations: list[dict[str, str]]
    """Rows of `evaluations.csv`."""

    @property
    def rivals(self) -> list[str]:
        """Opponents of the run's evaluations, in the order of the file."""
        return list(dict.fromkeys(row["rival"] for row in self.evaluations))

    @property
    def columns(self) -> set[str]:
        """Columns of `metrics.csv` in which some row has a value."""
        return set().union(*self.metrics)

    def series(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return agent steps and values, `[K]` each, of a column of `metrics.csv` or of a win rate against a rival."""
        if name in self.rivals:
            rows = [(row["agent_steps"], row["win_rate"]) for row in self.evaluations if row["rival"] == name]
        else:
            rows = [(row["agent_steps"], row[name]) for row in self.metrics if name in row]  # type: ignore[misc]
        points = np.array(rows, float).reshape(-1, 2)
        return points[:, 0], points[:, 1]

    def intervals(self, rival: str) -> dict[float, tuple[float, float]]:
        """Return the 95 % interval over battles of the win rate against an opponent, keyed by agent steps."""
        rival_rows = [row for row in self.evaluations if row["rival"] == rival]
        return {float(row["agent_steps"]): (float(row["low"]), float(row["high"])) for row in rival_rows}


def read_run(folder: Path) -> Run:
    """Read a run's folder; without a checkpoint, the settings of the run are unknown."""
    path = folder / "metrics.csv"
    if not path.is_file():
        raise FileError(f"{path}: expected the metrics of a run, found none")
    settings: dict[str, Any] = {}
    changes: list[dict[str, Any]] = []
    if any((folder / "checkpoints").glob("[!.]*")):
        checkpoint = open_checkpoint(newest_checkpoint(folder / "checkpoints"))
        metadata, changes = checkpoint.metadata, checkpoint.changes
        settings = {**metadata["settings"], "env": metadata["env"], "model": metadata["model"]}
    metrics, evaluations = read_metrics(path), read_table(folder / "evaluations.csv")
    try:
        [(row["rival"], *(float(row[name]) for name in NUMBERS)) for row in evaluations]
    except (ValueError, KeyError) as error:
        raise FileError(f"{folder}: expected tables of a run, got {error}") from None
    different = flat({name: value for name, value in settings.items() if name not in SAME})
    told = {name: with_changes(name, value, changes) for name, value in different.items()}
    return Run(folder.resolve().name, told, metrics, evaluations)


def with_changes(name: str, value: Any, changes: Sequence[Mapping[str, Any]]) -> Any:
    """Return the last value of a setting; if resuming changed it, return a text with all its values, latest first.

    Args:
        changes: changes of the run's settings, see `Checkpoint.changes`.
    """
    parts = []
    for change in reversed([change for change in changes if change["setting"] == name]):
        if change["before"] != value:
            parts.append(f"{plain(value)} since iteration {change['since']}")
            value = change["before"]
    return ", ".join([*parts, f"{plain(value)} before"]) if parts else value


def grouped(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group runs by config; the groups' names have the settings that differ, such as `ppo.gae_lambda 0.9 (3 runs)`."""
    names = {name: None for run in runs for name in run.settings}
    varied = [name for name in names if any(run.settings.get(name) != runs[0].settings.get(name) for run in runs)]
    groups: dict[str, list[Run]] = {}
    for run in runs:
        label = ", ".join(f"{name} {plain(run.settings.get(name))}" for name in varied)
        groups.setdefault(label, []).append(run)

    def title(label: str, members: Sequence[Run]) -> str:
        count = f"{len(members)} runs" if len(members) > 1 else members[0].name
        return f"{label} ({count})" if label else count

    return {title(label, members): members for label, members in groups.items()}


def plain(value: Any) -> str:
    return ".." if value is None else " ".join(map(plain, value)) if isinstance(value, list) else str(value)


def interquartile_mean(values: np.ndarray, axis: int = 0) -> Any:
    """Return the mean of the middle half along an axis: a quarter of the values, rounded down, is cut at either end."""
    from scipy.stats import trim_mean  # takes a second to import

    return trim_mean(values, 0.25, axis)


def middle(runs: Sequence[Run], name: str, statistic: Statistic) -> Curve | None:
    """Return the mean or interquartile mean of a series over runs, at agent steps that all runs have reached.

    The interval is computed by `interval_over_runs`. For a single run, the win rate's interval is that of the
    evaluation's battles; other series have an interval of width 0. The result is None if no run has values.

    Args:
        name: name of the series, such as a column of `metrics.csv`, see `Run.series`.
    """
    series = [run.series(name) for run in runs if len(run.series(name)[0]) > 0]
    if not series:
        return None
    steps = common_steps([x for x, _ in series], is_sparse=any(name in run.rivals for run in runs))
    if len(steps) == 0:
        return None
    table = np.stack([resampled(x, y, steps) for x, y in series])
    value = moments(table, statistic)[0]
    if len(table) == 1:
        intervals = next((run.intervals(name) for run in runs if name in run.rivals), None)
        if intervals is None:
            return Curve(steps, value, value, value)
        return Curve(steps, value, *np.array([intervals[x] for x in steps]).T)
    low, high = interval_over_runs([table], statistic)
    if any(name in run.rivals for run in runs):
        low, high = low.clip(0.0, 1.0), high.clip(0.0, 1.0)
    return Curve(steps, value, low, high)


def interval_over_runs(samples: Sequence[np.ndarray], statistic: Statistic) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95 % interval of a group's statistic, or of the difference between two groups' statistics.

    For means it is Student's interval, for interquartile means the interval for trimmed means (Tukey and McLaughlin
    1963), and for differences Welch's interval. The interval of a single group is widened (see `WIDER`), because
    Student's interval is too narrow for skewed values. A percentile bootstrap is not used: its 95 % interval from 3
    runs would contain the true mean only 73 times in 100.

    Args:
        samples: one or two groups of at least two runs, `[runs, ...]` each.

    Returns:
        The lower and the upper end of the interval, `[...]` each.
    """
    from scipy.stats import t  # takes a second to import

    wider = WIDER if cut_of(samples[0], statistic) == 0 else WIDER_TRIMMED
    middles, variances, degrees = zip(*(moments(sample, statistic) for sample in samples), strict=True)
    value, variance, freedom = middles[0], variances[0], np.full(np.shape(variances[0]), float(degrees[0]))
    if len(samples) == 2:
        value, variance = value - middles[1], variance + variances[1]
        shares = sum(part**2 / count for part, count in zip(variances, degrees, strict=True))
        freedom = np.where(shares > 0, variance**2 / np.where(shares > 0, shares, 1), min(degrees))
    factor = 1.0 if len(samples) == 2 else 1 + wider * min(1.0, SKEWED / len(samples[0]))
    half = t.ppf(0.975, freedom) * np.sqrt(variance) * factor
    return value - half, value + half


def cut_of(sample: np.ndarray, statistic: Statistic) -> int:
    """Return how many values of `[runs, ...]` are cut at each end before averaging."""
    return len(sample) // 4 if statistic == "iqm" else 0


def moments(sample: np.ndarray, statistic: Statistic) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the statistic of `[runs, ...]`, its variance and its degrees of freedom.

    For a single run, the variance and the degrees of freedom are 0. The variance of an interquartile mean is computed
    from the winsorized values: those of the outer quarters are set to the nearest value that is not cut.
    """
    cut = cut_of(sample, statistic)
    kept, ordered = len(sample) - 2 * cut, np.sort(sample, 0)
    winsorized = sample.clip(ordered[cut], ordered[len(sample) - cut - 1])
    squares = ((winsorized - winsorized.mean(0)) ** 2).sum(0)
    value = interquartile_mean(sample) if statistic == "iqm" else sample.mean(0)
    return value, squares / max(kept * (kept - 1), 1), kept - 1


def common_steps(steps: Sequence[np.ndarray], is_sparse: bool) -> np.ndarray:
    """Return the agent steps of a group's curve, within the range of all runs' series.

    For a sparse series (evaluations) these are all steps of all runs.
    """
    begin, end = max(x[0] for x in steps), min(x[-1] for x in steps)
    all_steps = np.unique(np.concatenate(steps))
    all_steps = all_steps[(all_steps >= begin) & (all_steps <= end)]
    return all_steps if is_sparse or len(all_steps) <= BINS else np.linspace(begin, end, BINS)


def resampled(x: np.ndarray, y: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Resample a series at other steps: the mean of its points nearest to a step, or else an interpolated value."""
    inside = (x >= steps[0]) & (x <= steps[-1])
    nearest = np.abs(steps[None] - x[inside][:, None]).argmin(1)
    count = np.bincount(nearest, minlength=len(steps))
    total = np.bincount(nearest, weights=y[inside], minlength=len(steps))
    is_filled = count > 0
    points = np.concatenate((x[x < steps[0]], steps[is_filled], x[x > steps[-1]]))
    values = np.concatenate((y[x < steps[0]], total[is_filled] / count[is_filled], y[x > steps[-1]]))
    return np.interp(steps, points, values)
