"""Score of objectives beside zone control. See `env/objectives/goals.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.runtime.jit import ZERO, device_function
from echelon.sim.loops.records import BattleRow, Hulls, Mechs, Tally


@device_function
def count_runners(mechs: Mechs, tally: Tally, hulls: Hulls, field: Any, red: Any) -> Any:
    """Return how many runners of a team arrived, and how many died before arrival."""
    arrived, dead = 0, 0
    for n in range(mechs.shape[0]):
        if field.runner[n] and hulls[n].is_red == red:
            if tally[n].zone_s > ZERO:
                arrived += 1
            elif mechs[n].hp <= ZERO:
                dead += 1
    return np.float32(arrived), np.float32(dead)


@device_function
def score_goals(battle: BattleRow, mechs: Mechs, tally: Tally, hulls: Hulls, field: Any) -> None:
    """Apply `goals.score_goals` to one battle."""
    blue, red = count_runners(mechs, tally, hulls, field, False), count_runners(mechs, tally, hulls, field, True)
    tick = np.float32(battle.tick)
    for team in range(2):
        team_counts, enemy_counts = (red, blue) if team == 1 else (blue, red)
        by_deed = max(field.arrival_score[team] * team_counts[0], field.loss_score[team] * enemy_counts[1])
        battle.score[team] = max(battle.score[team], max(field.clock_rate[team] * tick, by_deed))
