"""A battle from above as a moving picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from echelon.plan.caption import CAPTION, INK, PAPER, TEAMS, TeamCaption, draw_caption, font
from echelon.replay.battle import Battle, Replay
from echelon.runtime.files import replacing
from echelon.view.battle_plan import BattlePlan

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
    few = frames[:: max(len(frames) // 6, 1)]
    sample = Image.new("RGB", (few[0].width, few[0].height * len(few)))
    for i, frame in enumerate(few):
        sample.paste(frame, (0, i * frame.height))
    palette = sample.quantize(GIF_COLOURS)
    painted = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    still_ms = [round(1000 / GIF_FRAMES_PER_S)] * (len(frames) - 1) + [1500]
    moving: dict[str, Any] = {"save_all": True, "append_images": painted[1:], "duration": still_ms, "loop": 0}
    with replacing(path) as draft:
        painted[0].save(draft, format="GIF", optimize=False, **moving)


def framed(plan: BattlePlan, battle: Battle, t: float) -> Image.Image:
    """The field at a time, with the clock and the scores above it."""
    field = plan.draw(t)
    frame = Image.new("RGB", (field.width + 2 * MARGIN, field.height + CAPTION + MARGIN), PAPER)
    frame.paste(field, (MARGIN, CAPTION))
    pen = ImageDraw.Draw(frame)
    told = [TeamCaption(plan.living(side, t), plan.score(side, t)) for side in (0, 1)]
    draw_caption(pen, frame.width, MARGIN, t, told, plan.win_s)
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
    """How the battle ended, in words."""
    outcome = battle.about["outcome"]
    reason = outcome["reason"].replace("_", " ")
    return f"{outcome['winner']} wins by {reason}" if outcome["winner"] in TEAMS else outcome["winner"]
