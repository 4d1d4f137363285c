"""Leaves that shots pass: the loop against the dense form."""

import pytest
import torch
from kernel_cases import check_operator, shots_through_a_jungle

from echelon.sim.kernels.clear_leaves import clear_leaves_dense, clear_leaves_loops


def test_the_loop_clears_the_leaves_of_the_dense_form():
    env, ways = shots_through_a_jungle()
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
