"""Start of a run: checked arguments, a smoke test of the user's code in a tiny battle, and the initial weights.

The tiny battle runs before the run folder is created, so errors in the user's code leave nothing behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from echelon.agents.heuristic import is_scripted, scripted
from echelon.agents.team_policy import TeamPolicy
from echelon.env.env import EchelonEnv
from echelon.env.reward import RewardTerm
from echelon.learn.checkpoint.format import Checkpoint
from echelon.learn.checkpoint.provenance import NOTHING, Provenance
from echelon.learn.config import TrainConfig
from echelon.learn.curriculum import stages_of
from echelon.learn.extra_rewards import check_extra_rewards
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.precision import training_process
from echelon.learn.models.registry import BUILT_IN, PolicySpecs, kind_of, model_to_json
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.opponents.named import OpponentOf
from echelon.learn.ppo.advantage import NormalizedGAE, check_torchrl
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.update import PPO
from echelon.rules.config import EXTRA, EnvConfig
from echelon.rules.config_json import first_difference
from echelon.rules.versions import current_versions
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.imports import in_one_line
from echelon.runtime.limits import check_function, check_text

BATTLES, DECISIONS = 2, 2
"""Number of battles and decisions in the smoke test."""


def check_arguments(
    folder: Any, start: Any, opponent_pool: Any, ranks: Any, opponent_of: Any, callbacks: Any, init: Any
) -> tuple[Path, list[Any]]:
    """Check the types of a `Trainer`'s arguments; return the run folder and the callbacks."""
    require(isinstance(folder, str | os.PathLike), "folder", "the path of a run folder", folder)
    check_text("folder", os.fspath(folder))
    for name, value in (("start", start), ("init", init)):
        require(
            value is None or isinstance(value, Checkpoint),
            name,
            "a Checkpoint returned by open_checkpoint, or None",
            value,
        )
    is_pool = opponent_pool is None or hasattr(opponent_pool, "weights_of")
    require(is_pool, "opponent_pool", "an OpponentPool or None", opponent_pool)
    require(isinstance(ranks, Ranks), "ranks", "the result of init_ranks", ranks)
    check_function("opponent_of", opponent_of, "name, env, device")
    require(isinstance(callbacks, Iterable), "callbacks", "a list of Callback instances", callbacks)
    return Path(folder), list(callbacks)


def smoke_test_components(
    config: TrainConfig, terms: Mapping[str, RewardTerm], device: torch.device, opponent_of: OpponentOf = scripted
) -> None:
    """Run a smoke test of custom reward terms, models and commanders for each team size of the curriculum.

    Models and commanders play two decisions, and models also learn from these. Torch's generator is restored
    afterwards. An unsupported TorchRL version raises an error first.
    """
    check_torchrl()
    stages = stages_of(config)
    by_size = {(env.blue, env.red): env for env in (stage.env(config.env, config.side) for stage in stages)}
    kind = kind_of(config.model)
    names = {stage.opponent for stage in stages if config.scripted_battles > 0 and not is_scripted(stage.opponent)}
    with training_process(config.deterministic, device):
        check_extra_rewards(terms, config.env, device)
        for env in by_size.values():
            if kind not in BUILT_IN:
                with in_one_line(f"model {kind}: expected a policy that plays and learns"):
                    play(config, env, device, None)
            for name in sorted(names):
                opponent = opponent_of(name, env, device)
                with in_one_line(f"{name}: expected a decision for each team"):
                    play(config, env, device, opponent)


def play(config: TrainConfig, env: EnvConfig, device: torch.device, opponent: TeamPolicy | None) -> None:
    """Collect a rollout of a new policy against an opponent. If the opponent is None, use self-play and also learn."""
    policy = config.model.build(PolicySpecs(env.comm_dim))
    require(isinstance(policy, ActorCritic), "the result of the model's build", "an ActorCritic", policy)
    seats = PolicyAssignment(policy.to(device), [OpponentGroup("opponent", opponent, BATTLES)], config.side)
    tiny = replace(env, map_pool=1, map_spares=0)
    battles = EchelonEnv(tiny, BATTLES, device=device, seed=0, memory=seats.memory, backend="eager")
    norm = ValueNorm().to(device)
    collector = TeamCollector(battles, seats, DECISIONS, DECISIONS, norm)
    batch = collector.collect()
    if opponent is None:
        NormalizedGAE(gamma=env.reward.gamma, lmbda=config.ppo.gae_lambda, normalizer=norm)(batch)
        settings = replace(config.ppo, rollout_decisions=DECISIONS, chunk_decisions=DECISIONS, epochs=1, minibatches=1)
        PPO(policy, settings).update(batch, collector.memory)


def initial_policy(
    config: TrainConfig,
    extra_rewards: Mapping[str, float],
    device: torch.device,
    start: Checkpoint | None,
    init: Checkpoint | None,
) -> tuple[ActorCritic, ValueNorm, Provenance]:
    """Return the initial policy, value normaliser and provenance of a run.

    A trained policy keeps its provenance and its normaliser, because its critic predicts in the normaliser's units.

    Args:
        extra_rewards: weight of each custom reward term, keyed by name.
        start: checkpoint to resume from; takes precedence over `init`.
        init: checkpoint of the trained policy named by `TrainConfig.init_from`.

    Raises:
        ConfigError: if a checkpoint has another network, or `start` has other rules or another environment.
    """
    # Build the policy first, so that every kind of start draws the same number of random numbers.
    policy = config.model.build(PolicySpecs(config.env.comm_dim))
    source = init if start is None else start
    if source is None:
        require(
            config.init_from == "",
            "init",
            f"the checkpoint of {config.init_from}, the value of TrainConfig.init_from",
            None,
        )
        return policy.to(device), ValueNorm().to(device), NOTHING
    if start is None:
        # With `--init-from`, the battles may differ from those of the earlier training; only these settings must match.
        require_same("--init-from", "comm_dim", config.env.comm_dim, source.metadata["comm_dim"])
        require_same("--init-from", "model", model_to_json(config.model), model_to_json(source.model))
    else:
        check_start(config, extra_rewards, source)
    return source.policy(device).train(), source.value_norm().to(device), source.provenance


def check_start(config: TrainConfig, extra_rewards: Mapping[str, float], start: Checkpoint) -> None:
    """Check that a checkpoint has the rules, the env and the network of a run.

    Args:
        extra_rewards: weight of each custom reward term, keyed by name.
    """
    current, stored = current_versions().rules, start.versions.rules
    if current != stored:
        hint = "evaluate it unchanged (arena.py play), or train a new run"
        raise ConfigError(f"--resume: rules_version must be {current} to continue a run, got {stored}: {hint}")
    require_same("--resume", "env", config.env.signature(extra_rewards), start.env.signature(start.extra_rewards))
    require_same("--resume", "model", model_to_json(config.model), model_to_json(start.model))


def require_same(flag: str, name: str, ours: Any, theirs: Any) -> None:
    """Raise `ConfigError` if the JSON values of the checkpoint given by `flag` differ from the values of the run."""
    difference = first_difference(ours, theirs, name)
    if difference:
        hint = " (--extra-reward module:function=WEIGHT)" if f"{name}.reward.{EXTRA}" in difference else ""
        raise ConfigError(f"{flag}: {difference}, in the checkpoint: use the flags of its training{hint}")
