"""Firing of weapons. Beams hit immediately; the other weapons launch shots."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.actions import NO_MECH, Orders
from echelon.rules.catalog import BEAM_SPREAD, MISSILE_LOFT, MISSILE_RACK_VOX
from echelon.rules.damage_sources import AimTable
from echelon.runtime import exact
from echelon.runtime.compile import materialize
from echelon.runtime.geometry import heading, length, unit, up
from echelon.sim import ewar, formulas
from echelon.sim.damage import Hits, Strikes, direct_hit_damage, no_hits, of_target
from echelon.sim.heat import bounded, is_running
from echelon.sim.model import SimModel
from echelon.sim.shots import Volley, launch, slug_drop
from echelon.sim.sight import enemy_lines
from echelon.sim.targeting import Aim, designate, shown_by_paint, take_aim
from echelon.state import State

Beams = dict[int, Tensor]
"""Keyed by beam weapon: `[B, N]` int64, index of the mech hit by each mech's beam, `NO_MECH` if it did not fire."""


@dataclass(frozen=True)
class Pulls:
    """Which weapons fire, and their targets. The shape is `[B, W, N]`, or `[B, R]` for the R mechs that carry one
    weapon."""

    fires: Tensor
    """bool: the weapon fires."""
    aimed: Tensor
    """bool: the weapon has a target."""
    target: Tensor
    """int64: index of the target; 0 without a target."""

    def of(self, weapon: int, guns: AimTable) -> Pulls:
        """Return the rows `[B, R]` of the mechs that carry one weapon."""
        carriers = guns.carriers[weapon]
        fires, aimed, target = (field[:, weapon, carriers] for field in (self.fires, self.aimed, self.target))
        return Pulls(fires, aimed, target)


def fire(
    state: State, orders: Orders, vents: Tensor, beam_height: Tensor, paint_factors: Tensor, sim_model: SimModel
) -> tuple[State, Hits, Beams]:
    """Fire all weapons that have an order to fire. All weapons act on the state before firing.

    Args:
        state: the state before firing.
        orders: orders of all mechs.
        vents: mechs that vent in this substep and cannot fire, `[B, N]` bool.
        beam_height: uniform samples in [0, 1) for the height at which beams hit, `[B, N]`.
        paint_factors: the result of `damage.paint_factor` for the substep.
        sim_model: constants of the battle.

    Returns:
        The state with heat, cooldowns, paint and new shots; the hits of the beams; and the targets of the beams.
    """
    roster, guns = sim_model.roster, sim_model.roster.guns
    pulls = pull(state, orders, vents, sim_model)
    rays = {weapon: pulls.of(weapon, guns) for weapon in roster.rays if guns.exist(weapon)}
    hits = beam_hits(list(rays.values()), beam_height, paint_factors, state, sim_model)
    result = state
    for painter in roster.painters:
        result = paint(result, painter, rays[painter], sim_model) if painter in rays else result
    struck = torch.where(pulls.fires, pulls.target, NO_MECH)
    beams = {ray: struck[:, ray] for ray in rays}
    volleys = {w: volley(w, pulls.of(w, guns), state, sim_model) for w in roster.shells if guns.exist(w)}
    return charge(launch(result, volleys, sim_model), pulls.fires, sim_model), hits, beams


def pull(state: State, orders: Orders, vents: Tensor, sim_model: SimModel) -> Pulls:
    """Decide which weapons fire, and their targets.

    A weapon that needs a clear line or a lock does not fire without a target; this costs no heat and no cooldown. Other
    weapons fire even without a target.
    """
    mechs, guns = state.mechs, sim_model.roster.guns
    can_fire = is_running(mechs, sim_model) & ~vents
    idle = torch.stack([mechs.cooldown[..., timer] == 0 for timer in sim_model.roster.timers], 1)  # [B, W, N]
    aim = take_aim(state)
    line = enemy_lines(state, sim_model, guns.line_vox)
    lock = materialize(locks(line, aim, state, orders, sim_model)) if guns.any_lock else line
    aimed, target = designate(aim, line, lock, orders.focus, mechs.alive, guns)
    return Pulls(materialize(orders.fire & idle & can_fire[:, None] & (aimed | ~guns.needs_target)), aimed, target)


def beam_hits(rays: list[Pulls], beam_height: Tensor, paint_factors: Tensor, state: State, sim_model: SimModel) -> Hits:
    """Compute the hits of beams at a random height around the middle of their targets. `rays` are sorted by weapon."""
    if not rays:
        return no_hits(state)
    mechs, sources = state.mechs, sim_model.roster.beams
    fires, target = torch.cat([ray.fires for ray in rays], 1), torch.cat([ray.target for ray in rays], 1)
    middle, half_height = of_target(mechs.pos[..., 2], target), sim_model.roster.half_size[:, 2][target]
    height = formulas.beam_height(middle, beam_height[:, sources.shooter], half_height, BEAM_SPREAD, 1)
    direction = unit(of_target(mechs.pos, target) - mechs.pos[:, sources.shooter])
    return direct_hit_damage(sources, Strikes(fires, target, direction, height), paint_factors, state, sim_model)


def paint(state: State, weapon: int, rays: Pulls, sim_model: SimModel) -> State:
    """Mark the targets of a painting weapon for the pack of the mech that fires it. If several mechs of a pack mark one
    target, store the first of these mechs.

    Args:
        state: the state before.
        weapon: index of the painting weapon.
        rays: which mechs with the weapon fire, and their targets.
        sim_model: constants of the battle.
    """
    mechs, roster = state.mechs, sim_model.roster
    shooter, no_painter = roster.guns.carriers[weapon], roster.num_mechs
    indices = torch.arange(no_painter, device=shooter.device)
    is_painted = rays.fires[..., None] & (rays.target[..., None] == indices)  # [B, R, N]
    painters = materialize(torch.where(is_painted, shooter[:, None], no_painter))
    packs = range(roster.num_packs)
    other_packs = [torch.where(roster.pack[shooter] == pack, 0, no_painter)[:, None] for pack in packs]
    by = torch.stack([painters.maximum(excluded).amin(1) for excluded in other_packs], -1)  # [B, N, P]
    painted = by < no_painter
    return state.replace(
        mechs=mechs.replace(
            paint=torch.where(painted, sim_model.rules.substeps(sim_model.catalog.paint_s), mechs.paint).to(
                torch.int32
            ),
            painter=torch.where(painted, by, mechs.painter),
        )
    )


def volley(weapon: int, pulls: Pulls, state: State, sim_model: SimModel) -> Volley:
    """Return the shots launched by the mechs that carry a weapon. Only homing shots store their target."""
    spec, rules = sim_model.roster.weapons[weapon], sim_model.rules
    is_homing = spec.guidance == "homing"
    if spec.effect == "cloud" and not is_homing:
        pos, direction, flight_s = smoke(weapon, pulls, state, sim_model)
        ttl = exact.divide(flight_s, rules.dt_s).round().clamp_min(1).to(torch.int32)
    else:
        pos, direction = (missiles if is_homing else kinetic)(weapon, pulls, state, sim_model)
        ttl = torch.full_like(pulls.target, rules.substeps(spec.lifetime_s), dtype=torch.int32)
    target = pulls.target if is_homing else torch.full_like(pulls.target, NO_MECH)
    return Volley(pulls.fires, pos, direction * spec.speed_vox_per_s, ttl, target)


def locks(line: Tensor, aim: Aim, state: State, orders: Orders, sim_model: SimModel) -> Tensor:
    """`[B, N, N]` bool: weapons of the row's mech can lock on the column's mech, because it is painted (marked) or in a
    short clear line."""
    quality = ewar.sense(state, orders, aim.distance, sim_model).quality
    on_sight = line & (aim.distance <= sim_model.catalog.sight_lock_vox)
    return shown_by_paint(state, quality, sim_model) | on_sight


def missiles(weapon: int, pulls: Pulls, state: State, sim_model: SimModel) -> tuple[Tensor, Tensor]:
    """Compute the start positions of homing shots, above the hull, and their initial directions, which are tilted
    upwards.

    Returns:
        Start positions, `[B, R, 3]` vox, and directions, `[B, R, 3]` unit vectors.
    """
    shooter, mechs = sim_model.roster.guns.carriers[weapon], state.mechs
    origin = mechs.pos[:, shooter]
    upward = up(origin.device).float()
    direction = unit(unit(of_target(mechs.pos, pulls.target) - origin) + MISSILE_LOFT * upward)
    rack = (sim_model.roster.half_size[shooter, 2] + MISSILE_RACK_VOX)[:, None] * upward
    return origin + rack, direction


def kinetic(weapon: int, pulls: Pulls, state: State, sim_model: SimModel) -> tuple[Tensor, Tensor]:
    """Compute start positions and directions of linear and ballistic shots, which fly at their target, or straight
    ahead without one.

    A ballistic shot is aimed above its target by its drop; see `slug_drop`. The results have the form of those of
    `missiles`.
    """
    spec, shooter, mechs = sim_model.roster.weapons[weapon], sim_model.roster.guns.carriers[weapon], state.mechs
    muzzle = mechs.pos[:, shooter] + sim_model.roster.muzzle[shooter]
    to_target = of_target(mechs.pos, pulls.target) - muzzle
    if spec.guidance == "ballistic":
        drop = slug_drop(length(to_target), spec.speed_vox_per_s, sim_model)
        to_target = torch.cat((to_target[..., :2], (to_target[..., 2] + drop)[..., None]), -1)
    return muzzle, torch.where(pulls.aimed[..., None], unit(to_target), level(heading(mechs.yaw[:, shooter])))


def smoke(weapon: int, pulls: Pulls, state: State, sim_model: SimModel) -> tuple[Tensor, Tensor, Tensor]:
    """Compute start positions, directions and flight times, `[B, R]` s, of smoke shots, which leave clouds.

    These shots fly horizontally to the position of their target, or straight ahead without a target.
    """
    spec, shooter, mechs = sim_model.roster.weapons[weapon], sim_model.roster.guns.carriers[weapon], state.mechs
    pos = mechs.pos[:, shooter]
    upward = up(pos.device)
    to_focus = (of_target(mechs.pos, pulls.target) - pos)[..., :2]
    direction = torch.where(pulls.aimed[..., None], unit(to_focus), heading(mechs.yaw[:, shooter]))
    flight_s = torch.where(pulls.aimed, exact.divide(length(to_focus), spec.speed_vox_per_s), spec.lifetime_s)
    return pos + sim_model.roster.half_size[shooter] * upward, level(direction), flight_s


def level(course: Tensor) -> Tensor:
    """Append z = 0 to vectors `[..., 2]`, which gives `[..., 3]`."""
    return torch.nn.functional.pad(course, (0, 1))


def charge(state: State, fired: Tensor, sim_model: SimModel) -> State:
    """Add the heat, cooldowns and shot counts of the weapons that fired; `fired` is `[B, W, N]` bool."""
    mechs, rules = state.mechs, sim_model.rules
    heat, cooldown = torch.zeros_like(mechs.heat), list(mechs.cooldown.unbind(-1))
    for weapon, (spec, timer) in enumerate(zip(sim_model.roster.weapons, sim_model.roster.timers, strict=True)):
        shot = fired[:, weapon]
        heat = heat + shot.float() * spec.self_heat
        cooldown_substeps = torch.where(shot, rules.substeps(spec.cooldown_s), 0)
        # Weapons that share a timer and fire together set it to the longer cooldown.
        cooldown[timer] = cooldown[timer].maximum(cooldown_substeps.to(torch.int32))
    return state.replace(
        mechs=mechs.replace(heat=bounded(mechs.heat + heat, sim_model), cooldown=torch.stack(cooldown, -1)),
        tally=state.tally.replace(shots=state.tally.shots + fired.transpose(1, 2)),
    )
