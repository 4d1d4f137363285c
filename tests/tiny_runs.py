"""A tiny training setup, on a flat map, shared by the learner's tests."""

import dataclasses

import torch
from builders import flat_maps

from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.env.form import Backend
from echelon.learn.config import PPOConfig, TrainConfig
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import ModelConfig, PolicySpecs
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.trainer import Trainer
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig

TINY = LSTMConfig(
    hidden=16, contact_width=8, squad_width=4, comm_width=4, map_width=4, telemetry_width=4, body_width=16
)


def short_battles() -> EnvConfig:
    """Return a config with battles of at most 12 decisions, so that they end within a rollout."""
    return dataclasses.replace(EnvConfig.small(), rules=RulesConfig(max_episode_s=3.0), map_pool=1)


def make_rollout(
    model: ModelConfig = TINY, battles: int = 6, decisions: int = 16, chunk: int = 8, backend: Backend = "auto"
) -> TeamCollector:
    """Return a rollout of short battles of a new policy against the heuristic."""
    torch.manual_seed(0)
    config = short_battles()
    policy = model.build(PolicySpecs(config.comm_dim))
    seats = PolicyAssignment(policy, [OpponentGroup("heuristic", Heuristic(config), battles)])
    settings = {"memory": seats.memory, "maps": flat_maps(config), "backend": backend}
    env = EchelonEnv(config, battles, device="cpu", seed=1, **settings)
    return TeamCollector(env, seats, decisions, chunk)


def tiny_run(**changes: object) -> TrainConfig:
    """Return a run config: four short battles, 160 agent steps an iteration, three iterations."""
    config = TrainConfig(
        env=dataclasses.replace(short_battles(), map_pool=2),
        model=TINY,
        ppo=PPOConfig(rollout_decisions=8, chunk_decisions=4, epochs=1, minibatches=2),
        opponent="heuristic:normal",
        num_envs=4,
        total_agent_steps=480,
        device="cpu",
        checkpoint_every=2,
    )
    return dataclasses.replace(config, **changes)


def evaluated_run(**changes: object) -> TrainConfig:
    """Return a tiny run config with battles of four decisions, for tests with many evaluations."""
    config = tiny_run()
    brief = dataclasses.replace(config.env, rules=RulesConfig(max_episode_s=1.0))
    return dataclasses.replace(config, env=brief, **changes)


def run_to_the_end(trainer: Trainer) -> Trainer:
    """Train until the run reaches its number of agent steps."""
    trainer.train()
    return trainer


def everything(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Return all tensors of a run that the next iteration depends on."""
    parts = {
        f"{name}.{key}": value
        for name, part in trainer._parts().items()
        for key, value in part.state_dict().tensors.items()
    }
    weights = {f"policy.{key}": value for key, value in trainer.policy.state_dict().items()}
    names = dict(trainer.policy.named_parameters())
    moments = {
        f"optimizer.{name}.{key}": value
        for name, parameter in names.items()
        for key, value in trainer.ppo.optimizer.state[parameter].items()
    }
    return {**parts, **weights, **moments, **{f"norm.{k}": v for k, v in trainer.norm.named_buffers()}}
