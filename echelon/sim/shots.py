"""Shots in flight: launch, travel, and what they run into."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.catalog import WEAPONS, Weapon
from echelon.geometry import TINY, unit
from echelon.sim.damage import Hits, Strikes, harm
from echelon.sim.game import Game
from echelon.sim.terrain import first_hit
from echelon.state import State


def launch(state: State, weapon: Weapon, fires: Tensor, direction: Tensor, game: Game) -> State:
    """Put one shot of every mech that `fires [B, N]` into its first empty slot.

    A slot is always free: `WeaponSpec.slots` is the weapon's lifetime over its cooldown, rounded up.

    Args:
        direction: `[B, N, 3]` unit vector.
    """
    spec, shots, shooter = WEAPONS[weapon], state.shots, game.roster.shooter
    muzzle = state.mechs.pos + game.roster.muzzle
    empty = shots.ttl == 0  # [B, S]
    slot = torch.arange(shooter.shape[0], device=shooter.device)
    earlier_own = (shooter[:, None] == shooter) & (slot < slot[:, None])  # [S, S]
    first_empty = empty & ~(empty[:, None] & earlier_own).any(-1)
    fills = fires[:, shooter] & first_empty
    return state.replace(
        shots=shots.replace(
            pos=torch.where(fills[..., None], muzzle[:, shooter], shots.pos),
            vel=torch.where(fills[..., None], direction[:, shooter] * spec.speed_vox_per_s, shots.vel),
            ttl=torch.where(fills, game.rules.substeps(spec.lifetime_s), shots.ttl).to(torch.int32),
        )
    )


def fly(state: State, game: Game) -> tuple[State, Hits]:
    """One substep of flight: each shot stops at the first living enemy, or at terrain met before it.

    Returns:
        The state with shots moved or spent, and the harm they did, a row for each mech.
    """
    rules, shots, mechs, roster = game.rules, state.shots, state.mechs, game.roster
    spec = WEAPONS[Weapon.AUTOCANNON]
    in_flight = shots.ttl > 0  # [B, S]
    end = shots.pos + shots.vel * rules.dt_s

    reached = sphere_entry(shots.pos, end, mechs.pos, roster.half_size.amax(-1))  # [B, S, N]
    can_meet = in_flight[..., None] & roster.hostile[roster.shooter] & mechs.alive[:, None]
    meets_at, target = torch.where(can_meet, reached, torch.inf).min(-1)
    reach_vox = spec.speed_vox_per_s * rules.dt_s
    wall_at = first_hit(game.maps.solid, state.map_id, shots.pos, end, reach_vox, past_end=True)

    lands = in_flight & meets_at.isfinite() & (meets_at <= wall_at)
    way = torch.where(lands, meets_at, 0.0)
    height = shots.pos[..., 2] + way * (end - shots.pos)[..., 2]
    hits = harm(spec, Strikes(lands, target, unit(shots.vel), height), state, game).by_shooter(roster)

    outside = ((end < 0) | (end >= game.size)).any(-1)
    spent = lands | wall_at.isfinite() | outside
    ttl = torch.where(spent, 0, (shots.ttl - 1).clamp_min(0)).to(torch.int32)
    return state.replace(shots=shots.replace(pos=torch.where(in_flight[..., None], end, shots.pos), ttl=ttl)), hits


def sphere_entry(start: Tensor, end: Tensor, center: Tensor, radius: Tensor) -> Tensor:
    """When each segment first touches each sphere.

    The smaller root of |start + t (end - start) - center| = radius, or 0 for a start inside.

    Args:
        start, end: `[B, S, 3]` vox.
        center: `[B, N, 3]` vox.
        radius: `[N]` vox.

    Returns:
        `[B, S, N]` share of the way in 0..1, infinity for a miss.
    """
    delta = (end - start)[:, :, None]  # [B, S, 1, 3]
    to_start = start[:, :, None] - center[:, None]  # [B, S, N, 3]
    a = delta.square().sum(-1).clamp_min(TINY)
    half_b = (delta * to_start).sum(-1)
    c = to_start.square().sum(-1) - radius.square()
    root = half_b.square() - a * c
    t = (-half_b - root.clamp_min(0.0).sqrt()) / a
    enters = (root >= 0) & (t >= 0) & (t <= 1)
    return torch.where(c <= 0, 0.0, torch.where(enters, t, torch.inf))
