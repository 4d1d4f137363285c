"""Calls of EPyMARL's `gymma` wrapper and of PyMARL2's runners, compared with the battles of `echelon.mechs`.

Neither is a published package, so the tests make their calls. PyMARLzoo+ has EPyMARL's runner and QMIX.
"""

import types
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
import torch
from arena import ARENA, OPPONENT, SEED
from gymnasium.spaces import flatdim
from gymnasium.wrappers import TimeLimit

import echelon
from echelon.integrations.epymarl import SmacBattle
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.integrations
ID = "echelon.integrations.epymarl:Echelon-team-v0"
DECISIONS = 60


def reference():
    """Return for each decision the input, available actions, and the output."""
    view = echelon.mechs(ARENA, OPPONENT, 1, "cpu", SEED, side="blue", action="discrete", state=True)
    td, steps = view.reset(), []
    for decision in range(DECISIONS):
        action = chosen(td["action_mask"][0].numpy(), decision)
        before = td[0].clone()
        step, td = view.step_and_maybe_reset(td.set("action", torch.from_numpy(action)[None]))
        steps.append((before, action, step["next"][0].clone()))
    ends = [bool(after["done"].any()) for *_, after in steps]
    assert sum(ends) > 2
    return steps


def chosen(masks, decision):
    return np.array([np.flatnonzero(own)[decision % own.sum()] for own in masks])


def test_smac_interface_matches_view():
    env = SmacBattle(ARENA, OPPONENT, seed=SEED)
    info = env.get_env_info()
    view = echelon.mechs(ARENA, OPPONENT, 1, "cpu", side="blue", action="discrete", state=True)
    state_size, obs_size = (view.observation_spec[name].shape[-1] for name in ("state", "observation"))
    sizes = {"state_shape": state_size, "obs_shape": obs_size, "n_actions": 64, "n_agents": 2, "episode_limit": 20}
    assert info == sizes
    env.reset()
    for before, action, after in reference():
        assert np.array_equal(np.stack(env.get_obs()), before["observation"].numpy())
        assert np.array_equal(env.get_obs_agent(1), before["observation"][1].numpy())
        assert np.array_equal(env.get_state(), before["state"][0].numpy()) and env.get_state().shape == (
            info["state_shape"],
        )
        assert np.array_equal(np.stack(env.get_avail_actions()), before["action_mask"].numpy())
        reward, terminated, told = env.step(action)
        assert reward == pytest.approx(float(after["reward"].mean())) and terminated == bool(after["done"][0])
        is_timeout = bool(after["truncated"][0])
        assert told.get("episode_limit", False) == is_timeout
        if terminated:
            assert told["battle_won"] == bool(after["outcome", "won"][0])
            env.reset()
    env.close()


def test_gymma_accepts_registered_id():
    """Constructor, reset and step, in the order of the wrapper."""
    env = TimeLimit(gymnasium.make(ID, max_episode_steps=25, config=ARENA, opponent=OPPONENT), max_episode_steps=25)
    count = env.unwrapped.n_agents
    assert max(env.action_space, key=lambda space: space.n).n == 64
    width = flatdim(max(env.observation_space, key=lambda space: space.shape))
    seen, _ = env.reset(seed=SEED)
    for before, action, after in reference():
        assert len(seen) == count and all(own.shape == (width,) for own in seen)
        assert np.array_equal(np.stack(seen), before["observation"].numpy())
        seen, rewards, done, truncated, info = env.step([int(own) for own in action])
        assert rewards == pytest.approx(after["reward"][:, 0].tolist())
        assert (done, truncated) == (bool(after["terminated"][0]), bool(after["truncated"][0]))
        assert all(isinstance(value, bool | int | float) for value in info.values())
        if done or truncated:
            seen, _ = env.reset(seed=None, options=None)


def test_invalid_settings_are_refused_in_one_line():
    with pytest.raises(ConfigError, match="side must be blue or red"):
        SmacBattle(ARENA, OPPONENT, side="both")
    with pytest.raises(ConfigError, match="options must be empty"):
        gymnasium.make(ID, config=ARENA, opponent=OPPONENT).reset(options={"a": 1})


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_qmix_of_pymarlzooplus_trains_for_10000_steps():
    pymarlzooplus = pytest.importorskip("pymarlzooplus", exc_type=ImportError)
    import yaml
    from pymarlzooplus import envs, run
    from pymarlzooplus.utils.logging_setup import Logger, get_logger

    settings, configs = {}, Path(pymarlzooplus.__file__).parent / "config"
    for name in ("default", "algs/qmix"):
        settings |= yaml.safe_load((configs / f"{name}.yaml").read_text())
    small = {"batch_size": 8, "buffer_size": 200, "hidden_dim": 32, "test_nepisode": 2, "learner_log_interval": 500}
    settings |= {"env": "echelon", "env_args": {}, "device": "cpu", "device_cnn_modules": "cpu", "t_max": 10_000}
    settings |= {"use_cuda_cnn_modules": False, "seed": 0, **small}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(envs.REGISTRY, "echelon", lambda: SmacBattle(ARENA, OPPONENT, seed=SEED))
        patch.setattr(envs, "REGISTRY_availability", [*envs.REGISTRY_availability, "echelon"])
        patch.setattr("pymarlzooplus.utils.env_utils.env_REGISTRY_availability", ["echelon"])
        log = Logger(get_logger(name="echelon"))
        torch.manual_seed(0)
        run.run_sequential(types.SimpleNamespace(**settings), log)
    steps, losses = zip(*log.stats["loss"], strict=True)
    assert steps[-1] > 9_000 and len(losses) > 10 and np.isfinite(losses).all()
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    assert "battle_won_mean" in log.stats and log.stats["ep_length_mean"][-1][1] <= 20
