"""Rows in order by two keys: the loop against the dense form and against Python's sort."""

import pytest
import torch
from kernel_cases import check_operator

from echelon.env.kernels.lexsort import lexsort_dense, lexsort_loops


def test_the_loop_returns_the_order_of_the_dense_form():
    generator = torch.Generator().manual_seed(5)
    key = torch.randint(0, 4, (3, 7, 20), generator=generator).float()
    key[key == 3] = torch.inf
    tie_key = torch.randint(0, 5, (3, 7, 20), generator=generator).float()
    found = lexsort_loops(key, tie_key)
    assert torch.equal(found, lexsort_dense(key, tie_key))
    one, other = key[1, 2].tolist(), tie_key[1, 2].tolist()
    assert found[1, 2].tolist() == sorted(range(20), key=lambda item: (one[item], other[item], item))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_operator_can_be_compiled():
    check_operator(torch.ops.echelon.lexsort, torch.rand(2, 3, 4), torch.rand(2, 3, 4))
