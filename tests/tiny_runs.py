"""A tiny training setup, on a flat map, shared by the learner's tests."""

import dataclasses

import torch
from builders import flat_maps

from echelon.agents.heuristic import Heuristic
from echelon.env.env import EchelonEnv
from echelon.learn.config import ModelConfig, PPOConfig, TrainConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.trainer import Trainer
from echelon.rules.config import EnvConfig, RulesConfig

TINY = ModelConfig(
    hidden=16, contact_width=8, squad_width=4, comm_width=4, map_width=4, telemetry_width=4, body_width=16
)


def short_battles() -> EnvConfig:
    """Battles of at most 12 decisions, so that a rollout meets their ends."""
    return dataclasses.replace(EnvConfig.small(), rules=RulesConfig(max_episode_s=3.0), map_pool=1)


def make_rollout(model: ModelConfig = TINY, battles: int = 6, decisions: int = 16, chunk: int = 8) -> TeamCollector:
    """Short battles of a fresh policy against the heuristic."""
    torch.manual_seed(0)
    config = short_battles()
    policy = ActorCritic(model, config.comm_dim)
    seats = PolicyAssignment(policy, [OpponentGroup("heuristic", Heuristic(config), battles)])
    env = EchelonEnv(config, battles, device="cpu", seed=1, memory=seats.memory, maps=flat_maps(config))
    return TeamCollector(env, seats, decisions, chunk)


def tiny_run(**changes: object) -> TrainConfig:
    """Four short battles, 160 agent steps an iteration, three iterations."""
    config = TrainConfig(
        env=dataclasses.replace(short_battles(), map_pool=2),
        model=TINY,
        ppo=PPOConfig(rollout_decisions=8, chunk_decisions=4, epochs=1, minibatches=2),
        opponent="heuristic:normal",
        num_envs=4,
        total_agent_steps=480,
        device="cpu",
        compiled=False,
        checkpoint_every=2,
    )
    return dataclasses.replace(config, **changes)


def run_to_the_end(trainer: Trainer) -> Trainer:
    """Iterate until the run has learnt from as many steps as it was told to."""
    while not trainer.finished:
        trainer.iterate()
    trainer.metrics.close()
    return trainer
