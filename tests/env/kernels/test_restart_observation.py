"""The first observation of battles that restart: the loop against the dense form."""

import pytest
import torch

from echelon.env.kernels.restart_observation import restart_observation_dense, restart_observation_loops


@pytest.mark.parametrize("features", [(3,), (4, 5)])
def test_both_forms_show_the_opening_of_the_chosen_battles_only(features):
    which, map_id = torch.tensor([True, False, True]), torch.tensor([1, 0, 0])
    openings, now = torch.rand(2, 5, *features), torch.rand(3, 2, *features)
    before, team = now.clone(), slice(3, 5)
    by_loop = restart_observation_loops(which, map_id, openings, team.start, now)
    assert torch.equal(by_loop, restart_observation_dense(which, map_id, openings, team, now))
    assert torch.equal(by_loop[0], openings[1, team]) and torch.equal(by_loop[1], before[1])
    assert torch.equal(now, before)
