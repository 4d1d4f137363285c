"""Top-down drawing of arrays as pixels: the ground of a map with light and shadows, and mechs, shots and clouds."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFilter, ImageFont

COLOURS = {
    "air": (158, 144, 120),
    "dirt": (205, 192, 164),
    "lava": (255, 122, 40),
    "water": (92, 150, 190),
    "solid": (186, 190, 196),
    "debris_field": (96, 74, 56),
    "solid_debris": (84, 74, 66),
    "glass": (176, 216, 228),
    "reinforced": (124, 134, 150),
    "foliage": (118, 158, 92),
}
TEAM = ((38, 118, 226), (226, 82, 26))
TEAM_LIGHT = ((178, 214, 255), (255, 205, 178))
GOLD, WHITE, FIRE, SOOT = (235, 190, 50), (255, 255, 255), (255, 176, 64), (60, 54, 50)


SUN = (-0.5, 0.62)
"""Horizontal direction of the light; the top of the picture is +y."""


def shade(ground: np.ndarray, names: list[str]) -> np.ndarray:
    """Draw the ground from above as `[Y, X, 3]` uint8: the top material, lighter if higher, with shadows."""
    table = np.array([COLOURS[name] for name in names], np.float32)
    levels = np.arange(1, len(ground) + 1)[:, None, None]
    low = np.isin(ground, [names.index(name) for name in ("air", "dirt", "lava", "water")])
    height = np.where(low, 0, levels).max(0)
    top = np.where(height > 0, np.take_along_axis(ground, (height - 1).clip(0)[None], 0)[0], ground[0])
    colour = table[top] * (0.95 + 0.02 * height.clip(0, 10))[..., None]
    colour *= np.random.default_rng(0).uniform(0.98, 1.02, top.shape)[..., None].astype(np.float32)
    return (colour * sunlight(height)[..., None]).clip(0, 255).astype(np.uint8)


def sunlight(height: np.ndarray) -> np.ndarray:
    """Return the brightness of each cell, `[Y, X]`: lower in the shadow of higher cells, and next to walls."""
    light = np.ones(height.shape, np.float32)
    padded = np.pad(height, 12)
    size_y, size_x = height.shape
    for step in range(1, 11):
        dx, dy = round(SUN[0] * step), round(SUN[1] * step)
        towards = padded[12 + dy : 12 + dy + size_y, 12 + dx : 12 + dx + size_x]
        light = np.minimum(light, np.where(towards - height > step * 0.9, 0.76, 1.0))
    crowd = sum(
        (padded[12 + y : 12 + y + size_y, 12 + x : 12 + x + size_x] > height).astype(np.float32)
        for y in (-1, 0, 1)
        for x in (-1, 0, 1)
    )
    return light * (1 - 0.035 * crowd)


SMOOTH = 2
"""Supersampling factor, for smooth edges."""

Point = tuple[float, float]


class Canvas:
    """Maps positions on the ground to pixels of a picture, whose top is +y.

    Args:
        size_y: size of the map along y, vox.
        vox_px: pixels per voxel in the finished picture.
    """

    def __init__(self, size_y: float, vox_px: int) -> None:
        self.size_y = size_y
        self.vox_px = vox_px
        self.scale = vox_px * SMOOTH

    def enlarge(self, lit: np.ndarray) -> Image.Image:
        """Scale the ground picture of `shade`, `[Y, X, 3]` uint8, to the drawing size."""
        size = (lit.shape[1] * self.scale, lit.shape[0] * self.scale)
        return Image.fromarray(lit[::-1]).resize(size, Image.Resampling.NEAREST)

    def spot(self, x: float, y: float) -> Point:
        return x * self.scale, (self.size_y - y) * self.scale

    def disc(
        self, pen: ImageDraw.ImageDraw, at: Point, radius: float, fill: tuple[int, ...] | None, **line: object
    ) -> None:
        """Draw a circle around a position on the ground; `radius` is in voxels."""
        (x, y), r = self.spot(*at), radius * self.scale
        pen.ellipse((x - r, y - r, x + r, y + r), fill, **line)  # type: ignore[arg-type]

    def line(self, pen: ImageDraw.ImageDraw, points: list[Point], colour: tuple[int, ...], wide: float) -> None:
        """Draw a line over the ground that is `wide` voxels wide."""
        pen.line([self.spot(*p) for p in points], colour, max(round(wide * self.scale), 1))

    def polygon(
        self,
        pen: ImageDraw.ImageDraw,
        at: list[Point],
        shape: tuple[Point, ...],
        size: float,
        yaw: float,
        fill: tuple[int, ...],
        edge: tuple[int, ...] | None,
    ) -> None:
        """Draw a polygon around a position; the corners in `shape` are in the body frame of a mech, x ahead."""
        c, s, (x, y) = math.cos(yaw), math.sin(yaw), at[0]
        corners = [self.spot(x + size * (c * a - s * b), y + size * (s * a + c * b)) for a, b in shape]
        pen.polygon(corners, fill, edge, max(round(0.13 * self.scale), 1))


HEAT_SHOWN = 0.8
"""Share of its capacity above which a mech glows."""
CLOUD_GROWTH_S = 0.5
"""Time in which a new cloud grows to its full size."""
HULL = ((1.25, 0.0), (0.5, 0.85), (-0.95, 0.85), (-0.7, 0.0), (-0.95, -0.85), (0.5, -0.85))
"""A blunt arrow in the body frame, x ahead, in half widths of a hull."""
SHOT_COLOURS = {"slug": (225, 244, 255), "tracer": (255, 226, 140), "canister": (210, 210, 210)}
"""By the look of a weapon; the default is `FIRE`."""
TAIL_S = {"slug": 0.12, "tracer": 0.06}
"""Duration of the path shown behind a shot, by its look; the default is `OTHER_TAIL_S`."""
OTHER_TAIL_S = 0.05

Cloud = tuple[Point, float]
"""Centre and radius of a cloud, vox."""


@dataclass(frozen=True)
class MechFigure:
    """The values of a living mech that its drawing shows."""

    x: float
    """vox."""
    y: float
    """vox."""
    yaw: float
    """rad, 0 = +x."""
    side: int
    """0 blue, 1 red."""
    width_vox: float
    hp: float
    """Share of its hit points, 0..1."""
    heat: float
    """Share of its heat capacity."""
    is_out: bool
    """Shut down or fallen: drawn paler."""
    is_painted: bool


def draw_zone(canvas: Canvas, pen: ImageDraw.ImageDraw, at: Point, radius: float, blue: bool, red: bool) -> None:
    """Draw the zone: in the colour of the team inside, in gold if both teams are inside, in white if none is."""
    colour = GOLD if blue and red else TEAM[0] if blue else TEAM[1] if red else WHITE
    canvas.disc(pen, at, radius, (*colour, 34), outline=(*colour, 230), width=round(0.3 * canvas.scale))


def draw_mech(canvas: Canvas, pen: ImageDraw.ImageDraw, mech: MechFigure) -> None:
    """Draw a mech's hull as a blunt arrow along its heading, with a shadow.

    Hot mechs glow; painted ones (marked by an enemy's laser) have a ring.
    """
    x, y, half = mech.x, mech.y, mech.width_vox / 2 * 1.15 + 0.25
    colour: tuple[int, ...] = TEAM[mech.side]
    if mech.is_out:
        colour = tuple(round(c * 0.5 + 60) for c in colour)
    canvas.polygon(pen, [(x + 0.3, y - 0.35)], HULL, half, mech.yaw, (20, 20, 20, 90), None)
    canvas.polygon(pen, [(x, y)], HULL, half, mech.yaw, (*colour, 255), (255, 255, 255, 235))
    if mech.heat > HEAT_SHOWN:
        canvas.disc(pen, (x, y), half * 0.42, (255, 208, 92, 255))
    if mech.is_painted:
        ring = (*TEAM_LIGHT[1 - mech.side], 255)
        canvas.disc(pen, (x, y), half + 0.9, None, outline=ring, width=round(0.22 * canvas.scale))


def draw_bar(canvas: Canvas, pen: ImageDraw.ImageDraw, mech: MechFigure) -> None:
    """Draw a bar of the remaining hit points above a mech."""
    left, top = canvas.spot(mech.x, mech.y + mech.width_vox / 2 + 1.5)
    width, high = 2.6 * canvas.scale, 0.5 * canvas.scale
    box = (left - width / 2, top - high / 2)
    pen.rectangle((box[0] - 2, box[1] - 2, box[0] + width + 2, box[1] + high + 2), (18, 22, 28, 205))
    if mech.hp > 0:
        pen.rectangle((*box, box[0] + width * mech.hp, box[1] + high), (*TEAM[mech.side], 255))


def draw_shot(canvas: Canvas, pen: ImageDraw.ImageDraw, look: str, colour: str, tail: Point, head: Point) -> None:
    """Draw a shot in flight with the last part of its path.

    `colour`, #rrggbb, replaces the default colour of its kind.
    """
    line = ImageColor.getrgb(colour) if colour else SHOT_COLOURS.get(look, FIRE)
    canvas.line(pen, [tail, head], (*line, 255), 0.45 if look == "slug" else 0.26)
    canvas.disc(pen, head, 0.3 if look == "rocket" else 0.18, (255, 250, 235, 255))


def draw_puff(canvas: Canvas, pen: ImageDraw.ImageDraw, at: Point, age: float) -> None:
    """Draw one puff of a rocket's smoke trail, which grows and fades; `age` is 0 for new puffs and 1 for old ones."""
    canvas.disc(pen, at, 0.24 + 0.4 * age, (240, 238, 234, round(150 * (1 - age))))


def draw_clouds(canvas: Canvas, picture: Image.Image, clouds: Sequence[Cloud]) -> None:
    """Draw smoke clouds with a blurred edge over a picture. Only the part of the picture with clouds is processed."""
    if not clouds:
        return
    blur = 0.7 * canvas.scale
    spots = [(*canvas.spot(*center), radius * canvas.scale) for center, radius in clouds]
    sides = np.array([(x - r, y - r, x + r, y + r) for x, y, r in spots])
    left, top = (sides[:, :2].min(0) - 4 * blur).astype(int).clip(0, np.array(picture.size) - 1).tolist()
    right, bottom = (sides[:, 2:].max(0) + 4 * blur).astype(int).clip((left + 1, top + 1), picture.size).tolist()
    veil = Image.new("L", (right - left, bottom - top), 0)
    pen = ImageDraw.Draw(veil)
    for side in (sides - (left, top, left, top)).tolist():
        pen.ellipse(side, 205)
    picture.paste((226, 228, 230), (left, top), veil.filter(ImageFilter.GaussianBlur(blur)))


CAPTION = 44
"""Height of the caption, px."""
PAPER, INK = (250, 250, 248), (28, 33, 40)
TEAMS = ("blue", "red")
TEAM_INK = {"blue": (23, 102, 207), "red": (208, 72, 20)}
BAR = (226, 229, 233)


@dataclass(frozen=True)
class TeamCaption:
    """The values of a team in the caption above a picture."""

    living: int
    score_s: float
    """Seconds of zone control."""


def draw_caption(
    pen: ImageDraw.ImageDraw, wide: float, margin: float, t: float, teams: Sequence[TeamCaption], win_s: float
) -> None:
    """Draw the clock in the middle, and for each team its name, its living mechs, and a bar of its score.

    Args:
        wide: width of the picture, px; below 340 px the texts overlap.
        margin: empty space on both sides, px.
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
    """Format seconds as minutes and seconds, such as 1:05."""
    return f"{int(t) // 60}:{int(t) % 60:02d}"


@functools.cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
