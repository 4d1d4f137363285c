"""Heat: shutdown, venting and dissipation."""

from torch import Tensor

from echelon.rules.actions import Orders
from echelon.sim import formulas
from echelon.sim.model import SimModel
from echelon.state import Mechs, State


def is_shut_down(mechs: Mechs, sim_model: SimModel) -> Tensor:
    """`[B, N]` bool: the heat is above the hull's capacity."""
    return mechs.heat > sim_model.roster.heat_cap


def is_running(mechs: Mechs, sim_model: SimModel) -> Tensor:
    """`[B, N]` bool: the mech is alive, not shut down and not fallen. Mechs that are not running ignore their
    orders."""
    return mechs.alive & ~is_shut_down(mechs, sim_model) & (mechs.fallen == 0)


def is_venting(state: State, orders: Orders, sim_model: SimModel) -> Tensor:
    """`[B, N]` bool: the mech vents heat in this substep and cannot fire."""
    return orders.vent & is_running(state.mechs, sim_model)


def bounded(heat: Tensor, sim_model: SimModel) -> Tensor:
    """Clamp heat to the range from 0 to `heat_ceiling` times the capacity of the hull."""
    ceiling = sim_model.roster.heat_cap * sim_model.rules.heat_ceiling
    return heat.clamp_min(0.0).minimum(ceiling)


def dissipate_heat(state: State, vents: Tensor, sim_model: SimModel) -> State:
    """Dissipate heat and count venting time.

    Mechs that vent (`vents [B, N]` bool) dissipate at 1 + `vent_factor` times the normal rate.
    """
    rules = sim_model.rules
    sink_per_s = formulas.sink_per_s(sim_model.roster.heat_sink_per_s, vents.float(), rules.vent_factor, 1)  # [B, N]
    heat = bounded(state.mechs.heat - sink_per_s * rules.dt_s, sim_model)
    tally = state.tally.replace(vent_s=state.tally.vent_s + vents.float() * rules.dt_s)
    return state.replace(mechs=state.mechs.replace(heat=heat), tally=tally)


def count_shutdowns(before: Mechs, state: State, sim_model: SimModel) -> State:
    """Count the mechs that were not shut down in `before` and are now."""
    overheated = ~is_shut_down(before, sim_model) & is_shut_down(state.mechs, sim_model) & state.mechs.alive
    return state.replace(tally=state.tally.replace(shutdowns=state.tally.shutdowns + overheated))
