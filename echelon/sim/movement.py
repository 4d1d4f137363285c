"""Movement of mechs: walking, turning, jets, gravity, and collisions with terrain and other hulls."""

import torch
from torch import Tensor

from echelon.rules.actions import Orders
from echelon.rules.catalog import Material
from echelon.runtime.compile import axes
from echelon.runtime.geometry import either, heading, to_world, wrap_angle
from echelon.sim import formulas
from echelon.sim.heat import bounded, is_running, is_shut_down
from echelon.sim.model import SimModel
from echelon.sim.terrain import hits_terrain, is_material, standing_on, stepped_up
from echelon.state import State


def move(state: State, orders: Orders, priority: Tensor, sim_model: SimModel) -> State:
    """Turn and accelerate all mechs, then move them along x, y and z, one axis after the other. Hulls never overlap and
    cannot step onto each other.

    Args:
        state: the state before the movement.
        orders: orders of all mechs.
        priority: random priorities of this substep, `[B, N]` float32; if two hulls would overlap, the mech with the
            lower priority stays.
        sim_model: constants of the battle.
    """
    state = steer(state, orders, sim_model)
    pos, vel = travel(state, priority, sim_model)
    return state.replace(mechs=state.mechs.replace(pos=pos, vel=vel))


def travel(state: State, priority: Tensor, sim_model: SimModel) -> tuple[Tensor, Tensor]:
    """Return positions and velocities, `[B, N, 3]`, after a move along x, y and z, one axis after the other."""
    pos, vel = state.mechs.pos, state.mechs.vel
    for axis in range(3):
        pos, vel = move_axis(axis, pos, vel, priority, state, sim_model)
    return pos, vel


def steer(state: State, orders: Orders, sim_model: SimModel) -> State:
    """Update yaw, velocity (throttle, jets and gravity) and the heat of the jets."""
    rules, mechs, roster = sim_model.rules, state.mechs, sim_model.roster
    runs = is_running(mechs, sim_model)
    legged = mechs.legged
    wades = is_material(standing_on(state, sim_model), Material.WATER)

    turned = wrap_angle(formulas.turned(mechs.yaw, orders.turn, roster.yaw_rate, rules.dt_s))
    yaw = torch.where(runs, turned, mechs.yaw)
    slowed = either(legged, rules.legged_speed, 1.0), either(wades, rules.water_speed, 1.0)
    pace = formulas.pace(roster.max_speed, *slowed)
    desired = to_world(orders.throttle, heading(yaw)) * pace[..., None]
    coasting = mechs.vel[..., :2] * rules.shutdown_damping
    drifts = is_shut_down(mechs, sim_model) & (mechs.fallen == 0)
    planar = torch.where(runs[..., None], desired, torch.where(drifts[..., None], coasting, 0.0))

    thrust = torch.where(runs, orders.thrust, 0.0)
    lift = formulas.lift(thrust, roster.jet, either(legged, rules.legged_jet, 1.0))
    vertical = formulas.climb_rate(mechs.vel[..., 2], lift, rules.gravity_vox_per_s2, rules.dt_s)
    vel = torch.cat((planar, vertical[..., None]), -1) * rules.velocity_damping
    heat = bounded(mechs.heat + formulas.jet_heat(thrust, rules.jet_heat_per_s, rules.dt_s), sim_model)
    return state.replace(mechs=mechs.replace(yaw=yaw, vel=torch.where(mechs.alive[..., None], vel, 0.0), heat=heat))


def move_axis(
    axis: int, pos: Tensor, vel: Tensor, priority: Tensor, state: State, sim_model: SimModel
) -> tuple[Tensor, Tensor]:
    """Move every mech along one axis.

    The first candidate position is without a step up. If terrain blocks it, the next candidate is `step_up_vox` higher;
    if terrain blocks that too, the mech keeps its old position. A mech stays if its candidate box overlaps the old box
    of another mech, or the candidate box of a mech with higher priority, even if that mech stays too.
    """
    roster, alive, solid = sim_model.roster, state.mechs.alive, state.terrain.solid
    flat, stopped = within_map(axis, pos, vel, sim_model)
    blocked = hits_terrain(solid, flat, roster.half_size, torch.ones_like(alive))
    new_pos = torch.where(blocked[..., None], pos, flat)
    stopped = stopped | blocked
    if axis < 2:
        raised = stepped_up(flat, sim_model)
        level = vel[..., 2].abs() < 1
        is_below_ceiling = raised[..., 2] + roster.half_size[:, 2] <= sim_model.config.world.size_z
        tries = blocked & level & is_below_ceiling
        climbs = tries & ~hits_terrain(solid, raised, roster.half_size, tries)
        new_pos = torch.where(climbs[..., None], raised, new_pos)
        stopped = stopped & ~climbs

    yields = hits_hull(pos, new_pos, priority, alive, roster.half_size)
    pos = torch.where((yields | ~alive)[..., None], pos, new_pos)
    is_axis = torch.arange(3, device=pos.device) == axis
    vel = torch.where((stopped | yields)[..., None] & is_axis, 0.0, vel)
    return pos, vel


def within_map(axis: int, pos: Tensor, vel: Tensor, sim_model: SimModel) -> tuple[Tensor, Tensor]:
    """Return positions after one substep along `axis`, clamped to the map, and a `[B, N]` bool mask of the mechs whose
    position was clamped."""
    world, half = sim_model.config.world, sim_model.roster.half_size[:, axis]
    size = (world.size_x, world.size_y, world.size_z)[axis]
    moved = pos[..., axis] + vel[..., axis] * sim_model.rules.dt_s
    inside = moved.maximum(half).minimum(size - half)
    components = list(pos.unbind(-1))
    components[axis] = inside
    return torch.stack(components, -1), inside != moved


def hits_hull(old: Tensor, chosen: Tensor, priority: Tensor, alive: Tensor, half_size: Tensor) -> Tensor:
    """Return a `[B, N]` bool mask of the mechs that must stay, which keeps hulls from overlapping.

    A mech stays if its chosen box overlaps the old box of another living mech, or the chosen box of a mech with higher
    priority. If the priorities of two mechs are equal, the mech with the lower index moves. Touching boxes do not
    overlap.

    Args:
        old, chosen: current and candidate centres of the hulls, `[B, N, 3]` float32 vox.
        priority: priorities of the mechs, `[B, N]` float32.
        alive: living mechs, `[B, N]` bool.
        half_size: half sizes of the hulls, `[N, 3]` float32 vox.
    """
    index = torch.arange(old.shape[1], device=old.device)
    is_higher, level = priority[:, None] > priority[:, :, None], priority[:, None] == priority[:, :, None]
    outranked = is_higher | (level & (index < index[:, None]))
    is_other = alive[:, None] & (index != index[:, None])
    overlaps = overlap(chosen, old, half_size) | (overlap(chosen, chosen, half_size) & outranked)
    return (is_other & overlaps).any(-1)


def overlap(pos_a: Tensor, pos_b: Tensor, half_size: Tensor, half_a: Tensor | None = None) -> Tensor:
    """Return `[B, N, N]` bool: the box of mech i at `pos_a` overlaps the box of mech j at `pos_b`.

    Positions are `[B, N, 3]` vox. `half_a` is half the size of the boxes at `pos_a`, by default `half_size`.
    """
    limits = axes((half_size if half_a is None else half_a)[:, None] + half_size)
    gaps = [(a[:, :, None] - b[:, None]).abs() for a, b in zip(axes(pos_a), axes(pos_b), strict=True)]
    return (gaps[0] < limits[0]) & (gaps[1] < limits[1]) & (gaps[2] < limits[2])
