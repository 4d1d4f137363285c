"""Checks of TorchRL's own `test/envs`, applied to the environment and each of its views."""

import itertools

import pytest
import torch
from tensordict import TensorDict
from test_partial import KINDS, battles_of, make
from tiers import usually
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.postprocs import MultiStep
from torchrl.envs import MultiStepTransform, check_env_specs
from torchrl.envs.utils import RandomPolicy, _StepMDP, step_mdp

EACH = pytest.mark.parametrize("kind", usually(KINDS, "plain", "mechs", "partition"))
OF_ROWS = ("mechs", "both_teams")
"""Views with one row per mech, whose keys have no group."""


def rollout(env, steps=4, policy=None, **options):
    """Return a rollout with the same actions every time."""
    torch.manual_seed(0)
    env.set_seed(1)
    return env.rollout(steps, policy, **options)


def are_equal(one, other):
    return one.shape == other.shape and all(torch.equal(one[key], other[key]) for key in one.keys(True, True))


@EACH
def test_specs_match_every_step_and_reset(kind):
    env = make(kind)
    env.run_type_checks = True
    check_env_specs(env, break_when_any_done="both")


@EACH
def test_wrong_batch_size_raises(kind):
    env = make(kind)
    td = env.rand_action(env.reset())
    with pytest.raises(RuntimeError, match="batch_locked is a read-only property"):
        env.batch_locked = False
    with pytest.raises(RuntimeError, match=r"Expected a tensordict with shape==env.batch_size"):
        env.step(td.expand(2, *td.shape).clone())


@EACH
def test_next_observation_is_the_next_steps_input(kind):
    """The fast `_StepMDP` of a rollout agrees with `step_mdp`, for any options."""
    env = make(kind)
    td = env.rand_step(env.reset())
    keys = {"done_keys": env.done_keys, "action_keys": env.action_keys, "reward_keys": env.reward_keys}
    for flags in itertools.product((False, True), repeat=4):
        kept = dict(zip(("keep_other", "exclude_reward", "exclude_done", "exclude_action"), flags, strict=True))
        assert are_equal(step_mdp(td, **keys, **kept), _StepMDP(env, **kept)(td))


@EACH
def test_reset_does_not_set_a_state(kind):
    env = make(kind)
    with pytest.raises(NotImplementedError, match="does not support deterministic resets"):
        env.reset(env.reset(), set_state=True)


# Options of a rollout


@EACH
def test_rollout_stops_at_the_first_end_or_not(kind):
    env = make(kind)
    assert rollout(env, 9).shape[-1] == 4, "the first end of a battle"
    assert rollout(env, 9, break_when_any_done=False).shape[-1] == 9
    assert rollout(env, 9, break_when_any_done=False, break_when_all_done=True).shape[-1] == 4
    assert rollout(env, 3).names[-1] == "time"


@EACH
def test_rollout_options_do_not_change_battles(kind):
    env, policy, seen = make(kind), RandomPolicy(make(kind).full_action_spec), []
    plain, kept = rollout(env), rollout(env).clone().zero_()
    assert are_equal(plain, rollout(env, out=kept)) and are_equal(plain, kept)
    assert are_equal(plain, rollout(env, return_contiguous=False))
    assert are_equal(plain, rollout(env, storing_device="cpu"))
    assert are_equal(plain, rollout(env, callback=lambda env, td: seen.append(td.clone())))
    assert len(seen) == 3
    given = TensorDict({"of_the_caller": torch.ones(env.batch_size)}, env.batch_size)
    assert are_equal(plain, rollout(env, tensordict=given).exclude("of_the_caller", ("next", "of_the_caller")))
    drawn = rollout(env, policy=policy)
    assert are_equal(drawn, rollout(env, policy=policy, auto_cast_to_device=True))
    assert are_equal(drawn, rollout(env, policy=policy, trust_policy=True))
    apart = rollout(env, policy=lambda td: policy(td.empty()), trust_policy=True)
    assert are_equal(drawn, apart), "a policy that returns its action in another TensorDict"


@EACH
def test_rollout_can_be_split_into_truncated_ones(kind):
    td = rollout(make(kind), 3, set_truncated=True, break_when_any_done=False)
    for flag in ("truncated", "done"):
        assert td["next", flag][..., -1, :].all() and not td["next", flag][..., :-1, :].any()


@EACH
def test_consecutive_rollouts_equal_one_rollout(kind):
    """Rollouts of three steps, in battles of four decisions, equal one long rollout."""
    whole = rollout(make(kind), 9, break_when_any_done=False)
    env, parts = make(kind), []
    torch.manual_seed(0)
    env.set_seed(1)
    td = env.reset()
    for _ in range(3):
        parts.append(env.rollout(3, auto_reset=False, tensordict=td, break_when_any_done=False))
        td = env.step_mdp(parts[-1][..., -1])
    assert are_equal(whole, torch.cat(parts, -1))
    assert battles_of(env).state.tick.tolist() == [1] * 3


@pytest.mark.parametrize("kind", OF_ROWS)
def test_recorded_actions_can_be_replayed(kind):
    """TorchRL stores actions under the first action key only, which is complete in views without groups."""
    played = rollout(make(kind))
    actions = list(played["action"].unbind(-2))
    assert are_equal(played, rollout(make(kind), 9, actions=actions))


# Multi-step returns


@EACH
def test_multi_step_returns(kind):
    env = make(kind)
    td, gamma, steps = rollout(env, 8, break_when_any_done=False), 0.5, 3
    for reward_key in env.reward_keys:
        expected = td["next", reward_key].clone()
        for t in range(8):
            for later in range(t + 1, min(t + steps, t - t % 4 + 4)):
                at = (*[slice(None)] * len(env.batch_size), t)
                then = (*at[:-1], later)
                expected[at] += gamma ** (later - t) * td["next", reward_key][then]
        post = MultiStep(gamma, steps)
        post.reward_keys = (reward_key,)
        got = post(td.clone())
        torch.testing.assert_close(got["next", reward_key], expected)
        shown = got["next", "telemetry"].flatten(0, -4), td["next", "telemetry"].flatten(0, -4)
        assert torch.equal(shown[0][:, 0], shown[1][:, 2]), "the observation three steps later"


def test_multi_step_returns_in_a_replay_buffer():
    env, key = make("versus"), ("agents", "reward")
    td = rollout(env, 8, break_when_any_done=False)
    transform = MultiStepTransform(n_steps=3, gamma=0.5, reward_keys=[key])
    buffer = ReplayBuffer(storage=LazyTensorStorage(100, ndim=2), transform=transform)
    buffer.extend(td.clone())
    paid = td["next", "agents", "reward"]
    expected = paid[:, 0] + 0.5 * paid[:, 1] + 0.25 * paid[:, 2]
    torch.testing.assert_close(buffer[:]["next", "agents", "reward"][:, 0], expected)
