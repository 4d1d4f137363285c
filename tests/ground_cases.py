"""Generated terrain, and shots through it."""

import dataclasses

import torch

from echelon.env.env import EchelonEnv
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.runtime.geometry import unit
from echelon.sim.rubble import voxel_behind
from echelon.state import Maps
from echelon.world.pool import make_maps

BATTLES = 24


def standard_maps() -> Maps:
    """Return a generated map for each of `BATTLES` battles."""
    config = EnvConfig.standard()
    return make_maps(config, build_roster(config, torch.device("cpu")), torch.arange(BATTLES))


def shots_through_a_jungle() -> tuple[EchelonEnv, tuple]:
    """Return an environment of 4 battles and its shots: cells of their muzzles, start and end `[4, S, 3]`, and which
    are active `[4, S]`. Some stand still, some reach the border, some are axis-aligned; the last battle has none."""
    config = dataclasses.replace(EnvConfig.standard(), map_pool=2, world=WorldConfig(biomes=("dense_jungle",)))
    env, generator = EchelonEnv(config, 4, "cpu", seed=2, backend="eager"), torch.Generator().manual_seed(6)
    shape = (4, env.sim_model.roster.shots.count, 3)
    start = torch.rand(shape, generator=generator) * torch.tensor([63.9, 63.9, 8.0])
    end = start + (torch.rand(shape, generator=generator) - 0.5) * 2.5
    end = end.clamp_min(0.0).minimum(env.sim_model.size)
    end[:, ::5], end[:, 1::5, 2] = start[:, ::5], start[:, 1::5, 2]
    flew = torch.rand(shape[:2], generator=generator) < 0.8
    flew[3] = False
    return env, (voxel_behind(start, unit(end - start), env.sim_model), start, end, flew)
