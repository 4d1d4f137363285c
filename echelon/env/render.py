"""Draw one battle from above, in its current state. Drawing reads tensors on the host; a step never calls it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageDraw

from echelon.rules.catalog import Material
from echelon.sim.model import SimModel
from echelon.sim.terrain import present_materials
from echelon.state import Maps, State
from echelon.viewer import topdown

CAPTIONED_PX = 340
"""Minimum width with room for the clock and the scores."""
MARGIN = 6
"""Margin beside the caption, px."""
PUFFS, TRAIL_S = 8, 0.4
"""Number of puffs and duration of a rocket's trail. It is drawn straight, because a state has no flight path."""


def render(state: State, sim_model: SimModel, battle: int, side_px: int) -> np.ndarray:
    """Draw one battle of a state. The same state gives the same pixels.

    Args:
        state: state of B battles.
        sim_model: rules, roster and maps.
        battle: index of the battle, 0..B - 1.
        side_px: longer side of the map in the picture, px.

    Returns:
        The picture, `[H, W, 3]` uint8 with even H and W; the map's y axis points up.
    """
    current = state[battle].cpu()
    ground = sim_model.maps[int(current.map_id)].cpu()
    field = draw_field(current, ground, sim_model, side_px)
    if field.width < CAPTIONED_PX:
        return np.array(field)
    picture = Image.new("RGB", (field.width, field.height + topdown.CAPTION), topdown.PAPER)
    picture.paste(field, (0, topdown.CAPTION))
    seconds, win_s = int(current.tick) * sim_model.rules.dt_s, sim_model.rules.zone_score_to_win_s
    topdown.draw_caption(
        ImageDraw.Draw(picture), picture.width, MARGIN, seconds, team_captions(current, sim_model), win_s
    )
    return np.array(picture)


def draw_field(state: State, ground: Maps, sim_model: SimModel, side_px: int) -> Image.Image:
    """Draw the battle `state []` on its map `ground []`, enlarged and then reduced for smooth edges."""
    world = sim_model.config.world
    canvas = topdown.Canvas(world.size_y, -(-side_px // world.longest_side))
    materials = present_materials(ground, state.terrain).numpy()
    picture = canvas.enlarge(topdown.shade(materials, [material.name.lower() for material in Material]))
    pen = ImageDraw.Draw(picture, "RGBA")
    mechs = list(mech_figures(state, sim_model))
    x, y = ground.zone_center.tolist()
    topdown.draw_zone(canvas, pen, (x, y), float(ground.zone_radius), *(state.control > 0).tolist())
    if ground.second_radius > 0:
        x, y = ground.second_center.tolist()
        topdown.draw_zone(canvas, pen, (x, y), float(ground.second_radius), *(state.control > 0).tolist())
    for mech in mechs:
        topdown.draw_mech(canvas, pen, mech)
    draw_shots(canvas, pen, state, sim_model)
    topdown.draw_clouds(canvas, picture, visible_clouds(state, sim_model))
    for mech in mechs:
        topdown.draw_bar(canvas, pen, mech)
    wide, high = (round(side_px * vox / world.longest_side / 2) * 2 for vox in (world.size_x, world.size_y))
    return picture.resize((wide, high), Image.Resampling.HAMMING)


def mech_figures(state: State, sim_model: SimModel) -> Iterator[topdown.MechFigure]:
    """Yield the living mechs of the battle `state []`."""
    mechs, roster = state.mechs, sim_model.roster
    heat_cap = roster.heat_cap.cpu()
    values = {
        "x": mechs.pos[:, 0],
        "y": mechs.pos[:, 1],
        "yaw": mechs.yaw,
        "side": roster.is_red.int().cpu(),
        "width_vox": 2 * roster.half_size[:, 0].cpu(),
        "hp": mechs.hp / roster.hp.cpu(),
        "heat": mechs.heat / heat_cap,
        "is_out": (mechs.heat > heat_cap) | (mechs.fallen > 0),
        "is_painted": (mechs.paint > 0).any(-1),
    }
    rows = zip(*(value.tolist() for value in values.values()), strict=True)
    for row, is_alive in zip(rows, mechs.alive.tolist(), strict=True):
        if is_alive:
            yield topdown.MechFigure(**dict(zip(values, row, strict=True)))


def draw_shots(canvas: topdown.Canvas, pen: ImageDraw.ImageDraw, state: State, sim_model: SimModel) -> None:
    """Draw the shots in flight of the battle `state []`."""
    shots, dt_s = state.shots, sim_model.rules.dt_s
    kinds = sim_model.roster.shots.weapon.argmax(-1).tolist()
    for kind, pos, vel, ttl in zip(kinds, shots.pos.tolist(), shots.vel.tolist(), shots.ttl.tolist(), strict=True):
        if ttl == 0:
            continue
        weapon = sim_model.roster.weapons[kind]
        look, flown_s = weapon.drawn_as, max(weapon.lifetime_s - ttl * dt_s, 0.0)
        for i in range(PUFFS if look == "rocket" else 0):
            age_s = i / PUFFS * TRAIL_S
            if age_s <= flown_s:
                topdown.draw_puff(canvas, pen, position_before(pos, vel, age_s), i / PUFFS)
        tail_s = min(topdown.TAIL_S.get(look, topdown.OTHER_TAIL_S), flown_s)
        tail, head = position_before(pos, vel, tail_s), position_before(pos, vel, 0.0)
        topdown.draw_shot(canvas, pen, look, weapon.colour, tail, head)


def position_before(pos: list[float], vel: list[float], seconds: float) -> topdown.Point:
    """Return the map position of a shot some time ago, if it flew straight."""
    return pos[0] - vel[0] * seconds, pos[1] - vel[1] * seconds


def visible_clouds(state: State, sim_model: SimModel) -> list[topdown.Cloud]:
    """Return the smoke clouds of the battle `state []`, at their current size."""
    clouds = []
    for (x, y, _), ttl in zip(state.clouds.pos.tolist(), state.clouds.ttl.tolist(), strict=True):
        age_s = sim_model.catalog.cloud_s - ttl * sim_model.rules.dt_s
        if ttl > 0:
            clouds.append(((x, y), sim_model.catalog.cloud_vox * min(age_s / topdown.CLOUD_GROWTH_S, 1.0)))
    return clouds


def team_captions(state: State, sim_model: SimModel) -> list[topdown.TeamCaption]:
    """Return the number of living mechs and the score of blue and red."""
    alive, spans = state.mechs.alive.tolist(), sim_model.roster.teams.values()
    scores = state.score.tolist()
    return [topdown.TeamCaption(alive[span].count(True), score) for span, score in zip(spans, scores, strict=True)]
