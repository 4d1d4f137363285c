"""Pictures of a training run."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

PANELS = ("win_rate", "return", "damage", "zone_s", "entropy", "kl")


def draw_metrics(rows: list[dict[str, float]], path: Path) -> None:
    """Draw the curves of `metrics.csv` rows over agent steps, a panel each, into a PNG."""
    figure = Figure(figsize=(12, 6), layout="constrained")
    axes = figure.subplots(2, 3)
    for axis, name in zip(axes.flat, PANELS, strict=True):
        points = [(row["agent_steps"], row[name]) for row in rows if name in row]
        axis.plot([x for x, _ in points], [y for _, y in points], linewidth=1)
        axis.set_title(name.replace("_", " "))
        axis.set_xlabel("agent steps")
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
