"""Steps a batch of battles until each has ended once."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.arena.fingerprint import state_hash
from echelon.env.env import EchelonEnv
from echelon.env.leaves import Shown, leaves_from
from echelon.env.restart import select
from echelon.env.static_battles import CalledBattles, StaticBattles
from echelon.runtime.cuda_graphs import GraphedFunction
from echelon.state import State

DONE_CHECK_EVERY = 16
"""Decisions between checks whether all battles have ended. On a GPU, only these checks copy data to the host."""


def run_until_done(
    env: EchelonEnv,
    td: TensorDictBase,
    decide: Callable[[Any, Tensor | int], object],
    count: int,
    played: Callable[[TensorDictBase, Tensor], object] | None = None,
    on_progress: Callable[[float], object] | None = None,
    graph_key: Callable[[], Hashable | None] | None = None,
    narrow: Callable[[Tensor], tuple[EchelonEnv, TensorDictBase]] | None = None,
    in_leaves: bool = False,
) -> TensorDictBase:
    """Step the environment until each of the first `count` battles has ended once.

    Shapes are static unless `narrow` is given: battles that have ended restart, and their new steps are ignored.

    Args:
        td: initial observation of the battles.
        decide: called with the current tensordict, or its `Leaves`, and the index of the decision, a tensor `[1]` for
            captured decisions; sets the actions of all teams.
        count: number of battles that count; the rest is padding.
        played: called with each step's tensordict and `[B]` bool, the battles that ran; not for captured decisions.
        on_progress: called every `DONE_CHECK_EVERY` decisions and at the end, see `BatchArena.on_progress`.
        graph_key: returns the graph key of `decide`, see `GraphedFunction`; each decision is then captured as a CUDA
            graph and replayed. Without `graph_key`, nothing is captured.
        narrow: called when at most half of the stepped battles still run, with the indices `[R]` int64 of the running
            ones; returns an environment with only these battles, and its observation. Cannot be combined with
            `graph_key`.
        in_leaves: whether `decide` takes the entries of a TensorDict as a dict, which is faster; cannot be combined
            with `played`.

    Returns:
        The `outcome` entry of the environment, `[count]`, with `state_hash [count, 1]` int64 of the final states.
    """
    endings = Endings(td, count)
    reported, max_decisions = 0.0, env.config.rules.max_decisions
    moved = (env, td, decide, endings)
    decisions = uncaptured(*moved, played, narrow, in_leaves) if graph_key is None else captured(*moved, graph_key)
    for number, _ in zip(range(1, max_decisions + 1), decisions, strict=False):
        if number % DONE_CHECK_EVERY == 0:
            if not bool(endings.running.any()):
                break
            if on_progress is not None:
                # Few battles end early, so progress counts at least the elapsed share of the time limit.
                done = max(count - float(endings.running.sum()), count * number / max_decisions)
                on_progress(done - reported)
                reported = done
    if on_progress is not None:
        on_progress(count - reported)
    return endings.outcome.set("state_hash", endings.hashes)[:count]


class Endings:
    """Results of ended battles, in tensors that are updated in place.

    Args:
        td: result of `EchelonEnv.reset`, `[B]`.
    """

    def __init__(self, td: TensorDictBase, count: int) -> None:
        (battles,), device = td.batch_size, td.device
        self.running = torch.arange(battles, device=device) < count
        """`[B]` bool, which battles have not ended yet."""
        self.rows: slice | Tensor = slice(None)
        """The stepped battles."""
        self.hashes = torch.zeros((battles, 1), dtype=torch.int64, device=device)
        self.outcome: TensorDictBase = td.get("outcome").clone()

    def store(self, after: Shown, hashes: Callable[[Tensor], Tensor], ended: Tensor | None = None) -> None:
        """Store outcome and state hash of the battles that a decision ended.

        Args:
            after: the `next` entry of a step.
            hashes: called with `[B]` bool, the battles that end; returns their state hashes, `[B, 1]` int64.
            ended: indices `[R]` int64 of the battles that ended, if known on the host.
        """
        if ended is not None and not len(ended):
            return
        rows, after = self.rows, leaves_from(after)
        ends = after["done",][:, 0] & self.running[rows]
        self.hashes[rows] = torch.where(ends[:, None], hashes(ends), self.hashes[rows])
        for name, kept in self.outcome.items():
            kept[rows] = select(ends, after["outcome", name], kept[rows])
        self.running[rows] &= ~ends

    def narrow(self) -> Tensor | None:
        """If at most half of the stepped battles still run, step only these from now on. The call copies data to the
        host.

        Returns:
            Indices `[R]` int64 of the running battles among the battles stepped before, or None if nothing changed.
        """
        steps = self.running[self.rows]
        left = steps.nonzero()[:, 0]
        if len(left) == 0 or 2 * len(left) > len(steps):
            return None
        self.rows = self.running.nonzero()[:, 0]
        return left


def uncaptured(
    env: EchelonEnv,
    td: TensorDictBase,
    decide: Callable[[Any, int], object],
    endings: Endings,
    played: Callable[[TensorDictBase, Tensor], object] | None,
    narrow: Callable[[Tensor], tuple[EchelonEnv, TensorDictBase]] | None,
    in_leaves: bool,
) -> Iterator[None]:
    """Yield after each decision, without end; arguments as in `run_until_done`."""
    battles = CalledBattles(env, td)
    for decision in itertools.count():
        shown: Any = dict(battles.leaves) if in_leaves else battles.current.copy()
        decide(shown, decision)
        after = battles.step(shown)
        if played is not None:
            played(shown.set("next", battles.tensordict_after(shown)), endings.running.clone())
        ended = battles.ended(after)
        endings.store(after, functools.partial(state_hashes, env.state), ended)
        yield
        battles.restart(after, (), ended)
        if narrow is not None and (decision + 1) % DONE_CHECK_EVERY == 0 and (left := endings.narrow()) is not None:
            env, td = narrow(left)
            battles = CalledBattles(env, td)


def captured(
    env: EchelonEnv,
    td: TensorDictBase,
    decide: Callable[[Any, Tensor], object],
    endings: Endings,
    graph_key: Callable[[], Hashable | None],
) -> Iterator[None]:
    """Yield after each decision, which is captured as a CUDA graph and replayed; `played` and `narrow` are not
    supported.
    """
    battles, at_decision = StaticBattles(env, td), torch.zeros(1, dtype=torch.int64, device=env.device)

    def decide_and_step() -> None:
        observation = battles.current.copy()
        decide(observation, at_decision)
        after = battles.step(observation)
        endings.store(after, lambda ends: state_hash(env.state)[:, None])
        battles.restart(after)
        at_decision.add_(1)

    graphed = GraphedFunction(decide_and_step, env.device, "a match")
    while True:
        graphed(graph_key())
        yield


def state_hashes(state: State, which: Tensor) -> Tensor:
    """Return `[B, 1]` int64 state hashes of the battles selected by `which [B]` bool; undefined for other battles."""
    if which.device.type != "cpu":
        return state_hash(state)[:, None]
    rows = which.nonzero()[:, 0]
    hashes = torch.zeros(len(which), dtype=torch.int64, device="cpu")
    if len(rows) > 0:
        hashes[rows] = state_hash(state[rows])
    return hashes[:, None]
