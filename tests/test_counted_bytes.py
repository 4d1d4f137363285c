"""`benchmarks/generated.py` counts no byte too few: sectors of segments, against the cells that segments enter."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def generated():
    """The module of the benchmarks."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("generated")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("cells", range(1, 20))
def test_sectors_of_consecutive_cells(generated, cells):
    found = max((first + cells - 1) // 8 - first // 8 + 1 for first in range(8))
    assert generated.sectors_along(cells) == found


@pytest.mark.parametrize("reach", [1, 2, 3, 4, 8, 9])
def test_sectors_of_segments(generated, reach):
    """Of segments of three axes as `sim/gpu/ground.py` walks them, in float32, many of them through edges."""
    generator = torch.Generator().manual_seed(reach)
    start = torch.rand(20_000, 3, generator=generator) * 16 + 16
    start[::2] = (start[::2] * 4).round() / 4
    way = (2 * torch.rand(20_000, 3, generator=generator) - 1) * (reach - 0.001)
    way[::3] = (way[::3] * 4).round() / 4 * (1 - 2**-20)
    to = start + way
    first, sign = start.floor(), torch.where(to < start, -1.0, 1.0)
    steps, length = (to.floor() - first).abs(), (to - start).abs()
    begin = torch.where(to < start, first + 1 - start, start - first)
    assert steps.max() <= reach
    entered = []
    for axis in range(3):
        for count in range(1, reach + 1):
            t = ((count - begin[:, axis]) / length[:, axis].clamp_min(1e-6)).clamp_max(1.0)
            gone = (begin + t[:, None] * length).floor().minimum(steps)
            gone[:, axis] = count
            cell = (first + sign * gone).long()
            sector = cell[:, 1] * 8 + cell[:, 0] // 8
            entered.append(torch.where(count <= steps[:, axis], sector, -1))
    found = [len(set(row) - {-1}) for row in torch.stack(entered, -1).tolist()]
    assert max(found) <= generated.sectors_of_flight(reach), "at most"
    assert max(found) >= reach, "and nearly that many are entered"


def test_bounds_follow_the_environment(generated):
    from echelon import EchelonEnv
    from echelon.rules.config import EnvConfig

    game = EchelonEnv(EnvConfig.small(), 2, device="cpu", seed=1, backend="eager").game
    bounds = generated.Bounds.of(game)
    assert len(bounds.shot_reach) == len(bounds.leaf_reach) == game.leaf_reach.shape[0]
    assert all(leaf <= reach <= leaf + 1 for leaf, reach in zip(bounds.leaf_reach, bounds.shot_reach, strict=True))
    assert max(bounds.hull_cells) <= 5 and len(bounds.hull_cells) == game.config.num_mechs
