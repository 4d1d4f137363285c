"""Planning by forks: play the best of 64 branches of 8 decisions, each the start policy with its own noise."""

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon import EchelonEnv, EnvConfig
from echelon.agents.heuristic import scripted
from echelon.env.outcome import Winner
from echelon.views.group_policy import GroupPolicy, memory_spec

BATTLE, NOISE, WIN = EnvConfig.small(), 0.6, 10.0
"""Config of the battle; standard deviation of the action noise; reward of a win in a branch."""
Step = tuple[TensorDictBase, Tensor, int | None]


def play(env: EchelonEnv, td: TensorDictBase, policies: list[GroupPolicy], noise: Tensor, stops: bool) -> Step:
    """Decide once for each of `noise [T, B, A, D]` on blue's actions: what is shown then, blue's returns `[B]`, and the
    winner if the only battle has ended."""
    returns = torch.zeros(env.num_envs)
    for own in noise:
        for policy in policies:
            td = policy(td)
        td["blue", "action"] = (td["blue", "action"] + own).clamp(-1, 1)
        played, td = env.step_and_maybe_reset(td)
        winner = played["next", "outcome", "winner"][:, 0]
        returns += played["next", "blue", "reward"].mean((1, 2)) + WIN * (winner == Winner.BLUE)
        if stops and winner[0] != Winner.RUNNING:
            return td, returns, int(winner[0])
    return td, returns, None


def battle(env: EchelonEnv, policies: list[GroupPolicy], seed: int, branches: EchelonEnv | None, ahead: int) -> int:
    """Play the only battle of `env` and return its winner; blue plans in `branches` if given."""
    env.set_seed(seed)
    td, winner = env.reset(), None
    while winner is None:
        noise = torch.zeros(ahead, 1, *env.action_spec["blue", "action"].shape[1:])
        if branches is not None:
            tried = NOISE * torch.randn(1, branches.num_envs, *noise.shape[2:]).expand(ahead, -1, -1, -1)
            tried[:, 0] = 0  # the start policy itself
            start = branches.set_state(env.get_state().expand(branches.num_envs))
            best = play(branches, start, policies, tried, stops=False)[1].argmax()
            noise = tried[:, best, None]
        td, _, winner = play(env, td, policies, noise, stops=True)
    return winner


def main(battles: int = 60, branches: int = 64, ahead: int = 8, config: EnvConfig = BATTLE) -> list[int]:
    """Return the number of battles that `trivial` won against `easy`, without and with planning."""
    torch.manual_seed(0)
    commanders = {"blue": scripted("heuristic:trivial", config, torch.device("cpu"))}
    commanders["red"] = scripted("heuristic:easy", config, torch.device("cpu"))
    policies = [GroupPolicy(commander, group, group) for group, commander in commanders.items()]
    env = EchelonEnv(config, 1, "cpu", 0, memory=memory_spec(**commanders))
    env.reset()
    plans = (None, env.fork(0, branches))
    return [[battle(env, policies, s, own, ahead) for s in range(battles)].count(Winner.BLUE) for own in plans]


if __name__ == "__main__":
    print("won of 60 without and with planning:", main())
