"""The baselines. Each trains a policy in the battles of a config, within a budget of agent steps, from one seed."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import factored
import numpy as np
import torch
from clone import clone
from torch import nn
from torchrl.envs import EnvBase, RewardSum, TransformedEnv

import echelon
from echelon.learn.callbacks.base import Callback, Metrics, TrainingRun
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import SELF, TrainConfig
from echelon.learn.metrics import read_metrics
from echelon.learn.models.registry import model_with
from echelon.pipelines import torchrl_ppo
from echelon.rules.config import EnvConfig

EXAMPLES = Path(__file__).parents[2] / "tests" / "examples"
OPPONENT = "heuristic:easy"
"""Training opponents of each baseline, except for self-play."""
ROLLOUT = 32
"""Decisions of each mech in an iteration of the plain route."""
QMIX_ROLLOUT, QMIX_UPDATES = 16, 64
BENCHMARL_BATTLES = 60


@dataclass(frozen=True)
class Budget:
    """The training budget of a baseline."""

    agent_steps: int
    """Agent steps (decisions of mechs); a baseline ends with the iteration that reaches them."""
    num_envs: int
    """Number of parallel battles."""
    seed: int
    device: str
    folder: Path
    """Checkpoint folder of runs of our trainer, which resume exactly from the newest."""
    piece_s: float = float("inf")
    """Time limit, s, after which a run of our trainer is saved and `None` is returned; another process can resume
    it."""


@dataclass(frozen=True)
class Trained:
    """The result of a baseline."""

    policy: nn.Module
    """The policy in evaluation mode."""
    agent_steps: int
    seconds: float
    """Wall time of training, s."""
    curve: list[dict[str, float]]
    """An entry an iteration: agent steps, and measurements in its training battles."""
    facts: dict[str, Any]
    """Settings of the recipe to report, such as its training opponents."""
    env: EnvBase | None = None
    """The view of the policy, if its keys do not tell it, as for `echelon.evaluate`."""

    def __post_init__(self) -> None:
        self.policy.eval()


Recipe = Callable[[EnvConfig, Budget], Trained | None]


def ours(kind: str, critic: Literal["local", "central"], opponent: str = OPPONENT) -> Recipe:
    """PPO of `pipelines/train.py`: IPPO with a local critic, MAPPO with a central one."""

    def recipe(config: EnvConfig, budget: Budget) -> Trained | None:
        preset = TrainConfig.quick()
        model = dataclasses.replace(model_with(kind, preset.model), critic=critic)
        train_config = dataclasses.replace(
            preset,
            env=config,
            opponent=opponent,
            model=model,
            num_envs=budget.num_envs,
            total_agent_steps=budget.agent_steps,
            seed=budget.seed,
            device=budget.device,
            compile_policy="off" if torch.device(budget.device).type == "cpu" else "auto",
            checkpoint_every=10**9,
        )
        return train_ours(train_config, budget)

    return recipe


class Piece(Callback):
    """End and save a run after some seconds.

    Args:
        seconds: of this process.
    """

    def __init__(self, seconds: float) -> None:
        self.ends = time.perf_counter() + seconds

    def on_iteration_end(self, trainer: TrainingRun, metrics: Metrics) -> None:
        """Request the end of the run if the time is over."""
        if time.perf_counter() > self.ends:
            trainer.stop()


def train_ours(config: TrainConfig, budget: Budget) -> Trained | None:
    """Train until the budget is used. If `piece_s` have passed, return None; the folder then contains the run."""
    # Not available for the TorchRL version that BenchMARL needs.
    from echelon.learn.trainer import Trainer

    stored = budget.folder / "checkpoints"
    start = open_checkpoint(newest_checkpoint(stored)) if stored.exists() else None
    trainer = Trainer(config, budget.folder, start, callbacks=[Piece(budget.piece_s)])
    trainer.train()
    if not trainer.finished:
        return None
    columns = {"agent_steps": "agent_steps", "won": "win_rate", "return": "return"}
    rows = read_metrics(budget.folder / "metrics.csv")
    curve = [{key: row[column] for key, column in columns.items() if column in row} for row in rows]
    counters = trainer.counters
    return Trained(trainer.policy, counters.agent_steps, counters.seconds, curve, {"opponent": config.opponent})


def torchrl_route(config: EnvConfig, budget: Budget, is_factored: bool = False) -> Trained:
    """`pipelines/torchrl_ppo.py`: PPO made of TorchRL's components, a network without memory for each mech. Factored
    actions are `action="multi_discrete"`."""
    per_iteration = budget.num_envs * len(config.blue) * ROLLOUT
    args = torchrl_ppo.Args(
        opponent=OPPONENT,
        battles=budget.num_envs,
        steps=ROLLOUT,
        iterations=-(-budget.agent_steps // per_iteration),
        seed=budget.seed,
        device=budget.device,
    )
    torchrl_ppo.BATTLE = config
    torch.manual_seed(budget.seed)
    start_s = time.perf_counter()
    if is_factored:
        place = args.battles, args.device, args.seed
        battles = echelon.mechs(config, args.opponent, *place, action="multi_discrete")
        env = TransformedEnv(battles, RewardSum())
        actor, critic = factored.make_networks(env)
    else:
        env = torchrl_ppo.make_env(args)
        actor, critic = torchrl_ppo.make_networks(env)
    curve = [
        {"agent_steps": float(number * per_iteration), **measured}
        for number, measured in enumerate(torchrl_ppo.train(env, actor, critic, args), 1)
    ]
    seconds = time.perf_counter() - start_s
    facts = {"opponent": args.opponent}
    return Trained(actor, args.iterations * per_iteration, seconds, curve, facts, env if is_factored else None)


def qmix(config: EnvConfig, budget: Budget) -> Trained:
    """QMIX made of TorchRL's components on discrete actions (`tests/examples/qmix.py`). An action is repeated for some
    decisions, which all count as steps."""
    sys.path.append(str(EXAMPLES))
    example = importlib.import_module("qmix")
    per_iteration = budget.num_envs * len(config.blue) * QMIX_ROLLOUT * example.HOLD
    iterations = -(-budget.agent_steps // per_iteration)
    start_s = time.perf_counter()
    policy, history = example.main(
        config, budget.num_envs, QMIX_ROLLOUT, iterations, QMIX_UPDATES, opponent=OPPONENT, seed=budget.seed
    )
    curve = [{"agent_steps": float((i + 1) * per_iteration), **metrics} for i, metrics in enumerate(history)]
    seconds = time.perf_counter() - start_s
    facts = {"opponent": OPPONENT, "decisions_held": example.HOLD}
    return Trained(policy, iterations * per_iteration, seconds, curve, facts)


def benchmarl_mappo(config: EnvConfig, budget: Budget) -> Trained:
    """BenchMARL's MAPPO with its default settings (6,000 frames an iteration, 45 epochs); needs an environment with the
    extra `benchmarl`."""
    from benchmarl.algorithms import MappoConfig
    from benchmarl.experiment import Experiment, ExperimentConfig
    from benchmarl.models import MlpConfig

    from echelon.integrations.benchmarl import BattleTask

    mechs, settings = len(config.blue), ExperimentConfig.get_from_yaml()
    per_iteration = mechs * settings.on_policy_collected_frames_per_batch
    settings.max_n_iters, settings.max_n_frames = -(-budget.agent_steps // per_iteration), None
    settings.on_policy_n_envs_per_worker = BENCHMARL_BATTLES
    settings.train_device = settings.sampling_device = settings.buffer_device = budget.device
    settings.evaluation = settings.render = False
    settings.loggers, settings.save_folder = ["csv"], str(budget.folder)
    budget.folder.mkdir(parents=True, exist_ok=True)
    task = BattleTask("VERSUS", {"config": config, "opponent": OPPONENT})
    start_s, configs = time.perf_counter(), (MappoConfig.get_from_yaml(), MlpConfig.get_from_yaml())
    experiment = Experiment(task, *configs, seed=budget.seed, config=settings)
    experiment.run()
    seconds = time.perf_counter() - start_s
    (log,) = budget.folder.rglob("scalars/collection_win_rate.csv")
    rows = np.loadtxt(log, delimiter=",", ndmin=2).tolist()  # of iterations with finished battles
    curve = [{"agent_steps": per_iteration * (iteration + 1), "won": won} for iteration, won in rows]
    return Trained(experiment.policy, experiment.total_frames * mechs, seconds, curve, {"opponent": OPPONENT})


def cloned(config: EnvConfig, budget: Budget) -> Trained:
    """Behaviour cloning of `heuristic:hard`: the network of the plain route, trained on the likelihood of its
    actions."""
    start_s = time.perf_counter()
    actor, curve, steps = clone(
        config, "heuristic:hard", budget.agent_steps, budget.num_envs, budget.seed, budget.device
    )
    return Trained(actor, steps, time.perf_counter() - start_s, curve, {"teacher": "heuristic:hard"})


RECIPES: dict[str, Recipe] = {
    **{f"ippo-{kind}": ours(kind, "local") for kind in ("lstm", "gru", "mlp")},
    **{f"mappo-{kind}": ours(kind, "central") for kind in ("lstm", "gru", "mlp")},
    "selfplay-lstm": ours("lstm", "central", SELF),
    "torchrl-ppo": torchrl_route,
    "torchrl-ppo-multi-discrete": partial(torchrl_route, is_factored=True),
    "qmix": qmix,
    "bc-hard": cloned,
    "benchmarl-mappo": benchmarl_mappo,
}
ABOUT = {
    "ippo-lstm": "PPO of `pipelines/train.py`, preset quick, LSTM, critic with the mech's own observation",
    "ippo-gru": "the same with a GRU",
    "ippo-mlp": "the same without memory",
    "mappo-lstm": "as `ippo-lstm`, with a critic that observes every mech",
    "mappo-gru": "the same with a GRU",
    "mappo-mlp": "the same without memory",
    "selfplay-lstm": "as `mappo-lstm`, in self-play: it learns from both teams, and decisions of both teams count",
    "torchrl-ppo": "PPO of TorchRL's parts (`pipelines/torchrl_ppo.py`), no memory",
    "torchrl-ppo-multi-discrete": 'the same with `action="multi_discrete"`: a masked categorical of each factor',
    "qmix": "QMIX of TorchRL's parts on discrete actions that last four decisions (`tests/examples/qmix.py`)",
    "bc-hard": "behaviour cloning of `heuristic:hard`, no memory",
    "benchmarl-mappo": "MAPPO of BenchMARL with its default settings, no memory, 60 parallel battles",
}
"""Descriptions for the table, keyed by baseline."""
