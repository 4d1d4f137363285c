"""One substep: the ordered list of everything that happens in `dt_s` seconds."""

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
    """The random numbers of one substep, uniform in [0, 1)."""

    beam_height: Tensor
    """[B, N]."""
    priority: Tensor
    """[B, N]."""
    ams: Tensor
    """[B, N]."""
    wreck: Tensor
    """[B, N]."""


def draw(state: State, game: SimModel) -> Draws:
    """Each battle's own numbers for its present tick."""
    count = game.roster.num_mechs

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
    """What happened in one substep that the state does not tell."""

    impacts: Impacts
    dealt: Dealt
    beams: Beams


def settled(state: State) -> State:
    """The same state. Compiled, what mechs and shots are by now is worked out once, not by each of its readers."""
    if not torch.compiler.is_compiling():
        return state
    return state.replace(mechs=state.mechs.apply(materialize), shots=state.shots.apply(materialize))


def logged_substep(state: State, orders: Orders, draws: Draws, game: SimModel) -> tuple[State, Log]:
    """Everyone in a phase acts on the same snapshot; its effects are summed and applied at once.

    Returns a new state, but for the terrain, which changes in place.
    """
    before, dealt = state.mechs, damage.nothing_dealt(state)

    state = timers.count_down(state)
    state = hazards.burn(state, orders, game)
    state = footing.stand(state, game)
    vents = heat.is_venting(state, orders, game)
    state = heat.cool(state, vents, game)
    state = settled(state)
    state = ams.intercept(state, draws.ams, game)
    state, impacts = shots.fly(state, game)
    state = settled(state)
    hits = shots.strike(state, impacts, game)
    state = smoke.billow(state, impacts, game)
    state = rubble.chip(state, impacts, game)
    state, dealt = damage.apply(state, hits, dealt, game)
    state = settled(state)
    state, hits, beams = firing.fire(state, orders, vents, draws.beam_height, game)
    state = settled(state)
    state, dealt = damage.apply(state, hits, dealt, game)
    state = settled(state)
    state = rubble.lay_wrecks(state, draws.wreck, draws.priority, game)
    state = settled(state)
    state = movement.move(state, orders, draws.priority, game)
    state = heat.count_shutdowns(before, state, game)
    return state.replace(tick=state.tick + 1), Log(impacts, dealt, beams)


def substep(state: State, orders: Orders, draws: Draws, game: SimModel) -> State:
    """`logged_substep` for those who need no log; compiled, what only the log needs is never worked out."""
    return logged_substep(state, orders, draws, game)[0]


def play(state: State, orders: Orders, game: SimModel) -> State:
    """A substep under its own draws."""
    return substep(state, orders, draw(state, game), game)


Play = Callable[[State, Orders, SimModel], State]


def decide(state: State, orders: Orders, game: SimModel, run: Play = play) -> State:
    """Hold one set of orders for `decision_repeat` substeps; `run` is `play` or a form of it.

    Packmates hear what was said with their next observation, from those alive by then.
    """
    for _ in range(game.rules.decision_repeat):
        state = run(state, orders, game)
    return state.replace(
        messages=orders.message * state.mechs.alive[..., None],
        tally=state.tally.replace(bad_actions=state.tally.bad_actions + orders.bad),
    )
