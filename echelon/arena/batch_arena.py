"""Battles between any policies, many at a time. `arena.py play`, evaluations and leagues all fight here.

A battle follows from its seed, its two policies and the settings (precision, compiled or not) alone: the actions of
networks are drawn by `echelon.runtime.noise` from the battle's own seed, and uncompiled on a CPU neither the other
battles of a batch nor its size change a bit of it. A policy of another class that samples from torch's generator is
given one stream for a whole batch.
"""

from __future__ import annotations

import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.envs.utils import ExplorationType, set_exploration_type

from echelon.agents.heuristic import Heuristic
from echelon.arena.fingerprint import state_hash
from echelon.arena.stacked_policies import (
    SLOTS,
    BatchObservation,
    BatchSlot,
    PolicySlots,
    StackedForward,
    StackedPolicies,
)
from echelon.env.env import EchelonEnv
from echelon.env.group_policy import TeamPolicy
from echelon.env.observation import layout
from echelon.env.observation.layout import GROUPS, STREAMS
from echelon.env.outcome import Reason, Winner
from echelon.learn.config import ModelConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.rules.roster import build_roster
from echelon.runtime import noise
from echelon.runtime.errors import ConfigError, require
from echelon.state import State
from echelon.world.pool import make_pool

Precision = Literal["fp32", "bf16", "fp16"]
COMPUTE = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Dtype of the matrix products of networks."""
LOOK_EVERY = 16
"""Decisions between two looks at whether every battle has ended: the only host reads on a GPU."""
Policies = Callable[[str], TeamPolicy]
"""The policy of this name, in evaluation mode."""


class Battle(NamedTuple):
    """A battle to be fought, between two policies by name."""

    blue: str
    red: str
    seed: int
    """As in `EchelonEnv(seed=...)`."""


class BattleResult(NamedTuple):
    """How a battle ended."""

    winner: Winner
    reason: Reason
    score: list[float]
    """Seconds of zone control, blue and red."""
    decisions: int
    stats: list[list[float]]
    """By side (blue, red) the entries of `STATS`."""
    state_hash: str
    """Of every bit of its final state, see `fingerprint.state_hash`: 16 hexadecimal digits."""


@dataclass(frozen=True)
class BatchResult:
    """What came of a batch of battles, in their order."""

    results: list[BattleResult]
    seconds: float


class BatchArena:
    """Fights battles between policies in batches. It keeps its environment from batch to batch.

    Args:
        env: the battle; teams of equal size.
        policies: asked for every name of a batch, each time one is fought.
        batch: battles side by side at most.
        compute: dtype of the matrix products of networks.
        compiled: compile simulation and networks, which pays for thousands of battles. Batches are then filled up to
            a power of two, never below that of an earlier one, and networks decide in chunks of one size, so that few
            graphs are compiled.

    Raises:
        ConfigError: the teams differ in size.
    """

    def __init__(
        self,
        env: EnvConfig,
        policies: Policies,
        device: torch.device,
        batch: int = 256,
        compute: torch.dtype = torch.float32,
        compiled: bool = False,
    ) -> None:
        same = len(env.blue) == len(env.red)
        require(same, "env", "of equal team sizes (policies play both sides)", (env.blue, env.red))
        require(batch >= 1, "batch", ">= 1 battles", batch)
        self.config, self.policies, self.device = env, policies, device
        self.batch, self.compute, self.compiled = batch, compute, compiled
        self.maps = make_pool(env, build_roster(env, device), device)
        self._env: EchelonEnv | None = None
        self._forwards: dict[ModelConfig, StackedForward] = {}

    def play_all(self, battles: Sequence[Battle], recorder: Recorder | None = None) -> Iterator[BatchResult]:
        """Fight them batch by batch.

        Args:
            recorder: keeps some battles of the first batch; places beyond it are forgotten.
        """
        for start in range(0, len(battles), self.batch):
            yield self.play(battles[start : start + self.batch], recorder)
            recorder = None

    def play(self, battles: Sequence[Battle], recorder: Recorder | None = None) -> BatchResult:
        """Fight one batch, at most `batch` battles.

        Raises:
            ConfigError: a policy does not fit these battles, is in training mode, or on another device.
        """
        require(1 <= len(battles) <= self.batch, "battles of a batch", f"1..{self.batch}", len(battles))
        began = time.perf_counter()
        if recorder is not None:
            recorder.battles = [place for place in recorder.battles if place < len(battles)]
            require(len(recorder.battles) > 0, "battles to record", f"below {len(battles)}, those of the batch", "none")
        gpus = [self.device] if self.device.type == "cuda" else []
        # A stranger's policy that samples must not disturb the caller's generator.
        with torch.random.fork_rng(gpus), torch.inference_mode(), set_exploration_type(ExplorationType.RANDOM):
            batch = MatchBatch(self, battles, recorder)
            torch.manual_seed(battles[0].seed)
            outcome = batch.play()
        return BatchResult(results_of(outcome), time.perf_counter() - began)

    def env_of(self, count: int, recorder: Recorder | None) -> EchelonEnv:
        """An environment for `count` battles, or for more where its graphs are compiled for that."""
        kept, size = self._env, count
        if self.compiled:
            size = min(self.batch, max(1 << (count - 1).bit_length(), 0 if kept is None else kept.num_envs))
        if recorder is None and kept is not None and kept.num_envs == size:
            return kept
        self._env = None
        with torch.inference_mode(False):
            env = EchelonEnv(
                self.config, size, self.device, seed=0, maps=self.maps, compiled=self.compiled, observer=recorder
            )
        if recorder is None:
            self._env = env
        return env

    def forward_of(self, policy: ActorCritic) -> StackedForward:
        """The forward of its architecture."""
        if policy.model not in self._forwards:
            # What it is made of must be ordinary tensors, so that later calls meet the same graph.
            with torch.inference_mode(False), torch.no_grad():
                self._forwards[policy.model] = StackedForward(policy, self.device, self.compute, self.compiled)
        return self._forwards[policy.model]


def slot_of(battle: Battle, side: int) -> int:
    """Where a team of a battle stands in its block: anywhere, but always there; blocks fill evenly."""
    return zlib.crc32(f"{battle.blue} {battle.red} {battle.seed} {side}".encode()) % SLOTS


class MatchBatch:
    """One batch of battles: an environment, and everybody's teams."""

    def __init__(self, arena: BatchArena, battles: Sequence[Battle], recorder: Recorder | None = None) -> None:
        self.battles = battles
        self.env = arena.env_of(len(battles), recorder)
        self.mechs = len(arena.config.blue)
        count, device = self.env.num_envs, arena.device
        # Battles that fill up an environment are given seeds, and orders by nobody.
        self.seeds = torch.tensor([battle.seed for battle in battles] + [0] * (count - len(battles)), device=device)
        slots: dict[str, list[BatchSlot]] = defaultdict(list)
        for b, battle in enumerate(battles):
            for side, name in enumerate((battle.blue, battle.red)):
                slots[name].append(BatchSlot(b + side * count, slot_of(battle, side)))
        alike: dict[ModelConfig, list[tuple[ActorCritic, list[BatchSlot]]]] = defaultdict(list)
        self.deciders: list[PolicySlots | StackedPolicies] = []
        for name, own in slots.items():
            with torch.inference_mode(False):
                policy = arena.policies(name)
            require_ready(name, policy, self.env)
            # A subclass may decide in another way.
            if type(policy) is ActorCritic:
                alike[policy.model].append((policy, own))
            else:
                self.deciders.append(PolicySlots(policy, own, self.mechs, device))
        for group in alike.values():
            policies, theirs = [policy for policy, _ in group], [own for _, own in group]
            self.deciders.append(StackedPolicies(arena.forward_of(policies[0]), policies, theirs, self.mechs))

    def play(self) -> TensorDictBase:
        """`[len(battles)]` the outcome of every battle, and `state_hash`."""
        self.env.set_seed(self.seeds)
        return first_outcomes(self.env, self._decide, len(self.battles))

    def _decide(self, now: TensorDictBase, decision: int) -> None:
        """Write every team's action."""
        count, width = self.env.num_envs, layout.action_width(self.env.config.comm_dim)
        drawn = noise.normal(self.seeds, decision, noise.Stream.ACTION, 2 * self.mechs * width)
        telemetry = now.get("telemetry")
        seen = BatchObservation(
            streams={name: torch.cat([now.get((group, "observation", name)) for group in GROUPS]) for name in STREAMS},
            mask=torch.cat([now.get((group, "mask")) for group in GROUPS]),
            telemetry=torch.cat((telemetry, telemetry)),
            noise=torch.cat(drawn.view(count, 2 * self.mechs, width).split(self.mechs, 1)),
        )
        action = torch.zeros_like(seen.noise)
        for decider in self.deciders:
            action[decider.rows] = decider.decide(seen)
        for group, own in zip(GROUPS, action.split(count), strict=True):
            now.set((group, "action"), own)


def first_outcomes(env: EchelonEnv, decide: Callable[[TensorDictBase, int], object], count: int) -> TensorDictBase:
    """Play until every battle has ended once; battles that ended go on unnoticed, so that no shape changes.

    Args:
        decide: writes every team's action into what it observes, at the decision of this number.
        count: how many of the first battles matter.

    Returns:
        `[count]` the `outcome` of the environment, and `state_hash [count, 1]` int64 of the final states.
    """
    now = env.reset()
    running = torch.arange(env.num_envs, device=env.device) < count
    hashes = torch.zeros((env.num_envs, 1), dtype=torch.int64, device=env.device)
    outcome: TensorDictBase | None = None
    for decision in range(env.config.rules.max_decisions):
        decide(now, decision)
        played = env.step(now)
        news, ends = played.get(("next", "outcome")), played.get(("next", "done"))[:, 0] & running
        hashes = torch.where(ends[:, None], hashes_of(env.state, ends), hashes)
        outcome = news.clone() if outcome is None else news.where(ends, outcome)
        running = running & ~ends
        if decision % LOOK_EVERY == LOOK_EVERY - 1 and not bool(running.any()):
            break
        now = env.maybe_reset(env.step_mdp(played))
    assert outcome is not None
    return outcome.set("state_hash", hashes)[:count]


def hashes_of(state: State, which: Tensor) -> Tensor:
    """`[B, 1]` hashes of the states of the battles `which [B]`; those of others mean nothing."""
    if which.device.type != "cpu":
        return state_hash(state)[:, None]
    rows = which.nonzero()[:, 0]
    found = torch.zeros(len(which), dtype=torch.int64)
    if len(rows) > 0:
        found[rows] = state_hash(state[rows])
    return found[:, None]


def require_ready(name: str, policy: TeamPolicy, env: EchelonEnv) -> None:
    """Refuse a policy that would learn from its match, or that could not read what it observes."""
    if not isinstance(policy, nn.Module):
        return
    if policy.training and not isinstance(policy, Heuristic):
        raise ConfigError(f"{name}: must be in evaluation mode for a match, got training mode: call .eval()")
    allowed = {env.device.type}
    if type(policy) is ActorCritic:
        comm_dim = env.config.comm_dim
        require(policy.comm_dim == comm_dim, f"{name}: comm_dim", f"{comm_dim} for this battle", policy.comm_dim)
        # Its weights are copied to the battles' device.
        allowed.add("cpu")
    for leaf in (*policy.parameters(), *policy.buffers()):
        require(leaf.device.type in allowed, f"{name}: device", f"{env.device}, as of its battles", str(leaf.device))


def results_of(outcome: TensorDictBase) -> list[BattleResult]:
    """What `first_outcomes` returned, on the host."""
    host = {name: value.tolist() for name, value in outcome.items()}
    return [
        BattleResult(
            winner=Winner(host["winner"][b][0]),
            reason=Reason(host["reason"][b][0]),
            score=host["score"][b],
            decisions=host["decisions"][b][0],
            stats=host["stats"][b],
            state_hash=f"{host['state_hash'][b][0] & (1 << 64) - 1:016x}",
        )
        for b in range(len(outcome))
    ]
