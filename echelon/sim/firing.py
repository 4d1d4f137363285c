"""Triggers: beams strike at once, autocannons put a shot into the air."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from echelon.actions import Orders
from echelon.catalog import (
    BEAM_SPREAD,
    KINETIC_AIM_FOCUS_RAD,
    KINETIC_AIM_RAD,
    WEAPONS,
    Weapon,
)
from echelon.geometry import heading, unit
from echelon.sim.damage import Hits, Strikes, harm, of_target
from echelon.sim.game import Game
from echelon.sim.heat import bounded, is_running
from echelon.sim.shots import launch
from echelon.sim.sight import enemy_lines
from echelon.sim.targeting import Aim, choose, take_aim
from echelon.state import State


def fire(state: State, orders: Orders, vents: Tensor, beam_height: Tensor, game: Game) -> tuple[State, Hits]:
    """Every held trigger of every running mech, all on the same snapshot.

    Args:
        vents: `[B, N]` bool, who vented in this substep and so may not fire.
        beam_height: `[B, N]` uniforms in [0, 1), where each mech's beam strikes its target.

    Returns:
        The state with heat paid, timers set and shots launched, and the harm the beams do.
    """
    able = is_running(state.mechs, game) & ~vents
    aim = take_aim(state, game)
    lasers, hits = fire_laser(state, orders, able, aim, beam_height, game)
    cannons, direction = fire_autocannon(state, orders, able, aim, game)

    state = launch(state, Weapon.AUTOCANNON, cannons, direction, game)
    state = pay(state, Weapon.LASER, lasers, game)
    state = pay(state, Weapon.AUTOCANNON, cannons, game)
    return state, hits


def is_ready(weapon: Weapon, state: State, orders: Orders, able: Tensor) -> Tensor:
    """`[B, N]` bool: trigger held, mech able, timer at 0."""
    timer = state.mechs.cooldown[..., WEAPONS[weapon].timer]
    return able & orders.fire[:, weapon] & (timer == 0)


def fire_laser(
    state: State, orders: Orders, able: Tensor, aim: Aim, beam_height: Tensor, game: Game
) -> tuple[Tensor, Hits]:
    """Lasers need a target with a clear line. Returns `[B, N]` bool who fired, and the harm."""
    spec = WEAPONS[Weapon.LASER]
    line = enemy_lines(state, game, spec.range_vox)
    candidate = aim.enemy & (aim.distance <= spec.range_vox) & aim.within(spec.arc_cos) & line
    has_target, target = choose(candidate, aim.distance, orders.focus)
    fires = is_ready(Weapon.LASER, state, orders, able) & has_target

    mechs = state.mechs
    swing = (2 * beam_height - 1) * BEAM_SPREAD
    height = of_target(mechs.pos[..., 2], target) + swing * game.roster.half_size[:, 2][target]
    direction = unit(of_target(mechs.pos, target) - mechs.pos)
    return fires, harm(spec, Strikes(fires, target, direction, height), state, game)


def fire_autocannon(state: State, orders: Orders, able: Tensor, aim: Aim, game: Game) -> tuple[Tensor, Tensor]:
    """Autocannons always fire: at a target nearly ahead, else straight ahead.

    Returns:
        `[B, N]` bool who fired, and `[B, N, 3]` the unit vector of each shot.
    """
    spec = WEAPONS[Weapon.AUTOCANNON]
    mechs = state.mechs
    everyone = torch.arange(game.roster.num_mechs, device=mechs.yaw.device)
    is_focus = orders.focus[..., None] == everyone
    aim_cos = torch.where(is_focus, math.cos(KINETIC_AIM_FOCUS_RAD), math.cos(KINETIC_AIM_RAD))
    candidate = aim.enemy & (aim.distance <= spec.range_vox) & aim.within(aim_cos)
    has_target, target = choose(candidate, aim.distance, orders.focus)

    at_target = unit(of_target(mechs.pos, target) - mechs.pos - game.roster.muzzle)
    facing = heading(mechs.yaw)
    ahead = torch.cat((facing, torch.zeros_like(facing[..., :1])), -1)
    return is_ready(Weapon.AUTOCANNON, state, orders, able), torch.where(has_target[..., None], at_target, ahead)


def pay(state: State, weapon: Weapon, fired: Tensor, game: Game) -> State:
    """Heat, cooldown and the count of shots for the mechs that `fired [B, N]`."""
    spec, mechs = WEAPONS[weapon], state.mechs
    ready_in = game.rules.substeps(spec.cooldown_s)
    is_timer = torch.arange(mechs.cooldown.shape[-1], device=fired.device) == int(spec.timer)
    return state.replace(
        mechs=mechs.replace(
            heat=bounded(mechs.heat + fired * spec.self_heat, game),
            cooldown=torch.where(fired[..., None] & is_timer, ready_in, mechs.cooldown).to(torch.int32),
        ),
        tally=state.tally.replace(shots=state.tally.shots + fired),
    )
