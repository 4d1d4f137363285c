"""Battles from above as pictures: a strip of moments, and a moving one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from echelon.replay.battle import Battle, Replay
from echelon.view.battle_plan import BattlePlan

STRIP_MOMENTS = 4
STRIP_SIDE_PX = 390
GIF_S = 8.0
GIF_FRAMES_PER_S = 12
GIF_SIDE_PX = 450
GIF_COLOURS = 96
MARGIN, CAPTION = 12, 44
PAPER, INK, FAINT = (250, 250, 248), (28, 33, 40), (120, 128, 138)
TEAMS = ("blue", "red")
TEAM_INK = {"blue": (23, 102, 207), "red": (208, 72, 20)}
BAR = (226, 229, 233)


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
    strip.save(path, optimize=True)


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
    painted[0].save(path, save_all=True, append_images=painted[1:], duration=still_ms, loop=0, optimize=False)


def framed(plan: BattlePlan, battle: Battle, t: float) -> Image.Image:
    """The field at a time, with the clock and the scores above it."""
    field = plan.draw(t)
    frame = Image.new("RGB", (field.width + 2 * MARGIN, field.height + CAPTION + MARGIN), PAPER)
    frame.paste(field, (MARGIN, CAPTION))
    pen = ImageDraw.Draw(frame)
    middle = frame.width / 2
    pen.text((middle, 21), clock(t), INK, font(17), "mm")
    for side, team in enumerate(TEAMS):
        mirrored = -1 if side == 0 else 1
        score, living = plan.score(side, t), plan.living(side, t)
        edge = MARGIN if side == 0 else frame.width - MARGIN
        inner = middle + mirrored * 34
        pen.text((edge, 14), team.upper(), TEAM_INK[team], font(13), "lm" if side == 0 else "rm")
        words = f"{living} left · {score:.1f}"
        pen.text((inner, 14), words, TEAM_INK[team], font(13), "rm" if side == 0 else "lm")
        pen.rectangle((*sorted((edge, inner))[:1], 27, sorted((edge, inner))[1], 32), BAR)
        reach = inner + (edge - inner) * min(score / plan.win_s, 1.0)
        pen.rectangle((min(inner, reach), 27, max(inner, reach), 32), TEAM_INK[team])
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


def clock(t: float) -> str:
    """Seconds as minutes and seconds."""
    return f"{int(t) // 60}:{int(t) % 60:02d}"


def verdict(battle: Battle) -> str:
    """How the battle ended, in words."""
    outcome = battle.about["outcome"]
    reason = outcome["reason"].replace("_", " ")
    return f"{outcome['winner']} wins by {reason}" if outcome["winner"] in TEAMS else outcome["winner"]


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font that comes with Pillow."""
    return ImageFont.load_default(size)
