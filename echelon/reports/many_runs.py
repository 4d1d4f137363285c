"""The content of a report on several runs: groups of runs with equal configs, settings that differ, provenance."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from echelon.arena.evaluator import BEST
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import POLICY, open_checkpoint
from echelon.reports.data import as_text, duration
from echelon.reports.plots import SHARES, title_of
from echelon.reports.run_groups import FEW, Run, Statistic, grouped, interval_over_runs, middle, moments, with_changes
from echelon.runtime.errors import one_line

SHOWN = ("return", "win_rate", "stage", "entropy", "kl", "explained_variance", "kills", "deaths", "agent_steps_per_s")
"""Columns of `metrics.csv` with a panel, after the evaluations."""
EMPTY: dict[str, Any] = {"columns": [], "rows": []}
HASH_LETTERS = 12


def report_of_runs(runs: Sequence[Run], folders: Sequence[Path], statistic: Statistic = "mean") -> dict[str, Any]:
    """Return the content of a report on several runs, for `echelon.viewer.pages.write_report`.

    Args:
        folders: the folder of each run, in the order of `runs`.
        statistic: how runs of a group are averaged, `mean` or `iqm`.
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
        "told": "bands: 95 % interval over the runs of a group, up to the shortest run; group names are settings",
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
        "behaviour": {"against": "", "weapons": EMPTY, "deeds": EMPTY, "charts": [], "distances": []},
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
    """Return a panel that has a curve and a band for each group of runs."""
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
    """Return one row per group of runs: its win rate against each opponent, and the difference from the first group.

    For each opponent, runs are compared at the last step at which all of them were evaluated; the note names runs that
    ended early.
    """
    members = [run for group in groups.values() for run in group]
    steps = {rival: last_common_step(members, rival) for rival in rivals}
    ends = {label: {rival: rates_at(group, rival, steps[rival]) for rival in rivals} for label, group in groups.items()}
    first = next(iter(ends), None)
    rows = []
    for label, samples in ends.items():
        row: list[Any] = [one_line(label)]
        for rival in rivals:
            row.append(interval_text([samples[rival]], statistic, runs=len(groups[label])))
            row.append(
                "" if label == first else interval_text([samples[rival], ends[str(first)][rival]], statistic, sign="+")
            )
        rows.append(row)
    columns = ["group", *(text for rival in rivals for text in (one_line(rival), "to the first, points"))]
    note = (
        "Win rates, in percent, at the last agent step at which all runs were evaluated, with 95 % intervals over "
        f"runs. Such an interval is wide for few runs, so groups of fewer than {FEW} runs also show their values."
    )
    return {
        "title": "Comparison of groups",
        "note": " ".join([note, *unequal_lengths(members, steps)]),
        "columns": columns,
        "rows": rows,
    }


def last_common_step(runs: Sequence[Run], rival: str) -> float:
    """Return the last agent step at which all runs with this opponent were evaluated; 0 without such runs."""
    last = [steps[-1] for steps, _ in (run.series(rival) for run in runs) if len(steps)]
    return min(last, default=0.0)


def rates_at(members: Sequence[Run], rival: str, step: float) -> np.ndarray:
    """Return the last win rate against an opponent up to `step`, for each run that has one."""
    series = [run.series(rival) for run in members]
    return np.array([rates[steps <= step][-1] for steps, rates in series if len(steps) and steps[0] <= step])


def unequal_lengths(runs: Sequence[Run], steps: Mapping[str, float]) -> list[str]:
    """Return sentences that name the runs that ended early, and the runs without evaluations."""
    series = {run.name: [run.series(rival)[0][-1] for rival in steps if rival in run.rivals] for run in runs}
    missing = [one_line(name) for name, ends in series.items() if not ends]
    ends = {one_line(name): max(last) for name, last in series.items() if last}
    longest = max(ends.values(), default=0)
    short = [
        f"{name} ended early, at {end:,.0f} of {longest:,.0f} steps" for name, end in ends.items() if end < longest
    ]
    told = [f"{'; '.join(short)}: all are compared there."] if short else []
    return [*told, *([f"No evaluations: {', '.join(missing)}."] if missing and steps else [])]


def interval_text(samples: Sequence[np.ndarray], statistic: Statistic, sign: str = "", runs: int = 0) -> str:
    """Format a statistic, or the difference of two, in percent with its 95 % interval; empty if a sample has no values.

    Args:
        runs: number of runs in the group, or 0 to add nothing. If fewer runs have a value, the number of runs with a
            value is added; if the group is small, the values themselves.
    """
    if not all(map(len, samples)):
        return ""
    middles = [float(moments(sample, statistic)[0]) for sample in samples]
    value = middles[0] - sum(middles[1:])
    parts = []
    if min(map(len, samples)) > 1 and any(sample.std() > 0 for sample in samples):
        low, high = interval_over_runs(samples, statistic)
        least = 0.0 if len(samples) == 1 else -1.0
        parts.append(f"{100 * float(low.clip(least)):{sign}.0f} to {100 * float(high.clip(None, 1)):{sign}.0f}")
    if runs and 1 < len(samples[0]) < FEW:
        parts.append("runs " + ", ".join(f"{100 * rate:.0f}" for rate in samples[0]))
    if runs and len(samples[0]) < runs:
        parts.append(f"{len(samples[0])} of {runs} runs")
    return f"{100 * value:{sign}.0f}{' (' + '; '.join(parts) + ')' if parts else ''}"


def settings_table(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the settings in which the runs differ, with one column per run."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    varied = [name for name in names if len({as_text(run.settings.get(name)) for run in runs}) > 1]
    rows = [[name, *(as_text(run.settings.get(name)) for run in runs)] for name in varied]
    note = "Without seeds, devices and other settings that do not affect learning."
    if not varied:
        note = "The runs differ only in seeds, devices and other settings that do not affect learning."
    columns = ["setting", *(one_line(run.name) for run in runs)] if varied else []
    return {"title": "Differing settings", "note": note, "columns": columns, "rows": rows}


def provenance_table(runs: Sequence[Run], folders: Sequence[Path]) -> dict[str, Any]:
    """Return one row per run: its seed, length, versions, opponents, and the hash of its weights."""
    rows = [[one_line(run.name), *origin(folder)] for run, folder in zip(runs, folders, strict=True)]
    columns = ["run", "seed", "agent steps", "time", "Echelon", "rules", "met", "weights, sha256"]
    return {"title": "Provenance of the runs", "note": "From the newest checkpoint.", "columns": columns, "rows": rows}


def origin(folder: Path) -> list[str]:
    """Return the cells of a run's row in `provenance_table`; empty cells for a run without a checkpoint."""
    checkpoints = folder / "checkpoints"
    if not any(checkpoints.glob("[!.]*")):
        return [""] * 7
    checkpoint = open_checkpoint(newest_checkpoint(checkpoints))
    metadata, counters = checkpoint.metadata, checkpoint.counters
    contacts = [f"{kind} {', '.join(names)}" for kind, names in checkpoint.provenance.as_json().items() if names]
    return [
        as_text(with_changes("seed", metadata["settings"].get("seed"), checkpoint.changes)),
        f"{counters.agent_steps:,}",
        duration(counters.seconds),
        as_text(metadata.get("written_by")),
        str(checkpoint.versions.rules),
        as_text("; ".join(contacts)),
        as_text(metadata["files"][POLICY])[:HASH_LETTERS],
    ]
