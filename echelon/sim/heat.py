"""Heat: shutdown, venting and dissipation."""

from torch import Tensor

from echelon.rules.actions import Orders
from echelon.sim import formulas
from echelon.sim.model import SimModel
from echelon.state import Mechs, State


def is_shut_down(mechs: Mechs, game: SimModel) -> Tensor:
    """`[B, N]` bool: heat above the hull's capacity."""
    return mechs.heat > game.roster.heat_cap


def is_running(mechs: Mechs, game: SimModel) -> Tensor:
    """`[B, N]` bool: alive, not shut down, not fallen. Other mechs ignore their orders."""
    return mechs.alive & ~is_shut_down(mechs, game) & (mechs.fallen == 0)


def is_venting(state: State, orders: Orders, game: SimModel) -> Tensor:
    """`[B, N]` bool: vents heat in this substep and cannot fire."""
    return orders.vent & is_running(state.mechs, game)


def bounded(heat: Tensor, game: SimModel) -> Tensor:
    """Clamp heat to 0 .. `heat_ceiling` times the capacity of the hull."""
    ceiling = game.roster.heat_cap * game.rules.heat_ceiling
    return heat.clamp_min(0.0).minimum(ceiling)


def dissipate_heat(state: State, vents: Tensor, game: SimModel) -> State:
    """Dissipate heat, at 1 + `vent_factor` times the normal rate for mechs that vent, `vents [B, N]` bool.

    The time that they vent is counted.
    """
    rules = game.rules
    sink_per_s = formulas.sink_per_s(game.roster.heat_sink_per_s, vents.float(), rules.vent_factor, 1)  # [B, N]
    heat = bounded(state.mechs.heat - sink_per_s * rules.dt_s, game)
    tally = state.tally.replace(vent_s=state.tally.vent_s + vents.float() * rules.dt_s)
    return state.replace(mechs=state.mechs.replace(heat=heat), tally=tally)


def count_shutdowns(before: Mechs, state: State, game: SimModel) -> State:
    """Count the mechs that were not shut down in `before` and are now."""
    overheated = ~is_shut_down(before, game) & is_shut_down(state.mechs, game) & state.mechs.alive
    return state.replace(tally=state.tally.replace(shutdowns=state.tally.shutdowns + overheated))
