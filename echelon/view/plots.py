"""Pictures of a training run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

from echelon.runtime.files import replacing

PANELS = ("win_rate", "stage", "return", "zone_s", "entropy", "kl", "explained_variance", "agent_steps_per_s")


def draw_metrics(rows: list[dict[str, float]], evaluations: list[dict[str, str]], path: Path) -> None:
    """Draw a run over its agent steps into a PNG: win rates on held-out maps, then a panel for each of `PANELS`.

    Args:
        rows: of `metrics.csv`.
        evaluations: of `evaluations.csv`.
    """
    figure = blank(14, 9)
    axes = figure.subplots(3, 3).flat
    draw_evaluations(next(axes), evaluations)
    for axis, name in zip(axes, PANELS, strict=True):
        points = [(row["agent_steps"], row[name]) for row in rows if name in row]
        axis.plot([x for x, _ in points], [y for _, y in points], linewidth=1)
        axis.set_title(f"{name.replace('_', ' ')}, training" if name == "win_rate" else name.replace("_", " "))
    for axis in figure.axes:
        axis.set_xlabel("agent steps")
        axis.grid(alpha=0.3)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure, in the format that the name of the file ends with."""
    with replacing(path) as draft:
        figure.savefig(draft, dpi=110, format=path.suffix[1:].lower())


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


def draw_payoff(names: list[str], win_rates: list[list[float]], path: Path) -> None:
    """Draw who beats whom into a PNG: rows take this share of the points of columns; NaN where they never met."""
    side = 3 + 0.55 * len(names)
    figure = blank(side + 1, side)
    axis = figure.subplots()
    image = axis.imshow(win_rates, vmin=0, vmax=1, cmap="RdBu")
    axis.set_xticks(range(len(names)), names, rotation=60, ha="right")
    axis.set_yticks(range(len(names)), names)
    for row, shares in enumerate(win_rates):
        for column, share in enumerate(shares):
            if not math.isnan(share):
                shade = "white" if abs(share - 0.5) > 0.3 else "black"
                axis.text(column, row, f"{share:.0%}", ha="center", va="center", fontsize=7, color=shade)
    figure.colorbar(image, label="share of the points the row takes of the column")
    save(figure, path)


def blank(width: float, height: float) -> Figure:
    """An empty picture, inches."""
    # Takes a tenth of the time that a program needs to start, and most draw nothing.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
