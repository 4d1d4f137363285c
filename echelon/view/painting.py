"""Battles from above as pictures: a strip of moments, and a moving one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from echelon.plan.caption import CAPTION, INK, PAPER, TEAMS, TeamCaption, draw_caption, font
from echelon.replay.battle import Battle, Replay
from echelon.runtime.files import replacing
from echelon.view.battle_plan import BattlePlan

STRIP_MOMENTS = 4
STRIP_SIDE_PX = 390
GIF_S = 8.0
GIF_FRAMES_PER_S = 12
GIF_SIDE_PX = 450
GIF_COLOURS = 96
MARGIN = 12


def draw_strip(replay: Replay, battle: int, ground: np.ndarray, path: Path, moments: int = STRIP_MOMENTS) -> None:
    """Draw a row of moments of a battle into a PNG: its opening, its end, and those between that share its damage out.

    Args:
        ground: materials `[Z, Y, X]` uint8 on which it began.
    """
    plan = BattlePlan(replay, battle, ground, vox_px(replay, STRIP_SIDE_PX))
    frames = [framed(plan, replay.battles[battle], t) for t in telling_times(plan, moments)]
    wide, high = frames[0].size
    strip = Image.new("RGB", (wide * moments - MARGIN * (moments - 1), high), PAPER)
    for i, frame in enumerate(frames):
        strip.paste(frame, (i * (wide - MARGIN), 0))
    with replacing(path) as draft:
        strip.save(draft, format="PNG", optimize=True)


def draw_gif(replay: Replay, battle: int, ground: np.ndarray, path: Path, seconds: float = GIF_S) -> None:
    """Draw a whole battle as a moving picture of about `seconds`, however long it was, into a GIF.

    Args:
        ground: materials `[Z, Y, X]` uint8 on which it began.
    """
    plan = BattlePlan(replay, battle, ground, vox_px(replay, GIF_SIDE_PX))
    times = np.linspace(0.0, plan.length_s, max(round(seconds * GIF_FRAMES_PER_S), 2))
    frames = [framed(plan, replay.battles[battle], float(t)) for t in times]
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


def telling_times(plan: BattlePlan, count: int) -> list[float]:
    """The opening, the end, and between them the times by which equal shares of all damage were done, s."""
    harms = plan.rows["harms"]
    if not harms:
        return np.linspace(0.0, plan.length_s, count).tolist()
    done = np.cumsum([harm["damage"] for harm in harms])
    shares = done[-1] * np.arange(1, count - 1) / (count - 1)
    between = [plan.tick_end(harms[int(row)]["tick"]) for row in np.searchsorted(done, shares)]
    return [0.0, *between, plan.length_s]


def vox_px(replay: Replay, side_px: int) -> int:
    """Pixels a voxel, so that the longer side of the map takes about `side_px`."""
    return max(side_px // max(replay.about["size"][:2]), 2)


def verdict(battle: Battle) -> str:
    """How the battle ended, in words."""
    outcome = battle.about["outcome"]
    reason = outcome["reason"].replace("_", " ")
    return f"{outcome['winner']} wins by {reason}" if outcome["winner"] in TEAMS else outcome["winner"]
