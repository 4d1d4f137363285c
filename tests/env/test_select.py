"""`replace_rows`: copy rows of tensors for some battles."""

import torch

from echelon.env.restart import replace_rows


def test_replace_rows_changes_only_chosen_battles():
    which, rows = torch.tensor([True, False, True]), torch.tensor([1, 0, 1])
    table = torch.zeros(3, 4)
    flags = torch.tensor([False, True, False])[:, None].expand(3, 2).clone()
    replace_rows(
        which,
        rows,
        [table[:, 1:3], flags],
        [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[False] * 2, [True, False]])],
    )
    assert table.tolist() == [[0.0, 3.0, 4.0, 0.0], [0.0] * 4, [0.0, 3.0, 4.0, 0.0]]
    assert flags.tolist() == [[True, False], [True, True], [True, False]]


def test_replace_rows_casts_dtype_and_zeroes_without_source():
    target, source = torch.zeros(2, 1, dtype=torch.bfloat16), torch.full((2, 1), 1.001953125)
    replace_rows(torch.zeros(2, dtype=torch.bool), torch.arange(2), [target], [source])
    assert not target.any()
    replace_rows(torch.ones(2, dtype=torch.bool), None, [target], [source])
    assert torch.equal(target, source.bfloat16())
