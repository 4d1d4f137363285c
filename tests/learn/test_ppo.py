"""The update learns from the living, values everybody, and reaches every parameter."""

import torch

from echelon.learn.advantage import ValueNorm, estimate
from echelon.learn.config import PPOConfig
from echelon.learn.ppo import LEARNT_FROM, PPO
from echelon.learn.seats import LEARNER


def prepared(rollout, **changes):
    """A learner and its batch with advantages."""
    batch, _ = rollout.collect()
    estimate(batch, ValueNorm(), 0.99, 0.95)
    policy = rollout.seats.policies[LEARNER]
    return PPO(policy, PPOConfig(**changes)), batch


def test_first_ratio_is_one(rollout):
    ppo, batch = prepared(rollout)
    losses = ppo.masked_losses(batch.select(*LEARNT_FROM))
    assert abs(losses["kl"].item()) < 1e-6 and losses["clip_fraction"].item() == 0
    # With ratio 1 the objective is minus the mean advantage of the living, which is zero.
    assert abs(losses["loss_objective"].item()) < 1e-5


def test_the_dead_count_for_values_only(rollout):
    ppo, batch = prepared(rollout)
    data = batch.select(*LEARNT_FROM)
    data["alive"] = torch.rand(data.shape) < 0.5
    dead = ~data["alive"]
    clean = ppo.masked_losses(data.clone())
    data["advantage"][dead] = 1e3
    poisoned = ppo.masked_losses(data.clone())
    assert torch.equal(clean["loss_objective"], poisoned["loss_objective"])
    data["value_target"][dead] += 10.0
    assert ppo.masked_losses(data)["loss_critic"] > clean["loss_critic"] + 1


def test_gradients_reach_every_parameter(rollout):
    ppo, batch = prepared(rollout)
    losses = ppo.masked_losses(batch.select(*LEARNT_FROM))
    (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
    silent = [n for n, p in ppo.policy.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


def test_update_after_an_inference_mode_rollout_learns_and_shares_weights(rollout):
    ppo, batch = prepared(rollout, learning_rate=1e-2)
    before = [p.clone() for p in ppo.policy.parameters()]
    report = ppo.update(batch)
    assert all(value.isfinite() for value in report.values())
    assert any(not torch.equal(a, b) for a, b in zip(before, ppo.policy.parameters(), strict=True))
    again, _ = rollout.collect()
    assert again["log_prob"].isfinite().all()


def test_learning_rate_falls_linearly(rollout):
    ppo, _ = prepared(rollout, learning_rate=1e-3, final_learning_rate=1e-4)
    assert ppo.anneal(0.0) == 1e-3
    assert abs(ppo.anneal(0.5) - 5.5e-4) < 1e-12
    assert abs(ppo.anneal(2.0) - 1e-4) < 1e-12
    assert ppo.optimizer.param_groups[0]["lr"] == ppo.anneal(1.0)


def test_same_seed_same_update(rollout):
    results = []
    ppo, batch = prepared(rollout)
    start = {k: v.clone() for k, v in ppo.policy.state_dict().items()}
    for _ in range(2):
        ppo.policy.load_state_dict(start)
        torch.manual_seed(3)
        fresh = PPO(ppo.policy, PPOConfig())
        fresh.update(batch)
        results.append([p.clone() for p in ppo.policy.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
