"""MADDPG against IDDPG from TorchRL components: two teams train together, each from its own replay buffer."""

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import EnvBase
from torchrl.modules import AdditiveGaussianModule, MultiAgentMLP, ProbabilisticActor, TanhDelta
from torchrl.objectives import DDPGLoss, SoftUpdate, ValueEstimators

import echelon
from echelon import EnvConfig

BATTLE = EnvConfig.small()
CENTRALISED = {"blue": True, "red": False}
"""Whether the critic of a team observes the whole team (MADDPG) or one mech (IDDPG)."""


def main(
    config: EnvConfig = BATTLE, num_envs: int = 64, steps: int = 16, iterations: int = 1000, updates: int = 32
) -> tuple[nn.Module, list[dict[str, float]]]:
    """Return the trained policies of both teams, and the logs of each iteration."""
    torch.manual_seed(0)
    env = echelon.teams(config, num_envs, seed=0)
    policies = {group: policy_of(env, group) for group in env.group_map}
    noises = {group: AdditiveGaussianModule(p.spec, action_key=(group, "action")) for group, p in policies.items()}
    explorers = TensorDictSequential(*policies.values(), *noises.values())
    losses = {group: loss_of(env, group, policy) for group, policy in policies.items()}
    targets = {group: SoftUpdate(loss, tau=0.005) for group, loss in losses.items()}
    optimisers = {group: torch.optim.Adam(loss.parameters(), lr=3e-4) for group, loss in losses.items()}
    buffers = {group: ReplayBuffer(storage=LazyTensorStorage(100_000), batch_size=128) for group in losses}
    collector = Collector(env, explorers, frames_per_batch=num_envs * steps, total_frames=-1)
    history = []
    for _, batch in zip(range(iterations), collector, strict=False):
        logged = {}
        for group, loss in losses.items():
            buffers[group].extend(of_group(batch, group).reshape(-1))
            for _ in range(updates):
                found = loss(buffers[group].sample())
                optimisers[group].zero_grad()
                (found["loss_actor"] + found["loss_value"]).backward()
                optimisers[group].step()
                targets[group].step()
            noises[group].step(steps)
            logged |= {f"{group}_{name}": found[name].item() for name in ("loss_actor", "loss_value")}
            logged[f"{group}_reward"] = batch["next", group, "reward"].mean().item()
        history.append(logged)
    collector.shutdown()
    return TensorDictSequential(*policies.values()), history


def policy_of(env: EnvBase, group: str) -> ProbabilisticActor:
    """Return one network for the mechs of a team; each acts on its own observation."""
    spec = env.full_action_spec_unbatched[group, "action"]
    net = network(env, group, spec.shape[-1], centralised=False)
    return ProbabilisticActor(
        TensorDictModule(net, [(group, "observation")], [(group, "param")]),
        spec=spec,
        in_keys=[(group, "param")],
        out_keys=[(group, "action")],
        distribution_class=TanhDelta,
    )


def loss_of(env: EnvBase, group: str, policy: ProbabilisticActor) -> DDPGLoss:
    """Return the loss of a team; its critic receives concatenated observations and actions."""
    seen, done = (group, "observation"), (group, "action")
    net = network(env, group, 1, CENTRALISED[group], further=env.action_spec[done].shape[-1])
    beside = TensorDictModule(lambda *parts: torch.cat(parts, -1), [seen, done], [(group, "both")])
    value = TensorDictModule(net, [(group, "both")], [(group, "value")])
    loss = DDPGLoss(policy, TensorDictSequential(beside, value))
    keys = {name: (group, name) for name in ("reward", "done", "terminated")}
    loss.set_keys(state_action_value=(group, "value"), **keys)
    loss.make_value_estimator(ValueEstimators.TD0, gamma=0.99)
    return loss


def network(env: EnvBase, group: str, outputs: int, centralised: bool, further: int = 0) -> MultiAgentMLP:
    """Return an MLP with two hidden layers, shared by the mechs; `further` is the number of additional inputs."""
    inputs, mechs = env.observation_spec[group, "observation"].shape[-1] + further, len(env.group_map[group])
    return MultiAgentMLP(inputs, outputs, mechs, centralised=centralised, share_params=True, num_cells=[64, 64])


def of_group(batch: TensorDictBase, group: str) -> TensorDictBase:
    """Return the batch of a team, with the done flags expanded to its mechs."""
    kept = batch.select(group, ("next", group))
    for flag in ("done", "terminated"):
        kept["next", group, flag] = batch["next", flag].unsqueeze(-2).expand_as(batch["next", group, "reward"])
    return kept


if __name__ == "__main__":
    print(main()[1])
