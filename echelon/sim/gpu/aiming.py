"""`firing.pull` as one kernel: clear lines, locks, and the target of every weapon."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from echelon.rules.actions import Orders
from echelon.runtime.geometry import heading
from echelon.sim import ewar
from echelon.sim.gpu.launch import launch, operator
from echelon.sim.gpu.lines import line_sizes, pair_lines, smoke_between
from echelon.sim.heat import is_running, is_shut_down
from echelon.sim.model import SimModel
from echelon.state import State


def pull(state: State, orders: Orders, ready: Tensor, game: SimModel) -> tuple[Tensor, Tensor, Tensor]:
    """Of the weapons that are `ready [B, W, N]` and all others whether they fire, are aimed, and at whom."""
    mechs, roster, guns, clouds, catalog = state.mechs, game.roster, game.roster.guns, state.clouds, game.catalog
    emits = is_running(mechs, game) & roster.has_ewar
    facts = (
        *(mechs.pos, heading(mechs.yaw), mechs.alive, ~mechs.alive | is_shut_down(mechs, game), mechs.paint),
        *(orders.focus, emits & orders.ecm, emits & orders.eccm, ready, clouds.pos, clouds.ttl),
    )
    tables = (
        *(roster.enemies.first, roster.enemies.second, roster.hostile, roster.pack, guns.reach_vox, guns.arc_cos),
        *(guns.focus_arc_cos, guns.needs_target, guns.needs_line, guns.needs_lock, guns.focus_only),
    )
    radius = catalog.cloud_vox if game.config.features.smoke else 0.0
    limits = guns.line_vox, radius, catalog.ewar_vox, catalog.lock_quality, catalog.sight_lock_vox
    given = (fact.contiguous() for fact in (*facts, *tables))
    fires, aimed, target, _ = _pull_op(state.terrain.opaque, *given, *limits, guns.any_lock)
    return fires, aimed, target


def _room(ready: Tensor, mechs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where the results go, and who sees whom `[B, N, N]`."""
    whom = torch.empty_like(ready, dtype=torch.int64)
    return torch.empty_like(ready), torch.empty_like(ready), whom, ready.new_empty((ready.shape[0], mechs, mechs))


@operator("pull")
def _pull_op(
    opaque: Tensor,
    pos: Tensor,
    facing: Tensor,
    alive: Tensor,
    blind: Tensor,
    paint: Tensor,
    focus: Tensor,
    ecm: Tensor,
    eccm: Tensor,
    ready: Tensor,
    cloud_pos: Tensor,
    cloud_ttl: Tensor,
    first: Tensor,
    second: Tensor,
    hostile: Tensor,
    pack: Tensor,
    reach_vox: Tensor,
    arc_cos: Tensor,
    focus_arc_cos: Tensor,
    needs_target: Tensor,
    needs_line: Tensor,
    needs_lock: Tensor,
    focus_only: Tensor,
    line_vox: float,
    cloud_vox: float,
    ewar_vox: float,
    lock_quality: float,
    sight_lock_vox: float,
    any_lock: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Launch the kernel. Long because each tensor is told."""
    battles, mechs = alive.shape
    fires, aimed, target, line = _room(ready, mechs)
    numbers: dict[str, Any] = {
        "jam_loss": ewar.JAM_LOSS,
        "eccm_gain": ewar.ECCM_GAIN,
        "blind_quality": ewar.BLIND_QUALITY,
        "best_quality": ewar.BEST_QUALITY,
        "any_lock": any_lock,
    }
    launch(
        _pull,
        battles,
        opaque.device,
        *(opaque, pos, facing, alive, blind, paint, focus, ecm, eccm, ready, cloud_pos, cloud_ttl),
        *(first, second, hostile, pack, reach_vox, arc_cos, focus_arc_cos),
        *(needs_target, needs_line, needs_lock, focus_only, fires, aimed, target, line),
        *(line_vox, cloud_vox * cloud_vox, ewar_vox, lock_quality, sight_lock_vox, int(line_vox) + 1),
        **{**numbers, "weapons": ready.shape[1], "packs": paint.shape[2]},
        **line_sizes(opaque, alive, cloud_ttl, first, cloud_vox),
    )
    return fires, aimed, target, line


@_pull_op.register_fake
def _(*facts: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _room(facts[9], facts[3].shape[1])


@triton.jit
def _pull(  # type: ignore[no-untyped-def]
    opaque,
    pos,
    facing,
    alive,
    blind,
    paint,
    focus,
    ecm,
    eccm,
    ready,
    cloud_pos,
    cloud_ttl,
    first,
    second,
    hostile,
    pack,
    reach_vox,
    arc_cos,
    focus_arc_cos,
    needs_target,
    needs_line,
    needs_lock,
    focus_only,
    fires,
    aimed,
    target,
    line,
    line_vox,
    radius_sq,
    ewar_vox,
    lock_quality,
    sight_lock_vox,
    planes,
    jam_loss: tl.constexpr,
    eccm_gain: tl.constexpr,
    blind_quality: tl.constexpr,
    best_quality: tl.constexpr,
    far_squared: tl.constexpr,
    any_lock: tl.constexpr,
    size_x: tl.constexpr,
    size_y: tl.constexpr,
    top_z: tl.constexpr,
    tiny: tl.constexpr,
    mechs: tl.constexpr,
    weapons: tl.constexpr,
    packs: tl.constexpr,
    pairs: tl.constexpr,
    clouds: tl.constexpr,
    lanes: tl.constexpr,
    pair_lanes: tl.constexpr,
):
    """The program of a battle. Long because each tensor and each step of the system is told."""
    battle = tl.program_id(0).to(tl.int64)
    own, here = battle * mechs, tl.arange(0, lanes)
    there = here < mechs
    i, j = here[:, None], here[None, :]
    both = there[:, None] & there[None, :]
    matrix = line + battle * (mechs * mechs)
    tl.store(matrix + i * mechs + j, both & (i < 0), both)
    tl.debug_barrier()

    a, b, listed, _, clear, ax, ay, az, bx, by, bz = pair_lines(
        *(opaque, pos, alive, first, second, battle, line_vox, planes),
        *(size_x, size_y, top_z, tiny, mechs, pairs, pair_lanes),
    )
    if clouds > 0:
        clear = clear & ~smoke_between(
            cloud_pos, cloud_ttl, battle, ax, ay, az, bx, by, bz, radius_sq, far_squared, clouds
        )
    tl.store(matrix + a * mechs + b, clear, listed)
    tl.store(matrix + b * mechs + a, clear, listed)
    tl.debug_barrier()

    x, y, z = (
        tl.load(pos + (own + here) * 3, there, 0.0),
        tl.load(pos + (own + here) * 3 + 1, there, 0.0),
        tl.load(pos + (own + here) * 3 + 2, there, 0.0),
    )
    ahead_x, ahead_y = (
        tl.load(facing + (own + here) * 2, there, 0.0),
        tl.load(facing + (own + here) * 2 + 1, there, 0.0),
    )
    to_x, to_y, to_z = x[None, :] - x[:, None], y[None, :] - y[:, None], z[None, :] - z[:, None]
    ground_sq = to_x * to_x + to_y * to_y
    distance, ground = tl.sqrt_rn(ground_sq + to_z * to_z), tl.sqrt_rn(ground_sq)
    bearing = to_x * ahead_x[:, None] + to_y * ahead_y[:, None]
    seen = tl.load(matrix + i * mechs + j, both, 0) != 0
    lock = seen
    if any_lock:
        falloff = tl.maximum(1.0 - distance / ewar_vox, 0.0)
        foe = tl.load(hostile + i * mechs + j, both, 0) != 0
        jams = foe & (tl.load(ecm + own + here, there, 0) != 0)[None, :]
        clears = ~foe & (i != j) & (tl.load(eccm + own + here, there, 0) != 0)[None, :]
        jam, clearance = tl.max(tl.where(jams, falloff, 0.0), 1), tl.max(tl.where(clears, falloff, 0.0), 1)
        quality = tl.minimum(tl.maximum(1.0 - jam_loss * jam + eccm_gain * clearance, blind_quality), best_quality)
        quality = tl.where(tl.load(blind + own + here, there, 1) != 0, blind_quality, quality)
        mine = tl.load(pack + here, there, 0)
        painted = tl.load(paint + (own + j) * packs + mine[:, None], both, 0) > 0
        lock = (painted & (quality >= lock_quality)[:, None]) | (seen & (distance <= sight_lock_vox))

    wish = tl.load(focus + own + here, there, -1)
    is_focus = wish[:, None] == j
    lives = (tl.load(alive + own + here, there, 0) != 0)[None, :]
    key = tl.where(is_focus, -1.0, distance)
    for weapon in range(weapons):
        arc = tl.where(is_focus, tl.load(focus_arc_cos + weapon), tl.load(arc_cos + weapon))
        reach = tl.load(reach_vox + weapon * (mechs * mechs) + i * mechs + j, both, -1.0)
        can = lives & (distance <= reach) & (bearing >= arc * ground)
        can = can & (seen | (tl.load(needs_line + weapon) == 0)) & (lock | (tl.load(needs_lock + weapon) == 0))
        can = can & (is_focus | (tl.load(focus_only + weapon) == 0))
        ranked = tl.where(can, key, float("inf"))
        best = tl.min(ranked, 1)
        has = best < float("inf")
        whom = tl.min(tl.where(can & (ranked == best[:, None]), j, lanes), 1)
        at = (battle * weapons + weapon) * mechs + here
        goes = (tl.load(ready + at, there, 0) != 0) & (has | (tl.load(needs_target + weapon) == 0))
        tl.store(fires + at, goes, there)
        tl.store(aimed + at, has, there)
        tl.store(target + at, tl.where(has, whom, 0).to(tl.int64), there)
