"""Glicko-2: the paper's example, and invariances of a period (R22, R29)."""

import pytest
import torch
from leagues import unrated

from echelon.league.ratings import DEVIATION, Games, Ratings, rate


def ratings(rows: list[tuple[float, float, float]]) -> Ratings:
    return Ratings(*torch.tensor(rows, dtype=torch.float64).unbind(1))


def games(rows: list[tuple[int, int, float]]) -> Games:
    x, y, score = zip(*rows, strict=True)
    return Games(torch.tensor(x), torch.tensor(y), torch.tensor(score, dtype=torch.float64))


@pytest.mark.requirement("R22")
def test_example_of_the_paper():
    before = ratings([(1500, 200, 0.06), (1400, 30, 0.06), (1550, 100, 0.06), (1700, 300, 0.06)])
    after = rate(before, games([(0, 1, 1), (0, 2, 0), (0, 3, 0)]), tau=0.5)
    assert abs(after.rating[0].item() - 1464.0507) < 1e-4
    assert abs(after.deviation[0].item() - 151.5165) < 1e-4
    assert abs(after.volatility[0].item() - 0.0599960) < 1e-5


@pytest.mark.requirement("R22")
def test_the_order_of_a_period_changes_nothing():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(8, (300,), generator=generator)
    y = (x + torch.randint(1, 8, (300,), generator=generator)) % 8
    score = torch.randint(3, (300,), generator=generator) / 2
    order = torch.randperm(300, generator=generator)
    before = rate(unrated(8), Games(x[:50], y[:50], score[:50]))
    one, other = rate(before, Games(x, y, score)), rate(before, Games(x[order], y[order], score[order]))
    swapped = rate(before, Games(y, x, 1 - score))
    for a, b, c in zip(one, other, swapped, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)
        torch.testing.assert_close(a, c, atol=1e-9, rtol=0)


@pytest.mark.requirement("R22")
def test_deviation_grows_without_games_up_to_its_maximum():
    before = ratings([(1500, 50, 0.06), (1500, 50, 0.06), (1600, 200, 0.06), (1400, 349.9, 0.06)])
    after = rate(before, games([(0, 1, 1)]))
    # sqrt(200^2 + (173.7178 * 0.06)^2), rating and volatility as they were
    assert abs(after.deviation[2].item() - 200.2714) < 1e-3 and after.rating[2] == 1600
    assert after.deviation[3] == DEVIATION
    no_entry = torch.zeros(0, dtype=torch.int64)
    idle = rate(before, Games(no_entry, no_entry, torch.zeros(0, dtype=torch.float64)))
    assert (idle.deviation > before.deviation).all() and torch.equal(idle.rating, before.rating)


def test_a_surprise_raises_the_volatility():
    before = ratings([(1900, 40, 0.06), (1500, 40, 0.06), (1900, 40, 0.06), (1500, 40, 0.06)])
    after = rate(before, games([(0, 1, 0.0)] * 12 + [(2, 3, 1.0)] * 11 + [(2, 3, 0.0)]))
    assert after.volatility[0] > 0.0605 and after.volatility[2] < 0.06


@pytest.mark.requirement("R29")
def test_ratings_find_the_order_of_skills():
    """Synthetic skills of twenty entries, with ten periods of random pairings."""
    generator = torch.Generator().manual_seed(1)
    skill = torch.linspace(-2, 2, 20, dtype=torch.float64)
    now = unrated(20)
    for _ in range(10):
        x = torch.randint(20, (100,), generator=generator)
        y = (x + torch.randint(1, 20, (100,), generator=generator)) % 20
        wins = torch.rand(100, generator=generator, dtype=torch.float64) < torch.sigmoid(skill[x] - skill[y])
        now = rate(now, Games(x, y, wins.double()))
    ranks = now.rating.argsort().argsort().double()
    spearman = torch.corrcoef(torch.stack((ranks, torch.arange(20.0).double())))[0, 1]
    assert spearman > 0.95
