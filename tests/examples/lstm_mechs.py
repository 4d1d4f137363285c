"""Recurrent PPO from TorchRL components: every mech is a row of the batch, with TorchRL's LSTM as memory."""

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import EnvBase, TransformedEnv
from torchrl.modules import MLP, LSTMModule, NormalParamExtractor, ProbabilisticActor, TanhNormal, set_recurrent_mode
from torchrl.objectives import ClipPPOLoss, ValueEstimators

import echelon
from echelon import EnvConfig

BATTLE = EnvConfig.small()


def main(
    config: EnvConfig = BATTLE, num_envs: int = 64, steps: int = 64, iterations: int = 500, epochs: int = 8
) -> tuple[nn.Module, list[dict[str, float]]]:
    """Return the trained policy, and the logs of each iteration."""
    torch.manual_seed(0)
    env = echelon.mechs(config, "heuristic:normal", num_envs, seed=0)
    width = env.observation_spec["observation"].shape[-1]
    memory = LSTMModule(width, 64, in_key="observation", out_key="embedding")
    env = TransformedEnv(env, memory.make_tensordict_primer())
    policy = actor_of(env, memory)
    critic = TensorDictModule(MLP(width, 1, num_cells=[64, 64]), ["observation"], ["state_value"])
    loss = ClipPPOLoss(policy, critic, entropy_coeff=1e-3, normalize_advantage=True)
    loss.make_value_estimator(ValueEstimators.GAE, gamma=0.99, lmbda=0.95)
    optimiser = torch.optim.Adam(loss.parameters(), lr=3e-4)

    collector = Collector(env, policy, frames_per_batch=env.batch_size.numel() * steps, total_frames=-1)
    history = []
    for _, batch in zip(range(iterations), collector, strict=False):
        with torch.no_grad():
            loss.value_estimator(
                batch, params=loss.critic_network_params, target_params=loss.target_critic_network_params
            )
        rows = batch.flatten(0, 1)  # [mechs of all battles, steps]: the LSTM runs from the first step
        for _ in range(epochs):
            for part in rows[torch.randperm(len(rows))].split(-(-len(rows) // 4)):
                with set_recurrent_mode(True):
                    found = loss(part)
                optimiser.zero_grad()
                (found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
                optimiser.step()
        logged = {name: found[name].item() for name in ("loss_objective", "loss_critic", "loss_entropy")}
        history.append(logged | {"reward": batch["next", "reward"].mean().item()})
    collector.shutdown()
    return policy, history


def actor_of(env: EnvBase, memory: LSTMModule) -> ProbabilisticActor:
    """Return the actor: from a mech's observation and memory to its action."""
    outputs = 2 * env.action_spec.shape[-1]
    head = nn.Sequential(MLP(memory.lstm.hidden_size, outputs, num_cells=[64]), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictSequential(memory, TensorDictModule(head, ["embedding"], ["loc", "scale"])),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )


if __name__ == "__main__":
    print(main()[1])
