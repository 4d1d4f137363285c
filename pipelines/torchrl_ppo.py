"""PPO on Echelon with nothing but TorchRL's parts: a team learns to beat a scripted one.

It is a page to begin one's own program from; `pipelines/train.py` has memory, curriculum, checkpoints, several GPUs.
"""

import dataclasses
import os
import shutil
import time
from collections.abc import Iterator

import torch
import tyro
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import EnvBase, ExplorationType, RewardSum, TransformedEnv, set_exploration_type
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import echelon

BATTLE = echelon.EnvConfig.small()


@dataclasses.dataclass(frozen=True)
class Args:
    """Settings of a run."""

    opponent: str = "heuristic:easy"
    battles: int = 128
    steps: int = 32  # decisions of every mech in an iteration
    iterations: int = 80
    epochs: int = 4
    minibatches: int = 8
    learning_rate: float = 5e-4
    seed: int = 0
    device: str = ""  # by default a GPU where there is one
    backend: str = "auto"  # eager is several times slower, but on a GPU starts without minutes of compiling
    save: str = ""  # file for the weights of the actor


def make_env(args: Args) -> EnvBase:
    """Battles against the opponent, batch `[battles, 5]`: every mech is a row, as if it were alone."""
    env = echelon.mechs(BATTLE, args.opponent, args.battles, args.device, args.seed, backend=args.backend)
    return TransformedEnv(env, RewardSum())


def make_networks(env: EnvBase) -> tuple[ProbabilisticActor, TensorDictModule]:
    """An actor and a critic, the same for all mechs; both read what a mech sees at the moment."""
    inputs, outputs = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    loc, value = (MLP(inputs, width, num_cells=[128, 128]) for width in (outputs, 1))
    normal = torch.nn.Sequential(loc, AddStateIndependentNormalScale(outputs, init_value=-0.5))
    # The environment clips to [-1, 1]. `TanhNormal` cannot tell how likely a past action is where its tanh saturates.
    module = TensorDictModule(normal, ["observation"], ["loc", "scale"])
    actor = ProbabilisticActor(module, ["loc", "scale"], distribution_class=IndependentNormal, return_log_prob=True)
    return actor.to(env.device), TensorDictModule(value, ["observation"], ["state_value"]).to(env.device)


def train(env: EnvBase, actor: ProbabilisticActor, critic: TensorDictModule, args: Args) -> Iterator[dict[str, float]]:
    """Play and learn; yields what was measured in each iteration."""
    gae = GAE(gamma=BATTLE.reward.gamma, lmbda=0.97, value_network=critic)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=4e-4, critic_coeff=0.5, loss_critic_type="l2")
    optimiser = torch.optim.Adam(loss.parameters(), lr=args.learning_rate)
    frames, start_s = env.numel() * args.steps, time.perf_counter()
    for batch in Collector(env, actor, frames_per_batch=frames, total_frames=frames * args.iterations):
        gae(batch)
        # The dead act in vain, so their actions teach nothing. The critic learns from them all the same: a victory that
        # a mech did not live to see is part of what its actions were worth.
        advantage, alive = batch["advantage"], batch["mask"].unsqueeze(-1)
        living = advantage[alive]
        batch["advantage"] = torch.where(alive, (advantage - living.mean()) / living.std(), 0.0)
        data = batch.select("observation", "action", "action_log_prob", "advantage", "value_target").reshape(-1)
        for _ in range(args.epochs):
            for rows in torch.randperm(frames, device=env.device).chunk(args.minibatches):
                losses = loss(data[rows])
                optimiser.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimiser.step()
        ended, next_td, seconds = batch["next", "done"], batch["next"], time.perf_counter() - start_s
        measured = {"won": next_td["outcome", "won"][ended].float(), "return": next_td["episode_reward"][ended]}
        measured |= {"entropy": losses["entropy"], "kl": losses["kl_approx"]}
        yield {name: value.mean().item() for name, value in measured.items()} | {"agent_steps_per_s": frames / seconds}
        start_s = time.perf_counter()


def evaluate(actor: ProbabilisticActor, args: Args) -> int:
    """How many of `args.battles` the actor wins on maps that it never saw; its actions are sampled."""
    held_out = dataclasses.replace(BATTLE, map_seed=BATTLE.map_seed + 1)
    env = echelon.mechs(held_out, args.opponent, args.battles, args.device, args.seed + 1_000_000)
    td, wins = env.reset(), 0
    is_first = torch.ones_like(td["done"])  # a battle that ends begins anew: only the first of each counts
    with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
        for _ in range(env.max_steps):
            stepped, td = env.step_and_maybe_reset(actor(td))
            ended = stepped["next", "done"] & is_first
            wins += int((stepped["next", "outcome", "won"] & ended)[:, 0].sum())
            is_first &= ~ended
    return wins


def main(args: Args) -> None:
    """Train, evaluate, and save the weights if asked."""
    assert BATTLE.split != "test", "BATTLE.split must be train or validation: test is to be judged on"
    torch.manual_seed(args.seed)
    env = make_env(args)
    actor, critic = make_networks(env)
    for number, measured in enumerate(train(env, actor, critic, args), 1):
        print(number, *(f"{name} {value:.3g}" for name, value in measured.items()), sep="  ", flush=True)
    print(f"{args.opponent}: won {evaluate(actor, args)} of {args.battles} battles on maps never seen, actions sampled")
    if args.save:
        torch.save(actor.state_dict(), args.save)


if __name__ == "__main__":
    os.environ["COLUMNS"] = str(max(40, shutil.get_terminal_size().columns))  # tyro hangs where there are three
    main(tyro.cli(Args, description=__doc__))
