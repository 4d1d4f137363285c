"""Mechs as a `VecEnv` of Stable-Baselines3, and two updates of its PPO."""

import pytest

pytest.importorskip("stable_baselines3")

import numpy as np
import torch
from battles import EASY, SHORT, with_nan
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

from echelon.integrations.sb3 import vec_env
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.integrations


def vector(battles=2, **how):
    return vec_env(SHORT, EASY, battles, "cpu", 1, **how)


@pytest.mark.parametrize(
    "form", [{}, {"action": "discrete"}, {"action": "multi_discrete"}, {"observation": "structured"}], ids=str
)
def test_sb3_ppo_learns_for_two_updates(form):
    """All weights of the policy change."""
    envs = VecMonitor(vector(**form))
    kind = "MultiInputPolicy" if form.get("observation") else "MlpPolicy"
    model = PPO(kind, envs, n_steps=8, batch_size=16, n_epochs=2, seed=0, device="cpu")
    before = {name: weight.clone() for name, weight in model.policy.named_parameters()}
    model.learn(2 * 8 * envs.num_envs)
    assert model.num_timesteps == 64 and model._n_updates == 4
    assert all(not torch.equal(before[name], weight) for name, weight in model.policy.named_parameters())
    assert [episode["l"] for episode in model.ep_info_buffer] == [4] * 16


def test_maskable_ppo_learns_factors_and_chooses_only_available_options():
    """All weights of the policy change; each chosen option is in the mask of its decision."""
    from_contrib = pytest.importorskip("sb3_contrib")
    envs = vector(action="multi_discrete")
    model = from_contrib.MaskablePPO("MlpPolicy", envs, n_steps=8, batch_size=16, n_epochs=2, seed=0, device="cpu")
    before = {name: weight.clone() for name, weight in model.policy.named_parameters()}
    model.learn(2 * 8 * envs.num_envs)
    assert model.num_timesteps == 64
    assert all(not torch.equal(before[name], weight) for name, weight in model.policy.named_parameters())
    seen, first = envs.reset(), np.cumsum(envs.action_space.nvec) - envs.action_space.nvec
    for _ in range(4):
        masks = envs.action_masks()
        chosen, _ = model.predict(seen, action_masks=masks)
        assert masks.shape == (4, envs.action_space.nvec.sum()) and not masks.all()
        assert np.take_along_axis(masks, chosen + first, 1).all()
        seen, *_ = envs.step(chosen)


def test_end_of_battle_reports_terminal_observation():
    """Infos contain the true last observation, distinct from the next initial one, and the time-limit flag."""
    envs, plain = vector(), vector().envs
    seen = envs.reset()
    assert np.array_equal(seen, plain.reset()[0])
    generator = np.random.default_rng(0)
    for decision in range(4):
        actions = generator.uniform(-1, 1, (4, *envs.action_space.shape)).astype(np.float32)
        seen, paid, ended, infos = envs.step(actions)
        expected, rewards, _, truncated, told = plain.step(actions)
        assert np.array_equal(seen, expected) and np.array_equal(paid, rewards.astype(np.float32))
        assert ended.tolist() == [decision == 3] * 4
        assert ["terminal_observation" in info for info in infos] == ended.tolist()
    for row, info in enumerate(infos):
        assert np.array_equal(info["terminal_observation"], told["final_obs"][row])
        assert not np.array_equal(info["terminal_observation"], seen[row])
        assert info["TimeLimit.truncated"] and truncated[row] and info["decisions"] == 4
        assert info["winner"] == told["final_info"]["winner"][row]


def test_nan_action_is_counted():
    envs = vector()
    envs.reset()
    assert [info["bad_actions"] for info in envs.reset_infos] == [0] * 4
    _, bad = with_nan(np.zeros((4, *envs.action_space.shape), np.float32))
    told = [[info["bad_actions"] for info in envs.step(bad)[3]] for _ in range(5)]
    # A battle has four decisions: the fifth one is the first of the next battle.
    assert told == [[0, count, 0, 0] for count in (2, 4, 6, 8, 2)]


def test_end_before_time_limit_is_not_truncation():
    envs = vector()
    envs.reset()
    envs.envs.view.env.state.mechs.hp[0, 2:] = 0
    *_, ended, infos = envs.step(np.zeros((4, *envs.action_space.shape), np.float32))
    assert ended.tolist() == [True, True, False, False] and infos[0]["won"] and not infos[0]["TimeLimit.truncated"]


def test_vec_env_interface_is_complete():
    envs = vector(action="discrete", render_mode="rgb_array")
    envs.seed(np.int64(5))
    first = envs.reset()
    envs.seed(5)
    assert np.array_equal(first, envs.reset()) and not np.array_equal(first, envs.reset())
    assert envs.has_attr("action_masks") and not vector().has_attr("action_masks")
    masks = np.stack(envs.env_method("action_masks"))
    assert masks.shape == (4, 64) and masks.dtype == bool and 0 < masks.mean() < 1
    assert len(envs.env_method("action_masks", indices=[1, 2])) == 2
    assert envs.get_attr("num_envs", 0) == [4] and envs.env_is_wrapped(VecMonitor) == [False] * 4
    envs.set_attr("note", 3)
    assert envs.get_attr("note") == [3] * 4
    assert envs.render().shape[2] == 3
    with pytest.raises(AttributeError, match="no fly"):
        envs.env_method("fly")
    assert VecNormalize(vector()).reset().shape == (4, *vector().observation_space.shape)
    envs.close()
    assert envs.envs.closed


def test_invalid_settings_are_refused_in_one_line():
    with pytest.raises(ConfigError, match="num_envs"):
        vector(battles=0)
    with pytest.raises(ConfigError, match=r"^vec_env has no setting 'max_steps'\. Use config\.rules"):
        vector(max_steps=10)
    envs = vector(action="discrete")
    envs.set_options({"seed": 5})
    with pytest.raises(ConfigError, match="options must be empty"):
        envs.reset()
    with pytest.raises(ConfigError, match="action_masks must be called without arguments"):
        envs.env_method("action_masks", battle=1)
