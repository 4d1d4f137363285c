"""Objectives other than zone control: teams score by elapsed time, by arrivals of mechs, and by losses of the other
team."""

from __future__ import annotations

import torch

from echelon.sim.model import SimModel
from echelon.state import State


def score_goals(state: State, sim_model: SimModel) -> State:
    """Raise each team's score to the largest of its points from elapsed time, arrivals and losses, after zone control
    was scored.

    A runner (a mech that has to reach the zone) has arrived if it was in the zone at any decision; a runner that died
    before that is a loss.
    """
    maps, map_id, roster = sim_model.maps, state.map_id, sim_model.roster
    runner = maps.runner[map_id]
    arrived = runner & (state.tally.zone_s > 0)
    is_dead = runner & ~arrived & ~state.mechs.alive
    by_clock = maps.clock_rate[map_id] * state.tick.float()[:, None]
    by_arrival = maps.arrival_score[map_id] * roster.by_team(arrived.float())
    by_loss = maps.loss_score[map_id] * roster.by_team(is_dead.float()).flip(1)
    reached = torch.maximum(torch.maximum(by_clock, by_arrival), by_loss)
    return state.replace(score=torch.maximum(state.score, reached))
