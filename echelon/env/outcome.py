"""How a battle ends, judged once a decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from echelon.rules.catalog import Catalog, Hull
from echelon.runtime import exact
from echelon.sim.model import SimModel
from echelon.state import State

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


OWN = ("damage", "kills", "team_kills", "assists", "intercepts", "shutdowns", "vent_s", "zone_s", "bad_actions")
"""Fields of `Tally` that count for one's own team."""
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


def favour(per_team: Tensor, tie: float = 0.0) -> Tensor:
    """`[B]` int8 `Winner`: the side whose value in `[B, 2]` is higher by more than `tie`."""
    lead = per_team[:, 0] - per_team[:, 1]
    winner = torch.where(lead > tie, int(Winner.BLUE), int(Winner.DRAW))
    return torch.where(lead < -tie, int(Winner.RED), winner).to(torch.int8)


def judge(state: State, game: SimModel) -> Ending:
    """Elimination, then the score, then the clock."""
    rules = game.rules
    living = game.roster.by_team(state.mechs.alive.float())
    eliminated = (living == 0).any(1)
    scored = (state.score >= rules.zone_score_to_win_s).any(1) & ~eliminated
    max_ticks = rules.max_decisions * rules.decision_repeat
    time_up = (state.tick >= max_ticks) & ~eliminated & ~scored

    by_score = favour(state.score)
    late_score = favour(state.score, SCORE_TIE_S)
    by_hp = favour(game.roster.by_team(state.mechs.hp))
    on_time = torch.where(late_score == int(Winner.DRAW), by_hp, late_score)

    leads = state.score >= state.score.flip(1)
    by_zone = (leads & (game.maps.control_rate[state.map_id] > 0)).any(1)
    why_scored = torch.where(by_zone, int(Reason.ZONE), int(Reason.OBJECTIVE))

    def verdict(elimination: Tensor | int, score: Tensor, time: Tensor | int, running: int) -> Tensor:
        value = torch.where(time_up, time, torch.full_like(by_score, running))
        value = torch.where(scored, score, value)
        return torch.where(eliminated, elimination, value).to(torch.int8)

    ends_by_clock = time_up if rules.time_up_terminates else torch.zeros_like(time_up)
    return Ending(
        terminated=eliminated | scored | ends_by_clock,
        truncated=time_up & ~ends_by_clock,
        winner=verdict(favour(living), by_score, on_time, int(Winner.RUNNING)),
        reason=verdict(int(Reason.ELIMINATION), why_scored, int(Reason.TIME_UP), int(Reason.RUNNING)),
    )


def note_events(before: State, after: State, game: SimModel) -> State:
    """Remember when a team last did damage or scored, but for what the clock alone gives."""
    damaged = (after.tally.damage != before.tally.damage).any(1)
    by_deed = game.maps.clock_rate[after.map_id] == 0
    scored = ((after.score != before.score) & by_deed).any(1)
    return after.replace(last_event=torch.where(damaged | scored, after.tick, before.last_event))


def idle_s(state: State, game: SimModel) -> Tensor:
    """`[B]` seconds since a team last did damage or scored in the zone; 15 s or more at the end is a standstill."""
    return (state.tick - state.last_event).float() * game.rules.dt_s


def statistics(state: State, game: SimModel) -> Tensor:
    """`[B, 2, K]` `stat_names`: what each team did since its battle began."""
    tally, roster = state.tally, game.roster
    died = (~state.mechs.alive & (game.maps.spawn_hp[state.map_id] > 0)).float()
    by_mech = torch.stack([*(getattr(tally, name) for name in BY_HULL), died], -1)  # [B, N, 6]
    by_hull = by_mech[..., None] * roster.hull_one_hot[:, None]  # [B, N, 6, hulls]
    own = torch.stack([*(getattr(tally, name) for name in OWN), died], -1)
    # Only enemies shake a mech's stability or hit its legs, so what one team suffered the other one did.
    suffered = torch.stack((tally.falls, tally.legs_lost), -1)
    per_mech = (own, tally.shots, tally.hits, by_hull.flatten(2), suffered, tally.taken, tally.killed_by)
    # One sum of all, which a GPU works out in few launches.
    sums = roster.by_team(torch.cat(per_mech, -1)).split([each.shape[-1] for each in per_mech], -1)
    team_sums, shots, hits, of_hulls = sums[:4]
    inflicted, damage, kills = (each.flip(1) for each in sums[4:])
    paints = exact.sum(torch.where(roster.paints, hits, 0.0), -1, keepdim=True)
    return torch.cat((team_sums, inflicted, paints, shots, hits, damage, kills, of_hulls), -1)


def final_statistics(state: State, done: Tensor, game: SimModel) -> Tensor:
    """`[B, 2, K]` `statistics` of the battles that are `done [B]`, zeros of the others."""
    return statistics(state, game) * done[:, None, None]
