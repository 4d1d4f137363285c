"""Hulls that would meet each other: the loop against the dense form."""

import pytest
import torch
from kernel_cases import BATTLES, HALF_SIZE, check_operator, hull_places

from echelon.sim.kernels.hits_hull import hits_hull_dense, hits_hull_loops

pytestmark = pytest.mark.quick


def test_the_loop_finds_the_hulls_of_the_dense_form():
    """Some of equal priority, some dead."""
    generator = torch.Generator().manual_seed(3)
    old = hull_places(generator) * torch.tensor([0.3, 0.3, 0.2])
    alive = torch.rand(BATTLES, 20, generator=generator) < 0.8
    chosen = old + torch.randn(BATTLES, 20, 3, generator=generator) * 0.3
    priority = (torch.rand(BATTLES, 20, generator=generator) * 8).floor()
    stays = hits_hull_loops(old, chosen, priority, alive, HALF_SIZE)
    assert torch.equal(stays, hits_hull_dense(old, chosen, priority, alive, HALF_SIZE))
    assert 0.05 < stays.float().mean() < 0.95


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_operator_can_be_compiled():
    hulls, alive = torch.rand(2, 4, 3), torch.ones(2, 4, dtype=torch.bool)
    check_operator(torch.ops.echelon.hits_hull, hulls, hulls + 0.1, torch.rand(2, 4), alive, torch.ones(4, 3))
