"""TorchRL's experimental `PPOTrainer` on `echelon.mechs`, and on the team of `echelon.versus`."""

from typing import Any

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.modules import IndependentNormal, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.multiagent import MAPPOLoss
from torchrl.trainers.algorithms import PPOTrainer

import echelon
from echelon.pipelines.torchrl_ppo import BATTLE, Args, make_env, make_networks


def settings_of(loss: nn.Module, frames: int, iterations: int, minibatch: int) -> dict[str, Any]:
    """Return the settings that both trainers share, for `frames` rows of data per iteration."""
    storage = LazyTensorStorage(frames)
    return {
        "loss_module": loss,
        "optimizer": torch.optim.Adam(loss.parameters(), lr=5e-4),
        "replay_buffer": TensorDictReplayBuffer(
            storage=storage, sampler=SamplerWithoutReplacement(), batch_size=minibatch
        ),
        "total_frames": iterations * frames,
        "frame_skip": 1,
        "optim_steps_per_batch": 4,
        "progress_bar": False,
    }


def main(battles: int = 8, steps: int = 16, iterations: int = 2, minibatch: int = 160) -> PPOTrainer:
    """Train each mech as a row of the batch, and return the trainer."""
    learners = make_env(Args(battles=battles))  # echelon.mechs, and the sum of rewards
    actor, critic = make_networks(learners)
    frames = learners.numel() * steps
    collector = Collector(learners, actor, frames_per_batch=frames, total_frames=iterations * frames)
    settings = settings_of(ClipPPOLoss(actor, critic), frames, iterations, minibatch)
    trainer = PPOTrainer(collector=collector, **settings)
    trainer.train()
    return trainer


def train_team(battles: int = 8, steps: int = 16, iterations: int = 2, minibatch: int = 32) -> PPOTrainer:
    """Train a team, whose keys are nested, and return the trainer."""
    team = echelon.versus(BATTLE, "heuristic:easy", battles)
    actor, critic = make_networks(make_env(Args(battles=1)))
    observation, value, normal = (
        ("agents", "observation"),
        ("agents", "state_value"),
        [("agents", "loc"), ("agents", "scale")],
    )
    network = TensorDictModule(actor.module[0].module, [observation], normal)
    policy = ProbabilisticActor(
        network, normal, [team.action_key], distribution_class=IndependentNormal, return_log_prob=True
    )
    loss = MAPPOLoss(policy, TensorDictModule(critic.module, [observation], [value]))
    loss.set_keys(action=team.action_key, reward=team.reward_key, value=value)
    loss.make_value_estimator(gamma=0.99, lmbda=0.95)
    frames = battles * steps
    trainer = PPOTrainer(
        collector=Collector(team, policy, frames_per_batch=frames, total_frames=iterations * frames),
        gae=loss.value_estimator,
        action_key=team.action_key,
        reward_key=team.reward_key,
        observation_key=observation,
        episode_reward_key=team.reward_key,
        **settings_of(loss, frames, iterations, minibatch),
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    main()
    train_team()
