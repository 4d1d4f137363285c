"""Smoke between mechs: the loop against the dense form."""

import pytest
import torch
from builders import battle
from first_catalog import CATALOG
from kernel_cases import check_operator

from echelon.sim.kernels.crosses_smoke import crosses_smoke_dense, crosses_smoke_loops

pytestmark = pytest.mark.quick


def test_the_loop_finds_the_pairs_of_the_dense_form():
    s = battle(("scout",) * 4, ("light",) * 4)
    pairs, generator = s.game.roster.everyone, torch.Generator().manual_seed(2)
    asked = torch.ones(1, len(pairs.first), dtype=torch.bool)
    seen = []
    for _ in range(300):
        s.state.mechs.pos.copy_(torch.rand(1, 8, 3, generator=generator) * torch.tensor([40.0, 40.0, 4.0]))
        clouds = torch.rand(1, 24, 3, generator=generator) * torch.tensor([40.0, 40.0, 6.0])
        hangs = torch.rand(1, 24, generator=generator) < 0.1
        facts = s.state.mechs.pos, clouds, hangs, pairs.first, pairs.second, CATALOG.cloud_vox
        found = crosses_smoke_loops(*facts, asked)
        assert torch.equal(found, crosses_smoke_dense(*facts, asked))
        assert not crosses_smoke_loops(*facts, ~asked).any() and not crosses_smoke_dense(*facts, ~asked).any()
        seen.append(found.float().mean())
    assert 0.05 < torch.stack(seen).mean() < 0.6


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_operator_can_be_compiled():
    pos, clouds = torch.rand(2, 4, 3), torch.rand(2, 6, 3)
    hangs, asked = torch.ones(2, 6, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool)
    first, second = torch.tensor([[0, 1], [2, 3]])
    check_operator(torch.ops.echelon.crosses_smoke, pos, clouds, hangs, first, second, 4.0, asked)
