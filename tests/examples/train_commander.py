"""A commander is trained with TorchRL's PPO: it orders a pack of scripted mechs against the same pack without one."""

import dataclasses

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.collectors import Collector
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import echelon

BATTLE = dataclasses.replace(echelon.EnvConfig.small(), command=echelon.CommandConfig(enabled=True))
OBSERVATION, VALUE = ("commanders", "observation"), ("commanders", "state_value")


def make(battles: int, seed: int, split: str = "train") -> echelon.env.views.commanders.CommandersView:
    """Battles of `hard` with a commander against `hard` without one."""
    config = dataclasses.replace(BATTLE, split=split)
    return echelon.commanders(config, "heuristic:hard", "heuristic:hard", battles, seed=seed)


def networks(env) -> tuple[ProbabilisticActor, TensorDictModule]:
    """An actor and a critic, the same for all packs of a team."""
    inputs, outputs = env.observation_spec[OBSERVATION].shape[-1], env.action_spec[env.action_key].shape[-1]
    normal = torch.nn.Sequential(MLP(inputs, outputs, num_cells=[64, 64]), AddStateIndependentNormalScale(outputs))
    loc, scale = ("commanders", "loc"), ("commanders", "scale")
    actor = ProbabilisticActor(
        TensorDictModule(normal, [OBSERVATION], [loc, scale]), {"loc": loc, "scale": scale}, [env.action_key],
        distribution_class=IndependentNormal, return_log_prob=True, log_prob_key=("commanders", "log_prob"),
    )  # fmt: skip
    return actor, TensorDictModule(MLP(inputs, 1, num_cells=[64, 64]), [OBSERVATION], [VALUE])


def train(env, actor, critic, iterations: int, steps: int = 16, epochs: int = 6):
    """PPO; yields the share of the battles that ended in each iteration that were won."""
    gae, loss = GAE(gamma=env.gamma, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic, entropy_coeff=1e-3)
    for part in (gae, loss):
        keys = {"value": VALUE, "reward": env.reward_key}
        part.set_keys(**keys, advantage=("commanders", "advantage"), value_target=("commanders", "target"))
    gae.set_keys(done="done", terminated="terminated")
    loss.set_keys(action=env.action_key, sample_log_prob=("commanders", "log_prob"))
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)
    frames = env.num_envs * steps
    for batch in Collector(env, actor, frames_per_batch=frames, total_frames=frames * iterations):
        packs = batch["commanders", "mask"].shape[-1]
        for name in ("done", "terminated"):  # of each pack of a battle
            flag = batch["next", name]
            batch["next", "commanders", name] = flag[..., None, :].expand(*flag.shape[:-1], packs, 1)
        gae.set_keys(done=("commanders", "done"), terminated=("commanders", "terminated"))
        gae(batch)
        data = batch.select("commanders", ("next", "commanders")).reshape(-1)
        for _ in range(epochs):
            for rows in torch.randperm(frames).chunk(4):
                found = loss(data[rows])
                optimiser.zero_grad()
                (found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimiser.step()
        ended = batch["next", "done"]
        yield batch["next", "outcome", "won"][ended].float().mean().item()


def wins(env, actor) -> int:
    """How many of the first battles of an environment the commander wins, its orders sampled."""
    seen, won = env.reset(), 0
    is_first = torch.ones_like(seen["done"])
    with torch.no_grad():
        while is_first.any():
            played, seen = env.step_and_maybe_reset(actor(seen))
            ended = played["next", "done"] & is_first
            won += int((played["next", "outcome", "won"] & ended).sum())
            is_first &= ~ended
    return won


def main(battles: int = 128, iterations: int = 60, judged: int = 400) -> int:
    """Train, then judge on maps and battles of the validation split."""
    torch.manual_seed(0)
    env = make(battles, seed=0)
    actor, critic = networks(env)
    for number, share in enumerate(train(env, actor, critic, iterations), 1):
        print(f"{number:3d}  won {share:.2f}", flush=True)
    won = wins(make(judged, seed=1, split="validation"), actor)
    print(f"won {won} of {judged} battles never seen against the same team without a commander")
    return won


if __name__ == "__main__":
    main()
