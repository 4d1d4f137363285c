"""TorchRL's parts and the learner's parts are interchangeable."""

import dataclasses

import pytest
import torch
from builders import short_battles
from tensordict import TensorDict
from tiers import usually
from tiny_runs import TINY, make_rollout
from torchrl.collectors import Collector
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import set_recurrent_mode
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE, MultiAgentGAE

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.learn.config import PPOConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import ModelConfig, PolicySpecs, model_with
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.ppo import collector as collectors
from echelon.learn.ppo.advantage import NormalizedGAE
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.from_torchrl import as_team_batch
from echelon.learn.ppo.update import PPO
from echelon.runtime.errors import ConfigError
from echelon.views.view import View

BATTLE = short_battles(6)
STEPS, CHUNK = 16, 8
KINDS = ("lstm", "gru", "mlp")
GROUPS = {"mechs": None, "versus": "agents"}
SETTINGS = PPOConfig(rollout_decisions=STEPS, chunk_decisions=CHUNK, minibatches=2, epochs=1, target_kl=0.0)


def build(model: ModelConfig = TINY) -> ActorCritic:
    torch.manual_seed(0)
    return model.build(PolicySpecs(BATTLE.comm_dim))


def make_view(view: str, policy: ActorCritic, **settings: object) -> View:
    """Three short battles for a policy."""
    shown = {"observation": "structured", "memory": policy.memory_spec(), **settings}
    return getattr(echelon, view)(BATTLE, Heuristic(BATTLE), 3, "cpu", 1, **shown)


def collect_by_torchrl(env: View, policy: ActorCritic, group: str | None, total: int = -1, **settings: object):
    frames = env.batch_size.numel() * STEPS
    actor = policy.get_policy_operator(group)
    return Collector(env, actor, frames_per_batch=frames, total_frames=total * frames if total > 0 else -1, **settings)


def key_of(group: str | None):
    """Return a function that adds a group to keys."""
    return lambda name: name if group is None else (group, name)


def torchrls_estimator(policy: ActorCritic, group: str | None, **settings: object) -> GAE:
    key, kind = key_of(group), GAE if group is None else MultiAgentGAE
    estimator = kind(gamma=0.99, lmbda=0.95, value_network=policy.get_value_operator(group), **settings)
    names = ("value", "state_value"), ("reward", "reward"), ("advantage", "advantage"), ("value_target", "value_target")
    estimator.set_keys(**{role: key(name) for role, name in names})
    return estimator


def torchrls_loss(policy: ActorCritic, group: str | None) -> ClipPPOLoss:
    key = key_of(group)
    loss = ClipPPOLoss(policy.get_policy_operator(group), policy.get_value_operator(group), entropy_coeff=0.01)
    loss.set_keys(
        action=key("pre_tanh"),
        sample_log_prob=key("pre_tanh_log_prob"),
        value=key("state_value"),
        value_target=key("value_target"),
        advantage=key("advantage"),
        reward=key("reward"),
    )
    return loss


def weights_of(policy: ActorCritic) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in policy.named_parameters()}


def unmoved(before: dict[str, torch.Tensor], policy: ActorCritic) -> list[str]:
    return [name for name, p in policy.named_parameters() if torch.equal(before[name], p)]


@pytest.mark.parametrize("view", GROUPS)
@pytest.mark.parametrize("kind", usually(KINDS, "lstm"))
def test_torchrls_collector_estimator_and_loss_train_our_policy(kind, view):
    group, policy = GROUPS[view], build(model_with(kind, TINY))
    before, key = weights_of(policy), key_of(GROUPS[view])
    estimator, loss = torchrls_estimator(policy, group), torchrls_loss(policy, group)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    begun = ended = 0
    for batch in collect_by_torchrl(make_view(view, policy), policy, group, total=2):
        begun, ended = begun + batch["is_init"][..., 1:, :].sum(), ended + batch["next", "done"].sum()
        with torch.no_grad():
            estimator(batch)
        rows = batch.flatten(0, -2)  # [sequences, T]
        found = loss(rows)
        # Whole sequences that contain ends of battles reproduce the steps.
        assert abs(found["max_ratio"] - 1) < 1e-5 and abs(found["kl_approx"]) < 1e-6 and found["clip_fraction"] == 0
        with torch.no_grad(), set_recurrent_mode(True):
            again = policy.get_value_operator(group)(rows.copy())[key("state_value")]
        torch.testing.assert_close(again, rows[key("state_value")], atol=1e-5, rtol=0)
        optimizer.zero_grad()
        sum(found[name] for name in ("loss_objective", "loss_critic", "loss_entropy")).backward()
        optimizer.step()
    assert begun > 0 and ended > 0 and unmoved(before, policy) == []


@pytest.mark.parametrize("view", GROUPS)
@pytest.mark.parametrize("kind", usually(KINDS, "lstm"))
def test_torchrls_estimator_values_each_state_from_its_own_memory(kind, view):
    group, policy = GROUPS[view], build(model_with(kind, TINY))
    key, critic = key_of(group), policy.get_value_operator(group)
    collector = collect_by_torchrl(make_view(view, policy), policy, group)
    batch = [collector.next() for _ in range(2)][1]
    with torch.no_grad():
        told = torchrls_estimator(policy, group)(batch.clone())
        # One unroll over whole sequences, as inside a loss.
        with set_recurrent_mode(True):
            at_once = torchrls_estimator(policy, group, shifted=True, shifted_budget=4)(batch.clone())
        for t in range(STEPS):
            for states, of in ((batch, lambda td: td), (batch["next"], lambda td: td["next"])):
                value = critic(states[..., t].clone())[key("state_value")]
                torch.testing.assert_close(of(told)[..., t][key("state_value")], value, atol=1e-5, rtol=0)
    assert at_once["shifted_valid"].all()
    torch.testing.assert_close(at_once[key("advantage")], told[key("advantage")], atol=1e-5, rtol=0)


@pytest.mark.parametrize("view", GROUPS)
def test_central_critic_without_enemy_state_raises(view):
    group, policy = GROUPS[view], build(dataclasses.replace(TINY, critic="central"))
    key = key_of(group)
    batch = collect_by_torchrl(make_view(view, policy), policy, group).next()
    learnt = batch.clone()
    for name in ("advantage", "value_target"):
        learnt[key(name)] = torch.zeros_like(learnt[key("action")][..., :1])
    refusal = r"^--model.critic must be local if [^\n]*, got 'central'$"
    with pytest.raises(ConfigError, match=refusal):
        torchrls_estimator(policy, group)(batch)
    with pytest.raises(ConfigError, match=refusal):
        torchrls_loss(policy, group)(learnt)
    if group is not None:
        with pytest.raises(ConfigError, match=refusal):
            as_team_batch(batch, policy, CHUNK)


def make_team_collector(policy: ActorCritic, normalizer: ValueNorm | None = None) -> TeamCollector:
    """Collect the battles of `make_view("versus", policy, side="blue")`."""
    opponents = [OpponentGroup("heuristic", Heuristic(BATTLE), 3)]
    assignment = PolicyAssignment(policy, opponents, side="blue")
    env = EchelonEnv(BATTLE, 3, "cpu", 1, memory=assignment.memory)
    return TeamCollector(env, assignment, STEPS, CHUNK, normalizer)


@pytest.mark.parametrize("kind", usually(KINDS, "lstm"))
def test_torchrl_collector_plays_same_battles_as_team_collector(kind, monkeypatch):
    # All battles of a view start at time 0.
    monkeypatch.setattr(collectors, "stagger_episode_starts", lambda env: None)
    policy, normalizer = build(model_with(kind, TINY)), ValueNorm()
    normalizer.update(torch.randn(100) * 3 + 2)
    ours = make_team_collector(policy, normalizer)
    view = make_view("versus", policy, side="blue")
    theirs = collect_by_torchrl(view, policy, "agents", exploration_type=ExplorationType.DETERMINISTIC)
    for _ in range(2):
        with set_exploration_type(ExplorationType.DETERMINISTIC):
            expected = ours.collect()
        batch, memory = as_team_batch(theirs.next(), policy, CHUNK, normalizer=normalizer)
        assert batch.names == expected.names and batch["next", "done"].any()
        assert set(expected.keys(True, True)) <= set(batch.keys(True, True))
        # Neither estimator uses values after terminated battles.
        going = ~expected["next", "terminated"][:, :, None]
        for each in (batch, expected):
            each["next", "state_value"] = each["next", "state_value"] * going
        found = batch.select(*expected.keys(True, True))
        torch.testing.assert_close(found.to_dict(), expected.to_dict(), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(memory.to_dict(), ours.memory.to_dict(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", usually(KINDS, "lstm"))
def test_our_estimator_and_update_learn_from_torchrls_collector(kind):
    policy, normalizer = build(model_with(kind, TINY)), ValueNorm()
    estimate = NormalizedGAE(gamma=0.99, lmbda=0.95, normalizer=normalizer)
    before, ppo = weights_of(policy), PPO(policy, SETTINGS)
    for collected in collect_by_torchrl(make_view("versus", policy), policy, "agents", total=2):
        batch, memory = as_team_batch(collected, policy, CHUNK, normalizer=normalizer)
        estimate(batch)
        report = ppo.update(batch, memory)
        assert report["skipped"] == 0 and all(value.isfinite() for value in report.values())
    assert unmoved(before, policy) == []


@pytest.mark.parametrize("average", [True, False])
def test_our_update_learns_from_torchrls_estimator(average):
    rollout = make_rollout()
    batch, ppo = rollout.collect(), PPO(rollout.policy, SETTINGS)
    expected = NormalizedGAE(gamma=0.99, lmbda=0.95)(batch.clone())
    MultiAgentGAE(gamma=0.99, lmbda=0.95, value_network=None, average_gae=average)(batch)
    torch.testing.assert_close(batch["value_target"], expected["value_target"], atol=1e-5, rtol=1e-5)
    plain = expected["value_target"] - batch["state_value"]
    if average:  # over the mechs at one team position, including dead ones
        plain = (plain - plain.mean((0, 1))) / plain.std((0, 1))
    torch.testing.assert_close(batch["advantage"], plain, atol=1e-4, rtol=1e-4)
    # TorchRL's targets are in real units, so the critic must be too.
    ppo.objective.set_keys(value="state_value", value_target="value_target")
    assert "value_target" in ppo.objective.in_keys and "value_target_normalized" not in ppo.objective.in_keys
    before = weights_of(rollout.policy)
    report = ppo.update(batch, rollout.memory)
    assert report["skipped"] == 0 and len(unmoved(before, rollout.policy)) < len(before)


def test_a_critic_in_normalised_units_needs_its_targets_in_them():
    rollout, normalizer = make_rollout(), ValueNorm()
    batch = rollout.collect()
    other = batch.clone()
    NormalizedGAE(gamma=0.99, lmbda=0.95, normalizer=normalizer)(batch)
    MultiAgentGAE(gamma=0.99, lmbda=0.95, value_network=None)(other)
    other["value_target_normalized"] = normalizer.normalise(other["value_target"])
    torch.testing.assert_close(other["value_target_normalized"], batch["value_target_normalized"], atol=1e-5, rtol=1e-5)
    assert PPO(rollout.policy, SETTINGS).update(other, rollout.memory)["skipped"] == 0


def test_our_collector_is_a_collector_of_torchrl():
    rollout = make_rollout(battles=2, decisions=CHUNK)
    frames = rollout.frames_per_batch
    rollout.total_frames = 3 * frames
    first = rollout.next()
    assert first.shape == (2, CHUNK) and rollout.state_dict() == {"frames": frames}
    assert rollout.stats() == {
        "frames": frames,
        "total_frames": 3 * frames,
        "completed": False,
        "requested_frames_per_batch": frames,
    }
    assert [batch.shape for batch in rollout] == [(2, CHUNK)] * 2
    assert rollout.next() is None and rollout.stats()["completed"]
    rollout.load_state_dict({"frames": frames})
    assert len(list(rollout)) == 2 and rollout.set_seed(3) != 3
    rollout.shutdown()


def test_our_collector_takes_weights():
    rollout = make_rollout(battles=2)
    before = weights_of(rollout.policy)
    for own in ((), (rollout.policy,), (rollout.policy.get_policy_operator(),)):
        rollout.update_policy_weights_(*own)
        assert unmoved(before, rollout.policy) == list(before)
    torch.manual_seed(1)
    other = TINY.build(rollout.policy.specs)
    rollout.update_policy_weights_(other)
    assert unmoved(weights_of(other), rollout.policy) == list(before)
    rollout.update_policy_weights_(TensorDict(before).unflatten_keys("."))
    assert unmoved(before, rollout.policy) == list(before)
