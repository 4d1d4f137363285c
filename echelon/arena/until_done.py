"""Steps the battles of a batch until each has ended once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.arena.fingerprint import state_hash
from echelon.env.env import EchelonEnv
from echelon.state import State

DONE_CHECK_EVERY = 16
"""Number of decisions between checks whether all battles have ended. On a GPU these checks are the only host reads."""


def run_until_done(
    env: EchelonEnv,
    decide: Callable[[TensorDictBase, int], object],
    count: int,
    played: Callable[[TensorDictBase, Tensor], object] = lambda stepped, running: None,
    on_progress: Callable[[float], object] | None = None,
) -> TensorDictBase:
    """Step the environment until each of the first `count` battles has ended once.

    Shapes are static: battles that have ended are reset and continue, and their later outcomes are ignored.

    Args:
        env: the environment, already seeded.
        decide: called with the current tensordict and the number of the decision; writes the actions of all teams.
        count: number of battles that matter; the rest is padding.
        played: called with each step's tensordict and `[B]` bool which of these battles it belongs to.
        on_progress: called every `DONE_CHECK_EVERY` decisions and at the end, see `BatchArena.on_progress`.

    Returns:
        The `outcome` entry of the environment, `[count]`, with `state_hash [count, 1]` int64 of the final states.
    """
    now = env.reset()
    running = torch.arange(env.num_envs, device=env.device) < count
    hashes = torch.zeros((env.num_envs, 1), dtype=torch.int64, device=env.device)
    outcome: TensorDictBase | None = None
    progress = BattlesDone(count, env.config.rules.max_decisions, on_progress)
    for decision in range(env.config.rules.max_decisions):
        decide(now, decision)
        stepped = env.step(now)
        played(stepped, running)
        latest, ends = stepped.get(("next", "outcome")), stepped.get(("next", "done"))[:, 0] & running
        hashes = torch.where(ends[:, None], state_hashes(env.state, ends), hashes)
        outcome = latest.clone() if outcome is None else latest.where(ends, outcome)
        running = running & ~ends
        if decision % DONE_CHECK_EVERY == DONE_CHECK_EVERY - 1:
            if not bool(running.any()):
                break
            progress.tell(running, decision + 1)
        now = env.maybe_reset(env.step_mdp(stepped))
    progress.tell_all()
    assert outcome is not None
    return outcome.set("state_hash", hashes)[:count]


class BattlesDone:
    """Tells how many of the battles of a batch are done; without `on_progress`, nothing is read.

    Args:
        count: number of battles.
        most: decisions of the longest battle.
        on_progress: called with the number of battles since the last call.
    """

    def __init__(self, count: int, most: int, on_progress: Callable[[float], object] | None) -> None:
        self.count, self.most, self.on_progress = count, most, on_progress
        self.told = 0.0

    def tell(self, running: Tensor, decisions: int) -> None:
        """`running [B]` bool go on after so many decisions: few end early, and none lasts longer than the clock."""
        if self.on_progress is not None:
            self._reach(max(self.count - float(running.sum()), self.count * decisions / self.most))

    def tell_all(self) -> None:
        """All of them are done."""
        self._reach(self.count)

    def _reach(self, done: float) -> None:
        if self.on_progress is not None:
            self.on_progress(done - self.told)
        self.told = done


def state_hashes(state: State, which: Tensor) -> Tensor:
    """`[B, 1]` int64 state hashes of the battles selected by `which [B]` bool; undefined for the others."""
    if which.device.type != "cpu":
        return state_hash(state)[:, None]
    rows = which.nonzero()[:, 0]
    hashes = torch.zeros(len(which), dtype=torch.int64, device="cpu")
    if len(rows) > 0:
        hashes[rows] = state_hash(state[rows])
    return hashes[:, None]
