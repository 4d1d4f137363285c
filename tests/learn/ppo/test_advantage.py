"""Advantages against a plain loop and TorchRL's estimator, and cases with zero advantage."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.objectives.value import MultiAgentGAE

from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.ppo.advantage import NormalizedGAE, standardise
from echelon.rules.catalog import Hull

pytestmark = pytest.mark.quick


def batch_of(steps: int, teams: int, mechs: int = 2, seed: int = 0) -> TensorDict:
    g = torch.Generator().manual_seed(seed)
    done = torch.rand(teams, steps, generator=g) < 0.1
    terminated = done & (torch.rand(teams, steps, generator=g) < 0.5)
    shape = (teams, steps, mechs)
    return TensorDict(
        {
            "state_value": torch.randn((*shape, 1), generator=g),
            "mask": torch.rand(shape, generator=g) < 0.7,
            "next": {
                "state_value": torch.randn((*shape, 1), generator=g),
                "reward": torch.randn((*shape, 1), generator=g),
                "done": done[..., None],
                "terminated": terminated[..., None],
            },
        },
        [teams, steps],
    )


def estimate(batch: TensorDict, gamma: float, lmbda: float, hull: torch.Tensor | None = None) -> NormalizedGAE:
    """Estimate advantages and write them into the batch."""
    advantage = NormalizedGAE(gamma=gamma, lmbda=lmbda, normalizer=ValueNorm(), hull=hull)
    advantage(batch)
    return advantage


def plain_gae(batch: TensorDict, gamma: float, lam: float) -> torch.Tensor:
    """Generalised advantage estimation in plain Python, float64."""
    value, after = batch["state_value"].double(), batch["next"]
    out = torch.zeros_like(value)
    teams, steps, mechs, _ = value.shape
    following, reward = (after[name].double()[..., 0].tolist() for name in ("state_value", "reward"))
    over, ended = (after[name][..., 0].tolist() for name in ("terminated", "done"))
    own = value[..., 0].tolist()
    for team in range(teams):
        for mech in range(mechs):
            running = 0.0
            for t in reversed(range(steps)):
                bootstrap = 0.0 if over[team][t] else gamma * following[team][t][mech]
                delta = reward[team][t][mech] + bootstrap - own[team][t][mech]
                running = delta + (0.0 if ended[team][t] else gamma * lam * running)
                out[team, t, mech] = running
    return out


@pytest.mark.requirement("R34")
def test_gae_matches_plain_loop_and_bootstraps_only_truncation():
    batch = batch_of(4096, 3)
    expected = plain_gae(batch, 0.995, 0.97)
    estimate(batch, 0.995, 0.97)
    want = standardise(expected, batch["mask"][..., None])
    torch.testing.assert_close(batch["advantage"].double(), want, atol=1e-4, rtol=0)
    torch.testing.assert_close(batch["value_target"].double(), expected + batch["state_value"], atol=1e-4, rtol=1e-4)


@pytest.mark.requirement("R33")
def test_no_gradient_through_advantages_and_targets():
    batch = batch_of(20, 2)
    for name in ("state_value", ("next", "state_value")):
        batch[name] = batch[name].requires_grad_()
    estimate(batch, 0.9, 0.9)
    assert batch["state_value"].requires_grad, "the critic's graph is not in the batch"
    for name in ("advantage", "value_target", "value_target_normalized"):
        assert not batch[name].requires_grad, name


@pytest.mark.requirement("R34")
def test_gae_equals_torchrl_with_standardised_advantages():
    ours, theirs = batch_of(200, 4), batch_of(200, 4)
    estimate(ours, 0.99, 0.95)
    MultiAgentGAE(gamma=0.99, lmbda=0.95, value_network=None)(theirs)
    want = standardise(theirs["advantage"], theirs["mask"][..., None])
    torch.testing.assert_close(ours["advantage"], want, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ours["value_target"], theirs["value_target"], atol=1e-5, rtol=1e-4)


@pytest.mark.requirement("R36")
def test_perfect_critic_gives_zero_advantage():
    gamma, reward = 0.9, 2.0
    batch = batch_of(50, 2)
    perfect = torch.full((2, 50, 2, 1), reward / (1 - gamma))
    batch["state_value"] = batch["next", "state_value"] = perfect
    batch["next", "reward"] = torch.full((2, 50, 2, 1), reward)
    batch["next", "done"] = batch["next", "terminated"] = torch.zeros(2, 50, 1, dtype=torch.bool)
    told = estimate(batch, gamma, 0.95).diagnostics
    # Targets are values plus advantages.
    assert abs(told["target_mean"] - 20.0) < 1e-3 and told["target_std"] < 1e-3


def test_targets_are_normalised_with_updated_moments():
    batch, norm = batch_of(50, 2), ValueNorm()
    NormalizedGAE(gamma=0.9, lmbda=0.9, normalizer=norm)(batch)
    torch.testing.assert_close(batch["value_target_normalized"], norm.normalise(batch["value_target"]))
    assert abs(batch["value_target_normalized"].mean()) < 1e-4
    plain = batch_of(50, 2)
    NormalizedGAE(gamma=0.9, lmbda=0.9)(plain)
    assert torch.equal(plain["value_target_normalized"], plain["value_target"])


@pytest.mark.requirement("R37")
def test_standardise_uses_only_living_mechs():
    value = torch.tensor([1.0, 3.0, 1000.0])
    out = standardise(value, torch.tensor([True, True, False]))
    torch.testing.assert_close(out[:2], torch.tensor([-1.0, 1.0]), atol=1e-4, rtol=0)


@pytest.mark.requirement("R37")
def test_advantages_can_be_standardised_per_class():
    batch = batch_of(400, 2)
    batch["next", "reward"][:, :, 1] = 50 * batch["next", "reward"][:, :, 1] + 7
    estimate(batch, 0.9, 0.9, torch.tensor([int(Hull.SCOUT), int(Hull.HEAVY)]))
    for mech in range(2):
        living = batch["advantage"][:, :, mech][batch["mask"][..., mech]]
        assert abs(living.mean()) < 1e-4 and abs(living.std() - 1) < 1e-2


def test_explained_variance_is_one_for_perfect_and_zero_for_useless_critic():
    for share, low, high in ((1.0, 0.99, 1.01), (0.0, -0.1, 0.1)):
        batch = batch_of(300, 4)
        batch["next", "terminated"] = batch["next", "done"] = torch.ones(4, 300, 1, dtype=torch.bool)
        batch["state_value"] = share * batch["next", "reward"]  # no value after the end of a battle
        assert low < estimate(batch, 0.99, 0.95).diagnostics["explained_variance"] < high
