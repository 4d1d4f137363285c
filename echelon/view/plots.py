"""Pictures of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

PANELS = ("win_rate", "stage", "return", "zone_s", "entropy", "kl", "explained_variance", "agent_steps_per_s")


def draw_metrics(rows: list[dict[str, float]], evaluations: list[dict[str, str]], path: Path) -> None:
    """Draw a run over its agent steps into a PNG: win rates on held-out maps, then a panel for each of `PANELS`.

    Args:
        rows: of `metrics.csv`.
        evaluations: of `evaluations.csv`.
    """
    figure = Figure(figsize=(14, 9), layout="constrained")
    axes = figure.subplots(3, 3).flat
    draw_evaluations(next(axes), evaluations)
    for axis, name in zip(axes, PANELS, strict=True):
        points = [(row["agent_steps"], row[name]) for row in rows if name in row]
        axis.plot([x for x, _ in points], [y for _, y in points], linewidth=1)
        axis.set_title(f"{name.replace('_', ' ')}, training" if name == "win_rate" else name.replace("_", " "))
    for axis in figure.axes:
        axis.set_xlabel("agent steps")
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def draw_evaluations(axis: Any, evaluations: list[dict[str, str]]) -> None:
    """Win rate against each of the panel, with its 95 % interval."""
    for rival in dict.fromkeys(row["rival"] for row in evaluations):
        own = [row for row in evaluations if row["rival"] == rival]
        names = ("agent_steps", "win_rate", "low", "high")
        steps, rate, low, high = ([float(row[name]) for row in own] for name in names)
        axis.plot(steps, rate, label=rival, marker=".", linewidth=1)
        axis.fill_between(steps, low, high, alpha=0.15)
    axis.set_ylim(0, 1)
    axis.set_title("win rate, held-out maps")
    if evaluations:
        axis.legend(fontsize=8)
