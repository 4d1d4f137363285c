"""Compute which mechs sense which other mechs, by line of sight, radar, heat, paint (a target mark) and sound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from echelon.rules.actions import Orders
from echelon.runtime import exact
from echelon.runtime.geometry import either, heading, in_body_frame, length, pairwise_offset
from echelon.sim import ewar, formulas
from echelon.sim.ewar import Sensors
from echelon.sim.heat import is_running
from echelon.sim.model import SimModel
from echelon.sim.sight import open_ground, smoke_between
from echelon.sim.targeting import painted_by_pack, shown_by_paint
from echelon.state import State

NOISE_SCALE = 5.0


@dataclass(frozen=True)
class Senses:
    """The relation of each observing mech (row) to each other mech (column): geometry and sensing."""

    offset: Tensor
    """[B, N, N, 3] vox, from the row to the column."""
    distance: Tensor
    """[B, N, N] vox."""
    open: Tensor
    """[B, N, N] bool: no terrain between the two."""
    line: Tensor
    """[B, N, N] bool: within sight range, with neither terrain nor smoke between the two."""
    sees: Tensor
    """[B, N, N] bool: sensed by the row's own sensors."""
    intel: Tensor
    """[B, N, N] bool: a hostile that the row does not sense, but its packmates sense or painted."""
    painted: Tensor
    """[B, N, N] bool: painted by the row's pack."""
    sensors: Sensors


def perceive(state: State, orders: Orders, sim_model: SimModel) -> Senses:
    """Apply the detection rules of `EnvConfig.observation_mode`."""
    config, mechs, roster = sim_model.config, state.mechs, sim_model.roster
    offset = pairwise_offset(mechs.pos)
    distance = length(offset)
    open_, smoky = lines(state, sim_model)
    line = open_ & ~smoky & (distance <= config.sight_range_vox)

    sensors = ewar.sense(state, orders, distance, sim_model)
    painted = painted_by_pack(state, sim_model)
    is_other = ~torch.eye(roster.num_mechs, dtype=torch.bool, device=distance.device)
    present = mechs.alive[:, :, None] & mechs.alive[:, None] & is_other
    if config.observation_mode == "full":
        sees = present
    else:
        marked = shown_by_paint(state, sensors.quality, sim_model)
        radar_vox = config.radar_range_vox * sensors.quality * roster.cockpits.sensor_factor
        emits = (orders.ecm | orders.eccm) & is_running(mechs, sim_model)
        glows = (mechs.heat > sim_model.rules.bloom_heat * roster.heat_cap) | emits
        blooms = glows[:, None] & roster.hostile & ~smoky
        sees = present & (marked | (distance <= radar_vox[..., None]) | blooms | line)
    return Senses(offset, distance, open_, line, sees, tipped_off(sees, painted, present, sim_model), painted, sensors)


def lines(state: State, sim_model: SimModel) -> tuple[Tensor, Tensor]:
    """Return for each pair of mechs, at any range, whether terrain leaves the line between them open and whether smoke
    blocks it, `[B, N, N]` bool each.

    Both tensors are valid only for pairs of living mechs.
    """
    world, pairs = sim_model.config.world, sim_model.roster.everyone
    across = math.sqrt(world.size_x**2 + world.size_y**2 + world.size_z**2)
    open_ = pairs.matrix(open_ground(state, pairs, across))
    return open_, pairs.matrix(smoke_between(state, pairs, pairs.both(state.mechs.alive), sim_model))


def tipped_off(sees: Tensor, painted: Tensor, present: Tensor, sim_model: SimModel) -> Tensor:
    """Return which living hostiles each mech does not sense itself but its packmates sense or have painted,
    `[B, N, N]` bool."""
    roster = sim_model.roster
    packmates = (roster.pack[:, None] == roster.pack).to(torch.float32)
    # A matrix product of zeros and ones is exact in any order of summation.
    by_pack = packmates @ sees.to(torch.float32) > 0  # [B, N, N]
    return present & roster.hostile & (by_pack | painted) & ~sees


def sense_sound(senses: Senses, state: State, sim_model: SimModel) -> Tensor:
    """Return the noise that each mech hears from ahead, left, behind and right, `[B, N, 4]`: log(1 + sum of noise / (1
    + d^2)) / 5, where d is the distance in voxels.

    The noise of a mech grows with its speed and weight. Fallen and dead mechs are silent. Cover muffles noise.
    """
    mechs = state.mechs
    noise = length(mechs.vel) * sim_model.roster.noise_factor * (mechs.alive & (mechs.fallen == 0))
    loudness = formulas.loudness(
        noise[:, None], senses.distance, either(senses.open, 1.0, sim_model.rules.muffled_noise), 1
    )
    not_self = ~torch.eye(noise.shape[1], dtype=torch.bool, device=noise.device)
    ahead, left, _ = in_body_frame(senses.offset, heading(mechs.yaw)).unbind(-1)
    lengthwise = ahead.abs() >= left.abs()
    quadrants = (
        lengthwise & (ahead >= 0),
        ~lengthwise & (left > 0),
        lengthwise & (ahead < 0),
        ~lengthwise & (left <= 0),
    )
    total = torch.stack([exact.sum(loudness * (within & not_self), -1) for within in quadrants], -1)
    return exact.divide(exact.log1p(total), NOISE_SCALE)
