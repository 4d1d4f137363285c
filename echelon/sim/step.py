"""One substep of the simulation, which runs all its parts in a fixed order. A substep lasts `dt_s` seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.actions import Orders
from echelon.runtime import noise
from echelon.runtime.compile import materialize
from echelon.runtime.noise import Stream
from echelon.sim import ams, damage, firing, footing, hazards, heat, movement, rubble, shots, smoke, timers
from echelon.sim.damage import Dealt
from echelon.sim.firing import Beams
from echelon.sim.model import SimModel
from echelon.sim.shots import Impacts
from echelon.state import State


@dataclass(frozen=True)
class Draws:
    """Random samples of one substep, uniform in [0, 1), `[B, N]` float32 each."""

    beam_height: Tensor
    """Height at which the beam of each mech hits."""
    priority: Tensor
    """Priority of each mech in movement and wrecks."""
    ams: Tensor
    """Success of the AMS of each mech."""
    wreck: Tensor
    """Whether the wreck of each mech is solid."""


def draw(state: State, sim_model: SimModel) -> Draws:
    """Draw the samples for the current tick of each battle, from the seed of that battle."""
    count = sim_model.roster.num_mechs

    def uniform(stream: Stream) -> Tensor:
        return noise.uniform(state.seed, state.tick, stream, count)

    return Draws(
        beam_height=uniform(Stream.BEAM_HEIGHT),
        priority=uniform(Stream.PRIORITY),
        ams=uniform(Stream.AMS),
        wreck=uniform(Stream.WRECK),
    )


@dataclass(frozen=True)
class Log:
    """Events of one substep that are not part of the state."""

    impacts: Impacts
    dealt: Dealt
    beams: Beams


def materialized(state: State) -> State:
    """Return the state unchanged. In compiled code, mechs and shots become buffers in memory, so that they are computed
    only once."""
    if not torch.compiler.is_compiling():
        return state
    return state.replace(mechs=state.mechs.apply(materialize), shots=state.shots.apply(materialize))


def logged_substep(state: State, orders: Orders, draws: Draws, sim_model: SimModel) -> tuple[State, Log]:
    """Run one substep. In each phase all mechs act on the same state; their effects are summed and applied together.

    Args:
        state: the current state; its terrain is changed in place.
        orders: orders of all mechs.
        draws: random samples of this substep.
        sim_model: constants of the battle.

    Returns:
        The next state, and the events of the substep.
    """
    before, dealt = state.mechs, damage.nothing_dealt(state)

    state = timers.count_down(state)
    state = hazards.apply_hazards(state, orders, sim_model)
    state = footing.update_footing(state, sim_model)
    vents = heat.is_venting(state, orders, sim_model)
    state = heat.dissipate_heat(state, vents, sim_model)
    state = materialized(state)
    state = ams.intercept(state, draws.ams, sim_model)
    state, impacts = shots.fly(state, sim_model)
    state = materialized(state)
    painter, paint_factors = state.mechs.painter, damage.paint_factor(state, sim_model)
    hits = shots.strike(state, impacts, paint_factors, sim_model)
    state = smoke.spawn_clouds(state, impacts, sim_model)
    state = rubble.damage_voxels(state, impacts, sim_model)
    state, dealt = damage.apply(state, hits, dealt, sim_model)
    state = materialized(state)
    state, hits, beams = firing.fire(state, orders, vents, draws.beam_height, paint_factors, sim_model)
    state = materialized(state)
    state, dealt = damage.apply(state, hits, dealt, sim_model)
    state = damage.credit_paint(state, painter, paint_factors, dealt, sim_model)
    state = materialized(state)
    state = rubble.lay_wrecks(state, draws.wreck, draws.priority, sim_model)
    state = materialized(state)
    state = movement.move(state, orders, draws.priority, sim_model)
    state = heat.count_shutdowns(before, state, sim_model)
    return state.replace(tick=state.tick + 1), Log(impacts, dealt, beams)


def substep(state: State, orders: Orders, draws: Draws, sim_model: SimModel) -> State:
    """Run `logged_substep` without the log. Compiled code omits values that only the log needs."""
    return logged_substep(state, orders, draws, sim_model)[0]


def play(state: State, orders: Orders, sim_model: SimModel) -> State:
    """Sample the random numbers of a substep and run it."""
    return substep(state, orders, draw(state, sim_model), sim_model)


Play = Callable[[State, Orders, SimModel], State]


def decide(state: State, orders: Orders, sim_model: SimModel, run: Play = play) -> State:
    """Run `decision_repeat` substeps with the same orders; `run` is `play` or a compiled form of `play`.

    The messages of mechs that are alive afterwards are stored for the next observation of their packmates.
    """
    for _ in range(sim_model.rules.decision_repeat):
        state = run(state, orders, sim_model)
    return state.replace(
        messages=orders.message * state.mechs.alive[..., None],
        tally=state.tally.replace(bad_actions=state.tally.bad_actions + orders.bad),
    )
