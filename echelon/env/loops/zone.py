"""The zone: which mechs are inside, which team controls it, and the score for control. See `env/objectives/zone.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.env.loops.records import View
from echelon.runtime.jit import HALF, ONE, ZERO, device_function
from echelon.sim.loops.arithmetic import clamped, length_2, on_grid, positive
from echelon.sim.loops.records import BattleRow, Hull, Hulls, Mech, Mechs, Tally


@device_function
def is_within(pos: Any, hull: Hull, center: Any, radius: Any, view: View) -> Any:
    """Return `zone.in_each_zone` of one living mech at `pos [3]` and one zone."""
    distance = length_2(pos[0] - center[0], pos[1] - center[1])
    return distance < radius and pos[2] - hull.half_size[2] < view.zone_ceiling_vox


@device_function
def is_inside(pos: Any, hull: Hull, field: Any, view: View) -> Any:
    """Return `zone.is_inside` of one living mech at `pos [3]`."""
    first = is_within(pos, hull, field.zone_center, field.zone_radius, view)
    return first or is_within(pos, hull, field.second_center, field.second_radius, view)


@device_function
def nearer(mech: Mech, field: Any) -> Any:
    """Return `zone.nearer` of one mech: x and y of the vector to a zone, and its radius."""
    to_x, to_y = field.zone_center[0] - mech.pos[0], field.zone_center[1] - mech.pos[1]
    second_x, second_y = field.second_center[0] - mech.pos[0], field.second_center[1] - mech.pos[1]
    radius, second_radius = field.zone_radius, field.second_radius
    if second_radius > ZERO and length_2(second_x, second_y) - second_radius < length_2(to_x, to_y) - radius:
        return second_x, second_y, second_radius
    return to_x, to_y, radius


@device_function
def path_vox(pos: Any, field: Any) -> Any:
    """Return the walking distance from `pos [3]` to the zone's edge, vox: `zone.path_length` times the longest side."""
    x = clamped(int(np.floor(pos[0])), field.path_length.shape[1] - 1)
    y = clamped(int(np.floor(pos[1])), field.path_length.shape[0] - 1)
    return field.path_length[y, x]


@device_function
def control(own: Mech, enemy: Any, view: View) -> Any:
    """Return `zone.control` of a team with `own` t in the zone against `enemy` t."""
    margin = (own - enemy) / max(own + enemy, ONE)
    shared = view.contested_share + view.contested_rest * positive(margin)
    if own > ZERO and enemy > ZERO:
        return shared
    return ONE if own > ZERO else ZERO


@device_function
def tonnage(mechs: Mechs, hulls: Hulls, center: Any, radius: Any, view: View) -> Any:
    """Return blue's and red's living tonnage within a circle, t."""
    blue_t, red_t = 0.0, 0.0
    for n in range(mechs.shape[0]):
        mech, hull = mechs[n], hulls[n]
        if mech.hp > ZERO and is_within(mech.pos, hull, center, radius, view):
            if hull.is_red:
                red_t += on_grid(hull.tonnage)
            else:
                blue_t += on_grid(hull.tonnage)
    return np.float32(blue_t), np.float32(red_t)


@device_function
def score(battle: BattleRow, mechs: Mechs, tally: Tally, hulls: Hulls, field: Any, view: View) -> None:
    """Apply `zone.score` to one battle."""
    for n in range(mechs.shape[0]):
        if mechs[n].hp > ZERO and is_inside(mechs[n].pos, hulls[n], field, view):
            tally[n].zone_s += view.decision_s
    blue, red = tonnage(mechs, hulls, field.zone_center, field.zone_radius, view)
    ticks = control(blue, red, view), control(red, blue, view)
    if field.second_radius > ZERO:
        blue, red = tonnage(mechs, hulls, field.second_center, field.second_radius, view)
        ticks = (ticks[0] + control(blue, red, view)) * HALF, (ticks[1] + control(red, blue, view)) * HALF
    counts = field.control_rate[0] > ZERO or field.control_rate[1] > ZERO
    for team in range(2):
        battle.control[team] = ticks[team] if counts else ZERO
        battle.score[team] += battle.control[team] * view.decision_s * field.control_rate[team]
