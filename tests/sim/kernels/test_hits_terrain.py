"""Hulls in the ground: the loop against the dense form."""

import pytest
import torch
from kernel_cases import BATTLES, HALF_SIZE, check_operator, hull_places, standard_maps

from echelon.sim.kernels.hits_terrain import hits_terrain_dense, hits_terrain_loops

pytestmark = pytest.mark.quick


def test_the_loop_finds_the_hulls_of_the_dense_form():
    generator, solid = torch.Generator().manual_seed(3), standard_maps().solid
    pos = hull_places(generator)
    asked = torch.rand(BATTLES, 20, generator=generator) < 0.8
    found = hits_terrain_loops(solid, pos, HALF_SIZE, asked)
    assert torch.equal(found, hits_terrain_dense(solid, pos, HALF_SIZE, asked))
    assert 0.05 < found.float().mean() < 0.9 and not found[~asked].any()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_operator_can_be_compiled():
    columns, asked = torch.ones(2, 8, 8, dtype=torch.int32), torch.ones(2, 4, dtype=torch.bool)
    check_operator(torch.ops.echelon.hits_terrain, columns, torch.rand(2, 4, 3), torch.ones(4, 3), asked)
