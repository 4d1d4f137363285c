"""Judge whether and how a battle ends. See `env/outcome.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelon.env.loops.records import Codes
from echelon.runtime.jit import ONE, ZERO, device_function
from echelon.sim.loops.arithmetic import on_grid
from echelon.sim.loops.records import BattleRow, Hulls, Mechs, Rules, Tally


@device_function
def count_living(mechs: Mechs, hulls: Hulls) -> Any:
    """Return the number of living mechs of blue and red."""
    blue, red = 0, 0
    for n in range(mechs.shape[0]):
        living = 1 if mechs[n].hp > ZERO else 0
        blue, red = (blue, red + living) if hulls[n].is_red else (blue + living, red)
    return blue, red


@device_function
def hp_lead(mechs: Mechs, hulls: Hulls) -> Any:
    """Return the hit points of blue minus those of red."""
    blue, red = 0.0, 0.0
    for n in range(mechs.shape[0]):
        hp = on_grid(mechs[n].hp)
        blue, red = (blue, red + hp) if hulls[n].is_red else (blue + hp, red)
    return np.float32(blue) - np.float32(red)


@device_function
def update_last_event(event: Any, damage: Any, score: Any, battle: BattleRow, tally: Tally, field: Any) -> Any:
    """Apply `outcome.update_last_event` to one battle.

    Args:
        event, damage, score: the last event, and `Tally.damage` and the score before the decision.
        battle, tally, field: records after the decision, and the map.
    """
    for n in range(tally.shape[0]):
        if tally[n].damage != damage[n]:
            return battle.tick
    for team in range(2):
        if battle.score[team] != score[team] and field.clock_rate[team] == ZERO:
            return battle.tick
    return event


@device_function
def judge(battle: BattleRow, mechs: Mechs, hulls: Hulls, field: Any, rules: Rules, codes: Codes) -> Any:
    """Apply `outcome.judge` to one battle; return whether it was decided, whether time is up, winner and reason."""
    blue, red = count_living(mechs, hulls)
    eliminated = blue == 0 or red == 0
    score, to_win_s = battle.score, rules.zone_score_to_win_s
    scored = (score[0] >= to_win_s or score[1] >= to_win_s) and not eliminated
    decided = eliminated or scored
    time_up = battle.tick >= codes.last_tick and not decided
    ahead = score[0] - score[1]
    if time_up and abs(ahead) <= codes.score_tie_s:
        ahead = hp_lead(mechs, hulls)
    if eliminated:
        ahead = np.float32(blue - red)
    winner = codes.blue if ahead > ZERO else codes.red if ahead < ZERO else codes.draw
    by_zone = (score[0] >= score[1] and field.control_rate[0] > ZERO) or (
        score[1] >= score[0] and field.control_rate[1] > ZERO
    )
    reason = codes.time_up if time_up else codes.running_reason
    if decided:
        reason = codes.elimination if eliminated else codes.zone if by_zone else codes.objective
    return decided, time_up, winner if decided or time_up else codes.running_winner, reason


@device_function
def write_outcome(b: int, battle: BattleRow, verdict: Any, results: Any, rules: Rules, codes: Codes) -> None:
    """Write `decision.outcome_tensors` of battle b, without statistics; `verdict` is the result of `judge`."""
    decided, time_up, winner, reason = verdict
    ends, is_done = codes.time_up_terminates, decided or time_up
    done, last_event = ONE if is_done else ZERO, results.last_event[b]
    results.terminated[b, 0], results.truncated[b, 0] = decided or (time_up and ends), time_up and not ends
    results.done[b, 0], results.winner[b, 0], results.reason[b, 0] = is_done, winner, reason
    for team in range(2):
        results.score[b, team] = battle.score[team] * done
    results.decisions[b, 0] = battle.tick // rules.decision_repeat if is_done else 0
    results.idle_s[b, 0] = np.float32(battle.tick - last_event) * rules.dt_s * done
