"""A commander's observation of an enemy that its team currently observes."""

from __future__ import annotations

from torch import Tensor

from echelon.env.observation.features import HULLS, MAP_SIDE, SPEED_SCALE, TEN_VOX_PER_S, Feature, pack
from echelon.env.observation.stream import Axis, Stream
from echelon.env.observation.streams.packs import PLACE_ON_MAP
from echelon.rules.catalog import Hull
from echelon.runtime import exact
from echelon.sim.model import SimModel
from echelon.state import State

TRACK = (
    PLACE_ON_MAP,
    Feature("velocity", 2, -6.0, 6.0, TEN_VOX_PER_S, "along each axis of the map", ("x", "y")),
    Feature("hull", len(Hull), 0.0, 1.0, "one-hot", "its class", HULLS),
    Feature("from_pack", 2, -1.5, 1.5, MAP_SIDE, "from the mean position of the commander's pack, by axis", ("x", "y")),
)


def tracks(state: State, enemy: slice, at_pack: Tensor, mask: Tensor, sim_model: SimModel) -> Tensor:
    """Return the stream `[B, P, E, F]`, with a row of `TRACK` columns per enemy, zero where `mask [B, P, E]` bool is
    False.

    `at_pack [B, P, 2]` is the mean position of each pack's living mechs.
    """
    mechs = state.mechs
    pos = mechs.pos[:, None, enemy, :2].expand(-1, at_pack.shape[1], -1, -1)
    values = {
        "position": pos / sim_model.size[:2],
        "velocity": exact.divide(mechs.vel[:, None, enemy, :2], SPEED_SCALE).expand_as(pos),
        "hull": sim_model.roster.hull_one_hot[enemy].expand(*mask.shape, -1),
        "from_pack": exact.divide(pos - at_pack[:, :, None], sim_model.config.world.longest_side),
    }
    return pack(TRACK, values, mask)


STREAM = Stream(
    name="tracks",
    features=TRACK,
    axes=(Axis("enemy", lambda packs, enemies: enemies),),
    mask=Feature("known", 1, 0, 1, "flag", "a mech of its team observes this enemy"),
)
