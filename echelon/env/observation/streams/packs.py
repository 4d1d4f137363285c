"""A commander's observation of a pack (a squad of mechs) of its team."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.env.objectives.zone import is_inside
from echelon.env.observation.features import MAP_SIDE, Feature, pack
from echelon.env.observation.stream import Axis, Stream
from echelon.env.observation.streams.order import LONGEST_AGE_S
from echelon.env.orders.issue import members
from echelon.rules.orders import PLACE, OrderField, OrderKind
from echelon.runtime import exact
from echelon.runtime.geometry import length
from echelon.sim.model import SimModel
from echelon.state import State

PLACE_ON_MAP = Feature("position", 2, 0.0, 1.0, "size of the map", "along each axis of the map", ("x", "y"))
PACK_REPORT = (
    PLACE_ON_MAP._replace(meaning="mean position of its living mechs, along each axis of the map"),
    Feature("alive", 1, 0.0, 1.0, "share of its mechs"),
    Feature("hp", 1, 0.0, 1.0, "share of its full hit points"),
    Feature("heat", 1, 0.0, 2.0, "heat capacity", "mean of the living"),
    Feature("spread", 1, 0.0, 1.5, MAP_SIDE, "mean distance of the living from their mean position"),
    Feature("in_zone", 1, 0.0, 1.0, "share of its living mechs"),
    Feature("under_fire", 1, 0.0, 1.0, "share of its living mechs"),
    Feature("kind", len(OrderKind) - 1, 0.0, 1.0, "one-hot", "its current order; 0 for free",
            tuple(kind.name.lower() for kind in OrderKind if kind)),
    Feature("place", 2, 0.0, 1.0, "size of the map", "of that order", ("x", "y")),
    Feature("age", 1, 0.0, 1.0, "60 s", "since that order was given, clipped"),
    Feature("heard", 1, 0.0, 1.0, "share of its living mechs", "that have received it"),
)  # fmt: skip


def pack_reports(state: State, at_pack: Tensor, sim_model: SimModel) -> tuple[Tensor, Tensor]:
    """Return the stream `[B, P, F]`, with a row of `PACK_REPORT` columns per pack, zero for packs without living mechs;
    and which packs have living mechs, `[B, P]` bool.

    `at_pack [B, P, 2]` is the mean position of each pack's living mechs.
    """
    mechs, roster = state.mechs, sim_model.roster
    belongs = members(sim_model)
    weights = (belongs & mechs.alive[:, None]).to(torch.float32)  # [B, P, N]
    count = exact.sum(weights, 2)

    def mean(per_mech: Tensor) -> Tensor:
        return exact.sum(weights * per_mech[:, None], 2) / count.clamp_min(1.0)

    distance = length(mechs.pos[:, None, :, :2] - at_pack[:, :, None])  # [B, P, N]
    standing = state.orders_sent[:, 0]
    issued = standing[..., OrderField.ISSUED]
    kinds = torch.arange(1, len(OrderKind), device=weights.device)
    age_s = (state.tick[:, None] - issued) * sim_model.rules.dt_s
    has_received = state.orders_heard[..., OrderField.ISSUED] == issued[:, roster.pack]
    has_order = issued >= 0
    hp = exact.sum(belongs * mechs.hp[:, None], 2) / exact.sum(belongs * roster.hp, 1)
    size = sim_model.size[:2]
    values = {
        "position": at_pack / size,
        "alive": count / exact.sum(belongs.to(torch.float32), 1),
        "hp": hp,
        "heat": mean(mechs.heat / roster.heat_cap),
        "spread": exact.divide(
            exact.sum(weights * distance, 2) / count.clamp_min(1.0), sim_model.config.world.longest_side
        ),
        "in_zone": mean(is_inside(state, sim_model).to(torch.float32)),
        "under_fire": mean((mechs.under_fire > 0).to(torch.float32)),
        "kind": standing[..., OrderField.KIND, None] == kinds,
        "place": standing[..., PLACE] / size * has_order[..., None],
        "age": exact.divide(age_s, LONGEST_AGE_S).clamp_max(1.0) * has_order,
        "heard": mean(has_received.to(torch.float32)) * has_order,
    }
    lives = count > 0
    return pack(PACK_REPORT, values, lives), lives


STREAM = Stream(name="packs", features=PACK_REPORT, axes=(Axis("pack", lambda packs, enemies: packs),))
