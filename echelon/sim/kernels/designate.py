"""Target selection: one rule for all aimed weapons."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from echelon.rules.damage_sources import AimTable
from echelon.runtime.compile import materialize
from echelon.sim.kernels.dispatch import INFINITY, ONE, ZERO, array, compiled, loops_on
from echelon.sim.targeting import Aim


def designate(
    aim: Aim, line: Tensor, lock: Tensor, focus: Tensor, alive: Tensor, guns: AimTable
) -> tuple[Tensor, Tensor]:
    """The target of each weapon of each mech: its focus target if that is a candidate, else the nearest candidate.

    A candidate is alive, in range, inside the firing arc, and visible or locked as the weapon requires. Ties go to the
    lowest index.

    Args:
        aim: distances and bearings of all pairs.
        line, lock: `[B, N, N]` bool, the row has a clear line to the column, or its missiles can lock on it.
        focus: `[B, N]` int64, each mech's focus target or `NO_MECH`.
        alive: `[B, N]` bool.
        guns: range, arcs and requirements of the weapons.

    Returns:
        `[B, W, N]` bool, whether there is a target, and `[B, W, N]` int64, its index (0 where there is none).
    """
    if not loops_on(line.device):
        return designate_dense(aim, line, lock, focus, alive, guns)
    pairs = (aim.distance, aim.bearing_cos, aim.ground, line, lock)
    arcs, needs = (guns.arc_cos, guns.focus_arc_cos), (guns.needs_line, guns.needs_lock, guns.focus_only)
    return designate_loops(*pairs, focus, alive, guns.reach_vox, *arcs, *needs)


def designate_dense(
    aim: Aim, line: Tensor, lock: Tensor, focus: Tensor, alive: Tensor, guns: AimTable
) -> tuple[Tensor, Tensor]:
    """`designate` by testing every weapon against every target."""
    everyone = torch.arange(focus.shape[1], device=focus.device)
    is_focus = materialize(focus[..., None] == everyone)[:, None]  # [B, 1, N, N]
    arc_cos = torch.where(is_focus, guns.focus_arc_cos, guns.arc_cos)
    seen = (line[:, None] | ~guns.needs_line) & (lock[:, None] | ~guns.needs_lock) & (is_focus | ~guns.focus_only)
    in_reach = (aim.distance[:, None] <= guns.reach_vox) & aim.within(arc_cos)
    candidate = alive[:, None, None] & in_reach & seen  # [B, W, N, N]
    return focus_or_nearest(candidate, aim.distance[:, None], is_focus)


def focus_or_nearest(candidate: Tensor, distance: Tensor, is_focus: Tensor) -> tuple[Tensor, Tensor]:
    """The focus target if it is a candidate, else the nearest, ties to the lowest index.

    Args:
        candidate: `[..., N]` bool, by target.
        distance: `[..., N]` vox.
        is_focus: `[..., N]` bool, true for at most one target.

    Returns:
        `[...]` bool, whether there is a target, and `[...]` int64, its index (0 where there is none).
    """
    first, target = torch.where(candidate, torch.where(is_focus, -1.0, distance), torch.inf).min(-1)
    return first.isfinite(), target


@torch.library.custom_op("echelon::designate", mutates_args=(), device_types="cpu")
def designate_loops(
    distance: Tensor,
    bearing_cos: Tensor,
    ground: Tensor,
    line: Tensor,
    lock: Tensor,
    focus: Tensor,
    alive: Tensor,
    reach_vox: Tensor,
    arc_cos: Tensor,
    focus_arc_cos: Tensor,
    needs_line: Tensor,
    needs_lock: Tensor,
    focus_only: Tensor,
) -> tuple[Tensor, Tensor]:
    """`designate` weapon by weapon, skipping mechs without the weapon; takes the fields of `Aim` and `AimTable`."""
    shape = (distance.shape[0], *reach_vox.shape[:2])
    aimed, target = (
        torch.zeros(shape, dtype=torch.bool, device="cpu"),
        torch.zeros(shape, dtype=torch.int64, device="cpu"),
    )
    pairs = array(distance), array(bearing_cos), array(ground), array(line), array(lock)
    arcs, needs = (array(arc_cos), array(focus_arc_cos)), (array(needs_line), array(needs_lock), array(focus_only))
    _designate_loop(*pairs, array(focus), array(alive), array(reach_vox), arcs, needs, array(aimed), array(target))
    return aimed, target


@designate_loops.register_fake
def _(*facts: Tensor) -> tuple[Tensor, Tensor]:
    focus, alive, reach_vox = facts[5:8]
    shape = (focus.shape[0], *reach_vox.shape[:2])
    return alive.new_empty(shape), focus.new_empty(shape)


@compiled
def _designate_loop(
    distance: Any,
    bearing_cos: Any,
    ground: Any,
    line: Any,
    lock: Any,
    focus: Any,
    alive: Any,
    reach_vox: Any,
    arcs: Any,
    needs: Any,
    aimed: Any,
    target: Any,
) -> None:
    """Fills `aimed` (all false) and `target` (all zeros), `[B, W, N]`; `arcs` and `needs` hold arrays `[W, 1, 1]`."""
    count = distance.shape[1]
    for weapon in range(reach_vox.shape[0]):
        wide_cos, focus_cos = arcs[0][weapon, 0, 0], arcs[1][weapon, 0, 0]
        needs_line, needs_lock, focus_only = needs[0][weapon, 0, 0], needs[1][weapon, 0, 0], needs[2][weapon, 0, 0]
        for shooter in range(count):
            carried = False
            for other in range(count):
                carried = carried or reach_vox[weapon, shooter, other] >= ZERO
            if not carried:
                continue
            for battle in range(distance.shape[0]):
                best, wish = INFINITY, focus[battle, shooter]
                for other in range(count):
                    away = distance[battle, shooter, other]
                    if away > reach_vox[weapon, shooter, other] or not alive[battle, other]:
                        continue
                    if (needs_line and not line[battle, shooter, other]) or (focus_only and other != wish):
                        continue
                    if needs_lock and not lock[battle, shooter, other]:
                        continue
                    arc_cos = focus_cos if other == wish else wide_cos
                    key = -ONE if other == wish else away
                    if key < best and bearing_cos[battle, shooter, other] >= arc_cos * ground[battle, shooter, other]:
                        best = key
                        aimed[battle, weapon, shooter] = True
                        target[battle, weapon, shooter] = other
