"""Steps the battles of a batch until each has ended once."""

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
"""Number of decisions between checks whether all battles have ended. On a GPU these checks are the only host reads."""


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

    Shapes are static, but for `narrow`: battles that have ended are reset and go on, and that is ignored.

    Args:
        td: what is observed of the battles as they begin.
        decide: called with the current tensordict, or its `Leaves`, and the number of the decision, a tensor `[1]`
            where decisions are captured; sets the actions of all teams.
        count: number of battles that matter; the rest is padding.
        played: called with each step's tensordict and `[B]` bool which battles ran; not where decisions are captured.
        on_progress: called every `DONE_CHECK_EVERY` decisions and at the end, see `BatchArena.on_progress`.
        graph_key: what `decide` depends on beside tensors that stay where they are, see `GraphedFunction`: each
            decision is then captured as a CUDA graph and replayed. None for calls.
        narrow: called where at most half of those that are stepped still run, with their places `[R]` int64; returns
            an environment of these alone, and what is observed of them. Not where decisions are captured.
        in_leaves: whether `decide` takes the entries of a TensorDict as a dict, which is faster; not with `played`.

    Returns:
        The `outcome` entry of the environment, `[count]`, with `state_hash [count, 1]` int64 of the final states.
    """
    endings = Endings(td, count)
    reported, max_decisions = 0.0, env.config.rules.max_decisions
    moved = (env, td, decide, endings)
    decisions = called(*moved, played, narrow, in_leaves) if graph_key is None else captured(*moved, graph_key)
    for number, _ in zip(range(1, max_decisions + 1), decisions, strict=False):
        if number % DONE_CHECK_EVERY == 0:
            if not bool(endings.running.any()):
                break
            if on_progress is not None:
                # Few battles end early, and none lasts longer than the clock.
                done = max(count - float(endings.running.sum()), count * number / max_decisions)
                on_progress(done - reported)
                reported = done
    if on_progress is not None:
        on_progress(count - reported)
    return endings.outcome.set("state_hash", endings.hashes)[:count]


class Endings:
    """What is kept of battles that end, in tensors that are written in place.

    Args:
        td: what `EchelonEnv.reset` returned, `[B]`.
    """

    def __init__(self, td: TensorDictBase, count: int) -> None:
        (battles,), device = td.batch_size, td.device
        self.running = torch.arange(battles, device=device) < count
        """`[B]` bool, which battles have not ended yet."""
        self.rows: slice | Tensor = slice(None)
        """Which of them are stepped."""
        self.hashes = torch.zeros((battles, 1), dtype=torch.int64, device=device)
        self.outcome: TensorDictBase = td.get("outcome").clone()

    def note(self, after: Shown, hashes: Callable[[Tensor], Tensor], ended: Tensor | None = None) -> None:
        """Keep outcome and state hash of the battles that a decision ended.

        Args:
            after: what a step has under `next`.
            hashes: called with `[B]` bool which end; returns `[B, 1]` int64 the hashes of their states.
            ended: `[R]` int64 the battles that ended, where the host knows them.
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
        """`[R]` int64 places of those that still run among those that are stepped, if at most half do: from now on
        they alone are. Reads the host."""
        steps = self.running[self.rows]
        left = steps.nonzero()[:, 0]
        if len(left) == 0 or 2 * len(left) > len(steps):
            return None
        self.rows = self.running.nonzero()[:, 0]
        return left


def called(
    env: EchelonEnv,
    td: TensorDictBase,
    decide: Callable[[Any, int], object],
    endings: Endings,
    played: Callable[[TensorDictBase, Tensor], object] | None,
    narrow: Callable[[Tensor], tuple[EchelonEnv, TensorDictBase]] | None,
    in_leaves: bool,
) -> Iterator[None]:
    """Decisions one after the other, without end; arguments as in `run_until_done`."""
    battles = CalledBattles(env, td)
    for decision in itertools.count():
        shown: Any = dict(battles.leaves) if in_leaves else battles.current.copy()
        decide(shown, decision)
        after = battles.step(shown)
        if played is not None:
            played(shown.set("next", battles.tensordict_after(shown)), endings.running.clone())
        ended = battles.ended(after)
        endings.note(after, functools.partial(state_hashes, env.state), ended)
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
    """`called` as a CUDA graph, without an observer."""
    battles, at_decision = StaticBattles(env, td), torch.zeros(1, dtype=torch.int64, device=env.device)

    def decide_and_step() -> None:
        observation = battles.current.copy()
        decide(observation, at_decision)
        after = battles.step(observation)
        endings.note(after, lambda ends: state_hash(env.state)[:, None])
        battles.restart(after)
        at_decision.add_(1)

    graphed = GraphedFunction(decide_and_step, env.device, "a match")
    while True:
        graphed(graph_key())
        yield


def state_hashes(state: State, which: Tensor) -> Tensor:
    """`[B, 1]` int64 state hashes of the battles selected by `which [B]` bool; undefined for the others."""
    if which.device.type != "cpu":
        return state_hash(state)[:, None]
    rows = which.nonzero()[:, 0]
    hashes = torch.zeros(len(which), dtype=torch.int64, device="cpu")
    if len(rows) > 0:
        hashes[rows] = state_hash(state[rows])
    return hashes[:, None]
