"""QMIX with TorchRL's parts: composite actions that a mech can carry out, mixed under the state of the battle."""

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import EnvBase
from torchrl.modules import EGreedyModule, MultiAgentMLP, QMixer, QValueModule, SafeSequential
from torchrl.objectives import SoftUpdate, ValueEstimators
from torchrl.objectives.multiagent import QMixerLoss

import echelon
from echelon import EnvConfig

BATTLE = EnvConfig.small()
OBSERVATION, MASK = ("agents", "observation"), ("agents", "action_mask")
VALUES, CHOSEN = ("agents", "action_value"), ("agents", "chosen_action_value")


def main(
    config: EnvConfig = BATTLE,
    num_envs: int = 128,
    steps: int = 32,
    iterations: int = 50,
    updates: int = 96,
    opponent: str = "heuristic:easy",
    seed: int = 0,
) -> tuple[nn.Module, list[dict[str, float]]]:
    """The trained policy, and what each iteration logged."""
    torch.manual_seed(seed)
    env = echelon.versus(config, opponent, num_envs, seed=seed, action="discrete", state=True)
    policy = policy_of(env)
    mixer = TensorDictModule(
        QMixer(env.observation_spec["state"].shape[1:], 32, env.n_agents, env.device),
        in_keys=[CHOSEN, "state"],
        out_keys=["chosen_action_value"],
    )
    # A defeat is paid -5 at once, a step towards the zone 0.04: squared errors would teach little but defeats.
    loss = QMixerLoss(policy, mixer, delay_value=True, loss_function="smooth_l1")
    loss.set_keys(action_value=VALUES, local_value=CHOSEN, global_value="chosen_action_value", action=env.action_key)
    loss.make_value_estimator(ValueEstimators.TDLambda, gamma=0.97, lmbda=0.6)
    target, optimiser = SoftUpdate(loss, tau=0.01), torch.optim.Adam(loss.parameters(), lr=5e-4)

    spec = env.full_action_spec_unbatched
    exploring = iterations * num_envs * steps // 2  # the first half of the run
    greedy = EGreedyModule(
        spec, eps_end=0.05, annealing_num_steps=exploring, action_key=env.action_key, action_mask_key=MASK
    )
    collector = Collector(env, TensorDictSequential(policy, greedy), frames_per_batch=num_envs * steps, total_frames=-1)
    buffer = ReplayBuffer(storage=LazyTensorStorage(2048), batch_size=16)  # of stretches of `steps` decisions
    history = []
    for _, batch in zip(range(iterations), collector, strict=False):
        batch["next", "reward"] = batch["next", "agents", "reward"].mean(-2)  # one reward for the team
        buffer.extend(batch.select(*loss.in_keys))
        for _ in range(updates):
            found = loss(buffer.sample())["loss"]
            optimiser.zero_grad()
            found.backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 10.0)
            optimiser.step()
            target.step()
        greedy.step(batch.numel())
        history.append({"loss": found.item(), "reward": batch["next", "reward"].mean().item()})
    collector.shutdown()
    return policy, history


def policy_of(env: EnvBase) -> SafeSequential:
    """The best action of those that a mech can carry out, by one network for all mechs."""
    spec = env.full_action_spec_unbatched
    net = MultiAgentMLP(
        env.observation_spec[OBSERVATION].shape[-1],
        spec[env.action_key].n,
        env.n_agents,
        centralised=False,
        share_params=True,
        num_cells=[64, 64],
        norm_class=nn.LayerNorm,
        norm_kwargs={"normalized_shape": 64},
    )
    choice = QValueModule(
        action_value_key=VALUES, action_mask_key=MASK, out_keys=[env.action_key, VALUES, CHOSEN], spec=spec
    )
    return SafeSequential(TensorDictModule(net, [OBSERVATION], [VALUES]), choice)


if __name__ == "__main__":
    print(main()[1])
