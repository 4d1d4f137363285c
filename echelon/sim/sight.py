"""Clear lines between mechs: no opaque voxel strictly between the cells of the two hull centres."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.geometry import length
from echelon.sim.game import Game
from echelon.sim.terrain import first_hit
from echelon.state import State


def clear_line(state: State, game: Game, start: Tensor, end: Tensor, range_vox: float) -> Tensor:
    """`[B, R]` bool for segments `[B, R, 3]`: at most `range_vox` long and not blocked."""
    near = length(end - start) <= range_vox
    blocked = first_hit(game.maps.opaque, state.map_id, start, end, range_vox, past_end=False)
    return near & blocked.isinf()


def enemy_lines(state: State, game: Game, range_vox: float) -> Tensor:
    """`[B, N, N]` bool, symmetric: clear lines within `range_vox` between mechs of different teams."""
    pos, split = state.mechs.pos, game.roster.num_blue
    batch, count = pos.shape[:2]
    blue, red = pos[:, :split], pos[:, split:]
    grid = (batch, split, count - split, 3)
    start, end = blue[:, :, None].expand(grid), red[:, None].expand(grid)
    line = clear_line(state, game, start.flatten(1, 2), end.flatten(1, 2), range_vox).view(grid[:3])

    nobody = torch.zeros_like(line[:, :, :1])
    top = torch.cat((nobody.expand(batch, split, split), line), 2)
    low = torch.cat((line.transpose(1, 2), nobody[:, :1].expand(batch, count - split, count - split)), 2)
    return torch.cat((top, low), 1)


def all_lines(state: State, game: Game, range_vox: float) -> Tensor:
    """`[B, N, N]` bool, symmetric: clear lines within `range_vox` between any two mechs; none to oneself."""
    pos, roster = state.mechs.pos, game.roster
    first, second = roster.pairs
    line = clear_line(state, game, pos[:, first], pos[:, second], range_vox)
    # Every pair was looked at once; both of its members read that answer.
    return line[:, roster.pair_of] & ~torch.eye(roster.num_mechs, dtype=torch.bool, device=pos.device)
