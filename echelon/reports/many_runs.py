"""What the report of several runs tells: groups over seeds, what differs, where each run comes from."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from echelon.arena.evaluator import BEST
from echelon.arena.match import bootstrap_interval
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import POLICY, open_checkpoint
from echelon.reports.data import as_text, duration
from echelon.reports.plots import SHARES, title_of
from echelon.reports.run_groups import Run, Statistic, grouped, interquartile_mean, middle, with_changes
from echelon.runtime.errors import one_line

SHOWN = ("return", "win_rate", "stage", "entropy", "kl", "explained_variance", "kills", "deaths", "agent_steps_per_s")
"""Columns of `metrics.csv` that have a panel, behind the evaluations."""
EMPTY: dict[str, Any] = {"columns": [], "rows": []}
HASH_LETTERS = 12


def report_of_runs(runs: Sequence[Run], folders: Sequence[Path], statistic: Statistic = "mean") -> dict[str, Any]:
    """The values of a report of several runs, for `echelon.view.run_report.write_report`.

    Args:
        folders: where each run lies, in the same order.
        statistic: the middle of a group.
    """
    groups = grouped(runs)
    axes: dict[str, list[float | None]] = {}
    rivals = [rival for rival in dict.fromkeys(rival for run in runs for rival in run.rivals) if rival != BEST]
    names = [*rivals, *(name for name in SHOWN if any(name in run.columns for run in runs))]
    charts = [chart_of(name, groups, statistic, name in rivals, axes) for name in names]
    statistic_name = "interquartile mean" if statistic == "iqm" else "mean"
    return {
        "name": one_line(f"{len(runs)} runs, {len(groups)} {'group' if len(groups) == 1 else 'groups'}"),
        "state": f"{statistic_name} over the seeds of a group",
        "told": "bands: 95 % bootstrap interval over runs; groups are named by the settings in which they differ",
        "progress": 1.0,
        "made": f"written {time.strftime('%Y-%m-%d %H:%M:%S')}",
        "origin": [],
        "signs": [],
        "stages": [],
        "best": "",
        "tiles": [],
        "charts": charts,
        "evaluations": EMPTY,
        "skills": [],
        "behaviour": {"whom": "", "weapons": EMPTY, "deeds": EMPTY, "charts": [], "distances": []},
        "battle": "",
        "config": {"told": "", "settings": []},
        "axes": axes,
        "tables": [
            ablation_table(groups, rivals, statistic),
            settings_table(runs),
            provenance_table(runs, folders),
        ],
    }


def chart_of(
    name: str,
    groups: Mapping[str, Sequence[Run]],
    statistic: Statistic,
    is_rival: bool,
    axes: dict[str, list[float | None]],
) -> dict[str, Any]:
    """A panel with a curve and a band for each group."""
    curves = {label: middle(members, name, statistic) for label, members in groups.items()}
    lines = []
    for label, curve in ((label, curve) for label, curve in curves.items() if curve is not None):
        axis = f"{label} {name}"
        axes[axis] = curve.x.tolist()
        values = {key: [float(f"{value:.5g}") for value in getattr(curve, key)] for key in ("y", "low", "high")}
        lines.append({"name": one_line(label), "axis": axis, **values})
    is_share = is_rival or name in SHARES
    title = f"win rate against {name}" if is_rival else title_of(name)
    extra = {"range": [0, 1]} if is_share else {}
    return {"title": one_line(title), "lines": lines, "percent": is_share, "bands": True, **extra}


def ablation_table(groups: Mapping[str, Sequence[Run]], rivals: Sequence[str], statistic: Statistic) -> dict[str, Any]:
    """A row a group: its last win rate against each rival, and the difference to the first group."""
    ends = {label: {rival: end_of(members, rival) for rival in rivals} for label, members in groups.items()}
    first = next(iter(ends))
    rows = []
    for label, samples in ends.items():
        row: list[Any] = [one_line(label)]
        for rival in rivals:
            row.append(interval_text([samples[rival]], statistic))
            row.append(
                "" if label == first else interval_text([samples[rival], ends[first][rival]], statistic, sign="+")
            )
        rows.append(row)
    columns = ["group", *(text for rival in rivals for text in (one_line(rival), "to the first, points"))]
    note = "Last win rates, in percent, and 95 % bootstrap intervals over runs, where there are several."
    return {"title": "Groups beside each other", "note": note, "columns": columns, "rows": rows}


def end_of(members: Sequence[Run], rival: str) -> np.ndarray:
    """The last win rate against a rival of each run that met it."""
    series = [run.series(rival)[1] for run in members if rival in run.rivals]
    return np.array([values[-1] for values in series if len(values)])


def middle_of(samples: Sequence[np.ndarray], statistic: Statistic) -> tuple[float, float, float]:
    """The middle of a sample, or of the first less that of the second, with the ends of its interval over runs: NaN
    where a sample has a single run."""

    def of(*parts: np.ndarray, axis: int = -1) -> Any:
        middles = [
            interquartile_mean(sample, axis) if statistic == "iqm" else np.mean(sample, axis) for sample in parts
        ]
        return middles[0] if len(middles) == 1 else middles[0] - middles[1]

    value = float(of(*samples))
    if min(len(sample) for sample in samples) < 2:
        return value, np.nan, np.nan
    interval = bootstrap_interval(samples, of)
    return value, float(interval.low), float(interval.high)


def interval_text(samples: Sequence[np.ndarray], statistic: Statistic, sign: str = "") -> str:
    """What `middle_of` finds in percent, with its interval where it is known; empty where a sample is."""
    if not all(map(len, samples)):
        return ""
    value, low, high = middle_of(samples, statistic)
    interval = "" if np.isnan(low) else f" ({100 * low:{sign}.0f} to {100 * high:{sign}.0f})"
    return f"{100 * value:{sign}.0f}{interval}"


def settings_table(runs: Sequence[Run]) -> dict[str, Any]:
    """The settings in which runs differ, a column a run."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    varied = [name for name in names if len({as_text(run.settings.get(name)) for run in runs}) > 1]
    rows = [[name, *(as_text(run.settings.get(name)) for run in runs)] for name in varied]
    note = "But for seeds, devices and what does not change what is learnt."
    if not varied:
        note = "The runs differ in nothing but seeds, devices and what does not change what is learnt."
    columns = ["setting", *(one_line(run.name) for run in runs)] if varied else []
    return {"title": "Difference of settings", "note": note, "columns": columns, "rows": rows}


def provenance_table(runs: Sequence[Run], folders: Sequence[Path]) -> dict[str, Any]:
    """A row a run: what it was made by and how long, against whom, and the hash of its weights."""
    rows = [[one_line(run.name), *origin(folder)] for run, folder in zip(runs, folders, strict=True)]
    columns = ["run", "seed", "agent steps", "time", "Echelon", "rules", "met", "weights, sha256"]
    return {"title": "Where each run comes from", "note": "Of its newest checkpoint.", "columns": columns, "rows": rows}


def origin(folder: Path) -> list[str]:
    """Cells of `provenance_table`; empty of a run without a checkpoint."""
    checkpoints = folder / "checkpoints"
    if not any(checkpoints.glob("[!.]*")):
        return [""] * 7
    checkpoint = open_checkpoint(newest_checkpoint(checkpoints))
    claims, counters = checkpoint.claims, checkpoint.counters
    contacts = [f"{kind} {', '.join(names)}" for kind, names in checkpoint.provenance.as_json().items() if names]
    return [
        as_text(with_changes("seed", claims["settings"].get("seed"), checkpoint.changes)),
        f"{counters.agent_steps:,}",
        duration(counters.seconds),
        as_text(claims.get("written_by")),
        str(checkpoint.versions.rules),
        as_text("; ".join(contacts)),
        as_text(claims["files"][POLICY])[:HASH_LETTERS],
    ]
