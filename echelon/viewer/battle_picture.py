"""Top-down pictures of a battle: of one time, of several times side by side, or as an animated GIF."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from echelon.replay.battle import POINTS, POS_PER_VOX, SCORE_PER_S, TABLES, YAW_PER_RAD, Battle, Fact, FlightEnd, Replay
from echelon.replay.ground import zones_of
from echelon.replay.moments import wrapped
from echelon.runtime.errors import one_line
from echelon.runtime.files import atomic_write
from echelon.viewer import topdown
from echelon.viewer.paper import DPI, GREY, SMALL_PT, TEXT_PT, WIDTH_IN, blank, colour, paper_style, pixels, shortened
from echelon.viewer.topdown import CAPTION, INK, PAPER, TEAM_INK, TEAMS, TeamCaption, clock, draw_caption, font

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BEAM_S, BURST_S, TRAIL_S, DEATH_S = 0.25, 0.5, 1.0, 1.6
BURST_VOX = {"rocket": 2.0, "slug": 1.5, "tracer": 0.6}
"""Radius of a burst in voxels, by the look of a weapon."""


class BattlePlan(topdown.Canvas):
    """Draws one battle from above, with `vox_px` pixels per voxel."""

    def __init__(self, replay: Replay, battle: int, ground: np.ndarray, vox_px: int) -> None:
        self.about, self.battle = replay.about, replay.battles[battle]
        self.ground, self.zones = ground, zones_of(replay, self.battle)
        super().__init__(self.about["size"][1], vox_px)
        self.decision_s = self.about["dt_s"] * self.about["decision_repeat"]
        self.length_s = self.battle.decisions * self.decision_s
        self.win_s = self.about["zone_score_to_win_s"]
        self.mechs = self.about["mechs"]
        self.sides = [("blue", "red").index(mech["team"]) for mech in self.mechs]
        self.rows = {
            name: [dict(zip(columns, row, strict=True)) for row in getattr(self.battle, name).tolist()]
            for name, columns in TABLES.items()
        }
        self.painted: tuple[int, Image.Image] | None = None

    def draw(self, t: float) -> Image.Image:
        picture = self.floor(t).copy()
        pen = ImageDraw.Draw(picture, "RGBA")
        mechs = [self.figure(n, t) for n in range(len(self.mechs)) if self.is_alive(n, t)]
        for x, y, radius in self.zones:
            topdown.draw_zone(self, pen, (x, y), radius, *(self.battle.control[self.moment(t)] > 0).tolist())
        for mech in mechs:
            topdown.draw_mech(self, pen, mech)
        self.draw_fire(pen, t)
        self.draw_deaths(pen, t)
        topdown.draw_clouds(self, picture, self.clouds(t))
        for mech in mechs:
            topdown.draw_bar(self, pen, mech)
        width, height = picture.width // topdown.SMOOTH, picture.height // topdown.SMOOTH
        return picture.resize((width, height), Image.Resampling.LANCZOS)

    # State at a time

    def moment(self, t: float) -> int:
        """Return the index of the last recorded moment at or before a time."""
        return min(int(t / self.decision_s + 1e-6), self.battle.decisions)

    def score(self, side: int, t: float) -> float:
        return float(self.battle.score[self.moment(t), side] / SCORE_PER_S)

    def living(self, side: int, t: float) -> int:
        return sum(self.is_alive(n, t) for n in range(len(self.mechs)) if self.sides[n] == side)

    def is_alive(self, n: int, t: float) -> bool:
        return bool(self.battle.facts[self.moment(t), n] & Fact.ALIVE)

    def tick_end(self, tick: int) -> float:
        """Return the battle time at which a tick (a simulation substep) ends, s."""
        return (tick + 1) * self.about["dt_s"]

    def pose(self, n: int, t: float) -> tuple[float, float, float]:
        """Return x, y (vox) and yaw (rad) of a mech at a time, interpolated between decisions."""
        first = min(self.moment(t), max(self.battle.decisions - 1, 0))
        following = min(first + 1, self.battle.decisions)
        share = min(max(t / self.decision_s - first, 0.0), 1.0)
        a, b = (self.battle.pos[m, n, :2] / POS_PER_VOX for m in (first, following))
        yaw, after = (float(self.battle.yaw[m, n]) / YAW_PER_RAD for m in (first, following))
        turn = wrapped(after - yaw)
        x, y = a + (b - a) * share
        return float(x), float(y), yaw + turn * share

    def figure(self, n: int, t: float) -> topdown.MechFigure:
        index, mech = self.moment(t), self.mechs[n]
        x, y, yaw = self.pose(n, t)
        return topdown.MechFigure(
            x=x,
            y=y,
            yaw=yaw,
            side=self.sides[n],
            width_vox=mech["size"][0],
            hp=float(self.battle.hp[index, n] / POINTS / mech["hp"]),
            heat=float(self.battle.heat[index, n] / POINTS / mech["heat_cap"]),
            is_out=bool(self.battle.facts[index, n] & (Fact.SHUT_DOWN | Fact.FALLEN)),
            is_painted=bool(self.battle.paint[index, n]),
        )

    def clouds(self, t: float) -> list[topdown.Cloud]:
        clouds = []
        for cloud in self.rows["clouds"]:
            start_s = self.tick_end(cloud["tick"])
            if start_s <= t < self.tick_end(cloud["end_tick"]):
                growth = min((t - start_s) / topdown.CLOUD_GROWTH_S, 1.0)
                center = (cloud["x"] / POS_PER_VOX, cloud["y"] / POS_PER_VOX)
                clouds.append((center, self.about["cloud_vox"] * growth))
        return clouds

    def waypoints(self, flight: dict[str, int]) -> np.ndarray:
        """Return the ground track of a shot's flight, `[points, 2]` vox."""
        rows = slice(flight["first"], flight["first"] + flight["points"])
        return self.battle.waypoints[rows, :2] / POS_PER_VOX

    def along(self, flight: dict[str, int], t: float) -> topdown.Point:
        """Return the position x, y of a shot in flight at a time."""
        points = self.waypoints(flight)
        launch, end = self.tick_end(flight["launch_tick"]), self.tick_end(flight["end_tick"])
        progress = min(max((t - launch) / max(end - launch, 1e-6), 0.0), 1.0) * (len(points) - 1)
        row = min(int(progress), max(len(points) - 2, 0))
        x, y = points[row] + (points[min(row + 1, len(points) - 1)] - points[row]) * (progress - row)
        return float(x), float(y)

    def weapon(self, event: dict[str, int]) -> dict[str, Any]:
        """Return the data of the weapon that fired a beam or a shot."""
        spec: dict[str, Any] = self.about["weapon_specs"][self.about["weapons"][event["weapon"]]]
        return spec

    # Drawing

    def floor(self, t: float) -> Image.Image:
        """Return the picture of the ground at a time; the picture is cached until the ground changes."""
        changes = [row for row in self.rows["voxels"] if row["decision"] < self.moment(t)]
        if self.painted is None or self.painted[0] != len(changes):
            ground = self.ground.copy()
            for row in changes:
                ground[row["z"], row["y"], row["x"]] = row["material"]
            self.painted = (len(changes), self.enlarge(topdown.shade(ground, self.about["materials"])))
        return self.painted[1]

    def draw_fire(self, pen: ImageDraw.ImageDraw, t: float) -> None:
        for beam in self.rows["beams"]:
            age = t - self.tick_end(beam["tick"]) + self.about["dt_s"]
            if 0 <= age < BEAM_S:
                self.draw_beam(pen, beam, 1 - age / BEAM_S)
        for flight in self.rows["flights"]:
            launch, end = self.tick_end(flight["launch_tick"]), self.tick_end(flight["end_tick"])
            if launch <= t < end + TRAIL_S:
                self.draw_flight(pen, flight, t, launch, end)

    def draw_beam(self, pen: ImageDraw.ImageDraw, beam: dict[str, int], fade: float) -> None:
        weapon = self.weapon(beam)
        look, colour = weapon["look"], weapon["colour"]
        a, b = ((beam[f"x{i}"] / POS_PER_VOX, beam[f"y{i}"] / POS_PER_VOX) for i in range(2))
        light: tuple[int, ...] = topdown.FIRE if look == "flame" else topdown.TEAM_LIGHT[self.sides[beam["shooter"]]]
        light = ImageColor.getrgb(colour)[:3] if colour else light
        width = {"ray": 0.34, "flame": 0.8}.get(look, 0.14)
        self.line(pen, [a, b], (*light, round(230 * fade)), width)
        if look == "ray":
            self.line(pen, [a, b], (255, 255, 255, round(255 * fade)), width * 0.4)
            self.disc(pen, b, 0.6, (255, 240, 200, round(220 * fade)))

    def draw_flight(
        self, pen: ImageDraw.ImageDraw, flight: dict[str, int], t: float, launch: float, end: float
    ) -> None:
        weapon = self.weapon(flight)
        look = weapon["look"]
        if look == "rocket":
            for i in range(12):
                puff_s, age = t - i * TRAIL_S / 12, i / 12
                if launch <= puff_s <= end:
                    topdown.draw_puff(self, pen, self.along(flight, puff_s), age)
        if t <= end:
            tail = self.along(flight, max(t - topdown.TAIL_S.get(look, topdown.OTHER_TAIL_S), launch))
            topdown.draw_shot(self, pen, look, weapon["colour"], tail, self.along(flight, t))
        elif t < end + BURST_S and look in BURST_VOX and flight["met"] not in (FlightEnd.NOTHING, FlightEnd.BATTLE_END):
            self.draw_burst(pen, self.along(flight, end), BURST_VOX[look], (t - end) / BURST_S)

    def draw_burst(self, pen: ImageDraw.ImageDraw, at: topdown.Point, size: float, age: float) -> None:
        """Draw an explosion as a flash that grows and fades; `age` is 0 at its start and 1 at its end."""
        self.disc(pen, at, size * (0.5 + 0.6 * age), (*topdown.FIRE, round(190 * (1 - age))))
        self.disc(pen, at, size * 0.5 * (1 - age), (255, 248, 220, round(255 * (1 - age))))

    def draw_deaths(self, pen: ImageDraw.ImageDraw, t: float) -> None:
        for death in self.rows["deaths"]:
            age = (t - self.tick_end(death["tick"])) / DEATH_S
            if 0 <= age < 1:
                n = death["victim"]
                x, y, _ = self.pose(n, self.tick_end(death["tick"]))
                size = self.mechs[n]["size"][0] * 0.9 + 1
                self.disc(pen, (x, y), size * (0.8 + 0.8 * age), (*topdown.SOOT, round(140 * (1 - age))))
                self.draw_burst(pen, (x, y), size, age)


MOMENTS = 4
COLUMNS = 4
"""Maximum number of panels in a row."""
GAP_IN, HEAD_IN, CAPTION_IN, FOOT_IN = 0.08, 0.22, 0.32, 0.24
BOARD_DPI = 150
LETTER_PT = 4.3
"""Width of an average character of `TEXT_PT`."""
BARS_VOX = (1, 2, 5, 10, 20, 50, 100, 200, 500)
"""Lengths of a scale bar; the one nearest to a quarter of the map is used."""


def strip_pixels(replay: Replay, battle: int, ground: np.ndarray) -> np.ndarray:
    """Return the strip of pictures of a battle as `[H, W, 3]` uint8, with the resolution for a screen."""
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
    """Draw several moments of a battle side by side.

    Args:
        ground: initial materials `[Z, Y, X]` uint8.
        times: times of the moments, s; by default `MOMENTS` times chosen by `telling_times`.
        span: start and end of the default times, s; by default the whole battle.
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
    draw_scale(figure, size_x, panel, moments[-1] >= plan.length_s and outcome_text(replay.battles[battle]))
    return figure


def draw_scores(
    figure: Figure, box: tuple[float, float, float, float], plan: BattlePlan, t: float, high: float
) -> None:
    """Write the clock above a panel, and each team's number of living mechs and score on its side."""
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
    """Draw a scale bar at the lower left; at the lower right, write the battle's outcome if `ending` is given."""
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
    """Return the start, the end, and between them the times at which equal shares of all damage were done, s."""
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
GIF_FRAME_MS = 80
"""Time between two frames. A GIF stores hundredths of a second, and writers cut the rest."""
GIF_HOLD_MS = 1500
"""How long the last frame stays."""
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
    """Draw a battle as a GIF that plays for about `seconds`, whatever the battle's length.

    Args:
        ground: initial materials `[Z, Y, X]` uint8.
        side_px: approximate longer side of the map, px.
        span: start and end of the drawn part, s; by default the whole battle.
        drawn: function that wraps the iterable of frame times and receives its length, for example to show progress.
    """
    plan = BattlePlan(replay, battle, ground, vox_px(replay, side_px))
    begin, end = span or (0.0, plan.length_s)
    times = frame_times(begin, end, seconds)
    frames = [framed(plan, replay.battles[battle], t) for t in drawn(times, len(times))]
    # One palette for all frames, from a sample of them, because palettes that change between frames would flicker.
    samples = frames[:: max(len(frames) // 6, 1)]
    sample = Image.new("RGB", (samples[0].width, samples[0].height * len(samples)))
    for i, frame in enumerate(samples):
        sample.paste(frame, (0, i * frame.height))
    palette = sample.quantize(GIF_COLOURS)
    quantized = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    still_ms = [GIF_FRAME_MS] * (len(frames) - 1) + [GIF_HOLD_MS]
    moving: dict[str, Any] = {"save_all": True, "append_images": quantized[1:], "duration": still_ms, "loop": 0}
    with atomic_write(path) as draft:
        quantized[0].save(draft, format="GIF", optimize=False, **moving)


def frame_times(begin: float, end: float, seconds: float) -> list[float]:
    """Return the battle time of each frame of a GIF that plays a part of a battle in `seconds`, s.

    The frames are `GIF_FRAME_MS` apart when played; the last one shows the end of the part.
    """
    count = max(math.ceil(seconds * 1000 / GIF_FRAME_MS - 1e-9), 1)
    step = GIF_FRAME_MS / 1000 / seconds * (end - begin)
    return [*(begin + number * step for number in range(count)), end]


def framed(plan: BattlePlan, battle: Battle, t: float) -> Image.Image:
    """Draw the battle at time `t`, with the clock and the scores above the map."""
    field = plan.draw(t)
    frame = Image.new("RGB", (field.width + 2 * MARGIN, field.height + CAPTION + MARGIN), PAPER)
    frame.paste(field, (MARGIN, CAPTION))
    pen = ImageDraw.Draw(frame)
    captions = [TeamCaption(plan.living(side, t), plan.score(side, t)) for side in (0, 1)]
    draw_caption(pen, frame.width, MARGIN, t, captions, plan.win_s)
    if t >= plan.length_s:
        pen.text(
            (MARGIN + 6, frame.height - MARGIN - 6),
            outcome_text(battle),
            (255, 255, 255),
            font(14),
            "ls",
            stroke_width=2,
            stroke_fill=INK,
        )
    return frame


def vox_px(replay: Replay, side_px: int) -> int:
    """Return the pixels per voxel for which the longer side of the map is about `side_px`."""
    return max(side_px // max(replay.about["size"][:2]), 2)


def outcome_text(battle: Battle) -> str:
    outcome = battle.about["outcome"]
    reason = outcome["reason"].replace("_", " ")
    return f"{outcome['winner']} wins by {reason}" if outcome["winner"] in TEAMS else outcome["winner"]
