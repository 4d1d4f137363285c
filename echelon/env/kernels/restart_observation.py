"""Battles that restart show the first observation of their maps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from echelon.env.select import select
from echelon.sim.kernels.dispatch import array, compiled, loops_on


def restart_observation(which: Tensor, map_id: Tensor, openings: Tensor, team: slice, now: Tensor) -> Tensor:
    """`[B, A, ...]` one stream of a team's observation: in the battles `which` that of `openings`, else `now`.

    Args:
        which: `[B]` bool, the battles that restart.
        map_id: `[B]` int64.
        openings: `[M, N, ...]` float32, the first observation on each map.
        team: where the team sits on the mech axis.
        now: `[B, A, ...]` float32.
    """
    if loops_on(which.device):
        return restart_observation_loops(which, map_id, openings, team.start, now)
    return restart_observation_dense(which, map_id, openings, team, now)


def restart_observation_dense(which: Tensor, map_id: Tensor, openings: Tensor, team: slice, now: Tensor) -> Tensor:
    """`restart_observation` by looking the opening of every battle up."""
    return select(which, openings[map_id][:, team], now)


@torch.library.custom_op("echelon::restart_observation", mutates_args=(), device_types="cpu")
def restart_observation_loops(which: Tensor, map_id: Tensor, openings: Tensor, first: int, now: Tensor) -> Tensor:
    """`restart_observation` by a copy of `now`, and the openings of the battles `which` written into it."""
    stream = now.clone(memory_format=torch.contiguous_format)
    openings = openings.flatten(2)
    _restart_observation_loop(array(which), array(map_id), array(openings), first, array(stream.flatten(2)))
    return stream


@restart_observation_loops.register_fake
def _(which: Tensor, map_id: Tensor, openings: Tensor, first: int, now: Tensor) -> Tensor:
    return now.new_empty(now.shape)


@compiled
def _restart_observation_loop(which: Any, map_id: Any, openings: Any, first: int, stream: Any) -> None:
    """Writes to `stream [B, A, F]`, of mechs from `first` on, from `openings [M, N, F]`."""
    for battle in range(which.shape[0]):
        if which[battle]:
            stream[battle] = openings[map_id[battle], first : first + stream.shape[1]]
