"""QMIX from TorchRL components: composite actions with masks, mixed with the state of the battle."""

import dataclasses

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import EnvBase
from torchrl.modules import MLP, EGreedyModule, QMixer, QValueModule, SafeSequential
from torchrl.objectives import SoftUpdate, ValueEstimators
from torchrl.objectives.multiagent import QMixerLoss

import echelon
from echelon import EnvConfig

BATTLE = EnvConfig.small()
HOLD = 4
"""Number of decisions per action in training. One decision of a quarter of a second has little effect, so action values
would separate more slowly (docs/BASELINES.md). The trained policy works at either rate."""
OBSERVATION, MASK = ("agents", "observation"), ("agents", "action_mask")
VALUES, CHOSEN = ("agents", "action_value"), ("agents", "chosen_action_value")


def main(
    config: EnvConfig = BATTLE,
    num_envs: int = 128,
    steps: int = 16,
    iterations: int = 25,
    updates: int = 64,
    opponent: str = "heuristic:easy",
    seed: int = 0,
) -> tuple[nn.Module, list[dict[str, float]]]:
    """Return the trained policy, and the logs of each iteration; a step is `HOLD` decisions for both teams."""
    torch.manual_seed(seed)
    rules = dataclasses.replace(config.rules, decision_repeat=HOLD * config.rules.decision_repeat)
    slower = dataclasses.replace(config, rules=rules)
    env = echelon.versus(slower, opponent, num_envs, seed=seed, action="discrete", state=True)
    policy = policy_of(env)
    mixer = TensorDictModule(
        QMixer(env.observation_spec["state"].shape[1:], 32, env.n_agents, env.device),
        in_keys=[CHOSEN, "state"],
        out_keys=["chosen_action_value"],
    )
    loss = QMixerLoss(policy, mixer, delay_value=True)
    loss.set_keys(action_value=VALUES, local_value=CHOSEN, global_value="chosen_action_value", action=env.action_key)
    loss.make_value_estimator(ValueEstimators.TDLambda, gamma=0.97, lmbda=0.9)
    target, optimiser = SoftUpdate(loss, tau=0.05), torch.optim.Adam(loss.parameters(), lr=5e-4, eps=1e-5)
    slowing = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, iterations)

    spec, frames = env.full_action_spec_unbatched, num_envs * steps
    keys = {"action_key": env.action_key, "action_mask_key": MASK}
    greedy = EGreedyModule(spec, eps_end=0.05, annealing_num_steps=max(1, iterations * frames // 10), **keys)
    collector = Collector(env, TensorDictSequential(policy, greedy), frames_per_batch=frames, total_frames=-1)
    # Of stretches of `steps` decisions, the newest four of every battle: their returns go on from old actions to values
    # of today, which is the less true the older they are.
    buffer = ReplayBuffer(storage=LazyTensorStorage(4 * num_envs), batch_size=16)
    history = []
    for _, batch in zip(range(iterations), collector, strict=False):
        batch["next", "reward"] = 0.1 * batch["next", "agents", "reward"].sum(-2)  # one reward for the team
        buffer.extend(batch.select(*loss.in_keys))
        for _ in range(updates):
            found = loss(buffer.sample())["loss"]
            optimiser.zero_grad()
            found.backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 10.0)
            optimiser.step()
            target.step()
        greedy.step(frames)
        slowing.step()
        won = batch["next", "outcome", "won"][batch["next", "done"]].float().mean()
        reward = batch["next", "agents", "reward"].mean()
        history.append({"loss": found.item(), "reward": reward.item(), "won": won.item()})
    collector.shutdown()
    return policy, history


def policy_of(env: EnvBase) -> SafeSequential:
    """Return a policy that selects the best available action, with one network for all mechs."""
    spec, width = env.full_action_spec_unbatched, 128
    net = MLP(
        env.observation_spec[OBSERVATION].shape[-1],
        spec[env.action_key].n,
        num_cells=[width, width],
        activation_class=nn.ReLU,
        norm_class=nn.LayerNorm,
        norm_kwargs={"normalized_shape": width},
        device=env.device,
    )
    # The maximum of 64 random values is large, so initial state values would be too high.
    for parameter in net[-1].parameters():
        nn.init.zeros_(parameter)
    choice = QValueModule(
        action_value_key=VALUES, action_mask_key=MASK, out_keys=[env.action_key, VALUES, CHOSEN], spec=spec
    )
    return SafeSequential(TensorDictModule(net, [OBSERVATION], [VALUES]), choice)


if __name__ == "__main__":
    print(main()[1])
