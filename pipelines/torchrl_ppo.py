"""PPO on Echelon with only TorchRL's parts: a team learns to beat a scripted team.

Use this file as a start for your own training program. In addition, `pipelines/train.py` has memory, a curriculum,
checkpoints and multi-GPU training.
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
    steps: int = 32  # decisions per mech and iteration
    iterations: int = 80
    epochs: int = 4
    minibatches: int = 8
    learning_rate: float = 5e-4
    seed: int = 0
    device: str = ""  # default: a GPU if available
    backend: str = "auto"  # eager is several times slower, but avoids minutes of compiling on a GPU
    save: str = ""  # file for the weights of the actor


def make_env(args: Args) -> EnvBase:
    """Create battles against the opponent with batch size `[battles, 5]`: each mech is an independent batch row."""
    env = echelon.mechs(BATTLE, args.opponent, args.battles, args.device, args.seed, backend=args.backend)
    return TransformedEnv(env, RewardSum())


def make_networks(env: EnvBase) -> tuple[ProbabilisticActor, TensorDictModule]:
    """Create an actor and a critic that all mechs share; both read only the current observation."""
    inputs, outputs = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    loc, value = (MLP(inputs, width, num_cells=[128, 128]) for width in (outputs, 1))
    normal = torch.nn.Sequential(loc, AddStateIndependentNormalScale(outputs, init_value=-0.5))
    # Sample a normal without tanh, because `TanhNormal` cannot recompute densities where tanh saturates.
    module = TensorDictModule(normal, ["observation"], ["loc", "scale"])
    actor = ProbabilisticActor(module, ["loc", "scale"], distribution_class=IndependentNormal, return_log_prob=True)
    return actor.to(env.device), TensorDictModule(value, ["observation"], ["state_value"]).to(env.device)


def train(env: EnvBase, actor: ProbabilisticActor, critic: TensorDictModule, args: Args) -> Iterator[dict[str, float]]:
    """Collect battles and train with PPO; yield the metrics of each iteration."""
    gae = GAE(gamma=BATTLE.reward.gamma, lmbda=0.97, value_network=critic)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=4e-4, critic_coeff=0.5, loss_critic_type="l2")
    optimiser = torch.optim.Adam(loss.parameters(), lr=args.learning_rate)
    frames, start_s = env.numel() * args.steps, time.perf_counter()
    for batch in Collector(env, actor, frames_per_batch=frames, total_frames=frames * args.iterations):
        gae(batch)
        # Actions of dead mechs have no effect, so mask them in the policy loss.
        # The critic also learns from dead mechs, because they still receive the reward for a victory.
        advantage, alive = batch["advantage"], batch["mask"].unsqueeze(-1)
        living = advantage[alive]
        batch["advantage"] = torch.where(alive, (advantage - living.mean()) / living.std(), 0.0)
        data = batch.select(*actor.in_keys, "action", "action_log_prob", "advantage", "value_target").reshape(-1)
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
    """Return how many of `args.battles` battles the actor wins on maps not used in training; actions are sampled."""
    held_out = dataclasses.replace(BATTLE, map_seed=BATTLE.map_seed + 1)
    env = echelon.mechs(held_out, args.opponent, args.battles, args.device, args.seed + 1_000_000)
    td, wins = env.reset(), 0
    is_first = torch.ones_like(td["done"])  # Environments reset automatically: count only each one's first battle.
    with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
        for _ in range(env.max_steps):
            stepped, td = env.step_and_maybe_reset(actor(td))
            ended = stepped["next", "done"] & is_first
            wins += int((stepped["next", "outcome", "won"] & ended)[:, 0].sum())
            is_first &= ~ended
    return wins


def main(args: Args) -> None:
    """Train, evaluate, and save the actor's weights if a file is given."""
    assert BATTLE.split != "test", "BATTLE.split must be train or validation: test is for evaluation only"
    torch.manual_seed(args.seed)
    env = make_env(args)
    actor, critic = make_networks(env)
    for number, measured in enumerate(train(env, actor, critic, args), 1):
        print(number, *(f"{name} {value:.3g}" for name, value in measured.items()), sep="  ", flush=True)
    print(f"{args.opponent}: won {evaluate(actor, args)} of {args.battles} battles on unseen maps, actions sampled")
    if args.save:
        torch.save(actor.state_dict(), args.save)


if __name__ == "__main__":
    os.environ["COLUMNS"] = str(max(40, shutil.get_terminal_size().columns))  # tyro hangs in very narrow terminals
    main(tyro.cli(Args, description=__doc__))
