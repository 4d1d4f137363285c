"""A battle seen from above, drawn at any time: lit ground, hulls with their headings, fire and smoke."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from echelon.plan.figures import (
    CLOUD_GROWTH_S,
    OTHER_TAIL_S,
    SMOOTH,
    TAIL_S,
    Canvas,
    Cloud,
    MechFigure,
    Point,
    draw_bar,
    draw_clouds,
    draw_mech,
    draw_puff,
    draw_shot,
    draw_zone,
)
from echelon.plan.ground import FIRE, SOOT, TEAM_LIGHT, shade
from echelon.replay.battle import POINTS, POS_PER_VOX, SCORE_PER_S, TABLES, YAW_PER_RAD, Fact, Met, Replay
from echelon.replay.ground import zones_of
from echelon.replay.moments import wrapped

BEAM_S, BURST_S, TRAIL_S, DEATH_S = 0.25, 0.5, 1.0, 1.6
BURST_VOX = {"rocket": 2.0, "slug": 1.5, "tracer": 0.6}
"""By the look of a weapon."""


class BattlePlan(Canvas):
    """Draws one battle from above, `vox_px` pixels a voxel."""

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
            draw_zone(self, pen, (x, y), radius, *(self.battle.control[self.moment(t)] > 0).tolist())
        for mech in mechs:
            draw_mech(self, pen, mech)
        self.draw_fire(pen, t)
        self.draw_deaths(pen, t)
        draw_clouds(self, picture, self.clouds(t))
        for mech in mechs:
            draw_bar(self, pen, mech)
        width, height = picture.width // SMOOTH, picture.height // SMOOTH
        return picture.resize((width, height), Image.Resampling.LANCZOS)

    # Reading

    def moment(self, t: float) -> int:
        """The last moment at or before a time."""
        return min(int(t / self.decision_s + 1e-6), self.battle.decisions)

    def score(self, side: int, t: float) -> float:
        return float(self.battle.score[self.moment(t), side] / SCORE_PER_S)

    def living(self, side: int, t: float) -> int:
        return sum(self.is_alive(n, t) for n in range(len(self.mechs)) if self.sides[n] == side)

    def is_alive(self, n: int, t: float) -> bool:
        return bool(self.battle.facts[self.moment(t), n] & Fact.ALIVE)

    def tick_end(self, tick: int) -> float:
        """When a tick ends, s."""
        return (tick + 1) * self.about["dt_s"]

    def pose(self, n: int, t: float) -> tuple[float, float, float]:
        """x, y and yaw of a mech at a time."""
        first = min(self.moment(t), max(self.battle.decisions - 1, 0))
        following = min(first + 1, self.battle.decisions)
        share = min(max(t / self.decision_s - first, 0.0), 1.0)
        a, b = (self.battle.pos[m, n, :2] / POS_PER_VOX for m in (first, following))
        yaw, after = (float(self.battle.yaw[m, n]) / YAW_PER_RAD for m in (first, following))
        turn = wrapped(after - yaw)
        x, y = a + (b - a) * share
        return float(x), float(y), yaw + turn * share

    def figure(self, n: int, t: float) -> MechFigure:
        index, mech = self.moment(t), self.mechs[n]
        x, y, yaw = self.pose(n, t)
        return MechFigure(
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

    def clouds(self, t: float) -> list[Cloud]:
        clouds = []
        for cloud in self.rows["clouds"]:
            start_s = self.tick_end(cloud["tick"])
            if start_s <= t < self.tick_end(cloud["end_tick"]):
                growth = min((t - start_s) / CLOUD_GROWTH_S, 1.0)
                center = (cloud["x"] / POS_PER_VOX, cloud["y"] / POS_PER_VOX)
                clouds.append((center, self.about["cloud_vox"] * growth))
        return clouds

    def waypoints(self, flight: dict[str, int]) -> np.ndarray:
        """`[points, 2]` the way of a flight over the ground, vox."""
        rows = slice(flight["first"], flight["first"] + flight["points"])
        return self.battle.waypoints[rows, :2] / POS_PER_VOX

    def along(self, flight: dict[str, int], t: float) -> Point:
        """Where a flight is at a time."""
        points = self.waypoints(flight)
        launch, end = self.tick_end(flight["launch_tick"]), self.tick_end(flight["end_tick"])
        progress = min(max((t - launch) / max(end - launch, 1e-6), 0.0), 1.0) * (len(points) - 1)
        row = min(int(progress), max(len(points) - 2, 0))
        x, y = points[row] + (points[min(row + 1, len(points) - 1)] - points[row]) * (progress - row)
        return float(x), float(y)

    def weapon(self, event: dict[str, int]) -> dict[str, Any]:
        """What `about` tells of the weapon of a beam or a flight."""
        spec: dict[str, Any] = self.about["weapon_specs"][self.about["weapons"][event["weapon"]]]
        return spec

    # Drawing

    def floor(self, t: float) -> Image.Image:
        """The ground as it is at a time; kept until it changes."""
        changes = [row for row in self.rows["voxels"] if row["decision"] < self.moment(t)]
        if self.painted is None or self.painted[0] != len(changes):
            ground = self.ground.copy()
            for row in changes:
                ground[row["z"], row["y"], row["x"]] = row["material"]
            self.painted = (len(changes), self.enlarge(shade(ground, self.about["materials"])))
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
        light: tuple[int, ...] = FIRE if look == "flame" else TEAM_LIGHT[self.sides[beam["shooter"]]]
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
                    draw_puff(self, pen, self.along(flight, puff_s), age)
        if t <= end:
            tail = self.along(flight, max(t - TAIL_S.get(look, OTHER_TAIL_S), launch))
            draw_shot(self, pen, look, weapon["colour"], tail, self.along(flight, t))
        elif t < end + BURST_S and look in BURST_VOX and flight["met"] not in (Met.NOTHING, Met.BATTLE_END):
            self.draw_burst(pen, self.along(flight, end), BURST_VOX[look], (t - end) / BURST_S)

    def draw_burst(self, pen: ImageDraw.ImageDraw, at: Point, size: float, age: float) -> None:
        """A flash that grows and fades; `age` in 0..1."""
        self.disc(pen, at, size * (0.5 + 0.6 * age), (*FIRE, round(190 * (1 - age))))
        self.disc(pen, at, size * 0.5 * (1 - age), (255, 248, 220, round(255 * (1 - age))))

    def draw_deaths(self, pen: ImageDraw.ImageDraw, t: float) -> None:
        for death in self.rows["deaths"]:
            age = (t - self.tick_end(death["tick"])) / DEATH_S
            if 0 <= age < 1:
                n = death["victim"]
                x, y, _ = self.pose(n, self.tick_end(death["tick"]))
                size = self.mechs[n]["size"][0] * 0.9 + 1
                self.disc(pen, (x, y), size * (0.8 + 0.8 * age), (*SOOT, round(140 * (1 - age))))
                self.draw_burst(pen, (x, y), size, age)
