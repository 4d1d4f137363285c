"""Triggers: beams strike at once, the other weapons put a shot into the air."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from echelon.actions import NO_MECH, Orders
from echelon.catalog import (
    BEAM_SPREAD,
    BEAMS,
    KINETIC_AIM_FOCUS_RAD,
    KINETIC_AIM_RAD,
    MISSILE_LOFT,
    MISSILE_RACK_VOX,
    PAINT_S,
    SHELLS,
    SIGHT_LOCK_VOX,
    WEAPONS,
    Guidance,
    Weapon,
)
from echelon.geometry import heading, length, unit
from echelon.sim import ewar
from echelon.sim.damage import Hits, Strikes, harm, marked_factor, no_hits, of_target
from echelon.sim.game import Game
from echelon.sim.heat import bounded, is_running
from echelon.sim.shots import Volley, launch, slug_drop
from echelon.sim.sight import enemy_lines
from echelon.sim.targeting import Aim, choose, shown_by_paint, take_aim
from echelon.state import State

Beams = dict[Weapon, Tensor]
"""For each beam weapon `[B, N]` int64: whom each mech's beam struck, `NO_MECH` where it did not fire."""


def fire(state: State, orders: Orders, vents: Tensor, beam_height: Tensor, game: Game) -> tuple[State, Hits, Beams]:
    """Every held trigger of every running mech, all on the same snapshot.

    Args:
        vents: `[B, N]` bool, who vented in this substep and so may not fire.
        beam_height: `[B, N]` uniforms in [0, 1), where each mech's beams strike their targets.

    Returns:
        The state with heat paid, timers set, paint laid and shots launched; the harm the beams do; and the beams.
    """
    able = is_running(state.mechs, game) & ~vents
    ready = is_ready(state, orders, able)  # [B, W, N]
    aim = take_aim(state, game)
    line = enemy_lines(state, game, SIGHT_LOCK_VOX)

    marked = marked_factor(state, game)
    after, hits, fired, beams = state, no_hits(state), torch.zeros_like(ready), {}
    for weapon in carried(BEAMS, game):
        fires, target = fire_at(weapon, line, ready, aim, orders, game)
        hits = hits + beam(weapon, fires, target, beam_height, marked, state, game)
        fired = note(fired, weapon, fires, game)
        beams[weapon] = game.roster.arms[int(weapon)].by_shooter(torch.where(fires, target - NO_MECH, 0)) + NO_MECH
        if weapon == Weapon.PAINTER:
            after = paint(after, fires, target, game)

    volleys = {weapon: volley(weapon, ready, line, aim, state, orders, game) for weapon in carried(SHELLS, game)}
    for weapon, shot in volleys.items():
        fired = note(fired, weapon, shot.fires, game)
    return pay(launch(after, volleys, game), fired, game), hits, beams


def carried(weapons: tuple[Weapon, ...], game: Game) -> list[Weapon]:
    """Those weapons that some mech of the rosters carries."""
    return [weapon for weapon in weapons if game.roster.arms[int(weapon)].count > 0]


def is_ready(state: State, orders: Orders, able: Tensor) -> Tensor:
    """`[B, W, N]` bool: trigger held, mech able, timer at 0."""
    idle = torch.stack([state.mechs.cooldown[..., int(WEAPONS[w].timer)] == 0 for w in Weapon], 1)
    return orders.fire & idle & able[:, None]


def note(fired: Tensor, weapon: Weapon, fires: Tensor, game: Game) -> Tensor:
    """`fired [B, W, N]` with the carriers of one weapon that `fires [B, R]` entered."""
    mine = game.roster.arms[int(weapon)].by_shooter(fires.to(torch.int32)) > 0  # [B, N]
    row = torch.arange(len(Weapon), device=fires.device) == int(weapon)
    return torch.where(row[:, None], mine[:, None], fired)


def fire_at(weapon: Weapon, seen: Tensor, ready: Tensor, aim: Aim, orders: Orders, game: Game) -> tuple[Tensor, Tensor]:
    """Who fires an aimed weapon, and at whom; without a candidate nobody does, and it costs nothing.

    Args:
        seen: `[B, N, N]` bool, targets the weapon may be aimed at: by a clear line, missiles by a lock.

    Returns:
        `[B, R]` bool and `[B, R]` int64 for the R mechs that carry the weapon.
    """
    spec, shooter = WEAPONS[weapon], game.roster.arms[int(weapon)].shooter
    own = aim.of(shooter)
    candidate = own.enemy & (own.distance <= spec.range_vox) & own.within(spec.arc_cos) & seen[:, shooter]
    has_target, target = choose(candidate, own.distance, orders.focus[:, shooter])
    return ready[:, int(weapon), shooter] & has_target, target


def beam(
    weapon: Weapon, fires: Tensor, target: Tensor, beam_height: Tensor, marked: Tensor, state: State, game: Game
) -> Hits:
    """A beam hits at once, somewhere about the middle of its target."""
    mechs, arms = state.mechs, game.roster.arms[int(weapon)]
    swing = (2 * beam_height[:, arms.shooter] - 1) * BEAM_SPREAD
    height = of_target(mechs.pos[..., 2], target) + swing * game.roster.half_size[:, 2][target]
    direction = unit(of_target(mechs.pos, target) - mechs.pos[:, arms.shooter])
    return harm(arms, Strikes(fires, target, direction, height), marked, state, game)


def paint(state: State, fires: Tensor, target: Tensor, game: Game) -> State:
    """Painted targets show to the painter's pack; of several painters of a pack the lowest index is remembered."""
    mechs, roster = state.mechs, game.roster
    shooter, nobody = roster.arms[int(Weapon.PAINTER)].shooter, roster.num_mechs
    everyone, packs = torch.arange(nobody, device=fires.device), torch.arange(roster.num_packs, device=fires.device)
    on = fires[..., None] & (target[..., None] == everyone)  # [B, R, N]
    in_pack = roster.pack[shooter][:, None] == packs  # [R, P]
    by = torch.where(on[..., None] & in_pack[:, None], shooter[:, None, None], nobody).amin(1)  # [B, N, P]
    painted = by < nobody
    return state.replace(
        mechs=mechs.replace(
            paint=torch.where(painted, game.rules.substeps(PAINT_S), mechs.paint).to(torch.int32),
            painter=torch.where(painted, by, mechs.painter),
        )
    )


def volley(weapon: Weapon, ready: Tensor, line: Tensor, aim: Aim, state: State, orders: Orders, game: Game) -> Volley:
    """What the carriers of a weapon launch, by its guidance."""
    if WEAPONS[weapon].guidance == Guidance.HOMING:
        return missiles(ready, line, aim, state, orders, game)
    if weapon == Weapon.SMOKE:
        return smoke(ready, aim, state, orders, game)
    return kinetic(weapon, ready, aim, state, orders, game)


def locks(line: Tensor, aim: Aim, state: State, orders: Orders, game: Game) -> Tensor:
    """`[B, N, N]` bool: a missile of the row can lock on the column, by its pack's paint or on sight close by."""
    quality = ewar.sense(state, orders, aim.distance, game).quality
    on_sight = line & (aim.distance <= SIGHT_LOCK_VOX)
    return shown_by_paint(state, quality, game) | on_sight


def missiles(ready: Tensor, line: Tensor, aim: Aim, state: State, orders: Orders, game: Game) -> Volley:
    """Missiles rise from the hull's top and home on their lock."""
    spec, arms, mechs = WEAPONS[Weapon.MISSILE], game.roster.arms[int(Weapon.MISSILE)], state.mechs
    lock = locks(line, aim, state, orders, game)
    fires, target = fire_at(Weapon.MISSILE, lock, ready, aim, orders, game)
    own = mechs.pos[:, arms.shooter]
    up = torch.arange(3, device=own.device) == 2
    course = unit(unit(of_target(mechs.pos, target) - own) + MISSILE_LOFT * up)
    rack = (game.roster.half_size[arms.shooter, 2] + MISSILE_RACK_VOX)[:, None] * up
    return Volley(
        fires=fires,
        pos=own + rack,
        vel=course * spec.speed_vox_per_s,
        ttl=torch.full_like(target, game.rules.substeps(spec.lifetime_s), dtype=torch.int32),
        target=target,
    )


def kinetic(weapon: Weapon, ready: Tensor, aim: Aim, state: State, orders: Orders, game: Game) -> Volley:
    """Autocannons and gauss rifles always fire: at a target nearly ahead, else straight ahead.

    A gauss rifle aims above its target by the drop of its slug.
    """
    spec, shooter = WEAPONS[weapon], game.roster.arms[int(weapon)].shooter
    mechs, own = state.mechs, aim.of(shooter)
    focus = orders.focus[:, shooter]
    everyone = torch.arange(game.roster.num_mechs, device=mechs.yaw.device)
    is_focus = focus[..., None] == everyone
    aim_cos = torch.where(is_focus, math.cos(KINETIC_AIM_FOCUS_RAD), math.cos(KINETIC_AIM_RAD))
    candidate = own.enemy & (own.distance <= spec.range_vox) & own.within(aim_cos)
    has_target, target = choose(candidate, own.distance, focus)

    muzzle = mechs.pos[:, shooter] + game.roster.muzzle[shooter]
    to_target = of_target(mechs.pos, target) - muzzle
    if spec.guidance == Guidance.BALLISTIC:
        drop = slug_drop(length(to_target), game)
        to_target = torch.cat((to_target[..., :2], (to_target[..., 2] + drop)[..., None]), -1)
    course = torch.where(has_target[..., None], unit(to_target), level(heading(mechs.yaw[:, shooter])))
    return Volley(
        fires=ready[:, int(weapon), shooter],
        pos=muzzle,
        vel=course * spec.speed_vox_per_s,
        ttl=torch.full_like(target, game.rules.substeps(spec.lifetime_s), dtype=torch.int32),
        target=torch.full_like(target, NO_MECH),
    )


def smoke(ready: Tensor, aim: Aim, state: State, orders: Orders, game: Game) -> Volley:
    """Smoke flies level: to above or below the focus target where it is in range and arc, else straight ahead."""
    spec, arms, mechs = WEAPONS[Weapon.SMOKE], game.roster.arms[int(Weapon.SMOKE)], state.mechs
    own = aim.of(arms.shooter)
    focus = orders.focus[:, arms.shooter]
    wanted = focus.clamp_min(0)
    in_reach = own.enemy & (own.distance <= spec.range_vox) & own.within(spec.arc_cos)
    at_focus = (focus != NO_MECH) & in_reach.gather(-1, wanted[..., None]).squeeze(-1)

    pos = mechs.pos[:, arms.shooter]
    up = torch.arange(3, device=pos.device) == 2
    to_focus = (of_target(mechs.pos, wanted) - pos)[..., :2]
    course = torch.where(at_focus[..., None], unit(to_focus), heading(mechs.yaw[:, arms.shooter]))
    flight_s = torch.where(at_focus, length(to_focus) / spec.speed_vox_per_s, spec.lifetime_s)
    return Volley(
        fires=ready[:, int(Weapon.SMOKE), arms.shooter],
        pos=pos + game.roster.half_size[arms.shooter] * up,
        vel=level(course) * spec.speed_vox_per_s,
        ttl=(flight_s / game.rules.dt_s).round().clamp_min(1).to(torch.int32),
        target=torch.full_like(focus, NO_MECH),
    )


def level(course: Tensor) -> Tensor:
    """`[..., 3]` along the ground, from `[..., 2]`."""
    return torch.nn.functional.pad(course, (0, 1))


def pay(state: State, fired: Tensor, game: Game) -> State:
    """Heat, cooldown and the count of shots for the weapons `fired [B, W, N]`."""
    mechs, rules = state.mechs, game.rules
    spent, cooldown = torch.zeros_like(mechs.heat), list(mechs.cooldown.unbind(-1))
    for weapon in Weapon:
        spec, shot = WEAPONS[weapon], fired[:, int(weapon)]
        spent = spent + shot * spec.self_heat
        wait = torch.where(shot, rules.substeps(spec.cooldown_s), 0)
        # Weapons that share a timer and fire together leave it at the longer wait.
        cooldown[int(spec.timer)] = cooldown[int(spec.timer)].maximum(wait.to(torch.int32))
    return state.replace(
        mechs=mechs.replace(heat=bounded(mechs.heat + spent, game), cooldown=torch.stack(cooldown, -1)),
        tally=state.tally.replace(shots=state.tally.shots + fired.transpose(1, 2)),
    )
