"""Collisions between moving hulls."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from echelon.runtime.compile import axes
from echelon.sim.kernels.dispatch import array, called, compiled, loops_on


def hits_hull(old: Tensor, chosen: Tensor, priority: Tensor, alive: Tensor, half_size: Tensor) -> Tensor:
    """`[B, N]` bool: mechs that must stay so that no two hulls overlap.

    Those are the mechs whose chosen box overlaps the old box of another living mech, or the chosen box of one with
    higher priority; of equal priorities the lower index moves. Touching boxes do not overlap.

    Args:
        old, chosen: `[B, N, 3]` float32 vox, current and candidate centres of the hulls.
        priority: `[B, N]` float32.
        alive: `[B, N]` bool.
        half_size: `[N, 3]` float32 vox.
    """
    return (hits_hull_loops if loops_on(old.device) else hits_hull_dense)(old, chosen, priority, alive, half_size)


def hits_hull_dense(old: Tensor, chosen: Tensor, priority: Tensor, alive: Tensor, half_size: Tensor) -> Tensor:
    """`hits_hull` by comparing every mech with every other."""
    index = torch.arange(old.shape[1], device=old.device)
    ahead, level = priority[:, None] > priority[:, :, None], priority[:, None] == priority[:, :, None]
    outranked = ahead | (level & (index < index[:, None]))
    other = alive[:, None] & (index != index[:, None])
    meets = overlap(chosen, old, half_size) | (overlap(chosen, chosen, half_size) & outranked)
    return (other & meets).any(-1)


def overlap(pos_a: Tensor, pos_b: Tensor, half_size: Tensor) -> Tensor:
    """`[B, N, N]` bool: the box of mech i at `pos_a` overlaps that of mech j at `pos_b`, `[B, N, 3]` vox each."""
    reach = axes(half_size[:, None] + half_size)
    gaps = [(a[:, :, None] - b[:, None]).abs() for a, b in zip(axes(pos_a), axes(pos_b), strict=True)]
    return (gaps[0] < reach[0]) & (gaps[1] < reach[1]) & (gaps[2] < reach[2])


@torch.library.custom_op("echelon::hits_hull", mutates_args=(), device_types="cpu")
def hits_hull_loops(old: Tensor, chosen: Tensor, priority: Tensor, alive: Tensor, half_size: Tensor) -> Tensor:
    """`hits_hull` mech by mech, stopping at the first overlap."""
    hits = torch.zeros_like(alive, dtype=torch.bool)
    _hits_hull_loop(array(old), array(chosen), array(priority), array(alive), array(half_size), array(hits))
    return hits


@hits_hull_loops.register_fake
def _(old: Tensor, chosen: Tensor, priority: Tensor, alive: Tensor, half_size: Tensor) -> Tensor:
    return alive.new_empty(alive.shape)


@called
def overlaps(one: Any, other: Any, half: Any, other_half: Any) -> Any:
    """Whether the boxes of two hulls at two positions, of half sizes `half` and `other_half`, overlap; `[3]` each."""
    return (
        abs(one[0] - other[0]) < half[0] + other_half[0]
        and abs(one[1] - other[1]) < half[1] + other_half[1]
        and abs(one[2] - other[2]) < half[2] + other_half[2]
    )


@compiled
def _hits_hull_loop(old: Any, chosen: Any, priority: Any, alive: Any, half_size: Any, hits: Any) -> None:
    """Fills `hits [B, N]` (all false)."""
    for battle in range(old.shape[0]):
        rank = priority[battle]
        for mech in range(old.shape[1]):
            for other in range(old.shape[1]):
                if other == mech or not alive[battle, other]:
                    continue
                # Ranks are compared last: they are random, so a processor mispredicts that branch.
                at, halves = chosen[battle, mech], (half_size[mech], half_size[other])
                if overlaps(at, old[battle, other], halves[0], halves[1]) or (
                    overlaps(at, chosen[battle, other], halves[0], halves[1])
                    and (rank[other] > rank[mech] or (rank[other] == rank[mech] and other < mech))
                ):
                    hits[battle, mech] = True
                    break
