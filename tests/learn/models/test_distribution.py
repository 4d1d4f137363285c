"""The squashed normal distribution against calculus and chance."""

import math

import torch
from torchrl.envs.utils import ExplorationType, set_exploration_type

from echelon.learn.models.distribution import SquashedNormal, log_slope


def distribution(*shape: int) -> SquashedNormal:
    g = torch.Generator().manual_seed(0)
    return SquashedNormal(torch.randn(*shape, generator=g), torch.rand(*shape, generator=g) + 0.3)


def test_log_slope_is_the_log_derivative_of_tanh():
    u = torch.linspace(-3, 3, 25, dtype=torch.float64)
    torch.testing.assert_close(log_slope(u), torch.log(1 - torch.tanh(u) ** 2))


def test_log_slope_stays_exact_where_tanh_is_saturated():
    # 1 - tanh²u -> 4 exp(-2u), so its log -> log 4 - 2u; computed from tanh it would be -inf in float32.
    torch.testing.assert_close(log_slope(torch.tensor(30.0)), torch.tensor(math.log(4) - 60))


def test_density_of_the_squashed_action_integrates_to_one():
    one = SquashedNormal(torch.tensor([0.4]).double(), torch.tensor([0.8]).double())
    a = torch.linspace(-1, 1, 400_001, dtype=torch.float64)[1:-1]
    density = one.squashed_log_prob(a.atanh()[:, None]).exp()
    assert abs(torch.trapezoid(density, a).item() - 1) < 1e-4


def test_entropy_is_the_mean_over_dimensions_as_monte_carlo_finds_it():
    some = distribution(3, 5)
    u = some.sample((200_000,))
    sampled = -some.squashed_log_prob(u).mean(0) / 5
    torch.testing.assert_close(some.entropy(), sampled, atol=5e-3, rtol=0)


def test_ratio_of_a_saturated_action_to_itself_is_one():
    some = SquashedNormal(torch.full((4,), 9.0), torch.full((4,), 0.5))
    u = some.sample((1000,))
    assert torch.equal((some.log_prob(u) - some.log_prob(u)).exp(), torch.ones(1000))
    assert some.log_prob(u).isfinite().all()


def test_deterministic_sample_is_the_mean():
    some = distribution(2, 3)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert torch.equal(some.deterministic_sample, some.base_dist.loc)
