"""Leaves that shots pass: the loop against the dense form."""

import dataclasses

import pytest
import torch
from kernel_cases import check_operator

from echelon.env.env import EchelonEnv
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.runtime.geometry import unit
from echelon.sim.kernels.clear_leaves import clear_leaves_dense, clear_leaves_loops
from echelon.sim.rubble import bitten_voxel


def test_the_loop_clears_the_leaves_of_the_dense_form():
    """Shots through a jungle, some standing still, some up to its border, some along an axis."""
    config = dataclasses.replace(EnvConfig.standard(), map_pool=2, world=WorldConfig(biomes=("dense_jungle",)))
    env, generator = EchelonEnv(config, 4, "cpu", seed=2), torch.Generator().manual_seed(6)
    shape = (4, env.game.roster.shots.count, 3)
    start = torch.rand(shape, generator=generator) * torch.tensor([63.9, 63.9, 8.0])
    end = start + (torch.rand(shape, generator=generator) - 0.5) * 2.5
    end = end.clamp_min(0.0).minimum(env.game.size)
    end[:, ::5], end[:, 1::5, 2] = start[:, ::5], start[:, 1::5, 2]
    flew = torch.rand(shape[:2], generator=generator) < 0.8
    ways = bitten_voxel(start, unit(end - start), env.game), start, end, flew
    solid, grown = env.state.terrain.solid, env.state.terrain.opaque

    by_loop, dense = grown.clone(), grown.clone()
    muzzle, *others = ways
    clear_leaves_loops(by_loop, solid, *muzzle, *others, env.game.leaf_reach)
    clear_leaves_dense(dense, solid, *ways, env.game.leaf_rounds)
    assert torch.equal(by_loop, dense)
    assert (by_loop != grown).sum() > 20


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_operator_can_be_compiled():
    opaque, solid = torch.ones(2, 8, 8, dtype=torch.int32), torch.zeros(2, 8, 8, dtype=torch.int32)
    muzzle, flew = [torch.zeros(2, 3, dtype=torch.int64)] * 3, torch.ones(2, 3, dtype=torch.bool)
    start, planes = torch.rand(2, 3, 3), torch.ones(3, dtype=torch.int64)
    check_operator(torch.ops.echelon.clear_leaves, opaque, solid, *muzzle, start, start + 0.9, flew, planes)
