"""A custom training loop from the learner's components: collector, advantages, update."""

import torch
from torch import nn

from echelon import EchelonEnv, EnvConfig
from echelon.agents.heuristic import Heuristic
from echelon.learn.config import PPOConfig
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.learn.ppo.advantage import NormalizedGAE
from echelon.learn.ppo.collector import TeamCollector
from echelon.learn.ppo.update import PPO

BATTLE = EnvConfig.small()


def main(
    config: EnvConfig = BATTLE, num_envs: int = 64, steps: int = 64, iterations: int = 500, epochs: int = 4
) -> tuple[nn.Module, list[dict[str, float]]]:
    """Return the trained policy, and the logs of each iteration."""
    torch.manual_seed(0)
    policy, normalizer = LSTMConfig().build(PolicySpecs(config.comm_dim)), ValueNorm()
    assignment = PolicyAssignment(policy, [OpponentGroup("heuristic", Heuristic(config), num_envs)])
    env = EchelonEnv(config, num_envs, seed=0, memory=assignment.memory)
    settings = PPOConfig(rollout_decisions=steps, chunk_decisions=steps // 4, epochs=epochs, minibatches=4)
    collector = TeamCollector(env, assignment, steps, settings.chunk_decisions, normalizer)
    estimate = NormalizedGAE(gamma=config.reward.gamma, lmbda=settings.gae_lambda, normalizer=normalizer)
    ppo = PPO(policy, settings)
    history = []
    for _, batch in zip(range(iterations), collector, strict=False):
        report = ppo.update(estimate(batch), collector.memory)
        logged = {name: report[name].item() for name in ("loss_objective", "loss_critic", "loss_entropy")}
        history.append(logged | {"reward": batch["next", "reward"].mean().item()})
    collector.shutdown()
    return policy, history


if __name__ == "__main__":
    print(main()[1])
