"""The clock and both teams' scores, above a battle."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import ImageDraw, ImageFont

CAPTION = 44
"""Height that it takes, px."""
PAPER, INK = (250, 250, 248), (28, 33, 40)
TEAMS = ("blue", "red")
TEAM_INK = {"blue": (23, 102, 207), "red": (208, 72, 20)}
BAR = (226, 229, 233)


@dataclass(frozen=True)
class TeamCaption:
    """What is told of a team."""

    living: int
    score_s: float
    """Seconds of zone control."""


def draw_caption(
    pen: ImageDraw.ImageDraw, wide: float, margin: float, t: float, teams: Sequence[TeamCaption], win_s: float
) -> None:
    """Draw the clock in the middle, and on either side a team's name, its living, and a bar of its score.

    Args:
        wide: of the picture, px; below 340 the words meet.
        margin: left free on both sides, px.
    """
    middle = wide / 2
    pen.text((middle, 21), clock(t), INK, font(17), "mm")
    for side, team in enumerate(TEAMS):
        mirrored = -1 if side == 0 else 1
        score, living = teams[side].score_s, teams[side].living
        edge = margin if side == 0 else wide - margin
        inner = middle + mirrored * 34
        pen.text((edge, 14), team.upper(), TEAM_INK[team], font(13), "lm" if side == 0 else "rm")
        words = f"{living} left · {score:.1f}"
        pen.text((inner, 14), words, TEAM_INK[team], font(13), "rm" if side == 0 else "lm")
        pen.rectangle((min(edge, inner), 27, max(edge, inner), 32), BAR)
        reach = inner + (edge - inner) * min(score / win_s, 1.0)
        pen.rectangle((min(inner, reach), 27, max(inner, reach), 32), TEAM_INK[team])


def clock(t: float) -> str:
    """Seconds as minutes and seconds."""
    return f"{int(t) // 60}:{int(t) % 60:02d}"


@functools.cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
