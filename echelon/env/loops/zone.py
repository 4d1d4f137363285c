"""Who stands in the zone, who controls it, and the score that grows by it. See `env/objectives/zone.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.runtime.jit import ONE, ZERO, called
from echelon.sim.loops.arithmetic import length_2, on_grid, positive


@called
def is_inside(mech: Any, hull: Any, center: Any, radius: Any, view: Any) -> Any:
    """`zone.is_inside` of one living mech."""
    away = length_2(mech.pos[0] - center[0], mech.pos[1] - center[1])
    return away < radius and mech.pos[2] - hull.half_size[2] < view.zone_ceiling_vox


@called
def control(own: Any, enemy: Any, view: Any) -> Any:
    """`zone.control` of a team with `own` t in the zone, beside `enemy` t."""
    margin = (own - enemy) / max(own + enemy, ONE)
    shared = view.contested_share + view.contested_rest * positive(margin)
    if own > ZERO and enemy > ZERO:
        return shared
    return ONE if own > ZERO else ZERO


@called
def score(battle: Any, mechs: Any, tally: Any, hulls: Any, center: Any, radius: Any, view: Any) -> None:
    """`zone.score` of one battle."""
    blue_t, red_t = 0.0, 0.0
    for n in range(mechs.shape[0]):
        mech, hull = mechs[n], hulls[n]
        if mech.hp > ZERO and is_inside(mech, hull, center, radius, view):
            tally[n].zone_s += view.decision_s
            if hull.is_red:
                red_t += on_grid(hull.tonnage)
            else:
                blue_t += on_grid(hull.tonnage)
    blue, red = np.float32(blue_t), np.float32(red_t)
    battle.control[0], battle.control[1] = control(blue, red, view), control(red, blue, view)
    for team in range(2):
        battle.score[team] += battle.control[team] * view.decision_s
