"""Draw a spawn place from the battle's seed for each mech that spawns in an area, so that no two mechs overlap."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from echelon.runtime import noise
from echelon.runtime.noise import Stream
from echelon.sim.model import SimModel
from echelon.sim.movement import overlap
from echelon.state import Maps, State


def has_areas(maps: Maps) -> bool:
    """Return whether any mech has more than one spawn place on any of the maps."""
    return maps.spawn_places.shape[2] > 1


def has_fixed_place(maps: Maps) -> Tensor:
    """Return which mechs have exactly one spawn place on each map, `[M, N]` bool. Valid only if `has_areas(maps)`."""
    return maps.spawn_places[:, :, 1, 0].isinf()


def draw_places(state: State, sim_model: SimModel) -> State:
    """At the start of a battle, move each mech with several spawn places to one of these places, drawn from the seed.

    Mechs draw in order of their index, among the places that overlap neither an earlier mech nor a mech with a single
    spawn place. `edited_states.check_room` ensures that every mech finds a free place.
    """
    maps, half_size = sim_model.maps, sim_model.roster.half_size
    if not has_areas(maps):
        return state
    fixed = has_fixed_place(maps)[state.map_id]
    placed = list(torch.where(fixed[..., None], state.mechs.pos, math.inf).unbind(1))
    index = torch.arange(maps.spawn_places.shape[2], device=fixed.device)
    for mech in range(len(placed)):
        places = maps.spawn_places[state.map_id, mech]  # [B, K, 3]
        overlaps = overlap(places, torch.stack(placed, 1), half_size, half_size[mech, None]).any(-1)
        is_clear = places[..., 0].isfinite() & (~overlaps | fixed[:, mech, None])
        order = noise.bits(state.seed, mech, Stream.PLACE, len(index)) * len(index) + index  # unique
        choice = torch.where(is_clear, order, -1).argmax(1)
        placed[mech] = places.gather(1, choice[:, None, None].expand(-1, 1, 3))[:, 0]
    return state.replace(mechs=state.mechs.replace(pos=torch.stack(placed, 1)))
