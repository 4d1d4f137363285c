"""A commander's observation of the battle."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.observation.features import MAP_SIDE, Feature, flag, pack
from echelon.env.observation.stream import Stream
from echelon.runtime import exact
from echelon.sim.model import SimModel
from echelon.state import State

SITUATION = (
    Feature("zone", 2, 0.0, 1.0, "size of the map", "centre of the zone, along each axis of the map", ("x", "y")),
    Feature("zone_radius", 1, 0.0, 1.0, MAP_SIDE),
    Feature("own_score", 1, 0.0, 1.0, "score that wins"),
    Feature("enemy_score", 1, 0.0, 1.0, "score that wins"),
    Feature("control", 1, -1.0, 1.0, "", "zone tick of its team minus the other's"),
    Feature("time", 1, 0.0, 1.0, "longest battle", "since the battle began"),
    flag("is_heard", "an order given in this decision is sent"),
)


def situation(state: State, team: int, sim_model: SimModel) -> Tensor:
    """Return the stream `[B, F]`, a row of `SITUATION` columns per battle, for the commanders of `team` (0 for blue,
    1 for red)."""
    rules, maps = sim_model.rules, sim_model.maps
    score = exact.divide(state.score, rules.zone_score_to_win_s).clamp_max(1.0)
    mask = torch.ones_like(state.seed, dtype=torch.bool)
    values = {
        "zone": maps.zone_center[state.map_id] / sim_model.size[:2],
        "zone_radius": exact.divide(maps.zone_radius[state.map_id], sim_model.config.world.longest_side),
        "own_score": score[:, team],
        "enemy_score": score[:, 1 - team],
        "control": state.control[:, team] - state.control[:, 1 - team],
        "time": exact.divide(state.tick.float(), maps.last_tick[state.map_id]),
        "is_heard": state.tick % (sim_model.config.command.period * rules.decision_repeat) == 0,
    }
    return pack(SITUATION, values, mask)


STREAM = Stream(name="situation", features=SITUATION)
