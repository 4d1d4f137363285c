"""Advantages against a plain loop and against what must be zero."""

import torch
from tensordict import TensorDict

from echelon.learn.advantage import ValueNorm, estimate, standardise


def batch_of(rows: int, steps: int, seed: int = 0) -> TensorDict:
    g = torch.Generator().manual_seed(seed)
    done = torch.rand(rows, steps, 1, generator=g) < 0.2
    terminated = done & (torch.rand(rows, steps, 1, generator=g) < 0.5)
    return TensorDict(
        {
            "state_value": torch.randn(rows, steps, 1, generator=g),
            "alive": torch.rand(rows, steps, generator=g) < 0.7,
            "next": {
                "state_value": torch.randn(rows, steps, 1, generator=g),
                "reward": torch.randn(rows, steps, 1, generator=g),
                "done": done,
                "terminated": terminated,
            },
        },
        [rows, steps],
    )


def plain_gae(batch: TensorDict, gamma: float, lam: float) -> torch.Tensor:
    """Generalised advantage estimation, one number at a time, float64."""
    value, after = batch["state_value"].double(), batch["next"]
    out = torch.zeros_like(value)
    for row in range(batch.shape[0]):
        running = 0.0
        for t in reversed(range(batch.shape[1])):
            bootstrap = 0.0 if after["terminated"][row, t] else gamma * after["state_value"][row, t].double().item()
            delta = after["reward"][row, t].item() + bootstrap - value[row, t].item()
            running = delta + (0.0 if after["done"][row, t] else gamma * lam * running)
            out[row, t] = running
    return out


def test_matches_a_plain_loop_and_bootstraps_truncation_only():
    batch = batch_of(3, 200)
    expected = plain_gae(batch, 0.99, 0.95)
    estimate(batch, ValueNorm(), 0.99, 0.95)
    want = standardise(expected, batch["alive"][..., None])
    torch.testing.assert_close(batch["advantage"].double(), want, atol=1e-4, rtol=0)


def test_constant_reward_and_a_perfect_critic_leave_no_advantage():
    gamma, reward = 0.9, 2.0
    norm = ValueNorm()
    for _ in range(50):
        norm.update(torch.tensor([15.0, 25.0]))
    batch = batch_of(2, 50)
    perfect = norm.normalise(torch.full((2, 50, 1), reward / (1 - gamma)))
    batch["state_value"] = batch["next", "state_value"] = perfect
    batch["next", "reward"] = torch.full((2, 50, 1), reward)
    batch["next", "done"] = batch["next", "terminated"] = torch.zeros(2, 50, 1, dtype=torch.bool)
    value, after = norm.denormalise(perfect), batch["next"]
    delta = after["reward"] + gamma * norm.denormalise(after["state_value"]) - value
    assert delta.abs().max() < 1e-4


def test_value_norm_is_coherent():
    norm = ValueNorm(decay=0.5)
    assert norm.denormalise(torch.tensor(3.0)) == 3.0, "identity before the first update"
    norm.update(torch.tensor([1.0, 5.0]))
    mean, deviation = norm.moments()
    assert (mean, deviation) == (3.0, 2.0)
    x = torch.randn(10)
    torch.testing.assert_close(norm.denormalise(norm.normalise(x)), x)


def test_standardise_counts_the_living_only():
    value = torch.tensor([1.0, 3.0, 1000.0])
    out = standardise(value, torch.tensor([True, True, False]))
    torch.testing.assert_close(out[:2], torch.tensor([-1.0, 1.0]), atol=1e-4, rtol=0)
