"""Behaviour cloning: a network imitates a commander, from battles of the commander against itself."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torchrl.modules import ProbabilisticActor

import echelon
from echelon.arena.resolve import policy_of
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import GROUPS
from echelon.pipelines.torchrl_ppo import make_networks
from echelon.rules.config import EnvConfig
from echelon.views.group_policy import GroupPolicy, memory_spec
from echelon.views.transforms import FlatObservation

EPOCHS, MINIBATCH, LEARNING_RATE = 4, 1024, 1e-3


def demonstrations(config: EnvConfig, teacher: str, steps: int, num_envs: int, seed: int, device: str) -> TensorDict:
    """Return observations (flat) and actions of living mechs of a commander, `[n]` with n >= `steps`."""
    env = EchelonEnv(config, num_envs, device, seed)
    policy = policy_of(teacher, config, env.device)
    env = EchelonEnv(config, num_envs, device, seed, memory_spec(blue=policy, red=policy), maps=env.sim_model.maps)
    commanders = [GroupPolicy(policy, group, group) for group in GROUPS]
    batches: list[TensorDict] = []
    td, count = env.reset(), 0
    with torch.no_grad():
        while count < steps:
            for commander in commanders:
                td = commander(td)
            for group in GROUPS:
                alive = td.get((group, "mask"))
                flat, done = FlatObservation.of(td.get((group, "observation"))), td.get((group, "action"))
                batches.append(TensorDict({"observation": flat[alive], "action": done[alive]}, [int(alive.sum())]))
                count += len(batches[-1])
            _, td = env.step_and_maybe_reset(td)
    return torch.cat(batches)


def clone(
    config: EnvConfig, teacher: str, steps: int, num_envs: int, seed: int, device: str
) -> tuple[ProbabilisticActor, list[dict[str, float]], int]:
    """Return the actor, the mean negative log-likelihood of each epoch, and the number of demonstrated decisions."""
    torch.manual_seed(seed)
    dataset = demonstrations(config, teacher, steps, num_envs, seed, device)
    actor, _ = make_networks(echelon.mechs(config, None, 1, device, seed))
    optimiser = torch.optim.Adam(actor.parameters(), lr=LEARNING_RATE)
    curve = []
    for epoch in range(EPOCHS):
        losses: list[Tensor] = []
        for rows in torch.randperm(len(dataset), device=dataset["action"].device).split(MINIBATCH):
            loss = -actor.get_dist(dataset[rows]).log_prob(dataset["action"][rows]).mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 1.0)
            optimiser.step()
            losses.append(loss.detach())
        curve.append({"agent_steps": float((epoch + 1) * len(dataset)), "nll": float(torch.stack(losses).mean())})
    return actor, curve, len(dataset)
