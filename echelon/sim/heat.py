"""Heat: what it forbids, and how it leaves."""

from __future__ import annotations

from torch import Tensor

from echelon.rules.actions import Orders
from echelon.sim.model import SimModel
from echelon.state import Mechs, State


def is_shut_down(mechs: Mechs, game: SimModel) -> Tensor:
    """`[B, N]` bool: heat above the hull's capacity."""
    return mechs.heat > game.roster.heat_cap


def is_running(mechs: Mechs, game: SimModel) -> Tensor:
    """`[B, N]` bool: alive, not shut down, not fallen. Only such a mech obeys orders."""
    return mechs.alive & ~is_shut_down(mechs, game) & (mechs.fallen == 0)


def is_venting(state: State, orders: Orders, game: SimModel) -> Tensor:
    """`[B, N]` bool: spends this substep shedding heat instead of firing."""
    return orders.vent & is_running(state.mechs, game)


def bounded(heat: Tensor, game: SimModel) -> Tensor:
    """Heat within 0 and `heat_ceiling` capacities."""
    ceiling = game.roster.heat_cap * game.rules.heat_ceiling
    return heat.clamp_min(0.0).minimum(ceiling)


def cool(state: State, vents: Tensor, game: SimModel) -> State:
    """Dissipate heat; the mechs that vent, `[B, N]` bool, shed `vent_factor` times as much on top."""
    rules = game.rules
    sink_per_s = game.roster.heat_sink_per_s * (1 + rules.vent_factor * vents)  # [B, N]
    heat = bounded(state.mechs.heat - sink_per_s * rules.dt_s, game)
    return state.replace(mechs=state.mechs.replace(heat=heat))


def count_shutdowns(before: Mechs, state: State, game: SimModel) -> State:
    """Note who overheated since `before`."""
    overheated = ~is_shut_down(before, game) & is_shut_down(state.mechs, game) & state.mechs.alive
    return state.replace(tally=state.tally.replace(shutdowns=state.tally.shutdowns + overheated))
