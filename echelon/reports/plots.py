"""Figures of a training run, of several runs, of a league and of set pieces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.runtime.errors import one_line
from echelon.viewer.paper import GREY, LINES, SMALL_PT, TEXT_PT, WIDTH_IN, blank, counted, paper_style, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, float]]
PANELS = (
    *("win_rate", "return", "stage", "zone_s", "loss_policy", "loss_value", "entropy", "kl"),
    *("explained_variance", "damage", "agent_steps_per_s"),
)
"""Columns of `metrics.csv` that are drawn, after the evaluations."""
TITLES = {
    "win_rate": "win rate in training",
    "zone_s": "time in the zone, mech-s a battle",
    "damage": "damage a battle, hp",
    "kl": "KL divergence",
    "loss_policy": "policy loss",
    "loss_value": "value loss",
    "agent_steps_per_s": "speed, agent steps/s",
}
"""Titles of columns; other columns use their names. Time in the zone is summed over the mechs of a team."""
SHARES = ("win_rate", "past_win_rate", "stage_win_rate", "clip_fraction", "dead_share")
"""Columns whose axis is from 0 to 1."""
MARKERS = "os^Dv"
"""Markers of evaluations, which are points without a line between them."""
COLUMNS, PANEL_IN = 3, 1.35
MOST_LABELLED = 16
"""Largest number of entries for which the cells of a payoff matrix are wide enough for text of `SMALL_PT`."""
MOST_NAMED = 40
"""Largest number of entries whose names fit beside a matrix of page width; for more, the picture grows."""
MOST_RATED = 16
"""Number of the best entries of a league whose ratings are drawn."""


@paper_style()
def metrics_figure(rows: Rows, evaluations: Sequence[Mapping[str, str]]) -> Figure:
    """Plot a run over its agent steps: a panel with win rates on held-out maps, then a panel for each of `PANELS`.

    Args:
        rows: rows of `metrics.csv`.
        evaluations: rows of `evaluations.csv`.
    """
    high = -(-(1 + len(PANELS)) // COLUMNS)
    figure = blank(WIDTH_IN, high * PANEL_IN)
    grid = figure.subplots(high, COLUMNS)
    axes = grid.flat
    draw_evaluations(next(axes), evaluations)
    for axis, name in zip(axes, PANELS, strict=False):
        points = [(row["agent_steps"], row[name]) for row in rows if name in row]
        axis.plot([x for x, _ in points], [y for _, y in points], color=LINES[0])
        finish(axis, title_of(name))
        if name in SHARES:
            axis.set_ylim(0, 1)
    used_axes = list(grid.flat)[: 1 + len(PANELS)]
    for axis in used_axes:
        mark_stages(axis, stage_changes(rows))
    for axis in grid[-1]:
        axis.set_xlabel("agent steps")
    return figure


def stage_changes(rows: Sequence[Mapping[str, float | None]]) -> list[tuple[float, int]]:
    """Return the agent steps at which the curriculum stage changed, with the new stage, from rows of `metrics.csv`."""
    stages = [(row["agent_steps"] or 0.0, round(row["stage"] or 0.0)) for row in rows if row.get("stage") is not None]
    return [(steps, after) for (steps, stage), (_, after) in itertools.pairwise(stages) if stage != after]


def mark_stages(axis: Any, changes: Sequence[tuple[float, int]]) -> None:
    """Draw a vertical line with the new stage's number at each change of the curriculum's stage."""
    for steps, stage in changes:
        axis.axvline(steps, color=GREY, linewidth=0.5, linestyle=":", zorder=0)
        position = {"xy": (steps, 1), "xycoords": ("data", "axes fraction"), "xytext": (1, -1)}
        style = {"textcoords": "offset points", "va": "top", "fontsize": SMALL_PT, "color": GREY}
        axis.annotate(f"{stage}", **position, **style)


def title_of(name: str) -> str:
    return TITLES.get(name, name.replace("_", " "))


def finish(axis: Any, title: str) -> None:
    """Set the title of a panel, and shorten its tick labels."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_title(title)
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(MaxNLocator(4))
        side.set_major_formatter(FuncFormatter(lambda value, _: counted(value)))


def draw_evaluations(axis: Any, evaluations: Sequence[Mapping[str, str]]) -> None:
    """Plot the win rate against each opponent of the evaluations, with its 95 % interval."""
    rivals = list(dict.fromkeys(row["rival"] for row in evaluations))
    for number, (colour, rival) in enumerate(zip(itertools.cycle(LINES), rivals, strict=False)):
        rival_rows = [row for row in evaluations if row["rival"] == rival]
        names = ("agent_steps", "win_rate", "low", "high")
        curve = Curve(*(np.array([float(row[name]) for row in rival_rows]) for name in names))
        offset = number - (len(rivals) - 1) / 2
        draw_points(axis, curve, colour, shortened(one_line(rival), 18), MARKERS[number % len(MARKERS)], offset)
    finish(axis, "win rate, held-out maps")
    axis.set_ylim(0, 1)
    if evaluations:
        axis.legend(loc="best")


def draw_points(axis: Any, curve: Curve, colour: str, label: str, marker: str, place: float = 0.0) -> None:
    """Plot points with their intervals and a faint line between them; `place` shifts them sideways."""
    from matplotlib.transforms import offset_copy

    aside = offset_copy(axis.transData, axis.figure, x=2 * place, units="points")
    # Set the axis limits from the data alone, without the sideways shift of the drawn points.
    axis.update_datalim(np.column_stack((curve.x, curve.y)))
    axis.autoscale_view()
    reach = np.abs(np.stack((curve.y - curve.low, curve.high - curve.y)))
    style: dict[str, Any] = {"color": colour, "transform": aside, "zorder": 3}
    axis.plot(curve.x, curve.y, linestyle=":", linewidth=0.5, alpha=0.6, **style)
    axis.errorbar(curve.x, curve.y, reach, fmt=marker, markersize=2.5, elinewidth=0.7, label=label, **style)


@dataclass(frozen=True)
class Curve:
    """A curve over agent steps with its interval, `[K]` each: the statistic of a group, or a run's evaluations."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Subplot:
    """Curves of one quantity, keyed by the name of their group of runs."""

    curves: Mapping[str, Curve]
    is_evaluation: bool = False
    """Whether the curves are points of evaluations."""
    is_share: bool = False
    """Whether the axis is from 0 to 1."""


@paper_style()
def payoff_figure(names: Sequence[str], win_rates: Any, games: Any = None) -> Figure:
    """Plot the share of points that the row's entry wins against the column's entry; NaN for pairs without games.

    Args:
        games: number of games of each pair, `[E][E]`, printed below the share.
    """
    side = WIDTH_IN * max(1.0, len(names) / MOST_NAMED)
    figure = blank(side, side * 0.86)
    axis = figure.subplots()
    axis.grid(False)
    image = axis.imshow(win_rates, vmin=0, vmax=1, cmap="RdBu")
    labels = [shortened(one_line(name), 24) for name in names]
    axis.set_xticks(range(len(names)), labels, rotation=60, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(names)), labels)
    if len(names) <= MOST_LABELLED:
        for row, shares in enumerate(win_rates):
            for column, share in enumerate(shares):
                if not math.isnan(share):
                    count = "" if games is None else f"\nn {games[row][column]:.0f}"
                    shade = "white" if abs(share - 0.5) > 0.3 else "black"
                    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL_PT, "color": shade}
                    axis.text(column, row, f"{share:.0%}{count}", **style)
    bar = figure.colorbar(image, label="share of the points that the row takes", shrink=0.7)
    bar.outline.set_linewidth(0.4)  # type: ignore[operator]
    return figure


@paper_style()
def styles_figure(names: Sequence[str], points: np.ndarray, shares: Sequence[float]) -> Figure:
    """Plot the fighting styles of policies in the plane of their first two principal components.

    Args:
        points: positions in the plane, `[E, 2]`.
        shares: share of the variance along either axis.
    """
    figure = blank(WIDTH_IN, 0.75 * WIDTH_IN)
    axis = figure.subplots()
    axis.scatter(points[:, 0], points[:, 1], s=9, color=LINES[0])
    axis.margins(0.15)
    axis.set_aspect("equal", adjustable="datalim")
    for name, point in zip(names, points, strict=True):
        style: dict[str, Any] = {"xytext": (3, 2), "textcoords": "offset points", "fontsize": SMALL_PT}
        axis.annotate(shortened(one_line(name), 24), point, **style)
    finish(axis, "fighting styles: near entries are similar")
    axis.set_xlabel(f"first principal component, {shares[0]:.0%} of the variance")
    axis.set_ylabel(f"second, {shares[1]:.0%}")
    return figure


@paper_style()
def ratings_figure(histories: Mapping[str, Sequence[tuple[int, float, float]]]) -> Figure:
    """Plot the ratings of a league over its rating periods, with a band of two deviations on either side.

    Args:
        histories: period, rating and deviation of each entry, keyed by name; only the `MOST_RATED` best at the end are
            drawn.
    """
    from matplotlib.ticker import MaxNLocator

    best = sorted((name for name in histories if histories[name]), key=lambda name: -histories[name][-1][1])[
        :MOST_RATED
    ]
    figure = blank(WIDTH_IN, 3.2)
    axis = figure.subplots()
    styles = ("-", "--")
    for number, name in enumerate(best):
        period, rating, deviation = (np.array(column, float) for column in zip(*histories[name], strict=True))
        style: dict[str, Any] = {"color": LINES[number % len(LINES)], "linestyle": styles[number // len(LINES) % 2]}
        axis.plot(period, rating, marker=".", markersize=3, label=shortened(one_line(name), 24), **style)
        axis.fill_between(period, rating - 2 * deviation, rating + 2 * deviation, alpha=0.08, linewidth=0, **style)
    finish(axis, "Glicko-2 rating, with two deviations to either side")
    axis.set_xlabel("rating period")
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    figure.legend(loc="outside right upper", title=None, fontsize=SMALL_PT)
    if len(best) < len(histories):
        axis.text(
            1, 0.01, f"the best {len(best)} of {len(histories)}", transform=axis.transAxes, ha="right", color=GREY
        )
    return figure


@paper_style()
def skills_figure(profile: Mapping[str, Any]) -> Figure:
    """Plot the win rate on each set piece as a bar with its 95 % interval, from `SkillProfile.as_json`."""
    names, pieces = zip(*reversed(profile["pieces"].items()), strict=True)
    figure = blank(WIDTH_IN, 0.5 + 0.16 * len(pieces))
    axis = figure.subplots()
    rates, low, high = (np.array([piece[name] for piece in pieces]) for name in ("win_rate", "low", "high"))
    axis.barh(range(len(pieces)), rates, height=0.6, color=LINES[0], alpha=0.6)
    reach = np.abs(np.stack((rates - low, high - rates)))
    axis.errorbar(rates, range(len(pieces)), xerr=reach, fmt="none", ecolor="black", elinewidth=0.7)
    axis.set_yticks(range(len(pieces)), [shortened(one_line(name), 40) for name in names])
    axis.set_xlim(0, 1)
    axis.set_title(f"share of {len(profile['seeds'])} battles won by {shortened(one_line(profile['policy']), 40)}")
    return figure


@paper_style()
def curves_figure(panels: Mapping[str, Subplot], note: str = "") -> Figure:
    """Plot the curves of groups of runs, with one panel per quantity.

    Args:
        panels: panels, keyed by title; a group has the same colour in all panels.
    """
    columns = min(len(panels), 2 if len(panels) in (2, 4) else COLUMNS)
    rows = -(-len(panels) // columns)
    groups = list(dict.fromkeys(name for panel in panels.values() for name in panel.curves))
    figure = blank(WIDTH_IN, rows * (1.7 if columns < COLUMNS else 1.45) + 0.3 + 0.14 * len(groups))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axis, (title, panel) in zip(grid.flat, panels.items(), strict=False):
        for name, curve in panel.curves.items():
            number = groups.index(name)
            colour = LINES[number % len(LINES)]
            if panel.is_evaluation:
                offset = number - (len(groups) - 1) / 2
                draw_points(axis, curve, colour, name, MARKERS[number % len(MARKERS)], offset)
            else:
                axis.plot(curve.x, curve.y, color=colour, label=name)
                axis.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        finish(axis, shortened(one_line(title), 34))
        if panel.is_share:
            axis.set_ylim(0, 1)
    for axis in list(grid.flat)[len(panels) :]:
        axis.set_axis_off()
    for axis in grid[-1]:
        axis.set_xlabel("agent steps")
    handles = {label: line for axis in grid.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    labels = [shortened(one_line(name), 100) for name in handles]
    if note:
        figure.supxlabel(note, fontsize=SMALL_PT, color=GREY)
    figure.legend(list(handles.values()), labels, loc="outside upper left", fontsize=TEXT_PT)
    return figure
