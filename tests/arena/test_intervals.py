"""Intervals of win rates hold what they promise, whether or not the battles of a seed are independent.

Exact coverage and mean width, by summing over all results of 32 seeds of two battles each:

| two battles of a seed       | this interval | Wilson, battles | Wilson, seeds | Tango       | bootstrap   |
|-----------------------------|---------------|-----------------|---------------|-------------|-------------|
| independent, 50 % won       | 0.951 0.241   | 0.940 0.236     | 0.996 0.325   | 0.951 0.240 | 0.953 0.239 |
| independent, 90 % won       | 0.979 0.169   | 0.967 0.147     | 0.996 0.211   | 0.966 0.156 | 0.948 0.141 |
| independent, 98 % won       | 0.992 0.111   | 0.961 0.083     | 0.991 0.136   | 0.961 0.120 | 0.724 0.050 |
| always one win and one loss | 1.000 0.082   | 1.000 0.238     | 1.000 0.327   | 1.000 0.107 | 1.000 0.000 |
| so in 80 of 100             | 0.967 0.164   | 0.997 0.237     | 1.000 0.326   | 0.953 0.171 | 0.953 0.147 |
| side decides 70 %, 60 % won | 0.962 0.183   | 0.995 0.232     | 1.000 0.320   | 0.954 0.182 | 0.934 0.169 |
| both alike, 50 % won        | 0.950 0.331   | 0.785 0.234     | 0.950 0.323   | 0.950 0.323 | 0.950 0.327 |
| both alike, 80 % won        | 0.952 0.272   | 0.817 0.189     | 0.952 0.264   | 0.952 0.264 | 0.952 0.272 |
"""

import math

import numpy as np
import pytest
import torch

from echelon.arena.match import win_rate_interval
from echelon.arena.whatif import intervals

WORLDS = {  # probability that both battles of a seed are won, that none is; mean width at 32 seeds
    "independent, 50 % won": (0.25, 0.25, 0.241),
    "independent, 90 % won": (0.81, 0.01, 0.169),
    "independent, 98 % won": (0.98**2, 0.02**2, 0.111),
    "always one win and one loss": (0.0, 0.0, 0.082),
    "so in 80 of 100": (0.1, 0.1, 0.164),
    "side decides 70 %, 60 % won": (0.25, 0.05, 0.183),
    "both alike, 50 % won": (0.5, 0.5, 0.331),
    "both alike, 80 % won": (0.8, 0.2, 0.272),
}


def coverage(seeds: int, both: float, none: float) -> tuple[float, float]:
    """Return the exact probability that the interval contains the true rate, and its mean width."""
    one = max(0.0, 1 - both - none)
    truth, covered, width = both + one / 2, 0.0, 0.0
    for won in range(seeds + 1):
        for lost in range(seeds + 1 - won):
            split = seeds - won - lost
            ways = math.comb(seeds, won) * math.comb(seeds - won, lost)
            weight = ways * both**won * none**lost * one**split
            low, high = win_rate_interval([1.0] * won + [0.0] * lost + [0.5] * split)
            covered += weight * (low - 1e-9 <= truth <= high + 1e-9)
            width += weight * (high - low)
    return covered, width


@pytest.mark.requirement("R30")
@pytest.mark.parametrize("world", WORLDS)
def test_interval_covers_the_true_rate_in_95_percent(world):
    both, none, expected = WORLDS[world]
    covered, width = coverage(32, both, none)
    assert covered > 0.945 and abs(width - expected) < 1e-3
    # The steps of so few results are coarse.
    assert coverage(8, both, none)[0] > 0.925


def test_one_win_per_seed_narrows_the_interval():
    """Each side wins one battle of each of 100 seeds; over 200 independent battles the width would be 0.14."""
    low, high = win_rate_interval([0.5] * 100)
    assert abs(low - 0.4864) < 1e-4 and abs(high - 0.5136) < 1e-4
    low, high = win_rate_interval([1.0] * 50 + [0.0] * 50)
    assert abs(low - 0.4030) < 1e-4 and abs(high - 0.5970) < 1e-4


def test_interval_of_few_seeds_is_wide():
    assert win_rate_interval([]) == (0.0, 1.0)
    low, high = win_rate_interval([1.0] * 3)
    assert 0.4 < low < 0.7 and high == 1.0
    low, high = win_rate_interval([0.0] * 3)
    assert low == 0.0 and 0.3 < high < 0.6


CHANGES = {  # in how many of 100 battles blue's share changes, by what
    "none": ([0.0], [1.0]),
    "one": ([0.0, 1.0], [0.99, 0.01]),
    "three": ([0.0, 1.0], [0.97, 0.03]),
    "ten": ([0.0, 1.0], [0.9, 0.1]),
    "ten, some the other way": ([0.0, 1.0, -1.0], [0.9, 0.075, 0.025]),
    "ten, half of them draws": ([0.0, 0.5, 1.0], [0.9, 0.05, 0.05]),
    "thirty": ([0.0, 1.0], [0.7, 0.3]),
    "thirty, some the other way": ([0.0, 1.0, -1.0], [0.7, 0.225, 0.075]),
}


@pytest.mark.parametrize("branches", [16, 32, 128])
@pytest.mark.parametrize("change", CHANGES)
def test_interval_of_a_change_covers_the_true_change(change, branches):
    """Simulation with a fixed seed; without the adjustment 28 of 100 contain a change of one battle in 100."""
    values, chances = CHANGES[change]
    drawn = np.random.default_rng(0).choice(values, size=(4000, branches), p=chances)
    found = intervals(torch.from_numpy(drawn))
    truth = float(np.dot(values, chances))
    low, high = found["low"].numpy(), found["high"].numpy()
    assert ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean() >= 0.93
    torch.testing.assert_close(found["difference"].numpy(), drawn.mean(1))
    if change.startswith("thirty"):
        wald = 2 * 1.96 * drawn.std(1, ddof=1).mean() / math.sqrt(branches)
        assert (high - low).mean() <= 1.2 * wald


def test_interval_of_branches_that_all_agree_has_a_width():
    found = intervals(torch.zeros(32))
    assert found["difference"] == 0 and found["low"] < -0.05 and found["high"] > 0.05
    found = intervals(torch.ones(3, 0, 8))
    assert found["difference"].shape == (3, 0), "no mech died"
