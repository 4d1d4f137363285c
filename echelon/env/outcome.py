"""Judge at each decision whether and how a battle ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from echelon.rules.catalog import Catalog, Hull
from echelon.sim.model import SimModel
from echelon.state import State, Tally

SCORE_TIE_S = 1e-3
"""When time is up, scores closer than this count as equal."""


class Winner(IntEnum):
    """The winner of a battle."""

    RUNNING = -1
    DRAW = 0
    BLUE = 1
    RED = 2


class Reason(IntEnum):
    """The reason why a battle ended."""

    RUNNING = 0
    ELIMINATION = 1
    ZONE = 2
    TIME_UP = 3
    OBJECTIVE = 4


FOUGHT = ("damage", "kills", "team_kills", "assists", "intercepts")
FARED = ("shutdowns", "vent_s", "zone_s", "bad_actions")
OWN = (*FOUGHT, *FARED)
"""Fields of `Tally` that are summed over a team: effects of its mechs on others (FOUGHT), then other events (FARED)."""
OF_THE_TEAM = ("deaths", "knockdowns", "leggings", "paints")
"""Further statistics of a team, in their order."""
BY_WEAPON = ("shots", "hits", "damage", "kills")
"""Statistics that are also counted per weapon."""
BY_HULL = ("damage", "kills", "assist_hp", "paint_damage", "intercepted_damage")
"""Fields of `Tally` that are also counted per hull class of the acting mech."""


def stat_names(catalog: Catalog) -> tuple[str, ...]:
    """Return the column names of a finished battle's statistics, which are sums over each team.

    Knockdowns, leggings, and damage and kills by weapon count effects on the other team; paints count those that the
    team's painters placed. Statistics by class count the class of the acting mech, but deaths the class of the dead
    mech. A kill by weapon counts for the weapon with the most damage in the substep of the death. `assist_hp`,
    `paint_damage` and `intercepted_damage` are those of `Tally`.
    """
    by_weapon = (f"{statistic}_{weapon}" for statistic in BY_WEAPON for weapon in catalog.weapons)
    by_hull = (f"{statistic}_{hull.name.lower()}" for statistic in (*BY_HULL, "deaths") for hull in Hull)
    return (*OWN, *OF_THE_TEAM, *by_weapon, *by_hull)


STATS = stat_names(Catalog())
"""`stat_names` of the default catalog."""


@dataclass(frozen=True)
class Ending:
    """Which battles ended with a decision, and how."""

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
    """Judge by elimination first, then by score, then by the clock."""
    rules = sim_model.rules
    living = sim_model.roster.by_team(state.mechs.alive)
    eliminated = (living == 0).any(1)
    scored = (state.score >= rules.zone_score_to_win_s).any(1) & ~eliminated
    terminated = eliminated | scored
    time_up = (state.tick >= sim_model.maps.last_tick[state.map_id]) & ~terminated

    # Blue minus red, for each criterion.
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


def update_last_event(before: State, after: State, sim_model: SimModel) -> State:
    """Set `last_event` where a team did damage or scored by an action; score from the clock alone does not count."""
    damaged = (sim_model.roster.by_team(after.tally.damage != before.tally.damage) > 0).any(1)
    by_deed = sim_model.maps.clock_rate[after.map_id] == 0
    scored = ((after.score != before.score) & by_deed).any(1)
    return after.replace(last_event=torch.where(damaged | scored, after.tick, before.last_event))


def idle_s(state: State, sim_model: SimModel) -> Tensor:
    """Return `[B]` seconds since a team last did damage or scored; 15 s or more at the end is a standstill."""
    return (state.tick - state.last_event).float() * sim_model.rules.dt_s


def statistics(state: State, sim_model: SimModel, rows: slice | Tensor = slice(None)) -> Tensor:
    """Return `[B, 2, K]` statistics (`stat_names`) of each team since the start of the battles in `rows`."""
    roster, spawn_hp = sim_model.roster, sim_model.maps.spawn_hp[state.map_id[rows]]
    tally = {name: getattr(state.tally, name)[rows] for name in Tally.__dataclass_fields__}
    tally["deaths"] = ((state.mechs.hp[rows] <= 0) & (spawn_hp > 0)).float()

    def columns(*names: str) -> Tensor:
        return torch.stack([tally[name] for name in names], -1)

    by_hull = columns(*BY_HULL, "deaths")[..., None] * roster.hull_one_hot[:, None]  # [B, N, 6, hulls]
    by_mech = columns(*FOUGHT), columns(*FARED, "deaths"), columns("falls", "legs_lost"), by_hull.flatten(2)
    # One sum of all columns, for few kernel launches on a GPU.
    sums = roster.by_team(torch.cat((*by_mech, *(tally[name] for name in ("taken", "killed_by", "shots", "hits"))), -1))
    weapons = len(roster.weapons)
    sizes = [len(OWN) + 1, 2, by_mech[-1].shape[-1], 2 * weapons, 2 * weapons]
    own, suffered, of_hulls, by_enemies, by_weapon = sums.split(sizes, -1)
    paints = sum((sums[..., painter - weapons] for painter in roster.painters), torch.zeros_like(sums[..., 0]))
    # Only enemies affect a mech's stability or hit its legs, so these losses of one team are credited to the other.
    return torch.cat((own, suffered.flip(1), paints[..., None], by_weapon, by_enemies.flip(1), of_hulls), -1)


def final_statistics(state: State, done: Tensor, sim_model: SimModel) -> Tensor:
    """Return `[B, 2, K]` statistics of the battles that are `done [B]`, and zeros for the others."""
    return statistics(state, sim_model) * done[:, None, None]
