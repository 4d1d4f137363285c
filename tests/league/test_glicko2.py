"""Glicko-2: the paper's example, and invariances of a period (R22, R29)."""

import pytest
import torch
from leagues import unrated

from echelon.league.ratings import DEVIATION, RATING, SCALE, Games, Ratings, rate, rating_against


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


def test_rating_against_fixed_opponents_is_the_maximum_of_the_posterior():
    """The maximum over a grid of log prior plus log likelihood; its curvature by differences."""
    others = ratings([(1400, 30, 0.06), (1550, 100, 0.06), (1700, 300, 0.06)])
    counts, points = torch.tensor([8, 4, 6]), torch.tensor([6.5, 1.0, 3.0], dtype=torch.float64)

    def log_posterior(rating):
        g = 1 / torch.sqrt(1 + 3 * (others.deviation / SCALE) ** 2 / torch.pi**2)
        share = 1 / (1 + torch.exp(-g * (rating - others.rating) / SCALE))
        likelihood = points * share.log() + (counts - points) * (1 - share).log()
        return float(likelihood.sum()) - ((rating - RATING) / DEVIATION) ** 2 / 2

    rating, deviation = rating_against(others, counts, points)
    best = max((rating + 0.1 * offset for offset in range(-3000, 3000)), key=log_posterior)
    assert abs(best - rating) < 0.1
    curvature = log_posterior(rating + 1) - 2 * log_posterior(rating) + log_posterior(rating - 1)
    assert abs(deviation - (-1 / curvature) ** 0.5) < 0.1


def test_rating_against_fixed_opponents_stays_finite():
    others = ratings([(2400, 30, 0.06)])
    for points in (0.0, 5000.0):
        rating, deviation = rating_against(others, torch.tensor([5000]), torch.tensor([points]))
        assert 0 < rating < 5000 and 0 < deviation < DEVIATION
    no_games = torch.zeros(1)
    assert rating_against(others, no_games, no_games) == (RATING, pytest.approx(DEVIATION))


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
