"""Mixtures, exploitability and the refit of all games at once (R29)."""

import torch
from leagues import unrated

from echelon.league.ratings.game_theory import advantage, bradley_terry, exploitability, nash
from echelon.league.ratings.glicko2 import Games, rate


def even(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


CIRCLE = even([[0, 10, 0], [0, 0, 10], [10, 0, 0]])
TENS = even([[0, 10, 10], [10, 0, 10], [10, 10, 0]])


def test_rock_paper_scissors_shows_what_ratings_do_not():
    payoff = advantage(CIRCLE, TENS)
    assert torch.equal(payoff, even([[0, 1, -1], [-1, 0, 1], [1, -1, 0]]))
    mixture = nash(payoff)
    torch.testing.assert_close(mixture, torch.full((3,), 1 / 3, dtype=torch.float64), atol=1e-3, rtol=0)
    assert exploitability(payoff, mixture) < 1e-3
    assert exploitability(payoff, even([1, 0, 0])) == 1.0
    pairs = [(0, 1), (1, 2), (2, 0)]
    x, y = (torch.tensor(side) for side in zip(*pairs, strict=True))
    rated = rate(unrated(3), Games(x, y, torch.ones(3, dtype=torch.float64)))
    assert rated.rating.max() - rated.rating.min() < 1e-9


def test_a_lopsided_circle_has_the_mixture_of_the_textbook():
    """Payoffs a (0 over 1), b (1 over 2), c (2 over 0) mix as b : c : a."""
    a, b, c = 0.2, 0.5, 1.0
    payoff = even([[0, a, -c], [-a, 0, b], [c, -b, 0]])
    mixture = nash(payoff)
    expected = even([b, c, a]) / (a + b + c)
    torch.testing.assert_close(mixture, expected, atol=5e-3, rtol=0)
    assert exploitability(payoff, mixture) < 5e-3


def test_whoever_beats_all_is_the_whole_mixture():
    payoff = even([[0, 0.4, 0.2], [-0.4, 0, 0.9], [-0.2, -0.9, 0]])
    assert nash(payoff)[0] > 0.99
    assert exploitability(payoff, nash(payoff)) < 1e-2


def test_pairs_that_never_met_are_even():
    assert torch.equal(advantage(torch.zeros(2, 2), torch.zeros(2, 2)), torch.zeros(2, 2, dtype=torch.float64))


def test_the_refit_finds_the_odds_and_bounds_the_unbeaten():
    games = even([[0, 4000], [4000, 0]])
    strengths = bradley_terry(even([[0, 3000], [1000, 0]]), games)
    # Odds of 3 to 1 are 400 log10(3) points.
    assert abs((strengths[0] - strengths[1]).item() - 190.85) < 0.5
    assert abs(strengths.mean().item() - 1500) < 1e-6
    unbeaten = bradley_terry(even([[0, 10, 10], [0, 0, 10], [0, 0, 0]]), TENS)
    assert unbeaten.isfinite().all() and unbeaten[0] > unbeaten[1] > unbeaten[2]
