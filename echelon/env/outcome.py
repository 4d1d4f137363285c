"""How a battle ends, judged once a decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from echelon.rules.catalog import Catalog, Hull
from echelon.sim.model import SimModel
from echelon.state import State, Tally

SCORE_TIE_S = 1e-3
"""Scores closer than this are equal when time is up."""


class Winner(IntEnum):
    """Who won."""

    RUNNING = -1
    DRAW = 0
    BLUE = 1
    RED = 2


class Reason(IntEnum):
    """What ended the battle."""

    RUNNING = 0
    ELIMINATION = 1
    ZONE = 2
    TIME_UP = 3
    OBJECTIVE = 4


FOUGHT = ("damage", "kills", "team_kills", "assists", "intercepts")
FARED = ("shutdowns", "vent_s", "zone_s", "bad_actions")
OWN = (*FOUGHT, *FARED)
"""Fields of `Tally` that count for one's own team: what its mechs did to others, and what they did beside."""
OF_THE_TEAM = ("deaths", "knockdowns", "leggings", "paints")
"""What else a team's statistics count, in their order."""
BY_WEAPON = ("shots", "hits", "damage", "kills")
"""What is told by weapon."""
BY_HULL = ("damage", "kills", "assist_hp", "paint_damage", "intercepted_damage")
"""Fields of `Tally` that are told by the class of who did it."""


def stat_names(catalog: Catalog) -> tuple[str, ...]:
    """Columns of the statistics of a finished battle, summed over each team, in their order.

    Knockdowns, leggings, and damage and kills by weapon are those of the other team's mechs, paints those its painters
    laid; by class, all but deaths is told by who did it, deaths by who died. A kill by weapon is the weapon's that
    took most in the substep of the death. `assist_hp`, `paint_damage` and `intercepted_damage` are those of `Tally`.
    """
    by_weapon = (f"{statistic}_{weapon}" for statistic in BY_WEAPON for weapon in catalog.weapons)
    by_hull = (f"{statistic}_{hull.name.lower()}" for statistic in (*BY_HULL, "deaths") for hull in Hull)
    return (*OWN, *OF_THE_TEAM, *by_weapon, *by_hull)


STATS = stat_names(Catalog())
"""Those of the default catalog."""


@dataclass(frozen=True)
class Ending:
    """The verdict on every battle after a decision."""

    terminated: Tensor
    """[B] bool."""
    truncated: Tensor
    """[B] bool, never with `terminated`."""
    winner: Tensor
    """[B] int8, a `Winner`."""
    reason: Tensor
    """[B] int8, a `Reason`."""

    @property
    def done(self) -> Tensor:
        return self.terminated | self.truncated


def judge(state: State, sim_model: SimModel) -> Ending:
    """Elimination, then the score, then the clock."""
    rules = sim_model.rules
    living = sim_model.roster.by_team(state.mechs.alive)
    eliminated = (living == 0).any(1)
    scored = (state.score >= rules.zone_score_to_win_s).any(1) & ~eliminated
    terminated = eliminated | scored
    time_up = (state.tick >= rules.max_decisions * rules.decision_repeat) & ~terminated

    # By how much blue is ahead in what decides.
    per_team = living, state.score, sim_model.roster.by_team(state.mechs.hp)
    in_living, in_score, in_hp = (blue - red for blue, red in (each.unbind(1) for each in per_team))
    ahead = torch.where(time_up & (in_score.abs() <= SCORE_TIE_S), in_hp, in_score)
    ahead = torch.where(eliminated, in_living, ahead)
    winner = (ahead > 0) * int(Winner.BLUE) + (ahead < 0) * int(Winner.RED)

    is_first = state.score >= state.score.flip(1)
    by_zone = (is_first & (sim_model.maps.control_rate[state.map_id] > 0)).any(1)
    why_scored = torch.where(by_zone, int(Reason.ZONE), int(Reason.OBJECTIVE))
    # At most one of the three is true.
    reason = eliminated * int(Reason.ELIMINATION) + scored * why_scored + time_up * int(Reason.TIME_UP)
    return Ending(
        terminated=terminated | time_up if rules.time_up_terminates else terminated,
        truncated=torch.zeros_like(time_up) if rules.time_up_terminates else time_up,
        winner=torch.where(terminated | time_up, winner, int(Winner.RUNNING)).to(torch.int8),
        reason=reason.to(torch.int8),
    )


def note_events(before: State, after: State, sim_model: SimModel) -> State:
    """Remember when a team last did damage or scored, but for what the clock alone gives."""
    damaged = (sim_model.roster.by_team(after.tally.damage != before.tally.damage) > 0).any(1)
    by_deed = sim_model.maps.clock_rate[after.map_id] == 0
    scored = ((after.score != before.score) & by_deed).any(1)
    return after.replace(last_event=torch.where(damaged | scored, after.tick, before.last_event))


def idle_s(state: State, sim_model: SimModel) -> Tensor:
    """`[B]` seconds since a team last did damage or scored in the zone; 15 s or more at the end is a standstill."""
    return (state.tick - state.last_event).float() * sim_model.rules.dt_s


def statistics(state: State, sim_model: SimModel, rows: slice | Tensor = slice(None)) -> Tensor:
    """`[B, 2, K]` `stat_names`: what each team did since its battle began; of the battles `rows`, by default of all."""
    roster, spawn_hp = sim_model.roster, sim_model.maps.spawn_hp[state.map_id[rows]]
    tally = {name: getattr(state.tally, name)[rows] for name in Tally.__dataclass_fields__}
    tally["deaths"] = ((state.mechs.hp[rows] <= 0) & (spawn_hp > 0)).float()

    def columns(*names: str) -> Tensor:
        return torch.stack([tally[name] for name in names], -1)

    by_hull = columns(*BY_HULL, "deaths")[..., None] * roster.hull_one_hot[:, None]  # [B, N, 6, hulls]
    by_mech = columns(*FOUGHT), columns(*FARED, "deaths"), columns("falls", "legs_lost"), by_hull.flatten(2)
    # One sum of all, which a GPU works out in few launches.
    sums = roster.by_team(torch.cat((*by_mech, *(tally[name] for name in ("taken", "killed_by", "shots", "hits"))), -1))
    weapons = len(roster.weapons)
    sizes = [len(OWN) + 1, 2, by_mech[-1].shape[-1], 2 * weapons, 2 * weapons]
    own, suffered, of_hulls, by_enemies, by_weapon = sums.split(sizes, -1)
    paints = sum((sums[..., painter - weapons] for painter in roster.painters), torch.zeros_like(sums[..., 0]))
    # Only enemies shake a mech's stability or hit its legs, so what one team suffered the other one did.
    return torch.cat((own, suffered.flip(1), paints[..., None], by_weapon, by_enemies.flip(1), of_hulls), -1)


def final_statistics(state: State, done: Tensor, sim_model: SimModel) -> Tensor:
    """`[B, 2, K]` `statistics` of the battles that are `done [B]`, zeros of the others."""
    return statistics(state, sim_model) * done[:, None, None]
