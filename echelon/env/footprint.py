"""Estimate how much memory battles and maps of a config need, before any memory is allocated."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Composite

from echelon.env.specs import Specs
from echelon.rules.config import EnvConfig
from echelon.rules.position import MOST_PLACES
from echelon.rules.roster import build_roster
from echelon.runtime.device import total_memory
from echelon.runtime.errors import ConfigError
from echelon.state import TELEMETRY_CELLS, Maps, initial_state, single_zone_objective, undamaged_spawns
from echelon.world.pool import BLOCK
from echelon.world.walkways import num_ways

COPIES_OF_GROUND = 2
"""A reset creates all battles' terrain while the old terrain still exists; a map pool is concatenated from blocks."""
COPIES_OF_STEP = 3
"""States and observations that exist at once: of this decision, of the next one, and of the reset after it."""
DRAFTS_OF_MAP = 2
"""Peak memory while generating one map, in units of one map."""
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


@dataclass(frozen=True)
class Footprint:
    """Memory that one battle and one map occupy, in bytes."""

    ground: int
    """Bytes of a battle's own terrain."""
    step: int
    """Bytes of the rest of its state, one observation of all its mechs, and their actions."""
    map: int
    """Bytes of a map of the pool."""
    opening: int
    """Bytes of the initial observation on a map."""

    @property
    def battle(self) -> int:
        """Peak bytes of a battle while it is stepped."""
        return COPIES_OF_GROUND * self.ground + COPIES_OF_STEP * self.step

    def pool(self, maps: int, at_once: int) -> int:
        """Return the peak bytes of a pool of `maps` maps, `at_once` of which are generated at a time."""
        return maps * (COPIES_OF_GROUND * self.map + self.opening) + min(maps, at_once) * DRAFTS_OF_MAP * self.map


@functools.lru_cache(maxsize=64)
def footprint_of(config: EnvConfig) -> Footprint:
    """Return the bytes of one battle and one map of `config`, measured on an empty battle and an empty map."""
    cpu, roster = torch.device("cpu"), build_roster(config, torch.device("cpu"))
    maps, zero = empty_map(config), torch.zeros(1, dtype=torch.int64, device="cpu")
    state = initial_state(zero, zero, maps, roster, config)
    sizes = {"blue": len(config.blue), "red": len(config.red)}
    specs = Specs(config, sizes, Composite(), 1, cpu, has_commanders=True)
    observation, terrain = specs.observation().zero(), bytes_of(state.terrain.values())
    step = (
        bytes_of(leaves(state.to_tensordict()))
        - terrain
        + bytes_of(leaves(observation))
        + bytes_of(leaves(specs.action().zero()))
    )
    opening = sum(bytes_of(leaves(observation.get((group, "observation")))) for group in sizes)
    return Footprint(terrain, step, bytes_of(maps.values()), opening)


def empty_map(config: EnvConfig) -> Maps:
    """Return an empty map, batch `[1]`."""
    world, mechs = config.world, config.num_mechs
    plane = (1, world.size_y, world.size_x)

    def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device="cpu")

    has_areas = any(unit.area for position in config.positions for unit in position.units)
    areas = {"spawn_places": zeros(1, mechs, MOST_PLACES, 3)} if has_areas else {}
    return Maps(
        seed=zeros(1, dtype=torch.int64),
        material=zeros(1, world.size_z, *plane[1:], dtype=torch.uint8),
        **{name: zeros(*plane, dtype=torch.int32) for name in ("solid", "opaque", "hazard")},
        **{**undamaged_spawns(zeros(1, mechs, 3), build_roster(config, torch.device("cpu"))), **areas},
        spawn_yaw=zeros(1, mechs),
        zone_center=zeros(1, 2),
        zone_radius=zeros(1),
        path_length=zeros(*plane),
        path_direction=zeros(*plane, 2),
        ways=zeros(1, num_ways(config), *plane[1:], dtype=torch.int16),
        telemetry=zeros(1, TELEMETRY_CELLS, TELEMETRY_CELLS),
        **single_zone_objective(1, mechs, config.rules, torch.device("cpu")),
        batch_size=[1],
    )


def leaves(values: TensorDictBase) -> Iterable[Tensor]:
    """Return all tensors of a nested TensorDict."""
    return values.values(include_nested=True, leaves_only=True)


def bytes_of(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def needed_bytes(config: EnvConfig, num_envs: int, device: torch.device, makes_maps: bool = True, rows: int = 0) -> int:
    """Estimate the peak memory of battles while they are stepped, in bytes, within a factor of two and without
    networks.

    Args:
        config: the battle configuration.
        num_envs: number of battles.
        device: device of the battles; a GPU generates all maps at once.
        makes_maps: whether a map pool is generated for these battles; False if they share an existing pool.
        rows: decisions per battle in a rollout.
    """
    footprint = footprint_of(config)
    maps = config.num_maps
    pool = footprint.pool(maps, BLOCK if device.type == "cpu" else maps) if makes_maps else 0
    return num_envs * (footprint.battle + rows * footprint.step) + pool


def require_memory(
    config: EnvConfig, num_envs: int, device: torch.device, makes_maps: bool = True, rows: int = 0
) -> None:
    """Raise `ConfigError` if battles need more than the device's total memory, before any memory is allocated.

    Args:
        config, num_envs, device, makes_maps, rows: as in `needed_bytes`.
    """
    need, total = needed_bytes(config, num_envs, device, makes_maps, rows), total_memory(device)
    if need <= total:
        return
    of_battles = needed_bytes(config, num_envs, device, makes_maps=False, rows=rows)
    maps, machine = config.num_maps, "this machine" if device.type == "cpu" else str(device)
    text = f"{num_envs:,} battles of {config.title}" if 2 * of_battles >= need else f"{maps:,} maps of {config.title}"
    less = "num_envs" if 2 * of_battles >= need else "EnvConfig.positions" if config.positions else "EnvConfig.map_pool"
    rollout = f" and rollouts of {rows:,} decisions" if rows else ""
    message = f"{text}{rollout} need about {amount(need)}, {machine} has {amount(total)}"
    raise ConfigError(f"{message}: fewer {less}, or a smaller map")


def amount(size: float) -> str:
    """Format bytes with a unit, such as 4.1 TB."""
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            return f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError
