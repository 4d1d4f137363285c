"""Mechs as a vector of environments by gymnasium's documented contract; a team as a single agent."""

import pytest

pytest.importorskip("gymnasium")

import functools

import gymnasium
import matplotlib
import numpy as np
import torch
from battles import EASY, LONG, SHORT, with_nan
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics
from torchrl.envs import GymEnv, GymWrapper, ParallelEnv

import echelon
from echelon.integrations.gymnasium import TeamEnv, make_vec
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.noise import battle_seeds

pytestmark = pytest.mark.integrations
matplotlib.use("Agg")
FORMS = [{}, {"action": "discrete"}, {"action": "multi_discrete"}, {"observation": "structured"}, {"opponent": None}]
ECHELON = "echelon.integrations.gymnasium:Echelon-v0"


def vector(config=SHORT, battles=3, **how):
    return make_vec(config, **{"opponent": EASY, **how}, battles=battles, device="cpu", seed=1)


# A vector of environments


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gymnasium_contract_holds(form):
    """Spaces, shapes and dtypes of every reset and step, and autoreset."""
    envs = vector(**form)
    count = 12 if "opponent" in form else 6
    assert isinstance(envs, VectorEnv) and envs.num_envs == count
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP and envs.metadata["render_fps"] == 4
    envs.action_space.seed(0)
    seen, infos = envs.reset(seed=3)
    assert envs.observation_space.contains(seen)
    for decision in range(9):
        seen, paid, terminated, truncated, infos = envs.step(envs.action_space.sample())
        assert envs.observation_space.contains(seen)
        assert paid.shape == terminated.shape == truncated.shape == (count,) and paid.dtype == np.float64
        assert terminated.dtype == truncated.dtype == infos["alive"].dtype == bool and infos["_alive"].all()
        ended = terminated | truncated
        assert ended.all() == (decision % 4 == 3) and ended.any() == ended.all()
        assert ("final_obs" in infos) == ("final_info" in infos) == ended.any()
        if ended.any():
            assert infos["final_obs"].dtype == object and (infos["_final_obs"] == ended).all()
            assert all(envs.single_observation_space.contains(own) for own in infos["final_obs"])
    envs.close()
    assert envs.closed


def test_it_is_the_battles_of_the_view():
    """Rows are mechs, grouped by battle; one battle ends earlier, and its last observation is in the infos."""
    envs, view = vector(), echelon.mechs(SHORT, EASY, 3, "cpu", 1)
    seen, _ = envs.reset(seed=7)
    view.set_seed(7)
    td, generator = view.reset(), torch.Generator().manual_seed(0)
    for decision in range(6):
        assert np.array_equal(seen, td["observation"].flatten(0, 1).numpy())
        if decision == 1:
            for battles in (envs.view.env, view.env):
                battles.state.mechs.hp[1, 2:] = 0
        action = torch.rand(3, 2, view.full_action_spec["action"].shape[-1], generator=generator) * 2 - 1
        seen, paid, terminated, truncated, infos = envs.step(action.flatten(0, 1).numpy())
        step, td = view.step_and_maybe_reset(td.set("action", action))
        played = step["next"]
        assert paid.tolist() == played["reward"].flatten().tolist()
        assert terminated.tolist() == played["terminated"].flatten().tolist()
        assert truncated.tolist() == played["truncated"].flatten().tolist()
        if decision != 1:
            continue
        assert terminated.tolist() == [False, False, True, True, False, False]
        assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == terminated.tolist()
        assert [own is None for own in infos["final_obs"]] == (~terminated).tolist()
        assert np.array_equal(np.stack(infos["final_obs"][2:4]), played["observation"][1].numpy())
        final = infos["final_info"]
        assert final["winner"].tolist() == [0, 0, 1, 1, 0, 0] and final["_winner"].tolist() == terminated.tolist()
        # The learner of battle 1 is red.
        assert not final["won"].any() and final["won"].dtype == bool and final["decisions"].tolist()[2:4] == [2, 2]
        assert final["score"].shape == (6, 2) and final["alive"].tolist() == [False] * 6


def test_equal_seeds_give_equal_battles():
    envs, other = vector(), vector()
    for seed in (3, 3, 4):
        first, second = envs.reset(seed=seed)[0], other.reset(seed=seed)[0]
        assert np.array_equal(first, second)
    assert not np.array_equal(envs.reset(seed=3)[0], first)
    assert not np.array_equal(envs.reset()[0], envs.reset()[0])


def test_nan_action_becomes_zero_and_is_counted():
    """Battle 1 ends after its second decision; then the count of its mechs restarts."""
    clean, envs = vector(), vector()
    clean.reset(seed=1)
    _, infos = envs.reset(seed=1)
    assert infos["bad_actions"].tolist() == [0] * 6 and infos["_bad_actions"].all()
    generator = np.random.default_rng(0)
    for decision in (1, 2, 3):
        drawn = generator.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
        zeroed, bad = with_nan(drawn)
        zeroed[3, 4], bad[3, 4] = 0.0, -np.inf
        kept = bad.copy()
        if decision == 2:
            for battles in (clean, envs):
                battles.view.env.state.mechs.hp[1, 2:] = 0
        expected, results = clean.step(zeroed), envs.step(bad)
        assert np.array_equal(bad, kept, equal_nan=True)
        assert all(np.array_equal(own, other) for own, other in zip(results[:4], expected[:4], strict=True))
        infos = results[4]
        assert infos["bad_actions"].tolist() == [0, 2 * decision, 0, (1, 0, 1)[decision - 1], 0, 0]
        if decision == 2:
            assert infos["final_info"]["bad_actions"].tolist() == [0, 0, 0, 2, 0, 0]
            assert infos["final_info"]["_bad_actions"].tolist() == [False, False, True, True, False, False]


@pytest.mark.parametrize("kind", [np.int64, np.uint32])
def test_numpy_integer_seed_equals_int_seed(kind):
    envs = vector()
    assert np.array_equal(envs.reset(seed=kind(5))[0], envs.reset(seed=5)[0])
    assert np.array_equal(make_vec(SHORT, EASY, seed=kind(5)).reset()[0], make_vec(SHORT, EASY, seed=5).reset()[0])
    team = TeamEnv(SHORT, EASY, seed=kind(5))
    first = team.reset()[0]
    assert np.array_equal(first, team.reset(seed=kind(5))[0]) and np.array_equal(first, team.reset(seed=5)[0])
    for wrong in (np.float64(5), np.bool_(True)):
        with pytest.raises(ConfigError, match="seed must be an integer"):
            envs.reset(seed=wrong)


def test_unknown_setting_error_names_function():
    for name, maker in (("make_vec", make_vec), ("TeamEnv", TeamEnv)):
        for setting, hint in (("max_episode_steps", "Use config.rules.max_episode_s"), ("observaton", "Did you mean")):
            with pytest.raises(ConfigError, match=f"^{name} has no setting '{setting}'. {hint}"):
                maker(SHORT, **{setting: 10})
    with pytest.raises(ConfigError, match=r"^make_vec has no setting 'num_envs'\. It has config, opponent, battles"):
        make_vec(SHORT, num_envs=3)


def test_gymnasium_wrapper_counts_episodes():
    envs = RecordEpisodeStatistics(vector())
    envs.reset(seed=1)
    total = np.zeros(6)
    for _ in range(4):
        *_, infos = ended = envs.step(np.zeros(envs.action_space.shape, np.float32))
        total += ended[1]
    assert infos["episode"]["l"].tolist() == [4] * 6
    np.testing.assert_allclose(infos["episode"]["r"], total)


@pytest.mark.parametrize("action", ["discrete", "multi_discrete"])
def test_masks_belong_to_next_decision(action):
    envs = vector(action=action)
    _, infos = envs.reset(seed=1)
    for _ in range(5):
        masks = envs.view._masks[action](envs.view.env.state)
        own = envs.view.commanded.gather(*(masks[:, span] for span in envs.view.env.teams.values()))
        assert np.array_equal(infos["action_mask"], own.flatten(0, 1).numpy()) and infos["action_mask"].dtype == np.int8
        assert infos["_action_mask"].all()
        *_, infos = envs.step(envs.action_space.sample())


def test_render_returns_picture_per_environment():
    envs = vector(render_mode="rgb_array")
    envs.reset(seed=1)
    envs.view.env.state.mechs.hp[1, 0] = 0
    frames = envs.render()
    assert len(frames) == 6 and frames[0] is frames[1] and frames[0].dtype == np.uint8
    assert np.array_equal(frames[0], envs.view.render(battle=0)) and not np.array_equal(frames[0], frames[2])
    assert vector().render() is None


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("step must be called after reset", lambda envs: envs.step(None)),
        ("seed must be one number", lambda envs: envs.reset(seed=[1] * 6)),
        ("options must be without reset_mask", lambda envs: envs.reset(options={"reset_mask": np.ones(6, bool)})),
        ("options must be empty", lambda envs: envs.reset(options={"seed": 5})),
        ("actions must be of shape", lambda envs: envs.reset() and envs.step(np.zeros(3))),
        ("render_mode must be", lambda envs: vector(render_mode="human")),
        ("info must be True", lambda envs: vector(info=False)),
    ],
)
def test_invalid_calls_are_refused_in_one_line(what, call):
    with pytest.raises(ConfigError, match=what):
        call(vector())


# Autoreset modes


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_team_vector_matches_gymnasium_vector(mode):
    """Battle 1 ends in the second decision and battle 0 by time, two decisions later."""
    how = {"config": SHORT, "opponent": EASY}
    batch = gymnasium.make_vec(ECHELON, 2, "vector_entry_point", autoreset_mode=mode, device="cpu", **how)
    how["maps"] = batch.unwrapped.view.env.sim_model.maps
    own = gymnasium.make_vec(ECHELON, 2, "sync", vector_kwargs={"autoreset_mode": mode}, **how)
    assert batch.autoreset_mode == batch.metadata["autoreset_mode"] == mode
    assert batch.single_observation_space == own.single_observation_space
    assert batch.single_action_space == own.single_action_space
    seen, _ = own.reset(seed=7)
    batch.view.set_seed(torch.cat([battle_seeds(7 + index, 1, "cpu") for index in range(2)]))
    assert np.array_equal(batch.reset()[0], seen)
    generator = np.random.default_rng(0)
    for decision in range(7):
        if decision == 1:
            batch.view.env.state.mechs.hp[1, 2:] = 0
            own.envs[1].unwrapped.view.env.state.mechs.hp[0, 2:] = 0
        actions = generator.uniform(-1, 1, batch.action_space.shape).astype(np.float32)
        expected, results = own.step(actions), batch.step(actions)
        assert np.array_equal(results[0], expected[0])
        np.testing.assert_allclose(results[1], expected[1], rtol=1e-6)
        assert np.array_equal(results[2], expected[2]) and np.array_equal(results[3], expected[3])
        ended = results[2] | results[3]
        infos, told = (infos.get("final_info", infos) for infos in (results[4], expected[4]))
        for name in ("winner", "won"):
            assert not ended.any() or np.array_equal(infos[name][ended], told[name][ended])
        for row in np.flatnonzero(ended if mode == AutoresetMode.SAME_STEP else []):
            assert np.array_equal(results[4]["final_obs"][row], expected[4]["final_obs"][row])
        if mode == AutoresetMode.DISABLED and ended.any():
            with pytest.raises(ConfigError, match="step must be after a reset with reset_mask of the battles"):
                batch.step(actions)
            seen = [envs.reset(options={"reset_mask": ended.copy()})[0] for envs in (own, batch)]
            assert np.array_equal(*seen)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED], ids=lambda mode: mode.name)
def test_mechs_of_finished_battle_wait_for_next(mode):
    """Compared with `SAME_STEP` of the same battles: the last observation and the outcome, then the next battle."""
    envs, same = vector(autoreset_mode=mode), vector()
    assert np.array_equal(envs.reset(seed=3)[0], same.reset(seed=3)[0])
    actions = np.zeros(envs.action_space.shape, np.float32)
    for _ in range(4):
        seen, paid, terminated, truncated, infos = envs.step(actions)
        first, own_paid, own_terminated, own_truncated, told = same.step(actions)
        assert np.array_equal(paid, own_paid) and np.array_equal(terminated, own_terminated)
        assert np.array_equal(truncated, own_truncated)
    assert truncated.all() and np.array_equal(seen, np.stack(told["final_obs"]))
    for name in ("winner", "won", "decisions", "score", "alive", "_winner"):
        assert np.array_equal(infos[name], told["final_info"][name])
    if mode == AutoresetMode.NEXT_STEP:
        seen, paid, terminated, truncated, infos = envs.step(actions + np.nan)
        assert not paid.any() and not (terminated | truncated).any() and not infos["bad_actions"].any()
    else:
        seen, _ = envs.reset(options={"reset_mask": np.ones(envs.num_envs, bool)})
    assert np.array_equal(seen, first)
    assert np.array_equal(envs.step(actions)[0], same.step(actions)[0])


def test_partial_reset_of_battle_is_refused():
    envs = vector(autoreset_mode="Disabled")
    envs.reset(seed=1)
    for wrong, what in ((np.ones(6), "reset_mask must be an array"), (np.arange(6) == 1, "the same for all rows")):
        with pytest.raises(ConfigError, match=what):
            envs.reset(options={"reset_mask": wrong})
        envs.step(np.zeros(envs.action_space.shape, np.float32))
    with pytest.raises(ConfigError, match="autoreset_mode must be an AutoresetMode or one of NextStep, SameStep"):
        vector(autoreset_mode="never")


def test_gymnasium_wrapper_normalises_observations():
    """`NormalizeObservation`, used by CleanRL's continuous PPO, refuses `SAME_STEP`."""
    envs = NormalizeObservation(vector(autoreset_mode=AutoresetMode.NEXT_STEP))
    envs.reset(seed=1)
    for _ in range(6):
        seen, *_ = envs.step(np.zeros(envs.action_space.shape, np.float32))
    assert np.isfinite(seen).all()


# TorchRL's wrappers of gymnasium


def rollout_of(env):
    return env.rollout(6, break_when_any_done=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED], ids=lambda mode: mode.name)
def test_torchrl_wrapper_accepts_vector(mode):
    """It continues after the end of a battle: the fifth decision is the first of the next battle."""
    td = rollout_of(GymWrapper(vector(autoreset_mode=mode)))
    assert td["next", "truncated"].squeeze(-1)[0].tolist() == [False, False, False, True, False, False]
    assert td["next", "observation"].isfinite().all()


@pytest.mark.filterwarnings("ignore")
def test_torchrl_gym_env_finds_id_in_process_and_spawned_worker():
    """`GymEnv` first passes `frameskip`, and retries without it after a TypeError."""
    make_env = functools.partial(GymEnv, ECHELON, config=SHORT, opponent=EASY)
    env = ParallelEnv(2, make_env, mp_start_method="spawn")
    try:
        assert rollout_of(env)["next", "observation"].shape == (2, 6, *make_env().observation_spec["observation"].shape)
    finally:
        env.close()


# A team as a single agent


@pytest.mark.parametrize("action", ["continuous", "discrete", "multi_discrete"])
@pytest.mark.parametrize("side", ["blue", "red"])
def test_gymnasium_env_checker_passes(side, action):
    """Warnings are errors here; the render modes are checked too."""
    env = gymnasium.make(ECHELON, config=LONG, opponent=EASY, side=side, action=action, disable_env_checker=True)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("side", ["blue", "red"])
def test_team_environment_matches_view(side):
    env, view = TeamEnv(SHORT, EASY, side), echelon.versus(SHORT, EASY, 1, "cpu", 4, side=side)
    seen, info = env.reset(seed=4)
    td, generator = view.reset(), torch.Generator().manual_seed(0)
    for decision in range(4):
        assert np.array_equal(seen, td["agents", "observation"].flatten().numpy())
        assert info["alive"].tolist() == td["agents", "mask"][0].tolist() and info["winner"] == -1
        action = torch.rand(view.full_action_spec[view.action_key].shape, generator=generator) * 2 - 1
        seen, paid, terminated, truncated, info = env.step(action.flatten().numpy())
        td = view.step(td.set(view.action_key, action))["next"]
        assert paid == pytest.approx(td["agents", "reward"].mean().item())
        assert not terminated and truncated == (decision == 3)
    winner = int(td["outcome", "winner"])
    assert info["winner"] == winner and info["won"] == bool(td["outcome", "won"])
    with pytest.raises(ConfigError, match="the battle is over"):
        env.step(action.flatten().numpy())


def test_nan_team_action_becomes_zero_and_is_counted():
    clean, env = TeamEnv(SHORT, EASY, "red"), TeamEnv(SHORT, EASY, "red")
    clean.reset(seed=1)
    _, info = env.reset(seed=1)
    assert info["bad_actions"].tolist() == [0, 0]
    zeroed, bad = with_nan(np.full((2, env.action_space.shape[0] // 2), 0.5, np.float32))
    kept = bad.copy()
    for decision in (1, 2):
        expected, (seen, paid, *_, info) = clean.step(zeroed.ravel()), env.step(bad.ravel())
        assert np.array_equal(seen, expected[0]) and paid == expected[1]
        assert info["bad_actions"].tolist() == [0, 2 * decision]
    assert np.array_equal(bad, kept, equal_nan=True)


def test_a_duel():
    duel = EnvConfig(**{**vars(SHORT), "blue": ("medium",), "red": ("light",)})
    env = TeamEnv(duel, EASY, action="discrete", render_mode="rgb_array")
    _, info = env.reset(seed=0)
    assert env.action_space == gymnasium.spaces.MultiDiscrete([64]) and info["action_mask"].shape == (1, 64)
    env.view.env.state.mechs.hp[0, 1] = 0
    _, _, terminated, _, info = env.step(env.action_space.sample())
    assert terminated and info["won"] and env.render().ndim == 3


def test_invalid_team_settings_are_refused_in_one_line():
    for what, how in {
        "side must be blue or red": {"side": "both"},
        "render_mode must be": {"render_mode": "ansi"},
        "info must be True": {"info": False},
    }.items():
        with pytest.raises(ConfigError, match=what):
            TeamEnv(SHORT, EASY, **how)
    env = TeamEnv(SHORT, EASY)
    with pytest.raises(ConfigError, match="options must be empty"):
        env.reset(options={"seed": 5})
    env.reset(options={})
    with pytest.raises(ConfigError, match="action must be of shape"):
        env.step(np.zeros(2, np.float32))
