"""Sums of weights by voxel: the loop against the dense form."""

import pytest
import torch
from kernel_cases import BATTLES, check_operator

from echelon.sim.kernels.total_by_voxel import total_by_voxel_dense, total_by_voxel_loops

pytestmark = pytest.mark.quick


def test_the_loop_returns_the_bits_of_the_dense_form():
    generator = torch.Generator().manual_seed(4)
    voxel = torch.randint(0, 12, (BATTLES, 56), generator=generator, dtype=torch.int32)
    weight = torch.randint(1, 50, (56,), generator=generator).float()
    for share in (0.0, 0.1, 0.7):
        counts = torch.rand(BATTLES, 56, generator=generator) < share
        total, first = total_by_voxel_loops(voxel, counts, weight)
        dense_total, dense_first = total_by_voxel_dense(voxel, counts, weight)
        assert torch.equal(total, dense_total) and torch.equal(first, dense_first)
        assert first.any() == (share > 0)


def test_rows_that_name_a_voxel_share_its_total_and_the_first_that_counts_leads():
    voxel, weight = torch.tensor([[7, 3, 7, 7]], dtype=torch.int32), torch.tensor([1.0, 2.0, 4.0, 8.0])
    counts = torch.tensor([[False, True, True, True]])
    total, first = total_by_voxel_dense(voxel, counts, weight)
    assert total.tolist() == [[12.0, 2.0, 12.0, 12.0]] and first.tolist() == [[False, True, True, False]]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_operator_can_be_compiled():
    voxel, counts = torch.zeros(2, 4, dtype=torch.int32), torch.ones(2, 4, dtype=torch.bool)
    check_operator(torch.ops.echelon.total_by_voxel, voxel, counts, torch.ones(4))
