"""Electronic warfare: jamming (ECM), counter-measures against jamming (ECCM) and the resulting sensor quality."""

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.actions import Orders
from echelon.runtime import exact
from echelon.runtime.geometry import either
from echelon.sim import formulas
from echelon.sim.heat import is_running, is_shut_down
from echelon.sim.model import SimModel
from echelon.state import State


@dataclass(frozen=True)
class Sensors:
    """Sensor state of every mech."""

    quality: Tensor
    """[B, N] in `blind_quality` .. `best_quality`. Mechs that are shut down or dead have `blind_quality`."""
    jam: Tensor
    """[B, N] in 0..1, strength of the strongest enemy ECM at the position of the mech."""


def heat_per_s(state: State, orders: Orders, sim_model: SimModel) -> Tensor:
    """Return the heat points per second of active emitters, `[B, N]`."""
    emits, catalog = is_running(state.mechs, sim_model), sim_model.catalog
    costs = catalog.ecm_heat_per_s, catalog.eccm_heat_per_s
    return emits * formulas.emission_heat_per_s(orders.ecm.float(), orders.eccm.float(), *costs)


def sense(state: State, orders: Orders, distance: Tensor, sim_model: SimModel) -> Sensors:
    """Compute the sensor quality given the active emitters. The strength of an emitter is 1 - distance /
    `Catalog.ewar_vox`.

    Args:
        state: the current state.
        orders: orders of all mechs.
        distance: distances between hull centres, `[B, N, N]` vox.
        sim_model: constants of the battle.
    """
    mechs, roster, rules = state.mechs, sim_model.roster, sim_model.rules
    blind = ~mechs.alive | is_shut_down(mechs, sim_model)
    if roster.ewar.shape[0] == 0:
        jam = torch.zeros_like(mechs.hp)
        return Sensors(either(blind, rules.blind_quality, 1.0), jam)
    emits = is_running(mechs, sim_model)[:, roster.ewar]
    falloff = (1 - exact.divide(distance[..., roster.ewar], sim_model.catalog.ewar_vox)).clamp_min(0)  # [B, N, E]
    hostile = roster.hostile[:, roster.ewar]
    is_other = torch.arange(roster.num_mechs, device=distance.device)[:, None] != roster.ewar
    jam = (falloff * (emits & orders.ecm[:, roster.ewar])[:, None] * hostile).amax(-1)
    clear = (falloff * (emits & orders.eccm[:, roster.ewar])[:, None] * (~hostile & is_other)).amax(-1)
    quality = formulas.sensor_quality(jam, clear, rules.jam_loss, rules.eccm_gain, 1)
    bounded = quality.clamp(rules.blind_quality, rules.best_quality)
    return Sensors(torch.where(blind, rules.blind_quality, bounded), jam)
