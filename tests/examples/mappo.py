"""MAPPO from TorchRL components: a team trains against a scripted team, with a centralised critic."""

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import EnvBase
from torchrl.modules import MultiAgentMLP, NormalParamExtractor, ProbabilisticActor, TanhNormal
from torchrl.objectives.multiagent import MAPPOLoss

import echelon
from echelon import EnvConfig

BATTLE = EnvConfig.small()
OBSERVATION, VALUE = ("agents", "observation"), ("agents", "state_value")


def main(
    config: EnvConfig = BATTLE, num_envs: int = 64, steps: int = 64, iterations: int = 500, epochs: int = 8
) -> tuple[nn.Module, list[dict[str, float]]]:
    """Return the trained policy, and the logs of each iteration."""
    torch.manual_seed(0)
    env = echelon.versus(config, "heuristic:normal", num_envs, seed=0)
    policy, critic = actor_of(env), critic_of(env)
    loss = MAPPOLoss(policy, critic, entropy_coeff=1e-3)
    loss.set_keys(action=env.action_key, reward=env.reward_key, value=VALUE)
    loss.make_value_estimator(gamma=0.99, lmbda=0.95)
    optimiser = torch.optim.Adam(loss.parameters(), lr=3e-4)

    frames = num_envs * steps
    collector = Collector(env, policy, frames_per_batch=frames, total_frames=-1)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(frames), sampler=SamplerWithoutReplacement(), batch_size=frames // 4
    )
    history = []
    for _, batch in zip(range(iterations), collector, strict=False):
        with torch.no_grad():
            loss.value_estimator(
                batch, params=loss.critic_network_params, target_params=loss.target_critic_network_params
            )
        buffer.extend(batch.reshape(-1))
        for _ in range(epochs):
            for part in buffer:
                found = loss(part)
                optimiser.zero_grad()
                (found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
                optimiser.step()
        logged = {name: found[name].item() for name in ("loss_objective", "loss_critic", "loss_entropy")}
        history.append(logged | {"reward": batch["next", env.reward_key].mean().item()})
    collector.shutdown()
    return policy, history


def actor_of(env: EnvBase) -> ProbabilisticActor:
    """Return one network for all mechs; each acts on its own observation."""
    width = env.action_spec[env.action_key].shape[-1]
    net = nn.Sequential(network(env, 2 * width, centralised=False), NormalParamExtractor())
    parameters = [("agents", "loc"), ("agents", "scale")]
    return ProbabilisticActor(
        TensorDictModule(net, [OBSERVATION], parameters),
        in_keys=parameters,
        out_keys=[env.action_key],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )


def critic_of(env: EnvBase) -> TensorDictModule:
    """Return the critic: a value per mech from the observations of all mechs."""
    return TensorDictModule(network(env, 1, centralised=True), [OBSERVATION], [VALUE])


def network(env: EnvBase, outputs: int, centralised: bool) -> MultiAgentMLP:
    """Return an MLP with two hidden layers, shared by all mechs."""
    inputs = env.observation_spec[OBSERVATION].shape[-1]
    return MultiAgentMLP(inputs, outputs, env.n_agents, centralised=centralised, share_params=True, num_cells=[64, 64])


if __name__ == "__main__":
    print(main()[1])
