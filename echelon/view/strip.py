"""A strip of moments of a battle from above, as a figure for a paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from echelon.plan.figures import CAPTION, INK, PAPER, TEAM_INK, TEAMS, TeamCaption, clock, draw_caption, font
from echelon.replay.battle import Battle, Replay
from echelon.runtime.errors import one_line
from echelon.runtime.files import replacing
from echelon.view.battle_plan import BattlePlan
from echelon.view.paper import DPI, GREY, SMALL_PT, TEXT_PT, WIDTH_IN, blank, colour, paper_style, pixels, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOMENTS = 4
COLUMNS = 4
"""Most panels in a row."""
GAP_IN, HEAD_IN, CAPTION_IN, FOOT_IN = 0.08, 0.22, 0.32, 0.24
BOARD_DPI = 150
LETTER_PT = 4.3
"""Width of an average letter of `TEXT_PT`."""
BARS_VOX = (1, 2, 5, 10, 20, 50, 100, 200, 500)
"""Lengths of a scale bar; one that is about a quarter of the map is taken."""


def strip_pixels(replay: Replay, battle: int, ground: np.ndarray) -> np.ndarray:
    """The strip of a battle as `[H, W, 3]` uint8, for a screen."""
    return pixels(strip_figure(replay, battle, ground), BOARD_DPI)


@paper_style()
def strip_figure(
    replay: Replay,
    battle: int,
    ground: np.ndarray,
    times: Sequence[float] = (),
    width: float = WIDTH_IN,
    span: tuple[float, float] | None = None,
) -> Figure:
    """Moments of a battle side by side.

    Args:
        ground: materials `[Z, Y, X]` uint8 on which it began.
        times: the moments, s; by default `MOMENTS` that `telling_times` chooses.
        span: from when until when to choose them, s; by default the whole battle.
    """
    size_x, size_y = replay.about["size"][:2]
    count = len(times) or MOMENTS
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    panel = (width - GAP_IN * (columns + 1)) / columns
    panel_high = panel * size_y / size_x
    height = HEAD_IN + rows * (CAPTION_IN + panel_high) + FOOT_IN
    plan = BattlePlan(replay, battle, ground, max(round(panel * DPI / size_x), 2))
    figure = blank(width, height, layout=None)
    moments = list(times) or telling_times(plan, count, span)
    for number, t in enumerate(moments):
        left = GAP_IN + number % columns * (panel + GAP_IN)
        bottom = height - HEAD_IN - (number // columns + 1) * (CAPTION_IN + panel_high)
        box = (left / width, bottom / height, panel / width, panel_high / height)
        axis = figure.add_axes(box)
        axis.imshow(np.asarray(plan.draw(t)), extent=(0, size_x, 0, size_y), interpolation="none")
        axis.set_axis_off()
        draw_scores(figure, box, plan, t, height)
    about = replay.battles[battle].about
    draw_names(figure, about["blue"], about["red"])
    draw_scale(figure, size_x, panel, moments[-1] >= plan.length_s and verdict(replay.battles[battle]))
    return figure


def draw_scores(
    figure: Figure, box: tuple[float, float, float, float], plan: BattlePlan, t: float, high: float
) -> None:
    """The clock over a panel, and on either side a team's living and its score."""
    left, bottom, box_width, tall = box
    top = bottom + tall + 0.04 / high
    middle = {"ha": "center", "fontsize": TEXT_PT, "weight": "bold"}
    figure.text(left + box_width / 2, top + 0.14 / high, clock(t), va="bottom", **middle)  # type: ignore[arg-type]
    for side, team in enumerate(TEAMS):
        status = f"{plan.living(side, t)} left, {plan.score(side, t):.1f} s"
        x, align = (left, "left") if side == 0 else (left + box_width, "right")
        figure.text(x, top, status, color=colour(TEAM_INK[team]), ha=align, va="bottom", fontsize=SMALL_PT)


def draw_names(figure: Figure, blue: str, red: str) -> None:
    width, height = figure.get_size_inches()
    limit = max(int((width * 72 / LETTER_PT - 9) / 2), 6)
    top = 1 - 0.06 / height
    name = {"va": "top", "fontsize": TEXT_PT, "weight": "bold"}
    left, right = (shortened(one_line(name), limit) for name in (blue, red))
    figure.text(GAP_IN / width, top, left, color=colour(TEAM_INK["blue"]), ha="left", **name)  # type: ignore[arg-type]
    figure.text(1 - GAP_IN / width, top, right, color=colour(TEAM_INK["red"]), ha="right", **name)  # type: ignore[arg-type]
    figure.text(0.5, top, "against", color=GREY, ha="center", va="top", fontsize=TEXT_PT)


def draw_scale(figure: Figure, size_x: float, panel: float, ending: str | bool) -> None:
    """A scale bar below the first panel, and how the battle ended on the other side."""
    from matplotlib.lines import Line2D

    width, high = figure.get_size_inches()
    vox = min(BARS_VOX, key=lambda length: abs(length - size_x / 4))
    left, right, y = GAP_IN, GAP_IN + panel * vox / size_x, FOOT_IN / 2
    for xs, ys in (
        ((left, right), (y, y)),
        ((left, left), (y - 0.03, y + 0.03)),
        ((right, right), (y - 0.03, y + 0.03)),
    ):
        line = Line2D([x / width for x in xs], [y_in / high for y_in in ys], color="black", linewidth=0.8)
        figure.add_artist(line)
    text: dict[str, Any] = {"va": "center_baseline", "fontsize": TEXT_PT}
    figure.text((right + 0.06) / width, y / high, f"{vox} vox", ha="left", **text)
    if width >= WIDTH_IN - 1:
        figure.text(0.5, y / high, "mechs left, score of zone control", color=GREY, ha="center", va="center_baseline")
    if ending:
        figure.text(1 - GAP_IN / width, y / high, str(ending), ha="right", **text)


def telling_times(plan: BattlePlan, count: int, span: tuple[float, float] | None = None) -> list[float]:
    """The beginning, the end, and between them the times by which equal shares of all damage were done, s."""
    begin, end = span or (0.0, plan.length_s)
    times = [plan.tick_end(harm["tick"]) for harm in plan.rows["harms"]]
    harms = [(t, harm["damage"]) for t, harm in zip(times, plan.rows["harms"], strict=True) if begin <= t <= end]
    if not harms or count < 3:
        return np.linspace(begin, end, count).tolist()
    done = np.cumsum([damage for _, damage in harms])
    shares = done[-1] * np.arange(1, count - 1) / (count - 1)
    between = [harms[int(row)][0] for row in np.searchsorted(done, shares)]
    return [begin, *between, end]


GIF_S = 8.0
GIF_FRAMES_PER_S = 12
GIF_SIDE_PX = 450
GIF_COLOURS = 96
MARGIN = 12


def draw_gif(
    replay: Replay,
    battle: int,
    ground: np.ndarray,
    path: Path,
    seconds: float = GIF_S,
    side_px: int = GIF_SIDE_PX,
    span: tuple[float, float] | None = None,
    drawn: Callable[[Iterable[float], int], Iterable[float]] = lambda times, count: times,
) -> None:
    """Draw a battle as a moving picture of about `seconds`, however long it was, into a GIF.

    Args:
        ground: materials `[Z, Y, X]` uint8 on which it began.
        side_px: about the longer side of the map, px.
        span: from when until when, s; by default the whole battle.
        drawn: passes the times of the frames on, of which there are so many; a caller may show progress.
    """
    plan = BattlePlan(replay, battle, ground, vox_px(replay, side_px))
    begin, end = span or (0.0, plan.length_s)
    times = np.linspace(begin, end, max(round(seconds * GIF_FRAMES_PER_S), 2)).tolist()
    frames = [framed(plan, replay.battles[battle], t) for t in drawn(times, len(times))]
    # One palette for all, from a few of them side by side: colours that change from frame to frame would flicker.
    samples = frames[:: max(len(frames) // 6, 1)]
    sample = Image.new("RGB", (samples[0].width, samples[0].height * len(samples)))
    for i, frame in enumerate(samples):
        sample.paste(frame, (0, i * frame.height))
    palette = sample.quantize(GIF_COLOURS)
    quantized = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    still_ms = [round(1000 / GIF_FRAMES_PER_S)] * (len(frames) - 1) + [1500]
    moving: dict[str, Any] = {"save_all": True, "append_images": quantized[1:], "duration": still_ms, "loop": 0}
    with replacing(path) as draft:
        quantized[0].save(draft, format="GIF", optimize=False, **moving)


def framed(plan: BattlePlan, battle: Battle, t: float) -> Image.Image:
    """The field at a time, with the clock and the scores above it."""
    field = plan.draw(t)
    frame = Image.new("RGB", (field.width + 2 * MARGIN, field.height + CAPTION + MARGIN), PAPER)
    frame.paste(field, (MARGIN, CAPTION))
    pen = ImageDraw.Draw(frame)
    captions = [TeamCaption(plan.living(side, t), plan.score(side, t)) for side in (0, 1)]
    draw_caption(pen, frame.width, MARGIN, t, captions, plan.win_s)
    if t >= plan.length_s:
        pen.text(
            (MARGIN + 6, frame.height - MARGIN - 6),
            verdict(battle),
            (255, 255, 255),
            font(14),
            "ls",
            stroke_width=2,
            stroke_fill=INK,
        )
    return frame


def vox_px(replay: Replay, side_px: int) -> int:
    """Pixels a voxel, so that the longer side of the map takes about `side_px`."""
    return max(side_px // max(replay.about["size"][:2]), 2)


def verdict(battle: Battle) -> str:
    outcome = battle.about["outcome"]
    reason = outcome["reason"].replace("_", " ")
    return f"{outcome['winner']} wins by {reason}" if outcome["winner"] in TEAMS else outcome["winner"]
