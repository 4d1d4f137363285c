"""MAPPO from TorchRL components for a heterogeneous team: each class of mechs has its own networks."""

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import EnvBase
from torchrl.modules import MultiAgentMLP, NormalParamExtractor, ProbabilisticActor, TanhNormal
from torchrl.objectives.multiagent import MAPPOLoss

import echelon
from echelon import EnvConfig

BATTLE = EnvConfig.small()


def main(
    config: EnvConfig = BATTLE, num_envs: int = 64, steps: int = 64, iterations: int = 500, epochs: int = 8
) -> tuple[nn.Module, list[dict[str, float]]]:
    """Return the trained policies by class, and the logs of each iteration."""
    torch.manual_seed(0)
    env = echelon.versus(config, "heuristic:normal", num_envs, seed=0, side="blue", groups="class")
    actors = {group: actor_of(env, group) for group in env.group_map}
    losses = nn.ModuleDict({group: loss_of(env, group, actors[group]) for group in env.group_map})
    optimiser = torch.optim.Adam(losses.parameters(), lr=3e-4)
    frames = num_envs * steps
    # The classes act one after another; each reads and writes the entries of its group.
    collector = Collector(env, TensorDictSequential(*actors.values()), frames_per_batch=frames, total_frames=-1)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(frames), sampler=SamplerWithoutReplacement(), batch_size=frames // 4
    )
    history = []
    for _, batch in zip(range(iterations), collector, strict=False):
        with torch.no_grad():
            for loss in losses.values():
                params, target = loss.critic_network_params, loss.target_critic_network_params
                loss.value_estimator(batch, params=params, target_params=target)
        buffer.extend(batch.reshape(-1))
        for _ in range(epochs):
            for part in buffer:
                found = {group: loss(part) for group, loss in losses.items()}
                optimiser.zero_grad()
                sum(
                    one["loss_objective"] + one["loss_critic"] + one["loss_entropy"] for one in found.values()
                ).backward()
                nn.utils.clip_grad_norm_(losses.parameters(), 1.0)
                optimiser.step()
        logged = {f"{group}/loss_objective": one["loss_objective"].item() for group, one in found.items()}
        paid = {f"{group}/reward": batch["next", group, "reward"].mean().item() for group in losses}
        history.append(logged | paid)
    collector.shutdown()
    return nn.ModuleDict(actors), history


def actor_of(env: EnvBase, group: str) -> ProbabilisticActor:
    """Return one network for the mechs of a class; each acts on its own observation."""
    width = env.full_action_spec[group, "action"].shape[-1]
    net = nn.Sequential(network(env, group, 2 * width, centralised=False), NormalParamExtractor())
    parameters = [(group, "loc"), (group, "scale")]
    return ProbabilisticActor(
        TensorDictModule(net, [(group, "observation")], parameters),
        in_keys=parameters,
        out_keys=[(group, "action")],
        distribution_class=TanhNormal,
        return_log_prob=True,
        log_prob_key=(group, "action_log_prob"),
    )


def loss_of(env: EnvBase, group: str, actor: ProbabilisticActor) -> MAPPOLoss:
    """Return the loss of a class; its critic observes all mechs of the class."""
    net = network(env, group, 1, centralised=True)
    critic = TensorDictModule(net, [(group, "observation")], [(group, "state_value")])
    loss = MAPPOLoss(actor, critic, entropy_coeff=1e-3)
    named = {name: (group, name) for name in ("action", "reward", "advantage", "value_target")}
    loss.set_keys(**named, value=(group, "state_value"), sample_log_prob=(group, "action_log_prob"))
    loss.make_value_estimator(gamma=0.99, lmbda=0.95)
    return loss


def network(env: EnvBase, group: str, outputs: int, centralised: bool) -> MultiAgentMLP:
    """Return an MLP with two hidden layers, shared by the mechs of a class."""
    mechs, inputs = env.observation_spec[group, "observation"].shape[-2:]
    return MultiAgentMLP(inputs, outputs, mechs, centralised=centralised, share_params=True, num_cells=[64, 64])


if __name__ == "__main__":
    print(main()[1])
