"""Files and settings for the commands of pages: small presets and tasks, runs, a league."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from brief_tasks import make_tasks_brief
from map_files import write_examples
from pages import MINE, ROOT
from running import run_here

from echelon.arena.match import battle_seeds
from echelon.env.tasks import task as tasks
from echelon.env.tasks.strangers import Strangers, hash_of_seeds
from echelon.learn.config import TRAIN_PRESETS, TrainConfig
from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.scenarios.scene import Scene

FIVE = ("heavy", "medium", "medium", "light", "scout")
COPIES = ("first", "a", "b", "c", "a0", "a1", "a2", "b0", "b1", "b2")
"""Names of other runs on the pages."""
DIFFERENT = ("b", "c")
"""Runs that need different weights, for the commands of protocol 2."""


def brief(make: Callable[[], EnvConfig]) -> EnvConfig:
    """Return a preset with 5v5 battles of three seconds on four maps."""
    config = make()
    rules = replace(config.rules, max_episode_s=3.0)
    return replace(config, blue=FIVE, red=FIVE, map_pool=4, rules=rules)


def tiny(make: Callable[[], TrainConfig], env: EnvConfig) -> TrainConfig:
    """Return a training preset with its own network, few battles, two iterations and a short evaluation."""
    config = make()
    evaluation = replace(config.evaluation, every=0, battles=2, final_battles=2, pieces=0, tiers=("hard",))
    ppo = replace(config.ppo, rollout_decisions=8, chunk_decisions=4, epochs=1, minibatches=2)
    few = {"num_envs": 4, "past_blocks": 1, "total_agent_steps": 320, "checkpoint_every": 1, "device": "cpu"}
    return replace(config, env=env, ppo=ppo, evaluation=evaluation, **few)


def few(strangers: Strangers) -> Strangers:
    """Return protocol 2 with two battles against each opponent and beside each partner, without set pieces."""
    sealed = hash_of_seeds(battle_seeds(strangers.seed, 2))
    return replace(strangers, battles=2, beside=2, pieces=0, seeds_sha256=sealed)


def make_presets_small(patch: pytest.MonkeyPatch) -> None:
    """Replace presets and tasks by short battles and trainings. Battles of `standard` keep their length: pages
    name moments in them."""
    small, standard = brief(EnvConfig.small), brief(EnvConfig.standard)
    patch.setitem(ENV_PRESETS, "small", lambda: small)
    for name, make in list(TRAIN_PRESETS.items()):
        config = tiny(make, small if name.startswith("quick") else standard)
        patch.setitem(TRAIN_PRESETS, name, lambda config=config: config)
    make_tasks_brief(patch)
    known = {
        name: replace(
            task, protocol=replace(task.protocol, battles=2), strangers=task.strangers and few(task.strangers)
        )
        for name, task in tasks._built_in().items()
    }
    patch.setattr(tasks, "_built_in", lambda: known)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and a league, made by the programs."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        make_presets_small(patch)
        patch.chdir(folder)
        run_here(["echelon-train", "--preset", "quick", "--run-dir", "runs/mine"])
        league = ["--league", "leagues/mine"]
        run_here(["echelon-arena", "init", *league, "--env", "small"])
        run_here(["echelon-arena", "add", *league, "runs/mine"])
        run_here(["echelon-arena", "tournament", *league, "--seeds", "1"])
    return folder


@pytest.fixture
def reader(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that pages name; it is the current folder."""
    for name in ("mine", *COPIES):
        shutil.copytree(made_once / "runs" / "mine", tmp_path / "runs" / name)
    shutil.copytree(made_once / "leagues", tmp_path / "leagues")
    (tmp_path / "my_module.py").write_text(MINE)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    shutil.copy(ROOT / "benchmarks" / "results" / "leaderboard.json", results)
    duel = Scene().place("blue", "medium", (10, 20)).place("red", "medium", (30, 20))
    duel.scenario.save(tmp_path / "duel.json")
    write_examples(tmp_path)
    make_presets_small(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / ".minari" / "datasets"))
    for place in (ROOT / "tests" / "examples", tmp_path):
        monkeypatch.syspath_prepend(place)
    return tmp_path


@pytest.fixture
def different_runs(reader: Path) -> None:
    """Train some of the runs from different seeds."""
    for seed, name in enumerate(DIFFERENT, 1):
        shutil.rmtree(reader / "runs" / name, ignore_errors=True)
        run_here(["echelon-train", "--preset", "quick", "--seed", f"{seed}", "--run-dir", f"runs/{name}"])
