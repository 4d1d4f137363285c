"""Hits of a phase as one kernel: `shots.strike` of shots that end, and `firing.beam_hits` of beams.

A program visits the rows that hit something, one after the other, and adds their effects up in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from echelon.rules.catalog import BEAM_SPREAD
from echelon.runtime.geometry import TINY, heading
from echelon.sim.gpu.ground import first_hit, length_2, length_3
from echelon.sim.gpu.launch import launch, operator
from echelon.sim.kernels.segments import TOP_Z
from echelon.sim.model import SimModel
from echelon.state import State

if TYPE_CHECKING:
    from echelon.rules.damage_sources import DamageSources
    from echelon.sim.firing import Pulls
    from echelon.sim.shots import Impacts

Eight = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def strike(state: State, impacts: Impacts, marked: Tensor, skin_vox: float, game: SimModel) -> Eight:
    """Fields of `damage.Hits` of the shots of a substep, in their order."""
    flags = impacts.on_mech.int() + 2 * (impacts.on_voxel | impacts.on_floor)
    radius = max(spec.splash_vox for spec in game.roster.weapons)
    span = game.roster.splashing if game.roster.bursts.count else slice(0, 0)
    rows = flags, impacts.target, impacts.direction, impacts.point
    return _hits(
        state,
        rows,
        game.roster.shots,
        marked,
        game,
        [span.start, span.stop, int(radius) + 1],
        [skin_vox],
        is_beam=False,
    )


def beam_hits(state: State, pulls: Pulls, beam_height: Tensor, marked: Tensor, game: SimModel) -> Eight:
    """Fields of `damage.Hits` of all beams of a substep, in their order."""
    rows = pulls.fires.int(), pulls.target, beam_height, beam_height
    return _hits(state, rows, game.roster.beams, marked, game, [0, 0, 1], [BEAM_SPREAD], is_beam=True)


def _hits(
    state: State,
    rows: tuple[Tensor, Tensor, Tensor, Tensor],
    sources: DamageSources,
    marked: Tensor,
    game: SimModel,
    counts: list[int],
    numbers: list[float],
    is_beam: bool,
) -> Eight:
    """Launch the kernel for the rows of some sources of damage."""
    mechs, roster, rules = state.mechs, game.roster, game.rules
    facts = mechs.pos, heading(mechs.yaw), mechs.alive, marked
    tables = (
        *(roster.half_size, roster.hostile, sources.shooter, sources.weapon, sources.damage, sources.stability),
        *(sources.target_heat, sources.suppress, sources.splash_vox, sources.splash_scale),
    )
    numbers = [*numbers, rules.rear_arc_cos, rules.rear_factor, 1 - 2 * rules.leg_height]
    given = (tensor.contiguous() for tensor in (*rows, *facts, *tables))
    found: Eight = _strike_op(state.terrain.solid, *given, counts, numbers, is_beam)
    return found


def _room(pos: Tensor, marked: Tensor, weapons: int) -> Eight:
    """Where the hits go."""
    battles, mechs = pos.shape[:2]
    each = pos.new_empty((battles, mechs))
    return (
        *(torch.empty_like(marked), torch.empty_like(marked), torch.empty_like(each), torch.empty_like(each)),
        *(torch.empty_like(each, dtype=torch.int32), pos.new_empty((battles, mechs, 2))),
        *(pos.new_empty((battles, mechs, weapons)), pos.new_empty((battles, weapons, mechs))),
    )


@operator("strike")
def _strike_op(
    solid: Tensor,
    flags: Tensor,
    target: Tensor,
    direction: Tensor,
    point: Tensor,
    pos: Tensor,
    facing: Tensor,
    alive: Tensor,
    marked: Tensor,
    half_size: Tensor,
    hostile: Tensor,
    shooter: Tensor,
    weapon: Tensor,
    damage: Tensor,
    stability: Tensor,
    target_heat: Tensor,
    suppress: Tensor,
    splash_vox: Tensor,
    splash_scale: Tensor,
    counts: list[int],
    numbers: list[float],
    is_beam: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    (battles, mechs), (rows, weapons) = alive.shape, weapon.shape
    found = _room(pos, marked, weapons)
    first_burst, last_burst, planes = counts
    launch(
        _strike,
        battles,
        solid.device,
        *(solid, flags, target, direction, point, pos, facing, alive, marked, half_size, hostile, shooter, weapon),
        *(damage, stability, target_heat, suppress, splash_vox, splash_scale, *found),
        *(first_burst, last_burst, planes, *numbers),
        **{"size_x": solid.shape[2], "size_y": solid.shape[1], "top_z": float(TOP_Z), "tiny": TINY},
        **{"is_beam": is_beam, "has_bursts": last_burst > first_burst},
        **{"mechs": mechs, "weapons": weapons, "rows": rows, "lanes": triton.next_power_of_2(mechs)},
        **{"row_lanes": triton.next_power_of_2(rows), "gun_lanes": triton.next_power_of_2(weapons)},
        warps=4,
    )
    return found


@_strike_op.register_fake
def _(*facts: Any) -> Eight:
    return _room(facts[5], facts[8], facts[12].shape[1])


@triton.jit
def _on_grid(value):  # type: ignore[no-untyped-def]
    """Float64 of a multiple of 2^-24, as `exact.sum` rounds what it adds up."""
    return (value.to(tl.float64) + 402653184.0) - 402653184.0


@triton.jit
def _of(row, values, chosen):  # type: ignore[no-untyped-def]
    """The one of `values` at the row `chosen`."""
    return tl.sum(tl.where(row == chosen, values, 0), 0)


@triton.jit
def _strike(  # type: ignore[no-untyped-def]
    solid,
    flags,
    target,
    direction,
    point,
    pos,
    facing,
    alive,
    marked,
    half_size,
    hostile,
    shooter,
    weapon,
    damage,
    stability,
    target_heat,
    suppress,
    splash_vox,
    splash_scale,
    damage_to,
    leg_damage_to,
    stability_to,
    heat_to,
    suppress_to,
    came_from_to,
    landed_to,
    by_weapon_to,
    first_burst,
    last_burst,
    planes,
    skin,
    rear_arc_cos,
    rear_factor,
    knee_share,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    top_z: tl.constexpr,
    tiny: tl.constexpr,
    is_beam: tl.constexpr,
    has_bursts: tl.constexpr,
    mechs: tl.constexpr,
    weapons: tl.constexpr,
    rows: tl.constexpr,
    lanes: tl.constexpr,
    row_lanes: tl.constexpr,
    gun_lanes: tl.constexpr,
):
    """The program of a battle. Long because each tensor and each step of the system is told."""
    battle = tl.program_id(0).to(tl.int64)
    mech, gun, row = tl.arange(0, lanes), tl.arange(0, gun_lanes), tl.arange(0, row_lanes)
    own, lists = battle * mechs, row < rows
    i, j = mech[:, None], mech[None, :]
    both = (i < mechs) & (j < mechs)
    owner, number = tl.load(shooter + row, lists, 0).to(tl.int32), row * 0
    for kind in range(weapons):
        number = tl.where(tl.load(weapon + row * weapons + kind, lists, 0.0) != 0.0, kind, number)

    # Where each row hits, and from where.
    at = (battle * weapons + number) * mechs + owner if is_beam else battle * rows + row
    flag = tl.load(flags + at, lists, 0)
    lands = (flag & 1) != 0
    prey = tl.load(target + at, lands, 0).to(tl.int32)
    prey_at = (own + prey) * 3
    prey_z, half = tl.load(pos + prey_at + 2, lands, 0.0), tl.load(half_size + prey * 3 + 2, lands, 0.0)
    if is_beam:
        owner_at = pos + (own + owner) * 3
        dx = tl.load(pos + prey_at, lands, 0.0) - tl.load(owner_at, lands, 0.0)
        dy = tl.load(pos + prey_at + 1, lands, 0.0) - tl.load(owner_at + 1, lands, 0.0)
        dz = prey_z - tl.load(owner_at + 2, lands, 0.0)
        far = tl.maximum(length_3(dx, dy, dz), tiny)
        dx, dy = dx / far, dy / far
        height = prey_z + (2.0 * tl.load(direction + own + owner, lists, 0.0) - 1.0) * skin * half
    else:
        hits = flag != 0
        dx, dy = tl.load(direction + at * 3, hits, 0.0), tl.load(direction + at * 3 + 1, hits, 0.0)
        height = tl.load(point + at * 3 + 2, hits, 0.0)
    face = facing + (own + prey) * 2
    behind = dx * tl.load(face, lands, 0.0) + dy * tl.load(face + 1, lands, 0.0) > rear_arc_cos
    factor = tl.where(behind, rear_factor, 1.0)
    at_legs = height < prey_z - half * knee_share
    harm = tl.load(damage + row, lists, 0.0) * factor
    hull = tl.where(at_legs, 0.5 * harm, harm)
    legs = tl.where(at_legs, harm, 0.0)
    shaken = tl.load(stability + row, lists, 0.0) * factor
    warmed, held = tl.load(target_heat + row, lists, 0.0), tl.load(suppress + row, lists, 0.0)
    mark = tl.load(marked + (own + owner) * mechs + prey, lands, 1.0)

    zero, zeros = mech.to(tl.float64) * 0.0, (i + j).to(tl.float64) * 0.0
    hull_sum, leg_sum, stability_sum, heat_sum, from_x, from_y = zeros, zeros, zero, zero, zero, zero
    held_most = mech.to(tl.float32) * 0.0
    landed_sum = (mech[:, None] + gun[None, :]).to(tl.float32) * 0.0
    weapon_sum = (gun[:, None] + mech[None, :]).to(tl.float64) * 0.0
    for _ in range(tl.sum(lands.to(tl.int32), 0)):
        hit = tl.min(tl.where(lands, row, row_lanes), 0)
        lands = lands & (row != hit)
        who, whom, kind = _of(row, owner, hit), _of(row, prey, hit), _of(row, number, hit)
        bite = _of(row, hull, hit)
        pair = (i == who) & (j == whom)
        hull_sum = tl.where(pair, hull_sum + _on_grid(bite), hull_sum)
        leg_sum = tl.where(pair, leg_sum + _on_grid(_of(row, legs, hit)), leg_sum)
        on = mech == whom
        stability_sum = tl.where(on, stability_sum + _on_grid(_of(row, shaken, hit)), stability_sum)
        heat_sum = tl.where(on, heat_sum + _on_grid(_of(row, warmed, hit)), heat_sum)
        held_most = tl.where(on, tl.maximum(held_most, _of(row, held, hit)), held_most)
        from_x = tl.where(on, from_x + _on_grid(bite * -_of(row, dx, hit)), from_x)
        from_y = tl.where(on, from_y + _on_grid(bite * -_of(row, dy, hit)), from_y)
        landed_sum = tl.where((mech[:, None] == who) & (gun[None, :] == kind), landed_sum + 1.0, landed_sum)
        by = (gun[:, None] == kind) & (mech[None, :] == whom)
        weapon_sum = tl.where(by, weapon_sum + _on_grid(bite * _of(row, mark, hit)), weapon_sum)

    marks = tl.load(marked + (own + i) * mechs + j, both, 0.0)
    hull_hits, weapon_hits = hull_sum.to(tl.float32) * marks, weapon_sum.to(tl.float32)
    came_x, came_y = from_x.to(tl.float32), from_y.to(tl.float32)
    if has_bursts:
        there = mech < mechs
        x, y = tl.load(pos + (own + mech) * 3, there, 0.0), tl.load(pos + (own + mech) * 3 + 1, there, 0.0)
        z = tl.load(pos + (own + mech) * 3 + 2, there, 0.0)
        lives = there & (tl.load(alive + own + mech, there, 0) != 0)
        hull_sum, weapon_sum, from_x, from_y = zeros, weapon_sum * 0.0, zero, zero
        bursts = lists & (flag != 0) & (row >= first_burst) & (row < last_burst)
        columns = solid + battle * (size_x * size_y)
        for _ in range(tl.sum(bursts.to(tl.int32), 0)):
            hit = tl.min(tl.where(bursts, row, row_lanes), 0)
            bursts = bursts & (row != hit)
            who, kind = tl.load(shooter + hit).to(tl.int32), _of(row, number, hit)
            spot = (battle * rows + hit) * 3
            ox = tl.load(point + spot) - skin * tl.load(direction + spot)
            oy = tl.load(point + spot + 1) - skin * tl.load(direction + spot + 1)
            oz = tl.load(point + spot + 2) - skin * tl.load(direction + spot + 2)
            direct = ((_of(row, flag, hit) & 1) != 0) & (mech == _of(row, prey, hit))
            felt = lives & ~direct & (length_3(x - ox, y - oy, z - oz) <= tl.load(splash_vox + hit))
            sx, sy, sz = x * 0.0 + ox, y * 0.0 + oy, z * 0.0 + oz
            shield = first_hit(columns, sx, sy, sz, x, y, z, felt, planes, False, size_x, size_y, top_z, tiny)
            felt = felt & (shield == float("inf"))
            share = tl.where(felt, tl.load(damage + hit) * tl.load(splash_scale + hit), 0.0)
            hull_sum = tl.where(i == who, hull_sum + _on_grid(share)[None, :], hull_sum)
            mark_of = tl.load(marked + (own + who) * mechs + mech, there, 1.0)
            counted = tl.where(tl.load(hostile + who * mechs + mech, there, 0) != 0, share * mark_of, 0.0)
            weapon_sum = tl.where(gun[:, None] == kind, weapon_sum + _on_grid(counted)[None, :], weapon_sum)
            far = tl.maximum(length_2(ox - x, oy - y), tiny)
            from_x, from_y = from_x + _on_grid(share * ((ox - x) / far)), from_y + _on_grid(share * ((oy - y) / far))
        hull_hits = hull_hits + hull_sum.to(tl.float32) * marks
        weapon_hits = weapon_hits + weapon_sum.to(tl.float32)
        came_x, came_y = came_x + from_x.to(tl.float32), came_y + from_y.to(tl.float32)

    tl.store(damage_to + (own + i) * mechs + j, hull_hits, both)
    tl.store(leg_damage_to + (own + i) * mechs + j, leg_sum.to(tl.float32) * marks, both)
    tl.store(stability_to + own + mech, stability_sum.to(tl.float32), mech < mechs)
    tl.store(heat_to + own + mech, heat_sum.to(tl.float32), mech < mechs)
    tl.store(suppress_to + own + mech, held_most.to(tl.int32), mech < mechs)
    tl.store(came_from_to + (own + mech) * 2, came_x, mech < mechs)
    tl.store(came_from_to + (own + mech) * 2 + 1, came_y, mech < mechs)
    carried = (mech[:, None] < mechs) & (gun[None, :] < weapons)
    tl.store(landed_to + (own + mech[:, None]) * weapons + gun[None, :], landed_sum, carried)
    by = (gun[:, None] < weapons) & (mech[None, :] < mechs)
    tl.store(by_weapon_to + (battle * weapons + gun[:, None]) * mechs + mech[None, :], weapon_hits, by)
