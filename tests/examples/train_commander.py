"""Train a commander with TorchRL's PPO: it orders a scripted pack against the same pack without a commander."""

import dataclasses

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.collectors import Collector
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import echelon

BATTLE = dataclasses.replace(echelon.EnvConfig.small(), command=echelon.CommandConfig(enabled=True))
NAMES = ("loc", "scale", "log_prob", "state_value", "advantage", "value_target", "done", "terminated")
OBSERVATION, KEYS = ("commanders", "observation"), {name: ("commanders", name) for name in NAMES}


def make(battles: int, seed: int, split: str):
    return echelon.commanders(dataclasses.replace(BATTLE, split=split), "hard", "hard", battles, seed=seed)


def networks(env):
    """Return an actor and a critic, shared by all packs of a team."""
    inputs, outputs = env.observation_spec[OBSERVATION].shape[-1], env.action_spec[env.action_key].shape[-1]
    normal = torch.nn.Sequential(MLP(inputs, outputs, num_cells=[64, 64]), AddStateIndependentNormalScale(outputs))
    parameters = {name: KEYS[name] for name in ("loc", "scale")}
    actor = ProbabilisticActor(
        TensorDictModule(normal, [OBSERVATION], list(parameters.values())), parameters, [env.action_key],
        distribution_class=IndependentNormal, return_log_prob=True, log_prob_key=KEYS["log_prob"],
    )  # fmt: skip
    return actor, TensorDictModule(MLP(inputs, 1, num_cells=[64, 64]), [OBSERVATION], [KEYS["state_value"]])


def train(env, actor, critic, iterations: int, steps: int = 16, epochs: int = 6):
    """Yield the win rate of each iteration."""
    gae, loss = GAE(gamma=env.gamma, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic, entropy_coeff=1e-3)
    ends = {name: KEYS[name] for name in ("done", "terminated", "advantage", "value_target")}
    gae.set_keys(value=KEYS["state_value"], reward=env.reward_key, **ends)
    loss.set_keys(value=KEYS["state_value"], action=env.action_key, sample_log_prob=KEYS["log_prob"], **ends)
    optimiser, frames = torch.optim.Adam(loss.parameters(), lr=1e-3), env.num_envs * steps
    for batch in Collector(env, actor, frames_per_batch=frames, total_frames=frames * iterations):
        for name in ("done", "terminated"):  # expand the flags of a battle to its packs
            batch["next", "commanders", name] = batch["next", name][..., None, :].expand(-1, -1, env.n_agents, 1)
        data = gae(batch).select("commanders", ("next", "commanders")).reshape(-1)
        for rows in (rows for _ in range(epochs) for rows in torch.randperm(frames).chunk(4)):
            found = loss(data[rows])
            optimiser.zero_grad()
            (found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]).backward()
            torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimiser.step()
        yield batch["next", "outcome", "won"][batch["next", "done"]].float().mean().item()


@torch.no_grad()
def wins(env, actor) -> int:
    """Return the number of first battles of an environment that the commander wins, with sampled orders."""
    seen, won = env.reset(), torch.zeros(env.num_envs, 1, dtype=torch.bool)
    running = ~won
    while running.any():
        played, seen = env.step_and_maybe_reset(actor(seen))
        won |= played["next", "outcome", "won"] & running
        running &= ~played["next", "done"]
    return int(won.sum())


def main(battles: int = 128, iterations: int = 60, judged: int = 400) -> int:
    torch.manual_seed(0)
    env = make(battles, 0, "train")
    actor, critic = networks(env)
    for number, share in enumerate(train(env, actor, critic, iterations), 1):
        print(f"{number:3d}  won {share:.2f}", flush=True)
    won = wins(make(judged, 1, "validation"), actor)
    print(f"won {won} of {judged} battles never seen against the same team without a commander")
    return won


if __name__ == "__main__":
    main()
