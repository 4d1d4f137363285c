"""Reward terms of the mechs of a battle, weighted and mixed within teams. See `env/reward.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.env.loops.records import Reward, View
from echelon.env.loops.zone import is_inside, path_vox
from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim import formulas
from echelon.sim.loops.arithmetic import on_grid
from echelon.sim.loops.records import BattleRow, Hulls, Mechs, Tally

approach, credited, mixed = (
    device_function(formula) for formula in (formulas.approach, formulas.credited, formulas.mixed)
)


@device_function
def weighted_terms(
    was: Any,
    battle: BattleRow,
    mechs: Mechs,
    tally: Tally,
    hulls: Hulls,
    field: Any,
    lead: Any,
    rows: Any,
    reward: Reward,
    view: View,
) -> None:
    """Fill `rows [N, K]` with the terms of `reward.terms`, each times its weight.

    Args:
        was: a `decision.Before` of the battle.
        battle, mechs, tally: records after the decision.
        hulls, field: constants of the mechs, and the map.
        lead: 1 if blue won with this decision, -1 if red won, else 0.
        rows: to write.
        reward, view: constants.
    """
    is_held = was.control[0, 0] > ZERO and was.control[0, 1] > ZERO
    for n in range(mechs.shape[0]):
        mech, hull, count, row = mechs[n], hulls[n], tally[n], rows[n]
        was_alive, is_alive = was.hp[n] > ZERO, mech.hp > ZERO
        contested = is_held and was_alive and is_inside(was.pos[n], hull, field, view)
        offence = reward.contested_offence if contested else ONE
        loss = reward.contested_death if contested else ONE
        before, after = path_vox(was.pos[n], field) / view.longest, path_vox(mech.pos, field) / view.longest
        gained = ONE if count.zone_s > was.zone_s[n] else ZERO
        died = ONE if was_alive and not is_alive else ZERO
        row[reward.at_approach] = reward.approach * approach(ONE if is_alive else ZERO, before, after, reward.gamma)
        row[reward.at_zone] = reward.zone * (gained * battle.control[1 if hull.is_red else 0])
        row[reward.at_damage] = reward.damage * credited(offence, was.damage[n], count.damage)
        row[reward.at_kill] = reward.kill * credited(offence, was.kills[n], count.kills)
        row[reward.at_assist] = reward.assist * credited(offence, was.assists[n], count.assists)
        row[reward.at_death] = reward.death * (died * loss)
        row[reward.at_terminal] = reward.terminal * (lead * (-ONE if hull.is_red else ONE))


@device_function
def mix_with_team(rows: Any, hulls: Hulls, reward: Reward) -> None:
    """Apply the mixing of `reward.weighted` to `rows [N, K]`, in place."""
    for k in range(rows.shape[1]):
        blue, red = 0.0, 0.0
        for n in range(rows.shape[0]):
            value = on_grid(rows[n, k])
            blue, red = (blue, red + value) if hulls[n].is_red else (blue + value, red)
        blue_mean, red_mean = np.float32(blue) / reward.blue_size, np.float32(red) / reward.red_size
        for n in range(rows.shape[0]):
            mean = red_mean if hulls[n].is_red else blue_mean
            rows[n, k] = mixed(rows[n, k], mean, reward.team_mix_alpha, reward.team_share)
