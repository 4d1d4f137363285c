"""A few hundred steps of training with skrl and AgileRL, with both forms of death."""

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

import torch
from arena import ARENA, OPPONENT

from echelon.integrations.pettingzoo import parallel_env

pytestmark = [pytest.mark.integrations, pytest.mark.long, pytest.mark.filterwarnings("ignore")]
STEPS = 256


def battle(death):
    return parallel_env(ARENA, death, opponent=OPPONENT)


def weights(module):
    return torch.cat([value.detach().flatten().clone() for value in module.parameters()])


@pytest.mark.parametrize("death", ["stays", "terminates"])
@pytest.mark.parametrize("algorithm", ["IPPO", "MAPPO"])
def test_skrl_trains(algorithm, death):
    pytest.importorskip("skrl")
    import importlib

    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
    from skrl.trainers.torch import SequentialTrainer

    class Policy(GaussianMixin, Model):
        def __init__(self, *spaces):
            Model.__init__(self, **dict(zip(("observation_space", "state_space", "action_space"), spaces, strict=True)))
            GaussianMixin.__init__(self)
            self.net = torch.nn.Linear(self.num_observations, self.num_actions)
            self.log_std = torch.nn.Parameter(torch.zeros(self.num_actions))

        def compute(self, inputs, role=""):
            return self.net(inputs["observations"]), {"log_std": self.log_std}

    class Value(DeterministicMixin, Model):
        def __init__(self, *spaces):
            Model.__init__(self, **dict(zip(("observation_space", "state_space", "action_space"), spaces, strict=True)))
            DeterministicMixin.__init__(self)
            self.seen = "states" if algorithm == "MAPPO" else "observations"
            self.net = torch.nn.Linear(self.num_states if algorithm == "MAPPO" else self.num_observations, 1)

        def compute(self, inputs, role=""):
            return self.net(inputs[self.seen]), {}

    env = wrap_env(battle(death), wrapper="pettingzoo", verbose=False)
    names, device = env.possible_agents, torch.device("cpu")
    spaces = {"observation_spaces": env.observation_spaces, "state_spaces": env.state_spaces}
    spaces["action_spaces"] = env.action_spaces
    models = {}
    for name in names:
        own = [of_agents[name] for of_agents in spaces.values()]
        models[name] = {"policy": Policy(*own).to(device), "value": Value(*own).to(device)}
    module = importlib.import_module(f"skrl.multi_agents.torch.{algorithm.lower()}")
    config = getattr(module, f"{algorithm}_CFG")(rollouts=64, learning_epochs=1, time_limit_bootstrap=True)
    config.experiment.write_interval = config.experiment.checkpoint_interval = 0
    for key, value in vars(config).items():
        if value == {}:  # skrl 2.1.1 refuses its own default
            setattr(config, key, {name: {} for name in names})
    memories = {name: RandomMemory(memory_size=64, num_envs=1, device=device) for name in names}
    agents = getattr(module, algorithm)(
        possible_agents=names, models=models, memories=memories, cfg=config, device=device, **spaces
    )
    before = {name: weights(models[name]["policy"]) for name in names}
    settings = {"timesteps": STEPS, "headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
    SequentialTrainer(env=env, agents=agents, cfg=settings).train()
    for name in names:
        after = weights(models[name]["policy"])
        assert after.isfinite().all() and not torch.equal(after, before[name])


@pytest.mark.parametrize("death", ["stays", "terminates"])
def test_agilerl_trains(death):
    """`agilerl.algorithms` needs `peft`, which only AgileRL's extra `llm` installs."""
    algorithms = pytest.importorskip("agilerl.algorithms", exc_type=ImportError)
    from agilerl.training.train_multi_agent_on_policy import train_multi_agent_on_policy
    from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv

    one = battle(death)
    spaces = [[space(name) for name in one.possible_agents] for space in (one.observation_space, one.action_space)]
    sizes = {"learn_step": 64, "batch_size": 32, "update_epochs": 1}
    learner = algorithms.IPPO(*spaces, agent_ids=one.possible_agents, **sizes)
    before = [weights(actor) for actor in learner.actors.values()]
    envs = AsyncPettingZooVecEnv([lambda: battle(death)] * 2)
    try:
        (trained,), returns = train_multi_agent_on_policy(
            envs, "echelon", "IPPO", [learner], max_steps=STEPS, evo_steps=STEPS // 2, eval_steps=20, verbose=False
        )
    finally:
        envs.close()
    assert np.isfinite(returns).all() and trained.steps >= STEPS
    for was, actor in zip(before, trained.actors.values(), strict=True):
        assert weights(actor).isfinite().all() and not torch.equal(was, weights(actor))
