"""Mixtures, exploitability and the refit of all games at once (R29)."""

import math

import pytest
import torch
from leagues import unrated

from echelon.league.ratings import (
    PRIOR_GAMES,
    RATING,
    SCALE,
    Games,
    advantage,
    bradley_terry,
    cyclic_share,
    exploitability,
    nash,
    rate,
)


def even(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


CIRCLE = even([[0, 10, 0], [0, 0, 10], [10, 0, 0]])
TENS = even([[0, 10, 10], [10, 0, 10], [10, 10, 0]])


def test_rock_paper_scissors_has_equal_ratings_and_a_mixture():
    payoff = advantage(CIRCLE, TENS)
    assert torch.equal(payoff, even([[0, 1, -1], [-1, 0, 1], [1, -1, 0]]))
    mixture = nash(payoff)
    torch.testing.assert_close(mixture, torch.full((3,), 1 / 3, dtype=torch.float64), atol=1e-9, rtol=0)
    assert abs(exploitability(payoff, mixture)) < 1e-9
    assert exploitability(payoff, even([1, 0, 0])) == 1.0
    pairs = [(0, 1), (1, 2), (2, 0)]
    x, y = (torch.tensor(side) for side in zip(*pairs, strict=True))
    rated = rate(unrated(3), Games(x, y, torch.ones(3, dtype=torch.float64)))
    assert rated.rating.max() - rated.rating.min() < 1e-9


def test_uneven_cycle_has_the_known_mixture():
    """Payoffs a (0 over 1), b (1 over 2), c (2 over 0) mix as b : c : a."""
    a, b, c = 0.2, 0.5, 1.0
    payoff = even([[0, a, -c], [-a, 0, b], [c, -b, 0]])
    mixture = nash(payoff)
    expected = even([b, c, a]) / (a + b + c)
    torch.testing.assert_close(mixture, expected, atol=1e-7, rtol=0)
    assert abs(exploitability(payoff, mixture)) < 1e-7


def games_between(strength: torch.Tensor, count: int, chance: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points and numbers of games according to Bradley-Terry strengths."""
    wins = torch.sigmoid((strength[:, None] - strength[None, :]) / SCALE).double()
    drawn = torch.binomial(torch.full_like(wins, count), wins, generator=chance).triu(1)
    games = torch.full_like(wins, count).fill_diagonal_(0)
    return drawn + (games.triu(1) - drawn).T, games


def test_cycle_is_fully_cyclic_and_ladder_is_not():
    assert cyclic_share(CIRCLE, TENS)[0] == pytest.approx(1.0)
    strength = even([1000.0, 1300.0, 1500.0, 1900.0])
    games = TENS.new_full((4, 4), 1e6).fill_diagonal_(0)
    score = games * torch.sigmoid((strength[:, None] - strength[None, :]) / SCALE)
    share, chance = cyclic_share(score, games)
    assert share < 1e-6 and chance < 1e-5
    assert cyclic_share(TENS / 2, TENS) == (0.0, 0.0), "all even"


def test_cyclic_share_by_chance_matches_simulation():
    chance, strength = torch.Generator().manual_seed(0), torch.linspace(1200, 1800, 8)
    shares = even([[*cyclic_share(*games_between(strength, 16, chance))] for _ in range(40)]).mean(0).tolist()
    assert shares[0] == pytest.approx(shares[1], rel=0.15) and shares[0] > 0.02
    more = even([[*cyclic_share(*games_between(strength, 64, chance))] for _ in range(10)]).mean(0).tolist()
    assert more[0] < shares[0] / 3


def test_dominant_entry_is_the_whole_mixture():
    payoff = even([[0, 0.4, 0.2], [-0.4, 0, 0.9], [-0.2, -0.9, 0]])
    assert torch.equal(nash(payoff), even([1, 0, 0]))


def test_a_mixture_of_many_cannot_be_exploited():
    chance = torch.Generator().manual_seed(0)
    for entries in range(1, 41):
        games = torch.randint(0, 9, (entries, entries), generator=chance).triu(1)
        won = (torch.rand(entries, entries, generator=chance) * (games + 1)).floor().triu(1)
        payoff = advantage(won + (games - won).T, games + games.T)
        mixture = nash(payoff)
        assert (mixture >= 0).all() and abs(mixture.sum() - 1) < 1e-12 and torch.equal(mixture, nash(payoff))
        assert not mixture.signbit().any()  # -0.0 would be printed with its sign
        assert abs(exploitability(payoff, mixture)) < 1e-7


def test_equal_entries_have_equal_shares():
    torch.testing.assert_close(nash(torch.zeros(4, 4)), torch.full((4,), 0.25, dtype=torch.float64))
    # The first two beat the third and are equal to each other.
    assert torch.equal(nash(even([[0, 0, 1], [0, 0, 1], [-1, -1, 0]])), even([0.5, 0.5, 0]))


def test_pairs_without_games_count_as_even():
    assert torch.equal(advantage(torch.zeros(2, 2), torch.zeros(2, 2)), torch.zeros(2, 2, dtype=torch.float64))


def test_refit_finds_odds_and_stays_finite_for_undefeated_entries():
    strengths = bradley_terry(even([[0, 3000], [1000, 0]]))
    # Odds of 3 to 1 are 400 log10(3) points.
    assert abs((strengths[0] - strengths[1]).item() - 190.85) < 0.5
    assert abs(strengths.mean().item() - 1500) < 1e-6
    unbeaten = bradley_terry(even([[0, 10, 10], [0, 0, 10], [0, 0, 0]]))
    assert unbeaten.isfinite().all() and unbeaten[0] > unbeaten[1] > unbeaten[2]
    # The prior alone bounds it: a billion games and a quarter to a quarter.
    first, second = bradley_terry(even([[0, 1e9], [0, 0]])).tolist()
    assert abs(first - second - 400 * math.log10((1e9 + PRIOR_GAMES / 2) / (PRIOR_GAMES / 2))) < 1e-3


def check_maximum(score: torch.Tensor) -> torch.Tensor:
    """Return the strengths; at the maximum of the likelihood all entries have their expected points."""
    strength = (bradley_terry(score) - RATING) / SCALE
    points = score + PRIOR_GAMES / 2 * (1 - torch.eye(len(score), dtype=torch.float64))
    expected = ((points + points.T) * torch.sigmoid(strength[:, None] - strength[None, :])).sum(1)
    torch.testing.assert_close(expected, points.sum(1), atol=1e-6, rtol=1e-12)
    return strength


@pytest.mark.parametrize(("entries", "games", "share"), [(40, 1000, 0.9), (60, 2000, 0.6), (100, 1_000_000, 1.0)])
def test_the_refit_of_a_chain_has_converged(entries, games, share):
    """Each entry has played only its neighbours."""
    score = torch.diag(torch.full((entries - 1,), games * share).double(), -1)
    score += torch.diag(torch.full((entries - 1,), games * (1 - share)).double(), 1)
    assert (check_maximum(score).diff() > 0).all()


def test_refit_converges_where_full_newton_steps_diverge():
    """Two equal entries have played a hundred times as often as one of them has beaten the third."""
    strength = check_maximum(even([[0, 0, 0], [0, 0, 1e8], [1e6, 1e8, 0]]))
    assert abs(strength[1] - strength[2]) < 1e-3 and strength[0] < strength[1] - 10


def test_refit_supports_zero_and_one_entry():
    assert bradley_terry(torch.zeros(0, 0)).shape == (0,) and bradley_terry(torch.zeros(1, 1)).tolist() == [1500.0]
