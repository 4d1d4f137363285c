"""Battles as RLlib's multi-agent environments: spaces, masks, deaths, and two policies against each other."""

import types

import numpy as np
import pytest
from battles import EASY, SHORT

pytest.importorskip("ray.rllib", exc_type=ImportError)

from echelon.integrations.rllib import BattleEnv, self_play
from echelon.runtime.errors import ConfigError

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("ignore")]


def played_out(env):
    """Play a battle and return its last step; check that every observation is in its space."""
    observations, infos = env.reset(seed=1)
    flags = ({"__all__": False}, {"__all__": False})
    while not any(own["__all__"] for own in flags):
        assert all(env.observation_spaces[name].contains(own) for name, own in observations.items())
        actions = {name: env.action_spaces[name].sample() for name in env.agents}
        observations, _, *flags, infos = env.step(actions)
    return *flags, infos


@pytest.mark.parametrize("form", [{}, {"opponent": EASY, "action": "discrete"}, {"observation": "structured"}], ids=str)
def test_time_up_truncates_all_and_terminates_none(form):
    env = BattleEnv({"config": SHORT, **form})
    assert env.possible_agents[0] == ("agent_0" if form.get("opponent") else "blue_0")
    terminated, truncated, infos = played_out(env)
    assert terminated == {"__all__": False} and truncated == {"__all__": True}
    assert all(info["winner"] >= 0 for info in infos.values())


def test_elimination_terminates_all():
    env = BattleEnv({"config": SHORT, "opponent": EASY})
    env.reset(seed=1)
    env.battle.view.env.state.mechs.hp[0, 2:] = 0
    *_, terminated, truncated, infos = env.step({name: env.action_spaces[name].sample() for name in env.agents})
    assert terminated == {"__all__": True} and truncated == {"__all__": False} and infos["agent_0"]["won"]


def test_terminating_death_removes_only_dead_mech():
    env = BattleEnv({"config": SHORT, "opponent": EASY, "death": "terminates"})
    env.reset(seed=1)
    env.battle.view.env.state.mechs.hp[0, 0] = 0
    *_, terminated, truncated, _ = env.step({name: env.action_spaces[name].sample() for name in env.agents})
    assert terminated == {"agent_0": True, "__all__": False} and truncated == {"__all__": False}
    assert env.agents == ["agent_1"]
    observations, *_ = env.step({"agent_1": np.zeros(26, np.float32)})
    assert list(observations) == ["agent_1"]


def test_self_play_swaps_sides_between_episodes():
    policy_of, blue = self_play("main", "frozen"), []
    for number in range(200):
        episode = types.SimpleNamespace(id_=f"episode {number}")
        teams = [{policy_of(f"{team}_{mech}", episode) for mech in range(2)} for team in ("blue", "red")]
        assert sorted(teams, key=str) == [{"frozen"}, {"main"}]
        blue += teams[0]
    assert 60 < blue.count("main") < 140
    with pytest.raises(ConfigError, match="self_play must have agents of both teams, got 'agent_0'"):
        policy_of("agent_0", episode)
    with pytest.raises(ConfigError, match="opponent must be another policy"):
        self_play("main", "main")


def test_unknown_setting_is_named():
    with pytest.raises(ConfigError, match=r"^parallel_env has no setting 'max_cycles'\. Use config\.rules"):
        BattleEnv({"config": SHORT, "max_cycles": 3})


@pytest.mark.long
def test_masked_policies_play_each_other():
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule

    names = ("learner", "opponent")
    own = RLModuleSpec(ActionMaskingTorchRLModule, model_config={"head_fcnet_hiddens": [16]})
    config = PPOConfig().environment(BattleEnv, env_config={"config": SHORT, "action": "discrete"})
    config = config.env_runners(num_env_runners=0).rl_module(
        rl_module_spec=MultiRLModuleSpec(rl_module_specs={name: own for name in names})
    )
    config = config.multi_agent(policies=set(names), policy_mapping_fn=self_play(*names), policies_to_train=["learner"])
    algorithm = config.training(train_batch_size=32, minibatch_size=16, num_epochs=1).build_algo()
    losses = algorithm.train()["learners"]
    algorithm.stop()
    assert np.isfinite(losses["learner"]["total_loss"]) and "total_loss" not in losses.get("opponent", {})
