"""What a rollout records is what happened."""

import torch
from tensordict import TensorDict
from torchrl.modules import set_recurrent_mode

from echelon.learn.ppo import LEARNT_FROM
from echelon.learn.rollout import Rollout, stagger
from echelon.learn.seats import LEARNER


def replay(rollout: Rollout, batch: TensorDict) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and values of a batch, recomputed over whole sequences."""
    policy = rollout.seats.policies[LEARNER]
    data = batch.select("observation", "memory", "is_init", "pre_tanh")
    with torch.no_grad(), set_recurrent_mode(True):
        log_prob = policy.actor.get_dist(data).log_prob(batch["pre_tanh"])
        value = policy.critic(policy.actor(data.clone()))["state_value"]
    return log_prob, value


def test_sequences_replay_exactly_across_battle_ends_and_iterations(rollout):
    for _ in range(3):
        batch, _ = rollout.collect()
        log_prob, value = replay(rollout, batch)
        torch.testing.assert_close(log_prob, batch["log_prob"], atol=1e-5, rtol=0)
        torch.testing.assert_close(value, batch["state_value"], atol=1e-5, rtol=0)
    assert batch["is_init"].any(), "no battle began within the sequences"


def test_actions_are_sampled(rollout):
    batch, _ = rollout.collect()
    # The actor starts with loc near 0 and a deviation of 0.6.
    assert abs(batch["pre_tanh"].std().item() - 0.6) < 0.03


def test_next_value_is_the_next_decisions_value_within_a_battle(rollout):
    batch, _ = rollout.collect()
    goes_on = ~batch["next", "done"][:, :-1]
    torch.testing.assert_close(
        batch["next", "state_value"][:, :-1][goes_on], batch["state_value"][:, 1:][goes_on], atol=1e-5, rtol=0
    )
    over = ~goes_on
    assert not torch.allclose(batch["next", "state_value"][:, :-1][over], batch["state_value"][:, 1:][over], atol=1e-4)


def test_buffers_are_made_once(rollout):
    first, _ = rollout.collect()
    places = [leaf.data_ptr() for leaf in first.values(True, True)]
    second, _ = rollout.collect()
    assert places == [leaf.data_ptr() for leaf in second.values(True, True)]


def test_rows_are_the_learners_mechs(rollout):
    batch, _ = rollout.collect()
    # 6 battles of one learner team of 5, 16 decisions.
    assert batch.shape == (30, 16)
    assert set(LEARNT_FROM) - {"advantage", "value_target"} <= set(batch.keys())


def test_sums_count_every_battle_that_ended(rollout):
    batch, ended = rollout.collect()
    done = batch["next", "done"][::5, :, 0].sum()  # one mech of each team
    assert ended["battles"] == done > 0
    assert ended["won"] + ended["lost"] <= ended["battles"]


def test_return_is_what_a_mech_of_the_team_earned_on_average_until_the_end(rollout):
    batch, ended = rollout.collect()
    reward = batch["next", "reward"][..., 0].view(6, 5, 16).mean(1)
    done = batch["next", "done"][..., 0].view(6, 5, 16)[:, 0]
    expected = 0.0
    for battle in range(6):
        earned = 0.0
        for t in range(16):
            earned += reward[battle, t].item()
            if done[battle, t]:
                expected, earned = expected + earned, 0.0
    assert abs(ended["returns"].item() - expected) < 1e-4


def test_stagger_spreads_the_first_ends(rollout):
    ticks = rollout.env.state.tick
    assert ticks.unique().numel() > 1
    before = rollout.env.state.tick.clone()
    stagger(rollout.env)
    assert torch.equal(before, rollout.env.state.tick), "drawn from the battles' own seeds"
    assert (ticks % rollout.env.config.rules.decision_repeat == 0).all()
