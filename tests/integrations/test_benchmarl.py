"""Algorithms of BenchMARL on both tasks, two iterations each."""

import importlib
import math
import pickle
from pathlib import Path

import pytest

pytest.importorskip("benchmarl")

import numpy as np
import torch
from battles import EASY, SHORT, UNEQUAL
from benchmarl.algorithms import IddpgConfig, IppoConfig, MappoConfig, QmixConfig
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models import GruConfig, MlpConfig

from echelon.env.discrete import ACTIONS
from echelon.integrations.benchmarl import EchelonTask
from echelon.runtime.errors import ConfigError

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning", "ignore::pytest.PytestWarning"),
]
VERSUS = EchelonTask.VERSUS.get_task({"config": SHORT, "opponent": EASY})
TEAMS = EchelonTask.TEAMS.get_task({"config": SHORT})


def experiment_of(task, algorithm, folder, model=MlpConfig, **settings):
    """Return an experiment of two iterations, with eight decisions of four battles each."""
    config = ExperimentConfig.get_from_yaml()
    for name, value in {
        "max_n_iters": 2,
        "max_n_frames": None,
        "on_policy_collected_frames_per_batch": 32,
        "on_policy_n_envs_per_worker": 4,
        "on_policy_n_minibatch_iters": 2,
        "on_policy_minibatch_size": 16,
        "off_policy_collected_frames_per_batch": 32,
        "off_policy_n_envs_per_worker": 4,
        "off_policy_n_optimizer_steps": 4,
        "off_policy_train_batch_size": 16,
        "off_policy_memory_size": 128,
        "evaluation_interval": 32,
        "evaluation_episodes": 2,
        "render": False,
        "loggers": ["csv"],
        "save_folder": str(folder),
        **settings,
    }.items():
        setattr(config, name, value)
    return Experiment(task, algorithm.get_from_yaml(), model.get_from_yaml(), seed=0, config=config)


@pytest.mark.parametrize(
    ("task", "algorithm", "model"),
    [
        *((TEAMS, algorithm, MlpConfig) for algorithm in (IppoConfig, MappoConfig, IddpgConfig)),
        *((VERSUS, algorithm, MlpConfig) for algorithm in (IppoConfig, MappoConfig, QmixConfig)),
        (VERSUS, MappoConfig, GruConfig),
    ],
    ids=lambda value: value.name if value in (TEAMS, VERSUS) else value.__name__.removesuffix("Config"),
)
def test_algorithm_learns_for_two_iterations(task, algorithm, model, tmp_path):
    """All actor weights change, and the scalars that BenchMARL logs are finite."""
    experiment = experiment_of(task, algorithm, tmp_path, model)
    weights = dict(experiment.policy.named_parameters())
    before = {name: weight.clone() for name, weight in weights.items()}
    experiment.run()
    assert experiment.n_iters_performed == 2 and experiment.total_frames == 64
    assert before and not any(torch.equal(before[name], weight) for name, weight in weights.items())
    logged = {path.stem: np.loadtxt(path, delimiter=",", ndmin=2)[:, -1] for path in tmp_path.rglob("scalars/*.csv")}
    assert all(math.isfinite(value) for values in logged.values() for value in values)
    # Battles last four decisions, so each of the four ends twice per iteration.
    assert logged["collection_battles"].tolist() == [8, 8]
    assert all(0 <= rate <= 1 for rate in logged["collection_win_rate"])
    assert len(logged["eval_reward_episode_reward_mean"]) == 2


def test_baseline_recipe_runs(tmp_path, monkeypatch):
    """Run the recipe of the baseline table for two iterations of 32 frames."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks" / "baselines"))
    recipes = importlib.import_module("recipes")
    settings = ExperimentConfig.get_from_yaml()
    settings.on_policy_collected_frames_per_batch, settings.on_policy_n_minibatch_iters = 32, 1
    settings.on_policy_minibatch_size = 16
    monkeypatch.setattr(ExperimentConfig, "get_from_yaml", lambda: settings)
    monkeypatch.setattr(recipes, "BENCHMARL_BATTLES", 4)
    mechs = len(SHORT.blue)
    trained = recipes.RECIPES["benchmarl-mappo"](SHORT, recipes.Budget(33 * mechs, 4, 0, "cpu", tmp_path / "run"))
    assert trained.agent_steps == 64 * mechs
    assert [point["agent_steps"] for point in trained.curve] == [32 * mechs, 64 * mechs]
    assert VERSUS.get_env_fun(2, True, 0, "cpu")().rollout(2, trained.policy)["agents", "action"].isfinite().all()


def test_groups_cover_both_teams(tmp_path):
    """Unequal teams with custom names."""
    task = EchelonTask.TEAMS.get_task({"config": UNEQUAL, "groups": ("attackers", "defenders"), "state": False})
    experiment = experiment_of(task, MappoConfig, tmp_path)
    experiment.run()
    assert {group: len(names) for group, names in experiment.group_map.items()} == {"attackers": 3, "defenders": 2}
    assert experiment.state_spec is None


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("task", [VERSUS, TEAMS], ids=lambda task: task.name)
def test_specs(task, continuous):
    env = task.get_env_fun(3, continuous, 0, "cpu")()
    td = env.rollout(2)
    for group, names in task.group_map(env).items():
        seen = task.observation_spec(env)[group, "observation"]
        assert set(task.observation_spec(env)[group].keys()) == {"observation"}
        assert td[group, "observation"].shape[2:] == seen.shape and seen.shape[0] == len(names)
        action = task.action_spec(env)[group, "action"]
        assert td[group, "action"].shape[2:] == action.shape
        if not continuous:
            mask = task.action_mask_spec(env)[group, "action_mask"]
            assert td[group, "action_mask"].shape[2:] == mask.shape == (len(names), len(ACTIONS))
    assert (task.action_mask_spec(env) is None) == continuous
    assert td["state"].shape[2:] == task.state_spec(env)["state"].shape
    assert task.max_steps(env) == 4 and task.env_name() == "echelon"


def test_evaluation_renders_picture():
    env = VERSUS.get_env_fun(2, True, 0, "cpu")()
    td = env.reset()
    frame = VERSUS.render_callback(None, env, td)
    assert VERSUS.has_render(env) and frame.ndim == 3 and frame.dtype == np.uint8


def test_task_is_copied_with_experiment():
    """BenchMARL stores the task beside its checkpoints."""
    again = pickle.loads(pickle.dumps(VERSUS))  # noqa: S301
    assert again == VERSUS and again != TEAMS and again.config["config"] == SHORT


def test_settings_owned_by_benchmarl_are_refused():
    with pytest.raises(ConfigError, match="config must be a config without the key num_envs, which BenchMARL sets"):
        EchelonTask.VERSUS.get_task({"num_envs": 3})
    with pytest.raises(ConfigError, match="pass settings to get_task"):
        EchelonTask.VERSUS.get_from_yaml("task.yaml")
    assert EchelonTask.TEAMS.get_from_yaml().config == {}
