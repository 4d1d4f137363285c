"""Advantages against a plain loop, TorchRL's own, and what must be zero."""

import torch
from tensordict import TensorDict
from torchrl.objectives.value import GAE

from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.ppo.advantage import estimate, standardise
from echelon.rules.catalog import Hull


def batch_of(steps: int, teams: int, mechs: int = 2, seed: int = 0) -> TensorDict:
    g = torch.Generator().manual_seed(seed)
    done = torch.rand(steps, teams, generator=g) < 0.1
    terminated = done & (torch.rand(steps, teams, generator=g) < 0.5)
    shape = (steps, teams, mechs)
    return TensorDict(
        {
            "value": torch.randn(shape, generator=g),
            "alive": torch.rand(shape, generator=g) < 0.7,
            "next": {
                "value": torch.randn(shape, generator=g),
                "reward": torch.randn(shape, generator=g),
                "done": done,
                "terminated": terminated,
            },
        },
        [steps, teams],
    )


def plain_gae(batch: TensorDict, gamma: float, lam: float) -> torch.Tensor:
    """Generalised advantage estimation, one number at a time, float64."""
    value, after = batch["value"].double(), batch["next"]
    out = torch.zeros_like(value)
    steps, teams, mechs = value.shape
    following, reward = after["value"].double().tolist(), after["reward"].double().tolist()
    over, ended, own = after["terminated"].tolist(), after["done"].tolist(), value.tolist()
    for team in range(teams):
        for mech in range(mechs):
            running = 0.0
            for t in reversed(range(steps)):
                bootstrap = 0.0 if over[t][team] else gamma * following[t][team][mech]
                delta = reward[t][team][mech] + bootstrap - own[t][team][mech]
                running = delta + (0.0 if ended[t][team] else gamma * lam * running)
                out[t, team, mech] = running
    return out


def test_matches_a_plain_loop_at_length_and_bootstraps_truncation_only():
    batch = batch_of(4096, 3)
    expected = plain_gae(batch, 0.995, 0.97)
    estimate(batch, ValueNorm(), 0.995, 0.97)
    want = standardise(expected, batch["alive"])
    torch.testing.assert_close(batch["advantage"].double(), want, atol=1e-4, rtol=0)
    assert not batch["advantage"].requires_grad and not batch["value_target"].requires_grad


def test_agrees_with_torchrls_module():
    batch = batch_of(200, 4)
    ours = batch.clone()
    estimate(ours, ValueNorm(), 0.99, 0.95)
    rows = {name: batch[name].flatten(1).T[..., None] for name in ("value",)}
    shape = batch["value"].shape

    def each(leaf: torch.Tensor) -> torch.Tensor:
        """`[rows, T, 1]` as TorchRL has it: time last."""
        leaf = leaf[..., None].expand(shape) if leaf.dim() == 2 else leaf
        return leaf.flatten(1).T[..., None]

    theirs = TensorDict(
        {
            "state_value": rows["value"],
            "next": {
                "state_value": each(batch["next", "value"]),
                **{name: each(batch["next", name]) for name in ("reward", "done", "terminated")},
            },
        },
        [shape[1] * shape[2], shape[0]],
    )
    GAE(gamma=0.99, lmbda=0.95, value_network=None)(theirs)
    advantage = theirs["advantage"].squeeze(-1).T.reshape(shape)
    torch.testing.assert_close(ours["advantage"], standardise(advantage, batch["alive"]), atol=1e-5, rtol=1e-4)


def test_constant_reward_and_a_perfect_critic_leave_no_advantage():
    gamma, reward = 0.9, 2.0
    norm = ValueNorm()
    for _ in range(50):
        norm.update(torch.tensor([15.0, 25.0]))
    batch = batch_of(50, 2)
    perfect = norm.normalise(torch.full((50, 2, 2), reward / (1 - gamma)))
    batch["value"] = batch["next", "value"] = perfect
    batch["next", "reward"] = torch.full((50, 2, 2), reward)
    batch["next", "done"] = batch["next", "terminated"] = torch.zeros(50, 2, dtype=torch.bool)
    told = estimate(batch, norm, gamma, 0.95)
    # Targets are values plus advantages.
    assert abs(told["target_mean"] - 20.0) < 1e-3 and told["target_std"] < 1e-3


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


def test_each_class_may_be_scaled_by_itself():
    batch = batch_of(400, 2)
    batch["next", "reward"][..., 1] = 50 * batch["next", "reward"][..., 1] + 7
    hull = torch.tensor([int(Hull.SCOUT), int(Hull.HEAVY)])
    estimate(batch, ValueNorm(), 0.9, 0.9, hull)
    alive = batch["alive"]
    for mech in range(2):
        living = batch["advantage"][..., mech][alive[..., mech]]
        assert abs(living.mean()) < 1e-4 and abs(living.std() - 1) < 1e-2


def test_explained_variance_tells_a_perfect_critic_from_a_useless_one():
    for share, low, high in ((1.0, 0.99, 1.01), (0.0, -0.1, 0.1)):
        batch = batch_of(300, 4)
        batch["next", "terminated"] = batch["next", "done"] = torch.ones(300, 4, dtype=torch.bool)
        batch["value"] = share * batch["next", "reward"]  # what follows an end is worth nothing
        assert low < estimate(batch, ValueNorm(), 0.99, 0.95)["explained_variance"] < high
