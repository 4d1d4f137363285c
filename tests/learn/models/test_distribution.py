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


def test_a_ratio_keeps_its_digits_where_actions_are_saturated():
    """Two policies, of 64 columns, against the ratio of normal densities in float64: the slopes of tanh cancel."""
    laws = (9.0, 0.5), (9.02, 0.51)
    old, new = (SquashedNormal(torch.full((64,), loc), torch.full((64,), scale)) for loc, scale in laws)
    u = old.base_dist.loc + old.base_dist.scale * torch.randn(1000, 64, generator=torch.Generator().manual_seed(0))
    assert (u.tanh() == 1).float().mean() > 0.3, "no action is saturated"
    z = [(u.double() - float(one.base_dist.loc[0])) / float(one.base_dist.scale[0]) for one in (old, new)]
    expected = ((z[0].square() - z[1].square()) / 2 + math.log(0.5 / 0.51)).sum(-1)
    torch.testing.assert_close((new.log_prob(u) - old.log_prob(u)).double(), expected, atol=3e-5, rtol=0)
    # The slopes of tanh, which add up to hundreds, cost digits of the same ratio.
    squashed = (new.squashed_log_prob(u) - old.squashed_log_prob(u)).double()
    torch.testing.assert_close(squashed, expected, atol=1e-3, rtol=0)
    assert (squashed - expected).abs().max() > 6e-5


def test_deterministic_sample_is_the_mean():
    some = distribution(2, 3)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert torch.equal(some.deterministic_sample, some.base_dist.loc)


def test_gradients_of_the_entropy_are_those_of_finite_differences():
    chance = torch.Generator().manual_seed(0)
    loc = torch.randn(3, 5, generator=chance, dtype=torch.float64).requires_grad_()
    scale = (torch.rand(3, 5, generator=chance, dtype=torch.float64) + 0.2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda loc, scale: SquashedNormal(loc, scale).entropies(), (loc, scale), check_undefined_grad=False
    )
