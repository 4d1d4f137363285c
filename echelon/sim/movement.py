"""Walking, turning, jets and gravity, against terrain and against other hulls."""

from __future__ import annotations

import torch
from torch import Tensor

from echelon.rules.actions import Orders
from echelon.rules.catalog import Material
from echelon.runtime.compile import axes
from echelon.runtime.geometry import heading, to_world, wrap_angle
from echelon.sim.heat import bounded, is_running, is_shut_down
from echelon.sim.model import SimModel
from echelon.sim.terrain import HAS_LOOPS, columns_at, height_bits, is_material, loops_on, standing_on
from echelon.state import State

if HAS_LOOPS:
    from echelon.sim.loops import bump, collide

WIDEST_CELLS = 5
"""Cells the widest hull (3.5 vox) can touch along one axis."""


def move(state: State, orders: Orders, priority: Tensor, game: SimModel) -> State:
    """Turn, set off, then go axis by axis x, y, z. Hulls never overlap and nobody climbs a comrade.

    Args:
        priority: `[B, N]`, drawn anew each substep; where two hulls want one place the lower one yields.
    """
    state = steer(state, orders, game)
    pos, vel = state.mechs.pos, state.mechs.vel
    for axis in range(3):
        pos, vel = go(axis, pos, vel, priority, state, game)
    return state.replace(mechs=state.mechs.replace(pos=pos, vel=vel))


def steer(state: State, orders: Orders, game: SimModel) -> State:
    """Yaw, the velocity each mech wants, gravity, and the heat of its jets."""
    rules, mechs, roster = game.rules, state.mechs, game.roster
    runs = is_running(mechs, game)
    legged = mechs.legged
    wades = is_material(standing_on(state, game), Material.WATER)

    yaw = torch.where(runs, wrap_angle(mechs.yaw + orders.turn * roster.yaw_rate * rules.dt_s), mechs.yaw)
    pace = roster.max_speed * torch.where(legged, rules.legged_speed, 1.0) * torch.where(wades, rules.water_speed, 1.0)
    wanted = to_world(orders.throttle, heading(yaw)) * pace[..., None]
    coasting = mechs.vel[..., :2] * rules.shutdown_damping
    drifts = is_shut_down(mechs, game) & (mechs.fallen == 0)
    planar = torch.where(runs[..., None], wanted, torch.where(drifts[..., None], coasting, 0.0))

    thrust = torch.where(runs, orders.thrust, 0.0)
    lift = thrust * roster.jet * torch.where(legged, rules.legged_jet, 1.0)
    vertical = mechs.vel[..., 2:] + ((lift - rules.gravity_vox_per_s2) * rules.dt_s)[..., None]
    vel = torch.cat((planar, vertical), -1) * rules.velocity_damping
    heat = bounded(mechs.heat + thrust * rules.jet_heat_per_s * rules.dt_s, game)
    return state.replace(mechs=mechs.replace(yaw=yaw, vel=torch.where(mechs.alive[..., None], vel, 0.0), heat=heat))


def go(axis: int, pos: Tensor, vel: Tensor, priority: Tensor, state: State, game: SimModel) -> tuple[Tensor, Tensor]:
    """Move every mech along one axis.

    The chosen box is the flat one, or one `step_up_vox` higher where terrain blocks the flat one, or the old one
    where both are blocked. Then a mech stays if its chosen box meets another's old box, or the chosen box of a
    mech of higher priority, even of one that is itself refused.
    """
    roster, alive = game.roster, state.mechs.alive
    flat, stopped = within_map(axis, pos, vel, game)
    blocked = collides(flat, torch.ones_like(alive), state, game)
    chosen = torch.where(blocked[..., None], pos, flat)
    stopped = stopped | blocked
    if axis < 2:
        raised = flat + game.rules.step_up_vox * (torch.arange(3, device=pos.device) == 2)
        level = vel[..., 2].abs() < 1
        fits = raised[..., 2] + roster.half_size[:, 2] <= game.config.world.size_z
        tries = blocked & level & fits
        climbs = tries & ~collides(raised, tries, state, game)
        chosen = torch.where(climbs[..., None], raised, chosen)
        stopped = stopped & ~climbs

    yields = gives_way(pos, chosen, priority, alive, roster.half_size)
    pos = torch.where((yields | ~alive)[..., None], pos, chosen)
    is_axis = torch.arange(3, device=pos.device) == axis
    vel = torch.where((stopped | yields)[..., None] & is_axis, 0.0, vel)
    return pos, vel


def within_map(axis: int, pos: Tensor, vel: Tensor, game: SimModel) -> tuple[Tensor, Tensor]:
    """Positions one substep further along `axis`, kept inside the map, and `[B, N]` bool who met its edge."""
    world, half = game.config.world, game.roster.half_size[:, axis]
    size = (world.size_x, world.size_y, world.size_z)[axis]
    ahead = pos[..., axis] + vel[..., axis] * game.rules.dt_s
    kept = ahead.maximum(half).minimum(size - half)
    parts = list(pos.unbind(-1))
    parts[axis] = kept
    return torch.stack(parts, -1), kept != ahead


def hull_cells(pos: Tensor, half_size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The ground cells that hulls of `half_size [N, 3]` at `pos [B, N, 3]` touch.

    Returns:
        `[B, N, WIDEST_CELLS ** 2]` int64 x and y, small hulls repeat their last, and bool, whether it is no repeat.
    """
    half = half_size[:, :2]
    first = (pos[..., :2] - half).floor().long()  # [B, N, 2]
    last = (pos[..., :2] + half).ceil().long() - 1
    reach = first[..., None] + torch.arange(WIDEST_CELLS, device=pos.device)  # [B, N, 2, 5]
    cells, touched = reach.minimum(last[..., None]), reach <= last[..., None]
    grid = (*cells.shape[:2], WIDEST_CELLS, WIDEST_CELLS)
    x = cells[..., 0, None, :].expand(grid)
    y = cells[..., 1, :, None].expand(grid)
    both = touched[..., 0, None, :] & touched[..., 1, :, None]
    return x.flatten(2), y.flatten(2), both.flatten(2)


def collides(pos: Tensor, asked: Tensor, state: State, game: SimModel) -> Tensor:
    """`[B, N]` bool: a hull at `pos` meets a solid voxel; false where nobody `asked`, `[B, N]` bool."""
    columns, half_size = state.terrain.solid, game.roster.half_size
    if loops_on(pos.device):
        return collide(columns, pos, half_size, asked)
    return asked & collides_in_closed_form(columns, pos, half_size)


def collides_in_closed_form(columns: Tensor, pos: Tensor, half_size: Tensor) -> Tensor:
    """`collides` for every hull, each over as many columns as the widest one needs."""
    x, y, _ = hull_cells(pos, half_size)
    return ((columns_at(columns, x, y) & height_bits(pos, half_size)[..., None]) != 0).any(-1)


def overlap(pos_a: Tensor, pos_b: Tensor, half_size: Tensor) -> Tensor:
    """`[B, N, N]` bool: box of mech i at `pos_a` meets box of mech j at `pos_b`; touching is not meeting."""
    reach = axes(half_size[:, None] + half_size)
    gaps = [(a[:, :, None] - b[:, None]).abs() for a, b in zip(axes(pos_a), axes(pos_b), strict=True)]
    return (gaps[0] < reach[0]) & (gaps[1] < reach[1]) & (gaps[2] < reach[2])


def gives_way(old: Tensor, chosen: Tensor, priority: Tensor, alive: Tensor, half_size: Tensor) -> Tensor:
    """`[B, N]` bool: who stays where it is so that no two hulls meet. Of equal priority the lower index goes first."""
    if loops_on(old.device):
        return bump(old, chosen, priority, alive, half_size)
    return gives_way_in_closed_form(old, chosen, priority, alive, half_size)


def gives_way_in_closed_form(old: Tensor, chosen: Tensor, priority: Tensor, alive: Tensor, half_size: Tensor) -> Tensor:
    """`gives_way`, every mech held against every other."""
    index = torch.arange(old.shape[1], device=old.device)
    ahead, level = priority[:, None] > priority[:, :, None], priority[:, None] == priority[:, :, None]
    outranked = ahead | (level & (index < index[:, None]))
    other = alive[:, None] & (index != index[:, None])
    meets = overlap(chosen, old, half_size) | (overlap(chosen, chosen, half_size) & outranked)
    return (other & meets).any(-1)
