"""The squashed normal distribution, against numerical integration and sampling."""

import math

import pytest
import torch
from torch.distributions import TanhTransform
from torchrl.envs.utils import ExplorationType, set_exploration_type

from echelon.learn.models.distribution import EMITTER_EDGE, TRIGGERS, ActionDistribution, SquashedNormal
from echelon.rules.actions import CONTROLS, Act

pytestmark = pytest.mark.quick


def distribution(*shape: int) -> SquashedNormal:
    g = torch.Generator().manual_seed(0)
    return SquashedNormal(torch.randn(*shape, generator=g), torch.rand(*shape, generator=g) + 0.3)


def squashed_log_prob(law: SquashedNormal, u: torch.Tensor) -> torch.Tensor:
    """Return the log density of the action tanh(u), with torch's derivative of tanh."""
    return law.log_prob(u) - TanhTransform().log_abs_det_jacobian(u, u.tanh()).sum(-1)


def test_squashed_density_integrates_to_one():
    one = SquashedNormal(torch.tensor([0.4]).double(), torch.tensor([0.8]).double())
    a = torch.linspace(-1, 1, 400_001, dtype=torch.float64)[1:-1]
    density = squashed_log_prob(one, a.atanh()[:, None]).exp()
    assert abs(torch.trapezoid(density, a).item() - 1) < 1e-4


@pytest.mark.requirement("R39")
def test_entropy_matches_monte_carlo_mean():
    some = distribution(3, 5)
    u = some.sample((200_000,))
    sampled = -squashed_log_prob(some, u).mean(0) / 5
    torch.testing.assert_close(some.entropy(), sampled, atol=5e-3, rtol=0)


@pytest.mark.requirement("R38")
def test_ratio_stays_precise_for_saturated_actions():
    """Two policies with 64 columns, against the float64 ratio of normal densities; the slopes of tanh cancel."""
    laws = (9.0, 0.5), (9.02, 0.51)
    old, new = (SquashedNormal(torch.full((64,), loc), torch.full((64,), scale)) for loc, scale in laws)
    u = old.base_dist.loc + old.base_dist.scale * torch.randn(1000, 64, generator=torch.Generator().manual_seed(0))
    assert (u.tanh() == 1).float().mean() > 0.3, "no action is saturated"
    z = [(u.double() - float(one.base_dist.loc[0])) / float(one.base_dist.scale[0]) for one in (old, new)]
    expected = ((z[0].square() - z[1].square()) / 2 + math.log(0.5 / 0.51)).sum(-1)
    torch.testing.assert_close((new.log_prob(u) - old.log_prob(u)).double(), expected, atol=3e-5, rtol=0)
    # The slopes of tanh sum to hundreds and cost precision in the same ratio.
    squashed = (squashed_log_prob(new, u) - squashed_log_prob(old, u)).double()
    torch.testing.assert_close(squashed, expected, atol=1e-3, rtol=0)
    assert (squashed - expected).abs().max() > 6e-5


def test_deterministic_sample_equals_mean():
    some = distribution(2, 3)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert torch.equal(some.deterministic_sample, some.base_dist.loc)


def test_entropy_gradients_match_finite_differences():
    chance = torch.Generator().manual_seed(0)
    loc = torch.randn(3, 5, generator=chance, dtype=torch.float64).requires_grad_()
    scale = (torch.rand(3, 5, generator=chance, dtype=torch.float64) + 0.2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda loc, scale: SquashedNormal(loc, scale).entropies(), (loc, scale), check_undefined_grad=False
    )


def action_distribution(*shape: int, dtype=torch.float64) -> ActionDistribution:
    g = torch.Generator().manual_seed(1)
    loc, scale = (torch.randn(*shape, CONTROLS + 8, generator=g, dtype=dtype) for _ in range(2))
    return ActionDistribution(loc, scale.abs() + 0.3)


@pytest.mark.usual
def test_trigger_log_prob_matches_frequency_of_readings():
    """Compare with frequencies of 400,000 samples; the emitter column has three readings, the others two."""
    some = action_distribution(2)
    u = some.base_dist.loc + some.base_dist.scale * torch.randn(
        400_000, 2, CONTROLS + 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    probability = some.log_probs(u).exp()
    action = u.tanh()
    for column in range(TRIGGERS.start, TRIGGERS.stop):
        readings = [(action[..., column] <= 0), (action[..., column] > 0)]
        if column == Act.SECONDARY:
            readings[1:] = [readings[1] & (action[..., column] <= 0.5), action[..., column] > 0.5]
        for mech in range(2):
            for reading in readings:
                of_reading = probability[:, mech, column][reading[:, mech]]
                assert of_reading.min() == of_reading.max(), "the distance of u from the threshold has no effect"
                assert abs(of_reading[0] - reading[:, mech].double().mean()) < 3e-3


def test_all_other_columns_have_the_density_of_u():
    some, u = action_distribution(3), torch.randn(3, CONTROLS + 8, dtype=torch.float64)
    others = [n for n in range(CONTROLS + 8) if not TRIGGERS.start <= n < TRIGGERS.stop]
    assert torch.equal(some.log_probs(u)[:, others], some.base_dist.log_prob(u)[:, others])
    torch.testing.assert_close(some.log_prob(u), some.log_probs(u).sum(-1))


def test_trigger_entropy_is_bernoulli_entropy():
    some = action_distribution(4)
    held = torch.special.ndtr(some.base_dist.loc / some.base_dist.scale)[:, TRIGGERS]
    expected = -(held * held.log() + (1 - held) * (1 - held).log())
    torch.testing.assert_close(some.entropies()[:, TRIGGERS], expected)
    squashed = SquashedNormal(some.base_dist.loc, some.base_dist.scale).entropies()
    torch.testing.assert_close(some.entropies()[:, TRIGGERS.stop :], squashed[:, TRIGGERS.stop :])


def test_action_gradients_match_finite_differences():
    some, u = action_distribution(3), torch.randn(3, CONTROLS + 8, dtype=torch.float64)
    u[:, Act.SECONDARY] = torch.tensor([-0.2, 0.3, EMITTER_EDGE + 0.1])
    loc, scale = some.base_dist.loc.requires_grad_(), some.base_dist.scale.requires_grad_()
    assert torch.autograd.gradcheck(lambda loc, scale: ActionDistribution(loc, scale).log_probs(u), (loc, scale))


@pytest.mark.usual
def test_trigger_policy_gradient_is_unbiased_with_less_variance():
    """Score functions, weighted by a reward of the trigger alone, over 100,000 samples of one mech."""
    loc = torch.full((1, CONTROLS + 8), 0.2, dtype=torch.float64, requires_grad=True)
    scale = torch.full_like(loc, 0.6)
    u = loc.detach() + scale * torch.randn(
        100_000, CONTROLS + 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    reward = (u[:, Act.VENT] > 0).double()

    def score(law):
        rows = loc.expand_as(u)
        (gradient,) = torch.autograd.grad(law(rows, scale.expand_as(u)).log_prob(u).sum(), rows)
        return gradient[:, Act.VENT] * reward

    density, reading = score(SquashedNormal), score(ActionDistribution)
    assert abs(density.mean() - reading.mean()) < 0.02
    assert reading.var() < 0.8 * density.var()


def test_log_probs_stay_finite_far_from_thresholds():
    far = ActionDistribution(torch.full((1, CONTROLS), 40.0), torch.full((1, CONTROLS), 0.05))
    u = torch.full((3, CONTROLS), -40.0)
    u[1:, Act.SECONDARY] = torch.tensor([0.3, 1.0])
    assert far.log_probs(u).isfinite().all()
