"""TorchRL components with the environment and its views: transforms, batched environments, collectors, losses."""

import dataclasses
import functools
import multiprocessing

import pytest
import torch
from builders import flat_maps, short_battles
from tensordict.nn import TensorDictModule, TensorDictSequential
from tiers import usually
from torch import nn
from torchrl.collectors import Collector, MultiSyncCollector
from torchrl.data import Composite, Unbounded
from torchrl.envs import (
    ActionMask,
    CatFrames,
    Compose,
    FrameSkipTransform,
    InitTracker,
    ObservationNorm,
    ParallelEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    VecNormV2,
    check_env_specs,
)
from torchrl.modules import LSTMModule, NormalParamExtractor, ProbabilisticActor, TanhNormal, set_recurrent_mode
from torchrl.objectives.multiagent import MAPPOLoss

import echelon
from echelon import EchelonEnv, EnvConfig
from echelon.env.observation import layout

CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=1)
EGO = ("observation", "ego")
SHORT = short_battles(4)
VIEWS = ("versus", "teams", "mechs", "both_teams")
SEEN, PAID = ("agents", "observation"), ("agents", "reward")


def make(kind, seed=1, **settings):
    """Return three short battles; `both_teams` is `mechs` without an opponent, `plain` the environment itself."""
    if kind in ("plain", "teams"):
        return {"plain": EchelonEnv, "teams": echelon.teams}[kind](SHORT, 3, "cpu", seed, **settings)
    view, opponent = (echelon.mechs, None) if kind == "both_teams" else (getattr(echelon, kind), "heuristic:hard")
    return view(SHORT, opponent, 3, "cpu", seed, **settings)


def end_one(view):
    """Let blue win the second battle in its next decision."""
    battles = view if isinstance(view, EchelonEnv) else view.env
    battles.state.mechs.hp[1, 2:] = 0


def draw(env, td, generator):
    """Set random actions in `td`, from a generator that does not depend on torch's global state."""
    for key in env.action_keys:
        td[key] = torch.rand(env.full_action_spec[key].shape, generator=generator) * 2 - 1
    return td


def side_by_side(transform, decisions=9):
    """Yield the outputs of a transformed and a plain `versus` environment for the same battles; one ends early.

    Yields both outputs, and `[B]`, which battles started with it: all at first, then the ended ones after each step.
    The output of a step itself comes with None.
    """
    env, plain, generator = TransformedEnv(make("versus"), transform), make("versus"), torch.Generator().manual_seed(0)
    td, other = env.reset(), plain.reset()
    yield td, other, torch.ones(3, dtype=torch.bool)
    for t in range(decisions):
        if t == 1:
            end_one(env)
            end_one(plain)
        td, other["agents", "action"] = draw(env, td, generator), td["agents", "action"]
        (step, td), (expected, other) = env.step_and_maybe_reset(td), plain.step_and_maybe_reset(other)
        yield step["next"], expected["next"], None
        yield td, other, expected["next", "done"][:, 0]


# Transforms


@pytest.mark.parametrize("kind", usually(["plain", *VIEWS], "plain", "versus", "both_teams"))
def test_counting_transforms_restart_with_each_battle(kind):
    """`RewardSum`, `StepCounter` and `InitTracker` find their keys without configuration."""
    view = make(kind)
    env = TransformedEnv(view, Compose(RewardSum(), StepCounter(), InitTracker()))
    check_env_specs(env)
    td, generator = env.reset(), torch.Generator().manual_seed(0)
    sums = {key: torch.zeros(view.full_reward_spec[key].shape) for key in view.reward_keys}
    count, ends = torch.zeros(*view.batch_size, 1, dtype=torch.int64), []
    assert td["is_init"].all()
    for t in range(9):
        if t == 1:
            end_one(view)
        step, td = env.step_and_maybe_reset(draw(env, td, generator))
        ended, count = step["next", "done"], count + 1
        assert torch.equal(step["next", "step_count"], count) and not step["next", "is_init"].any()
        count = count.masked_fill(ended, 0)
        assert torch.equal(td["step_count"], count) and torch.equal(td["is_init"], ended)
        for key in view.reward_keys:
            of_mechs = ended if kind in ("mechs", "both_teams") else ended[..., None]
            total = (*key[:-1], "episode_reward") if isinstance(key, tuple) else "episode_reward"
            sums[key] = sums[key] + step["next", key]
            assert torch.equal(step["next", total], sums[key])
            sums[key] = sums[key].masked_fill(of_mechs, 0)
            assert torch.equal(td[total], sums[key])
        ends.append(ended.view(3, -1)[:, 0].tolist())
    assert [t for t, (first, _, third) in enumerate(ends) if first and third] == [3, 7]
    assert [t for t, (_, second, _) in enumerate(ends) if second] == [1, 5]


@pytest.mark.parametrize("kind", VIEWS)
def test_max_steps_of_torchrl_ends_battles(kind):
    env = TransformedEnv(make(kind), StepCounter(max_steps=2))
    td = env.rollout(5, break_when_any_done=False)
    assert td["next", "truncated"].flatten(0, -3)[0].flatten().tolist() == [False, True, False, True, False]
    assert td["is_init"].flatten(0, -3)[0].flatten().tolist() == [True, False, True, False, True]
    assert env.env.state.tick.tolist() == [1, 1, 1]


def test_running_normalisation():
    transform = VecNormV2(in_keys=[SEEN, PAID], decay=1.0, reduce_batch_dims=True)
    env, plain, generator = TransformedEnv(make("versus"), transform), make("versus"), torch.Generator().manual_seed(0)
    check_env_specs(TransformedEnv(make("versus"), transform.clone()))
    td, other = env.reset(), plain.reset()
    seen, paid = [other[SEEN]], []
    for _ in range(3):
        other["agents", "action"] = draw(env, td, generator)["agents", "action"]
        td, other = env.step(td)["next"], plain.step(other)["next"]
        seen.append(other[SEEN])
        paid.append(other[PAID])
        for key, values in ((SEEN, seen), (PAID, paid)):
            torch.testing.assert_close(transform.loc[key], torch.cat(values).mean(0))
            expected = (values[-1] - transform.loc[key]) / transform.scale[key]
            torch.testing.assert_close(td[key], expected)


def test_fixed_normalisation():
    transform = ObservationNorm(in_keys=[SEEN], standard_normal=True)
    env = TransformedEnv(make("versus"), transform)
    env.transform.init_stats(8, reduce_dim=(0, 1, 2), cat_dim=0)
    loc, scale = transform.loc.clone(), transform.scale.clone()
    assert loc.shape == env.observation_spec[SEEN].shape[-1:] and (scale > 0.01).any()
    check_env_specs(env)
    for mine, theirs, _ in side_by_side(transform.clone(), 4):
        torch.testing.assert_close(mine[SEEN], (theirs[SEEN] - loc) / scale)


def test_stacked_frames_do_not_cross_battles():
    frames = ("agents", "frames")
    past = []
    for mine, theirs, began in side_by_side(CatFrames(3, -1, in_keys=[SEEN], out_keys=[frames])):
        now = theirs[SEEN]
        if began is None:
            past = [*past[1:], now]
        else:
            past = [torch.where(began[:, None, None], now, then) for then in past or [now] * 3]
        assert torch.equal(mine[frames], torch.cat(past, -1))
    check_env_specs(TransformedEnv(make("versus"), CatFrames(3, -1, in_keys=[SEEN], out_keys=[frames])))


@pytest.mark.parametrize(
    ("kind", "keys", "made"),
    [
        ("versus", {"action_key": ("agents", "action"), "mask_key": ("agents", "action_mask")}, 2),
        ("mechs", {}, 2),
        ("both_teams", {}, 4),
    ],
)
def test_masked_actions_are_not_sampled(kind, keys, made):
    env = TransformedEnv(make(kind, action="discrete"), ActionMask(**keys))
    check_env_specs(env)
    mask_key = keys.get("mask_key", "action_mask")
    td, masked = env.reset(), 0
    for _ in range(6):
        mask = td[mask_key]
        drawn = torch.stack([env.rand_action(td.clone())[env.action_key] for _ in range(40)], -1)
        assert drawn.shape == (3, made, 40) and mask.gather(-1, drawn).all()
        assert len(drawn.unique()) > 32
        masked += (~mask).sum().item()
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    assert masked > 0


def test_frame_skip_repeats_actions():
    env, plain = TransformedEnv(make("versus"), FrameSkipTransform(2)), make("versus")
    td, other, generator = env.reset(), plain.reset(), torch.Generator().manual_seed(0)
    for _ in range(3):
        action = draw(env, td, generator)["agents", "action"]
        step, td = env.step_and_maybe_reset(td)
        paid = 0
        for _ in range(2):
            other["agents", "action"] = action
            expected, other = plain.step_and_maybe_reset(other)
            paid = paid + expected["next", PAID]
        assert torch.equal(step["next", PAID], paid)
        assert torch.equal(step["next", SEEN], expected["next", SEEN]) and torch.equal(td[SEEN], other[SEEN])
    check_env_specs(env)


# Batches of environments


@pytest.mark.parametrize("kind", usually(["plain", *VIEWS], "plain", "versus", "both_teams"))
def test_batched_environments_equal_single_ones(kind):
    seeds = (1, 2)
    env, alone = SerialEnv(2, [functools.partial(make, kind, seed) for seed in seeds]), [make(kind, s) for s in seeds]
    check_env_specs(env)
    env.close()
    env = SerialEnv(2, [functools.partial(make, kind, seed) for seed in seeds])
    td, others, generator = env.reset(), [each.reset() for each in alone], torch.Generator().manual_seed(0)
    for _ in range(5):
        td = draw(env, td, generator)
        for worker, each in enumerate(alone):
            for key in each.action_keys:
                others[worker][key] = td[key][worker]
        step, td = env.step_and_maybe_reset(td)
        for worker, each in enumerate(alone):
            expected, others[worker] = each.step_and_maybe_reset(others[worker])
            for shown, plain in ((step[worker], expected), (td[worker], others[worker])):
                assert all(torch.equal(shown[key], plain[key]) for key in plain.keys(True, True))
    env.close()


def test_one_seed_gives_each_batched_environment_its_own_seed():
    env = SerialEnv(2, functools.partial(make, "versus"))
    first = [env.set_seed(5) and env.reset()[SEEN] for _ in range(2)]
    assert torch.equal(*first) and not torch.equal(first[0][0], first[0][1])
    env.close()


@pytest.fixture
def no_orphans():
    """A failing test leaves no process behind."""
    yield
    for process in multiprocessing.active_children():
        process.kill()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plain", "mechs"])
def test_environments_in_other_processes(kind, no_orphans):
    makers = [functools.partial(make, kind, seed) for seed in (1, 2)]
    serial, parallel = SerialEnv(2, makers), ParallelEnv(2, makers)
    rollouts = []
    for env in (serial, parallel):
        torch.manual_seed(0)
        rollouts.append(env.rollout(6, break_when_any_done=False))
        env.close()
    here, there = rollouts
    assert here["is_init"][..., [0, 4], :].all() and here.shape[:2] == (2, 3)
    for key in here.keys(True, True):
        assert torch.equal(here[key], there[key]), key


class Idle(nn.Module):
    """A policy of zero actions."""

    def forward(self, seen):
        return torch.zeros(*seen.shape[:-1], layout.action_width(SHORT.comm_dim))


@pytest.mark.long
def test_multiprocess_collector(no_orphans):
    """The concatenated batches of two workers equal the battles of each worker."""
    policy = TensorDictModule(Idle(), [SEEN], [("agents", "action")])
    makers = [functools.partial(make, "versus", seed) for seed in (1, 2)]
    collector = MultiSyncCollector(makers, policy, frames_per_batch=2 * 18, total_frames=4 * 18, cat_results=0)
    batch = torch.cat([part.clone() for part in collector], -1)
    collector.shutdown()
    alone = torch.cat([maker().rollout(12, policy, break_when_any_done=False) for maker in makers])
    assert batch.shape == alone.shape == (6, 12)
    for key in alone.keys(True, True):
        assert torch.equal(batch[key], alone[key]), key


# Losses and memories


def test_mappo_improves_its_objective():
    torch.manual_seed(0)
    env = EchelonEnv(CONFIG, 3, device="cpu", seed=0, maps=flat_maps(CONFIG))
    sums = [(g, "episode_reward") for g in ("blue", "red")]
    env = TransformedEnv(env, RewardSum(in_keys=[("blue", "reward"), ("red", "reward")], out_keys=sums))
    features, width = layout.width(layout.EGO), layout.action_width(CONFIG.comm_dim)
    actors, losses = [], []
    for group in ("blue", "red"):
        net = nn.Sequential(nn.Linear(features, 32), nn.Tanh(), nn.Linear(32, 2 * width), NormalParamExtractor())
        keys = [(group, "loc"), (group, "scale")]
        actor = ProbabilisticActor(
            TensorDictModule(net, in_keys=[(group, *EGO)], out_keys=keys),
            in_keys=keys,
            out_keys=[(group, "action")],
            distribution_class=TanhNormal,
            return_log_prob=True,
            log_prob_key=(group, "log_prob"),
        )
        critic = TensorDictModule(
            nn.Sequential(nn.Linear(features, 32), nn.Tanh(), nn.Linear(32, 1)),
            in_keys=[(group, *EGO)],
            out_keys=[(group, "state_value")],
        )
        loss = MAPPOLoss(actor, critic)
        loss.set_keys(
            action=(group, "action"),
            sample_log_prob=(group, "log_prob"),
            value=(group, "state_value"),
            reward=(group, "reward"),
            done="done",
            terminated="terminated",
            advantage=(group, "advantage"),
            value_target=(group, "value_target"),
        )
        actors.append(actor)
        losses.append(loss)

    policy = TensorDictSequential(*actors)
    collector = Collector(env, policy, frames_per_batch=3 * 8, total_frames=3 * 8, track_traj_ids=False)
    (batch,) = list(collector)
    assert batch["next", "blue", "episode_reward"].shape == (3, 8, 5, 1)
    for group, actor, loss in zip(("blue", "red"), actors, losses, strict=True):
        loss.value_estimator(batch)
        optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
        objective, critic = [], []
        for _ in range(10):
            found = loss(batch)
            objective.append(found["loss_objective"].item())
            critic.append(found["loss_critic"].item())
            optimizer.zero_grad()
            sum(found[name] for name in ("loss_objective", "loss_critic", "loss_entropy")).backward()
            optimizer.step()
        assert objective[-1] < objective[0] - 0.01 and critic[-1] < 0.95 * critic[0], group
        # Actions with positive advantage became more probable, those with negative advantage less.
        with torch.no_grad():
            gained = actor.get_dist(batch).log_prob(batch[group, "action"]) - batch[group, "log_prob"]
        good = batch[group, "advantage"][..., 0] > batch[group, "advantage"].mean()
        assert gained[good].mean() > gained[~good].mean() + 0.01, group


def own_memory():
    """Return a view that carries the network's memory."""
    lstm = LSTMModule(
        make("mechs").observation_spec["observation"].shape[-1],
        8,
        in_keys=["observation", ("memory", "h"), ("memory", "c")],
        out_keys=["embedding", ("next", "memory", "h"), ("next", "memory", "c")],
    )
    return lstm, make("mechs", memory=Composite(h=Unbounded((1, 8)), c=Unbounded((1, 8))))


def primed_memory():
    """Return an environment whose memory TorchRL carries with a primer."""
    view = make("mechs")
    lstm = LSTMModule(view.observation_spec["observation"].shape[-1], 8, in_key="observation", out_key="embedding")
    return lstm, TransformedEnv(view, lstm.make_tensordict_primer())


@pytest.mark.parametrize("remembering", [own_memory, primed_memory])
def test_torchrl_lstm_state_does_not_cross_battles(remembering):
    """A forward pass over a rollout of several battles equals the outputs of single steps."""
    torch.manual_seed(0)
    lstm, env = remembering()
    act = TensorDictModule(nn.Linear(8, layout.action_width(SHORT.comm_dim)), ["embedding"], ["action"])
    td = env.rollout(9, TensorDictSequential(lstm, act), break_when_any_done=False)
    assert td["is_init"][0, 0, :, 0].nonzero().flatten().tolist() == [0, 4, 8]
    with set_recurrent_mode(True), torch.no_grad():
        again = lstm(td.exclude("embedding", "next"))
    torch.testing.assert_close(again["embedding"], td["embedding"])
    forgetful = lstm(td.clone().set("is_init", torch.ones_like(td["is_init"])).reshape(-1))["embedding"]
    assert not torch.allclose(forgetful.view_as(td["embedding"]), td["embedding"], atol=1e-3)
