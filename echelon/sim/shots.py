"""Launch, guidance, movement and impacts of shots in flight."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.actions import NO_MECH
from echelon.rules.catalog import HOMING_PER_S
from echelon.runtime import exact
from echelon.runtime.compile import axes
from echelon.runtime.geometry import TINY, dot, length, unit, up
from echelon.sim import damage, formulas
from echelon.sim.damage import Hits, Strikes, of_target
from echelon.sim.model import SimModel
from echelon.sim.segments import first_hit, is_blocked
from echelon.state import Shots, State

SKIN_VOX = 1e-3
"""Offset from the face of a voxel, vox: outwards for the origin of an explosion, inwards to find the damaged voxel."""


@dataclass(frozen=True)
class Volley:
    """Shots launched by the R mechs that carry one weapon."""

    fires: Tensor
    """[B, R] bool: the carrier launches a shot."""
    pos: Tensor
    """[B, R, 3] vox, start position."""
    vel: Tensor
    """[B, R, 3] vox/s, initial velocity."""
    ttl: Tensor
    """[B, R] int32 substeps of flight."""
    target: Tensor
    """[B, R] int64, index of the mech that the shot homes in on, or `NO_MECH`."""


@dataclass(frozen=True)
class Impacts:
    """Flights of all shots in one substep, by shot slot."""

    start: Tensor
    """[B, S, 3] vox, position at the start of the substep."""
    point: Tensor
    """[B, S, 3] vox, position at the end of the substep or at the impact."""
    direction: Tensor
    """[B, S, 3] unit vector, direction of flight."""
    flew: Tensor
    """[B, S] bool: the shot was in flight."""
    ends: Tensor
    """[B, S] bool: the flight ended in this substep, for any reason."""
    on_mech: Tensor
    """[B, S] bool: the shot hit a mech."""
    target: Tensor
    """[B, S] int64, index of the mech that was hit."""
    on_voxel: Tensor
    """[B, S] bool: a solid voxel stopped the shot."""
    on_floor: Tensor
    """[B, S] bool: the floor of the map stopped the shot."""


def launch(state: State, volleys: dict[int, Volley], sim_model: SimModel) -> State:
    """Store one shot per firing mech in the first empty slot of its weapon.

    A slot is always free: each weapon has ceil(lifetime / cooldown) slots.

    Args:
        state: the state before the launch.
        volleys: the new shots, keyed by weapon, in the order of the slots.
        sim_model: constants of the battle.
    """
    shots = state.shots
    columns: dict[str, list[Tensor]] = {"pos": [], "vel": [], "ttl": [], "target": []}
    for weapon, volley in volleys.items():
        span = sim_model.roster.shots.span[weapon]
        slots = (span.stop - span.start) // volley.fires.shape[1]
        empty = (shots.ttl[:, span] == 0).unflatten(1, (-1, slots))  # [B, R, K]
        fills = volley.fires[..., None] & empty & (empty.cumsum(-1) == 1)
        for name, values in columns.items():
            stored = getattr(shots, name)[:, span].unflatten(1, (-1, slots))
            fresh = getattr(volley, name)[:, :, None]
            mask = fills.view(*fills.shape, *[1] * (stored.dim() - fills.dim()))
            values.append(torch.where(mask, fresh, stored).flatten(1, 2))
    return state.replace(shots=shots.replace(**{name: torch.cat(values, 1) for name, values in columns.items()}))


def slug_drop(distance: Tensor, speed: float | Tensor, sim_model: SimModel) -> Tensor:
    """Return the drop of a ballistic shot over `distance` vox, in vox: g t² / 2 with t = distance / `speed` (vox/s)."""
    flight_s = exact.divide(distance, speed)
    return formulas.drop(flight_s, 0.5 * sim_model.rules.gravity_vox_per_s2)


def guide(state: State, sim_model: SimModel) -> Tensor:
    """Return the velocities of this substep, `[B, S, 3]` vox/s. Homing shots turn towards living targets, and ballistic
    shots fall."""
    shots, mechs, roster, rules = state.shots, state.mechs, sim_model.roster, sim_model.rules
    target = shots.target.clamp_min(0)
    tracks = roster.homing & (shots.target != NO_MECH) & mechs.alive.gather(1, target)
    turn = HOMING_PER_S * rules.dt_s
    speed = roster.shot_speed[:, None]
    desired = unit(of_target(mechs.pos, target) - shots.pos) * speed
    homed = unit(formulas.homed(shots.vel, desired, 1 - turn, turn)) * speed
    upward = up(shots.vel.device).float()
    fallen = shots.vel - rules.gravity_vox_per_s2 * rules.dt_s * upward
    vel = torch.where(roster.ballistic[:, None], fallen, shots.vel)
    return torch.where(tracks[..., None], homed, vel)


def fly(state: State, sim_model: SimModel) -> tuple[State, Impacts]:
    """Move all shots by one substep. A shot stops at the first living enemy or solid voxel on its path.

    Returns:
        The state with the shots moved or removed, and the impacts.
    """
    rules, mechs, roster = sim_model.rules, state.mechs, sim_model.roster
    flies = state.shots.ttl > 0  # [B, S]
    shots: Shots = state.shots.replace(vel=torch.where(flies[..., None], guide(state, sim_model), state.shots.vel))
    delta = shots.vel * rules.dt_s
    end = shots.pos + delta

    reached = sphere_entry(shots.pos, end, mechs.pos, roster.radius)  # [B, S, N]
    can_meet = flies[..., None] & roster.hostile[roster.shots.shooter] & mechs.alive[:, None]
    mech_at, target = torch.where(can_meet, reached, torch.inf).min(-1)
    voxel_at = first_hit(state.terrain.solid, shots.pos, end, sim_model.reach_vox, past_end=True, mask=flies)
    x_at, y_at, z_at = map_exit(shots.pos, delta, end, sim_model)  # [B, S] each
    out_at = x_at.minimum(y_at).minimum(z_at)
    floor_at = torch.where((end[..., 2] < 0) & (z_at == out_at), z_at, torch.inf)

    on_mech = flies & mech_at.isfinite() & (mech_at <= voxel_at) & (mech_at <= out_at)
    on_voxel = flies & ~on_mech & voxel_at.isfinite() & (voxel_at <= out_at)
    on_floor = flies & ~on_mech & ~on_voxel & floor_at.isfinite()
    fraction = torch.where(on_mech, mech_at, torch.where(on_voxel, voxel_at, out_at.clamp_max(1.0)))
    point = shots.pos + fraction[..., None] * delta
    ends = flies & (on_mech | on_voxel | out_at.isfinite() | (shots.ttl == 1))
    impacts = Impacts(shots.pos, point, unit(shots.vel), flies, ends, on_mech, target, on_voxel, on_floor)
    ttl = torch.where(ends, 0, (shots.ttl - 1).clamp_min(0)).to(torch.int32)
    goes_on = (flies & ~ends)[..., None]
    return state.replace(shots=shots.replace(pos=torch.where(goes_on, point, shots.pos), ttl=ttl)), impacts


def map_exit(start: Tensor, delta: Tensor, end: Tensor, sim_model: SimModel) -> list[Tensor]:
    """Return for each axis the fraction 0..1 of the flight at which the shot leaves the map, or infinity, `[B, S]`."""
    world = sim_model.config.world

    def along(size: int, start: Tensor, delta: Tensor, end: Tensor) -> Tensor:
        border = torch.where(end < 0, 0.0, float(size))
        fraction = (border - start) / torch.where(delta == 0, 1.0, delta)
        return torch.where((end < 0) | (end >= size), fraction.clamp_min(0.0), torch.inf)

    sizes = (world.size_x, world.size_y, world.size_z)
    return [along(*axis) for axis in zip(sizes, axes(start), axes(delta), axes(end), strict=True)]


def strike(state: State, impacts: Impacts, paint_factors: Tensor, sim_model: SimModel) -> Hits:
    """Compute the hits of a substep: direct hits, and splash damage of shots that explode.

    Args:
        state: the state before the impacts.
        impacts: flights of the substep.
        paint_factors: the result of `damage.paint_factor` for the substep.
        sim_model: constants of the battle.
    """
    direct = Strikes(impacts.on_mech, impacts.target, impacts.direction, impacts.point[..., 2])
    hits = damage.direct_hit_damage(sim_model.roster.shots, direct, paint_factors, state, sim_model)
    if sim_model.roster.bursts.count == 0:
        return hits
    return hits + burst(state, impacts, paint_factors, sim_model)


def burst(state: State, impacts: Impacts, paint_factors: Tensor, sim_model: SimModel) -> Hits:
    """Compute splash hits on all mechs within the radius, except mechs behind solid voxels and the direct target."""
    mechs, sources = state.mechs, sim_model.roster.bursts
    span = sim_model.roster.splashing
    bursts = (impacts.on_mech | impacts.on_voxel | impacts.on_floor)[:, span]
    origin = impacts.point[:, span] - SKIN_VOX * impacts.direction[:, span]  # [B, R, 3]
    offset = mechs.pos[:, None] - origin[:, :, None]  # [B, R, N, 3]
    in_radius = length(offset) <= sources.splash_vox[:, None]
    indices = torch.arange(mechs.hp.shape[1], device=mechs.hp.device)
    direct = impacts.on_mech[:, span, None] & (impacts.target[:, span, None] == indices)

    radius = max(spec.splash_vox for spec in sim_model.roster.weapons)
    exposed = bursts[..., None] & mechs.alive[:, None] & in_radius & ~direct
    shielded = is_blocked(state.terrain.solid, origin[:, :, None], mechs.pos[:, None], radius, exposed)
    return damage.splash(sources, exposed & ~shielded, origin, paint_factors, state, sim_model)


def sphere_entry(start: Tensor, end: Tensor, center: Tensor, radius: Tensor) -> Tensor:
    """Return the first intersection of each segment with each sphere.

    The result is the smaller root t of |start + t (end - start) - center| = radius, or 0 for a start inside the sphere.

    Args:
        start, end: ends of the segments, `[B, S, 3]` float32 vox.
        center: centres of the spheres, `[B, N, 3]` float32 vox.
        radius: radii of the spheres, `[N]` float32 vox.

    Returns:
        `[B, S, N]` float32, fraction t of the segment in 0..1, infinity for a miss.
    """
    direction = axes(end - start)  # [B, S] each
    to_start = [o[:, :, None] - to[:, None] for o, to in zip(axes(start), axes(center), strict=True)]  # [B, S, N]
    a = dot(direction, direction).clamp_min(TINY)[..., None]
    half_b = dot([d[..., None] for d in direction], to_start)
    c = dot(to_start, to_start) - radius.square()
    root = half_b.square() - a * c
    t = (-half_b - exact.sqrt(root.clamp_min(0.0))) / a
    enters = (root >= 0) & (t >= 0) & (t <= 1)
    return torch.where(c <= 0, 0.0, torch.where(enters, t, torch.inf))
