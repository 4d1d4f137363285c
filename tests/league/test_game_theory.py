"""Mixtures, exploitability and the refit of all games at once (R29)."""

import importlib
import itertools
import math
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from leagues import unrated

from echelon.league.mixture import exploitability, nash
from echelon.league.ratings import (
    PRIOR_GAMES,
    RATING,
    SCALE,
    Games,
    advantage,
    bradley_terry,
    cyclic_share,
    rate,
)


def even(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


CIRCLE = even([[0, 10, 0], [0, 0, 10], [10, 0, 0]])
TENS = even([[0, 10, 10], [10, 0, 10], [10, 10, 0]])


@pytest.mark.requirement("R29")
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
    torch.testing.assert_close(nash(payoff), even([1, 0, 0]), atol=0, rtol=0)


@pytest.mark.requirement("R29")
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
    # The first two beat the third and are even with one another.
    torch.testing.assert_close(nash(even([[0, 0, 1], [0, 0, 1], [-1, -1, 0]])), even([0.5, 0.5, 0]))


def repeated(payoff: torch.Tensor, entry: int, copies: int) -> torch.Tensor:
    """The payoffs of a league to which copies of an entry were added."""
    entries = [*range(len(payoff)), *[entry] * copies]
    return payoff[entries][:, entries]


def test_copies_share_the_part_of_their_entry_where_the_mixture_is_unique():
    circle = even([[0, 0.2, -1, 0.5], [-0.2, 0, 0.5, 0.25], [1, -0.5, 0, 0.75], [-0.5, -0.25, -0.75, 0]])
    alone = nash(circle)
    torch.testing.assert_close(alone, even([0.5, 1, 0.2, 0]) / 1.7, atol=1e-9, rtol=0)
    for entry in range(4):
        mixture = nash(repeated(circle, entry, 10))
        others = [other for other in range(4) if other != entry]
        torch.testing.assert_close(mixture[others], alone[others], atol=1e-8, rtol=0)
        own = mixture[[entry, *range(4, 14)]]
        torch.testing.assert_close(own, (alone[entry] / 11).expand(11), atol=1e-8, rtol=0)


def test_a_copy_changes_other_shares_where_several_mixtures_are_optimal():
    pair = torch.zeros(2, 2)
    torch.testing.assert_close(nash(pair), even([0.5, 0.5]))
    torch.testing.assert_close(nash(repeated(pair, 1, 1)), even([1, 1, 1]) / 3)


def test_strictly_dominated_entries_have_no_share():
    chance = torch.Generator().manual_seed(1)
    for entries in range(2, 12):
        upper = torch.randint(-8, 9, (entries, entries), generator=chance).double().triu(1) / 16
        payoff = upper - upper.T
        # A worse version of the first entry: it has less against each entry, and loses to the first.
        row = torch.cat((payoff[0] - 1 / 32, payoff.new_zeros(1)))
        payoff = torch.vstack((torch.column_stack((payoff, -row[:-1])), row))
        payoff[-1, 0], payoff[0, -1] = -1 / 32, 1 / 32
        assert nash(payoff)[-1] == 0.0


def solve(rows: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """The unique solution of a linear system by Gauss's elimination; None where there is none or more than one."""
    table, width = [[*row, value] for row, value in zip(rows, right, strict=True)], len(rows[0])
    for column in range(width):
        pivot = next((r for r in range(column, len(table)) if table[r][column] != 0), None)
        if pivot is None:
            return None
        table[column], table[pivot] = table[pivot], table[column]
        table[column] = [value / table[column][column] for value in table[column]]
        for r, row in enumerate(table):
            if r != column:
                table[r] = [value - row[column] * lead for value, lead in zip(row, table[column], strict=True)]
    return None if any(row[-1] != 0 for row in table[width:]) else [row[-1] for row in table[:width]]


def corners(payoff: list[list[Fraction]]) -> list[list[Fraction]]:
    """All vertices of the set of Nash mixtures, in rationals: each solves `E` of the constraints with equality."""
    count, found = len(payoff), []
    for size in range(1, count + 1):
        for support in itertools.combinations(range(count), size):
            for tight in itertools.combinations(range(count), size - 1):
                rows = [[payoff[row][column] for column in support] for row in tight] + [[Fraction(1)] * size]
                shares = solve(rows, [Fraction(0)] * (size - 1) + [Fraction(1)])
                if shares is None or min(shares) <= 0:
                    continue
                x = [Fraction(0)] * count
                for entry, share in zip(support, shares, strict=True):
                    x[entry] = share
                if max(sum(a * b for a, b in zip(row, x, strict=True)) for row in payoff) <= 0 and x not in found:
                    found.append(x)
    return found


def test_mixture_is_the_one_of_greatest_entropy_by_an_exact_solver():
    """200 random games with ties and twins, of up to five entries, against all vertices of the optimal set."""
    chance, several = torch.Generator().manual_seed(2), 0
    for number in range(200):
        entries = 2 + number % 4
        upper = torch.randint(-2, 3, (entries, entries), generator=chance).triu(1)
        whole = upper - upper.T
        if number % 3 == 0:
            whole = repeated(whole, 0, 1)[:5, :5]
        exact = corners([[Fraction(value) for value in row] for row in whole.tolist()])
        vertices = even([[float(share) for share in vertex] for vertex in exact])
        mixture, several = nash(whole.double()), several + (len(exact) > 1)
        assert exploitability(whole.double(), mixture) < 1e-12
        assert torch.equal(mixture > 0, (vertices > 0).any(0)), "each entry of any Nash mixture has a share"
        # At the maximum of a concave function no direction to a vertex goes up.
        inside = mixture > 0
        slope = (vertices - mixture)[:, inside] @ -(mixture[inside].log() + 1)
        assert (slope < 1e-6).all()
    assert 50 < several < 150


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


@pytest.mark.requirement("R29")
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


def test_figures_of_the_table_of_copies(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    copies = importlib.import_module("copies")
    circle = even([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]])
    ladder = even([[0.5, 0.9], [0.1, 0.5]])
    torch.testing.assert_close(copies.alpha_rank(circle), even([1, 1, 1]) / 3, atol=1e-9, rtol=0)
    torch.testing.assert_close(copies.alpha_rank(ladder), even([1, 0]), atol=1e-9, rtol=0)
    strengths = copies.glicko(ladder)
    assert strengths[0] > 1500 > strengths[1]
