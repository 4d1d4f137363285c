"""What a rollout records is what happened."""

import dataclasses

import pytest
import torch
from host_reads import HostReads
from tensordict import TensorDict
from tiny_runs import TINY, make_rollout, short_battles

from echelon.env.observation.layout import STREAMS
from echelon.env.reward import TERMS
from echelon.learn.models.distribution import SquashedNormal
from echelon.learn.opponents.assignment import LEARNER
from echelon.learn.ppo import collector
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.update import TRAINING_KEYS, Sequences


def replay(
    rollout: TeamCollector, batch: TensorDict, memory: TensorDict
) -> tuple[torch.Tensor, torch.Tensor, TensorDict]:
    """Log-probabilities and values of a rollout, recomputed over whole sequences `[L, S, A]`."""
    policy = rollout.policy
    batch["advantage"] = batch["value_target"] = torch.zeros_like(batch["value"])
    sequences = Sequences(batch, memory, rollout.chunk)
    data = sequences.take(torch.arange(sequences.count))
    streams = tuple(data["observation", name] for name in STREAMS)
    with torch.no_grad():
        h, c = data["memory", "h"][0], data["memory", "c"][0]
        embed = policy.network.unroll(streams, data["telemetry"], h, c, (~data["is_init"]).float(), False)
        distribution = SquashedNormal(*policy.network.head(embed))
        value = policy.critic(embed, data["observation", "ego"], data.get("enemy", None))
        return distribution.pre_tanh_log_prob(data["pre_tanh"]), value, data


@pytest.mark.parametrize("critic", ["local", "central"])
def test_sequences_replay_exactly_across_battle_ends_and_iterations(critic):
    rollout = make_rollout(dataclasses.replace(TINY, critic=critic))
    for _ in range(3):
        batch, memory, _ = rollout.collect()
        log_prob, value, data = replay(rollout, batch, memory)
        torch.testing.assert_close(log_prob, data["log_prob"], atol=1e-5, rtol=0)
        torch.testing.assert_close(value, data["value"], atol=1e-5, rtol=0)
    assert batch["is_init"].any(), "no battle began within the sequences"


def test_in_bf16_sequences_replay_nearly():
    rollout = make_rollout()
    rollout.policy.network.compute = torch.bfloat16
    batch, memory, _ = rollout.collect()
    assert batch["observation", "contacts"].dtype == torch.bfloat16 and batch["pre_tanh"].dtype == torch.float32
    log_prob, _, data = replay(rollout, batch, memory)
    torch.testing.assert_close(log_prob, data["log_prob"], atol=0.02, rtol=0)


def test_actions_are_sampled(rollout):
    batch, _, _ = rollout.collect()
    # The actor starts with loc near 0 and a deviation of 0.6.
    assert abs(batch["pre_tanh"].std().item() - 0.6) < 0.03


def next_values(rollout: TeamCollector) -> list[torch.Tensor]:
    """What the critic says of every true next state of a rollout, asked decision by decision."""
    told, step = [], rollout.env.step_and_maybe_reset

    def watch(now: TensorDict) -> tuple[TensorDict, TensorDict]:
        played, following = step(now)
        seen = rollout.assignment.view(played["next"], LEARNER)
        told.append(rollout.policy.critic(rollout.policy(seen)["embed"], seen["observation", "ego"], None))
        return played, following

    rollout.env.step_and_maybe_reset = watch
    return told


def test_next_values_are_those_of_the_true_next_states():
    rollout = make_rollout(decisions=32)
    told = next_values(rollout)
    batch, _, _ = rollout.collect()
    over = batch["next", "terminated"]
    up = batch["next", "truncated"]
    assert up.sum(0).max() >= 3, "time is up more than once in some battle's place"
    asked = torch.stack(told)
    torch.testing.assert_close(batch["next", "value"][~over], asked[~over], atol=1e-5, rtol=0)
    # The following decision's value is another one where a battle ended.
    assert not torch.allclose(batch["value"][1:][up[:-1]], asked[:-1][up[:-1]], atol=1e-4)


def test_buffers_are_made_once(rollout):
    def places() -> list[int]:
        batch, memory, _ = rollout.collect()
        leaves = [*batch.values(True, True), *memory.values(True, True), *rollout.last.values(True, True)]
        return [leaf.data_ptr() for leaf in leaves]

    assert places() == places()


def test_a_rollout_reads_nothing_on_the_host(rollout):
    rollout.collect()
    with HostReads() as mode:
        rollout.collect()
    assert not mode.reads


def test_rows_are_the_learners_mechs(rollout):
    batch, memory, _ = rollout.collect()
    # 16 decisions of 6 battles of one learner team of 5, in sequences of 8.
    assert batch.shape == (16, 6) and batch["value"].shape == (16, 6, 5) and memory["h"].shape == (2, 6, 5, 16)
    assert set(TRAINING_KEYS) - {"advantage", "value_target", "enemy"} <= set(batch.keys())


def test_sums_count_every_battle_that_ended(rollout):
    batch, _, ended = rollout.collect()
    done = batch["next", "done"].sum()
    assert ended["battles"] == ended["battles_heuristic"] == done > 0
    assert ended["won"] + ended["lost"] <= ended["battles"]


def test_returns_are_what_each_term_paid_until_the_end(rollout):
    batch, _, ended = rollout.collect()
    reward = batch["next", "reward"].mean(2)
    done = batch["next", "done"]
    expected = 0.0
    for battle in range(6):
        earned = 0.0
        for t in range(16):
            earned += reward[t, battle].item()
            if done[t, battle]:
                expected, earned = expected + earned, 0.0
    assert ended["returns"].shape == (len(TERMS),)
    assert abs(ended["returns"].sum().item() - expected) < 1e-4


def test_weights_and_mix_of_the_reward_are_data():
    plain, scaled, shared = (make_rollout() for _ in range(3))
    scaled.scale[TERMS.index("approach")] = 0.0
    shared.mix.fill_(0.0)
    rewards = []
    for rollout in (plain, scaled, shared):
        torch.manual_seed(5)
        rewards.append(rollout.collect()[0]["next", "reward"])
    one, none, same = rewards
    assert one.abs().sum() > 1 and none.abs().sum() < one.abs().sum()
    torch.testing.assert_close(same, one.mean(2, keepdim=True).expand_as(one))


def test_without_truncation_no_last_views_are_kept():
    config = short_battles()
    rules = dataclasses.replace(config.rules, time_up_terminates=True)
    rollout = make_rollout()
    assert rollout.last_views == 2  # 16 decisions of battles of 12
    rollout.env.config = dataclasses.replace(config, rules=rules)
    assert TeamCollector(rollout.env, rollout.assignment, 16, 8).last_views == 0


def test_stagger_spreads_the_first_ends(rollout):
    ticks = rollout.env.state.tick
    assert ticks.unique().numel() > 1
    before = rollout.env.state.tick.clone()
    collector.stagger_episode_starts(rollout.env)
    assert torch.equal(before, rollout.env.state.tick), "drawn from the battles' own seeds"
    assert (ticks % rollout.env.config.rules.decision_repeat == 0).all()
