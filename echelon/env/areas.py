"""Where mechs that begin somewhere in an area stand: drawn by their battle's own seed, clear of all others."""

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
    """Whether mechs have more than one place to begin on some of the maps."""
    return maps.spawn_places.shape[2] > 1


def has_one_place(maps: Maps) -> Tensor:
    """`[M, N]` bool: mechs with one place alone, on maps of which some have more."""
    return maps.spawn_places[:, :, 1, 0].isinf()


def draw_places(state: State, sim_model: SimModel) -> State:
    """Battles at their first moment, with mechs that have several places at one that their seed draws.

    One mech after the other draws among its places that are clear of those before it and of all that are fixed;
    `edited_states.check_room` has seen to it that there is one.
    """
    maps, half_size = sim_model.maps, sim_model.roster.half_size
    if not has_areas(maps):
        return state
    fixed = has_one_place(maps)[state.map_id]
    placed = list(torch.where(fixed[..., None], state.mechs.pos, math.inf).unbind(1))
    index = torch.arange(maps.spawn_places.shape[2], device=fixed.device)
    for mech in range(len(placed)):
        places = maps.spawn_places[state.map_id, mech]  # [B, K, 3]
        overlaps = overlap(places, torch.stack(placed, 1), half_size, half_size[mech, None]).any(-1)
        is_clear = places[..., 0].isfinite() & (~overlaps | fixed[:, mech, None])
        order = noise.bits(state.seed, mech, Stream.PLACE, len(index)) * len(index) + index  # no two are equal
        choice = torch.where(is_clear, order, -1).argmax(1)
        placed[mech] = places.gather(1, choice[:, None, None].expand(-1, 1, 3))[:, 0]
    return state.replace(mechs=state.mechs.replace(pos=torch.stack(placed, 1)))
