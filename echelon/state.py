"""The state of B battles side by side, every field a batched tensor on the device."""

from __future__ import annotations

import torch
from tensordict import TensorClass
from torch import Tensor

from echelon.actions import NO_MECH, PREFERENCES
from echelon.catalog import Roster, Timer
from echelon.config import EnvConfig

TELEMETRY_CELLS = 16
"""Rows and columns of the picture of a map from above."""


class Maps(TensorClass):
    """M maps that all battles share. Never changes during play. N mechs, size X, Y, Z in voxels."""

    material: Tensor  # [M, Z, Y, X] uint8, a Material
    solid: Tensor  # [M, Y, X] int32, bit z set where a voxel stops hulls and shots
    opaque: Tensor  # [M, Y, X] int32, bit z set where a voxel stops lines of sight
    spawn_pos: Tensor  # [M, N, 3] vox, hull centres, standing on the ground
    spawn_yaw: Tensor  # [M, N] rad
    zone_center: Tensor  # [M, 2] vox
    zone_radius: Tensor  # [M] vox
    path_length: Tensor  # [M, Y, X] vox, walking distance to the zone's edge, 0 inside
    path_direction: Tensor  # [M, Y, X, 2] unit vector of the next step towards the zone, 0 inside
    telemetry: Tensor  # [M, 16, 16] 0..1, the map seen from above


class Mechs(TensorClass):
    """Every mech of every battle. B battles, N mechs, blue first."""

    pos: Tensor  # [B, N, 3] vox, hull centre
    vel: Tensor  # [B, N, 3] vox/s
    yaw: Tensor  # [B, N] rad, 0 = +x
    hp: Tensor  # [B, N] hit points, 0 when dead
    leg_hp: Tensor  # [B, N] hit points of the legs, 0 when legged
    heat: Tensor  # [B, N] heat points
    stability: Tensor  # [B, N] 0 .. 100
    fallen: Tensor  # [B, N] int32 substeps until it stands up, 0 = on its feet
    suppressed: Tensor  # [B, N] int32 substeps of suppression left
    cooldown: Tensor  # [B, N, len(Timer)] int32 substeps until a weapon is ready

    @property
    def alive(self) -> Tensor:
        """[B, N] bool."""
        return self.hp > 0

    @property
    def legged(self) -> Tensor:
        """[B, N] bool: legs shot off."""
        return self.leg_hp <= 0


class Shots(TensorClass):
    """Shots in flight. Slot s belongs to one mech and weapon for ever (`Roster.shooter`)."""

    pos: Tensor  # [B, S, 3] vox
    vel: Tensor  # [B, S, 3] vox/s
    ttl: Tensor  # [B, S] int32 substeps of flight left, 0 = empty slot


class Tally(TensorClass):
    """What each mech did and suffered since its battle began."""

    damage: Tensor  # [B, N] hp taken from enemies
    kills: Tensor  # [B, N] enemies killed
    team_kills: Tensor  # [B, N] own mechs killed
    shots: Tensor  # [B, N] triggers that fired
    hits: Tensor  # [B, N] hits on enemies
    zone_s: Tensor  # [B, N] seconds inside the zone
    bad_actions: Tensor  # [B, N] action numbers that were not finite


class State(TensorClass):
    """B battles. What the next substep depends on, the maps and the catalog apart."""

    mechs: Mechs
    shots: Shots
    tally: Tally
    seed: Tensor  # [B] int64, this episode's own
    tick: Tensor  # [B] int64, substeps since the battle began
    map_id: Tensor  # [B] int64
    score: Tensor  # [B, 2] s of zone control, blue and red
    control: Tensor  # [B, 2] zone tick of each team in the last decision, 0..1
    messages: Tensor  # [B, N, comm_dim] what each mech said in the last decision
    focus_slots: Tensor  # [B, N, PREFERENCES] int64, hostile behind each first contact slot or NO_MECH


def open_battle(seed: Tensor, map_id: Tensor, maps: Maps, roster: Roster, config: EnvConfig) -> State:
    """Battles at their first moment: everybody whole at its spawn.

    Args:
        seed: `[B]` int64 episode seeds.
        map_id: `[B]` int64, the map of each battle.
    """
    batch, mechs, device = seed.shape[0], roster.num_mechs, seed.device

    def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros((batch, *shape), dtype=dtype, device=device)

    def full(per_mech: Tensor) -> Tensor:
        return per_mech.expand(batch, mechs).clone()

    return State(
        mechs=Mechs(
            pos=maps.spawn_pos[map_id],
            vel=zeros(mechs, 3),
            yaw=maps.spawn_yaw[map_id],
            hp=full(roster.hp),
            leg_hp=full(roster.leg_hp),
            heat=zeros(mechs),
            stability=zeros(mechs) + config.rules.stability_cap,
            fallen=zeros(mechs, dtype=torch.int32),
            suppressed=zeros(mechs, dtype=torch.int32),
            cooldown=zeros(mechs, len(Timer), dtype=torch.int32),
            batch_size=[batch],
        ),
        shots=Shots(
            pos=zeros(roster.num_shots, 3),
            vel=zeros(roster.num_shots, 3),
            ttl=zeros(roster.num_shots, dtype=torch.int32),
            batch_size=[batch],
        ),
        tally=Tally(**{name: zeros(mechs) for name in Tally.__dataclass_fields__}, batch_size=[batch]),
        seed=seed,
        tick=torch.zeros_like(seed),
        map_id=map_id,
        score=zeros(2),
        control=zeros(2),
        messages=zeros(mechs, config.comm_dim),
        focus_slots=torch.full((batch, mechs, PREFERENCES), NO_MECH, device=device),
        batch_size=[batch],
    )
