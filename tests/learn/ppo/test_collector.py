"""Rollouts record the battles correctly."""

import dataclasses
from collections.abc import Sequence

import pytest
import torch
from host_reads import HostReads
from tensordict import TensorDictBase
from tiny_runs import TINY, make_rollout, short_battles
from torchrl.modules import set_recurrent_mode

from echelon.env.env import EchelonEnv
from echelon.env.leaves import Leaves
from echelon.env.restart import NextMemory
from echelon.env.reward import TERMS
from echelon.learn.opponents.assignment import LEARNER
from echelon.learn.ppo import collector
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.sequences import TRAINING_KEYS, Sequences
from echelon.rules.physics import RulesConfig


def replay(rollout: TeamCollector, batch: TensorDictBase) -> tuple[torch.Tensor, torch.Tensor, TensorDictBase]:
    """Recompute log-probabilities `[S, L, A]` and values `[S, L, A, 1]` of a rollout over whole sequences."""
    sequences = Sequences(batch, rollout.memory, rollout.chunk)
    data = sequences.take(torch.arange(sequences.count))
    again = data.copy()
    with torch.no_grad(), set_recurrent_mode(True):
        distribution = rollout.policy.get_policy_operator().get_dist(again)
        value = rollout.policy.get_value_head()(again)["state_value_normalized"]
    return distribution.log_prob(data["pre_tanh"]), value, data


@pytest.mark.requirement("R38")
@pytest.mark.parametrize("critic", ["local", "central"])
def test_recomputed_sequences_match_rollout_across_resets(critic):
    rollout = make_rollout(dataclasses.replace(TINY, critic=critic))
    for _ in range(3):
        batch = rollout.collect()
        log_prob, value, data = replay(rollout, batch)
        torch.testing.assert_close(log_prob, data["pre_tanh_log_prob"], atol=1e-5, rtol=0)
        torch.testing.assert_close(value, data["state_value_normalized"], atol=1e-5, rtol=0)
    assert batch["is_init"].any(), "no battle started within the sequences"


def test_recomputed_bf16_sequences_are_close():
    rollout = make_rollout()
    rollout.policy.network.compute = torch.bfloat16
    batch = rollout.collect()
    assert batch["observation", "contacts"].dtype == torch.bfloat16 and batch["pre_tanh"].dtype == torch.float32
    log_prob, _, data = replay(rollout, batch)
    torch.testing.assert_close(log_prob, data["pre_tanh_log_prob"], atol=0.02, rtol=0)


@pytest.mark.quick
def test_actions_are_sampled(rollout):
    batch = rollout.collect()
    # The actor starts with loc near 0 and a deviation of 0.6.
    assert abs(batch["pre_tanh"].std().item() - 0.6) < 0.03


def next_values(rollout: TeamCollector) -> list[torch.Tensor]:
    """Compute the critic's value of every true next state of a rollout, decision by decision."""
    told, restart = [], rollout.battles.restart

    def watch(after: Leaves, remembered: Sequence[NextMemory], ended: torch.Tensor | None) -> None:
        played = rollout.battles.leaves | after
        for key, start, value in remembered:
            played[key] = played[key].clone()
            played[key][start : start + len(value)] = value
        seen = rollout.assignment.view(played, LEARNER)
        told.append(rollout.policy.critic(rollout.policy(seen)["embed"], seen["observation", "ego"], None))
        restart(after, remembered, ended)

    rollout.battles.restart = watch
    return told


@pytest.mark.requirement("R34")
def test_next_values_are_of_the_true_next_states():
    rollout = make_rollout(decisions=32)
    told = next_values(rollout)
    batch = rollout.collect()
    over, up = batch["next", "terminated"][..., 0], batch["next", "truncated"][..., 0]
    assert up.sum(1).max() >= 3, "no environment was truncated three times"
    asked = torch.stack(told, 1)[..., None]
    torch.testing.assert_close(batch["next", "state_value"][~over], asked[~over], atol=1e-5, rtol=0)
    # The following decision has another value if the battle has ended.
    following = batch["state_value"][:, 1:]
    assert not torch.allclose(following[up[:, :-1]], asked[:, :-1][up[:, :-1]], atol=1e-4)


@pytest.mark.requirement("R42")
def test_buffers_are_allocated_once(rollout):
    def places() -> list[int]:
        batch = rollout.collect()
        leaves = [
            *batch.values(True, True),
            *rollout.memory.values(True, True),
            *rollout.final_views.views.values(True, True),
        ]
        return [leaf.data_ptr() for leaf in leaves]

    assert places() == places()


@pytest.mark.requirement("R14")
def test_rollout_copies_nothing_to_host(monkeypatch):
    """Uses the form that runs on a GPU."""
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", False)
    brief = dataclasses.replace(short_battles(), rules=RulesConfig(max_episode_s=0.3, decision_repeat=1))
    monkeypatch.setattr("tiny_runs.short_battles", lambda: brief)
    rollout = make_rollout(battles=2, decisions=8, chunk=4, backend="eager")
    rollout.collect()
    with HostReads() as mode:
        rollout.collect()
    assert not mode.reads


@pytest.mark.quick
def test_batch_shapes_follow_the_learners_teams(rollout):
    batch, memory = rollout.collect(), rollout.memory
    # 16 decisions of 6 battles of one learner team of 5, in sequences of 8.
    assert batch.shape == (6, 16) and batch.names == [None, "time"]
    assert batch["state_value"].shape == (6, 16, 5, 1) and memory["h"].shape == (6, 2, 5, 16)
    estimated = {"advantage", "value_target", "value_target_normalized"}
    assert set(TRAINING_KEYS) - estimated - {"enemy", "exists"} <= set(batch.keys()), "teams have equal size"


@pytest.mark.quick
def test_episode_stats_count_every_ended_battle(rollout):
    batch = rollout.collect()
    ended = rollout.episode_stats
    done = batch["next", "done"].sum()
    assert ended["battles"] == ended["battles_heuristic"] == done > 0
    assert ended["won"] + ended["lost"] <= ended["battles"]


@pytest.mark.quick
def test_returns_sum_each_term_until_the_end(rollout):
    batch = rollout.collect()
    ended = rollout.episode_stats
    reward = batch["next", "reward"].mean((2, 3))
    done = batch["next", "done"]
    expected = 0.0
    for battle in range(6):
        earned = 0.0
        for t in range(16):
            earned += reward[battle, t].item()
            if done[battle, t]:
                expected, earned = expected + earned, 0.0
    assert ended["returns"].shape == (len(TERMS),)
    assert abs(ended["returns"].sum().item() - expected) < 1e-4


def test_reward_scale_and_mix_are_tensors():
    plain, scaled, shared = (make_rollout(decisions=8) for _ in range(3))
    scaled.scale[TERMS.index("approach")] = 0.0
    shared.mix.fill_(0.0)
    rewards = []
    for rollout in (plain, scaled, shared):
        torch.manual_seed(5)
        rewards.append(rollout.collect()["next", "reward"].clone())
    one, none, same = rewards
    assert one.abs().sum() > 1 and none.abs().sum() < one.abs().sum()
    torch.testing.assert_close(same, one.mean(2, keepdim=True).expand_as(one))


def test_no_final_views_without_truncation():
    config = short_battles()
    rules = dataclasses.replace(config.rules, time_up_terminates=True)
    rollout = make_rollout()
    assert rollout.last_views == 2  # 16 decisions of battles of 12
    rollout.env.config = dataclasses.replace(config, rules=rules)
    assert TeamCollector(rollout.env, rollout.assignment, 16, 8).last_views == 0


@pytest.mark.quick
def test_staggered_starts_spread_first_ends(rollout):
    ticks = rollout.env.state.tick
    assert ticks.unique().numel() > 1
    before = rollout.env.state.tick.clone()
    collector.stagger_episode_starts(rollout.env)
    assert torch.equal(before, rollout.env.state.tick), "the draw depends on the battles' seeds"
    assert (ticks % rollout.env.config.rules.decision_repeat == 0).all()
