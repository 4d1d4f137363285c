"""Collects rollouts of T decisions into preallocated buffers."""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from echelon.agents.env_teams import TELEMETRY
from echelon.env.arguments import whole_within
from echelon.env.blocks import one_thread
from echelon.env.env import EchelonEnv
from echelon.env.leaves import Leaves, leaves_from, nested
from echelon.env.loops.rows import rows_where
from echelon.env.observation.layout import GROUPS
from echelon.env.outcome import stat_names
from echelon.env.static_battles import CalledBattles, StaticBattles
from echelon.learn.config import DECISIONS
from echelon.learn.models.actor_critic import ActorCritic, Operator
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.learn.opponents.assignment import LEARNER, PolicyAssignment
from echelon.learn.padding import EXISTS, team_mean
from echelon.learn.ppo.episode_stats import EpisodeStats, split_terms
from echelon.learn.ppo.learner_views import FinalViews, LearnerViews
from echelon.runtime import noise
from echelon.runtime.compile import fused_on_gpu
from echelon.runtime.cuda_graphs import GraphedFunction
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits
from echelon.runtime.noise import Stream
from echelon.runtime.profiling import Stopwatch, part
from echelon.state import State

with warnings.catch_warnings():
    # When imported, TorchRL warns about its own deprecated classes, which this package does not use.
    warnings.filterwarnings("ignore", r"Creating \w+ which inherits from WeightUpdaterBase is", DeprecationWarning)
    from torchrl.collectors import BaseCollector

logger = logging.getLogger(__name__)
FLAGS = ("done", "terminated", "truncated")
DECIDED = ("mask", "pre_tanh", "pre_tanh_log_prob")
"""Entries of a learner decision that are stored in addition to its view and values."""
OnDecision = Callable[[Tensor, State, TensorDictBase], None]


class TeamCollector(BaseCollector):
    """Steps the environment with the policies of a `PolicyAssignment` and yields the learner's data.

    Each batch `[G, T]` holds T decisions of the G teams commanded by the learner, A mechs each; its last dimension is
    named time. The entries are `("observation", stream) [G, T, A, *]`, `telemetry`, `mask [G, T, A]`, `is_init [G, T,
    1]`, `pre_tanh`, `pre_tanh_log_prob [G, T, A]`, `state_value` and `state_value_normalized` `[G, T, A, 1]`, and for a
    central critic `enemy`. The entries under `next` are `reward` and `state_value` `[G, T, A, 1]`, and `done`,
    `terminated` and `truncated` `[G, T, 1]`. `memory [G, T / chunk]` is the recurrent memory at the start of each
    training sequence. If the learner's teams differ in size, A is the larger size, the other teams are padded, and
    `exists [G, T, A]` is False for padding (`echelon.learn.padding`). Streams have the dtype of the forward pass. A
    batch is a view of buffers and valid until the next batch; use the same view for advantages and learning.

    TorchRL's `Collector` stores both groups, every step's memory and every observation twice. This collector stores
    each observation once (`as_team_batch` converts TorchRL's batches). The value of a next state is the stored value of
    the following decision. Truncated battles and the rollout's last step have no following decision, so their final
    observations are stored separately and evaluated after the rollout.

    Args:
        env: the environment; the collector resets it.
        assignment: the policies; the learner's policy must be an `ActorCritic`.
        decisions: length T of a rollout.
        chunk: length of a training sequence, a divisor of `decisions`.
        normalizer: converts the critic's values to real units; None if they are in real units.
        total_frames: agent-steps after which the iterator ends; -1 for never.
        cuda_graph: whether one decision, acting included, is captured as a CUDA graph and replayed. With a graph, all
            tensors are updated in place; on a CPU the same code runs without a graph. Reward terms and policies must be
            pure tensor functions; see `echelon.views.group_policy` for custom policies.
    """

    def __init__(
        self,
        env: EchelonEnv,
        assignment: PolicyAssignment,
        decisions: int,
        chunk: int,
        normalizer: ValueNorm | None = None,
        total_frames: int = -1,
        cuda_graph: bool = False,
    ) -> None:
        super().__init__()
        decisions = whole_within("decisions", decisions, DECISIONS)
        chunk, limit = whole_within("chunk", chunk, DECISIONS), f"a divisor of decisions ({decisions})"
        require(decisions % chunk == 0, "chunk", limit, chunk)
        total_frames = whole_within("total_frames", total_frames, Limits(-1, 2**63 - 1))
        self.env = env
        self.assignment = assignment
        self.decisions = decisions
        self.chunk = chunk
        learner = assignment.policies[LEARNER]
        assert isinstance(learner, ActorCritic)
        self.policy = learner
        self.value_head = learner.get_value_head(normalizer=normalizer)
        self.scale = torch.ones(len(env.reward_terms), dtype=torch.float32, device=env.device)
        """`[K]` factor on each reward term, set by schedules."""
        self.mix = torch.ones((), dtype=torch.float32, device=env.device)
        """`[]` factor on `RewardConfig.team_mix_alpha`, set by a schedule."""
        self.watch = Stopwatch(env.device)
        self.battles: CalledBattles | StaticBattles = CalledBattles(env, env.reset())
        stagger_episode_starts(env)
        padding = assignment.exists(self.battles.leaves)
        self.has_absent = bool((env.sim_model.maps.spawn_hp == 0).any())
        """Whether mechs are absent in some battles."""
        self.exists = padding
        """`[G, A]` bool, False for padding and for mechs that are absent in the current battle; None if there are
        neither."""
        self.views = LearnerViews(assignment, learner, self.value_head, padding, env.device)
        teams = sum(battles.stop - battles.start for _, battles in assignment.teams[LEARNER])
        self._make_counts(teams)
        self.on_decision: list[OnDecision] = []
        """Functions called after each decision with its index in the rollout `[1]`, the state, and the entries under
        `next`. They are captured with the decision: add them before the first rollout, update tensors in place, and
        copy none to the host."""
        # An observer runs on the host after each decision, which a CUDA graph does not allow.
        self.cuda_graph = cuda_graph and env.observer is None
        if self.cuda_graph != cuda_graph:
            logger.warning("collecting without a CUDA graph: the environment has an observer")
        self.total_frames = total_frames
        self.frames_per_batch = self.requested_frames_per_batch = decisions * assignment.num_mechs(self.battles.leaves)
        self._frames = 0

    def _make_counts(self, teams: int) -> None:
        """Allocate the counters of a rollout with `teams` learner teams; the first decision allocates the buffers."""
        env, rules = self.env, self.env.config.rules
        self.earned = torch.zeros(teams, len(env.reward_terms), dtype=torch.float32, device=env.device)
        # Upper bound on the number of times that a battle can be truncated in one rollout
        limits_s = [position.limit_s(rules) for position in env.config.positions] or [rules.max_episode_s]
        shortest = rules.decisions(min(limits_s))
        self.last_views = 0 if rules.time_up_terminates else (self.decisions - 1) // shortest + 1
        self.final_views: FinalViews | None = None
        """Final views of truncated battles; None if no battle can be truncated, and before the first decision."""
        self.buffer: TensorDict | None = None
        """`[T, G]` the rollout, time first."""
        self._rows: list[Leaves] | None = None
        """Views of the rollout per step, if the host knows the step; None on a GPU, and before the first decision."""
        self._row: Leaves | None = None
        """Element of `_rows` for the current decision."""
        self.memory = TensorDict({}, [teams, self.decisions // self.chunk])
        counts = len(env.reward_terms), len(stat_names(env.config.catalog)), len(env.extra_rewards)
        self.ended = EpisodeStats(env.device, self.assignment, *counts, by_side=env.config.is_unequal)
        self.at = torch.zeros(1, dtype=torch.int64, device=env.device)
        """`[1]` number of decisions so far in this rollout, as a tensor for CUDA graphs."""
        self._write_step = fused_on_gpu(write_step, env.device)

    # TorchRL's interface

    def iterator(self) -> Iterator[TensorDictBase]:
        """Yield rollouts until `total_frames` agent-steps are collected."""
        while self.total_frames < 0 or self._frames < self.total_frames:
            yield self.collect()

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Do nothing: the environment runs in this process."""

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Seed the battles; see `EchelonEnv`."""
        return self.env.set_seed(seed, static_seed) or seed

    def _maybe_fallback_update(self, policy_or_weights: Any = None, *, model_id: str | None = None) -> None:
        """Copy weights into the learner; without weights do nothing, because the learner's parameters are current."""
        source = policy_or_weights.policy if isinstance(policy_or_weights, Operator) else policy_or_weights
        if source is None or source is self.policy:
            return
        weights = TensorDict.from_module(source) if isinstance(source, nn.Module) else source
        TensorDict.from_module(self.policy).data.update_(weights.data)

    def state_dict(self) -> OrderedDict[str, Any]:
        """Return the agent-steps so far; `EnvSnapshot` saves the battles."""
        return OrderedDict(frames=self._frames)

    def load_state_dict(self, state_dict: OrderedDict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        self._frames = state_dict["frames"]

    @torch.inference_mode()
    def collect(self) -> TensorDictBase:
        """Continue all battles for T decisions and return the batch."""
        # CPU threads split the battles; the remaining torch operations are too small for several threads.
        with one_thread(self.env.device):
            return self._collect()

    def _collect(self) -> TensorDictBase:
        """Like `collect`, but without changing the number of threads."""
        self._begin_rollout()
        self.assignment.threads = 1 if self.cuda_graph else self.env.engine.blocks.threads
        for t in range(self.decisions):
            begins_chunk = t % self.chunk == 0
            memory = self.assignment.memory_rows(self.battles.leaves) if begins_chunk else {}
            if self.cuda_graph:
                self._graphed(self.assignment.graph_key())
            else:
                self._row = None if self._rows is None else self._rows[t]
                self._decide()
            for key, leaf in memory.items():
                self._memory_buffer.get(key)[t // self.chunk].copy_(leaf)
        assert self.buffer is not None
        self._bootstrap_values()
        self.watch.lap("collect" if self.cuda_graph else "act")
        self._frames += self.frames_per_batch
        batch = self.buffer.transpose(0, 1)
        batch.names = [None, "time"]
        return batch

    @property
    def current(self) -> TensorDictBase:
        """Inputs of the next decision, batch `[B]`."""
        return self.battles.current

    def resume_from(self, entries: Leaves) -> None:
        """Use these entries of `current` for the next decision, after the environment's battles were replaced."""
        current = self.current.copy()
        for key, leaf in entries.items():
            current.set(key, leaf)
        self.battles = CalledBattles(self.env, current)

    @property
    def episode_stats(self) -> dict[str, Tensor]:
        """Sums over the battles that ended in the last rollout, see `EpisodeStats`; valid until the next rollout."""
        return self.ended.sums

    def nonfinite_terms(self) -> Tensor:
        """Return 1 for each reward term that was NaN or infinite in the last rollout, else 0; `[K]`."""
        is_finite = self.earned.isfinite().all(0) & self.ended.sums["returns"].isfinite()
        return 1 - is_finite.float()

    def _begin_rollout(self) -> None:
        """Clear the counters of the last rollout; for a CUDA graph, move the battles into static tensors."""
        self.ended.clear()
        self.at.zero_()
        if self.final_views is not None:
            self.final_views.clear()
        if self.cuda_graph and not self.battles.are_in_place:
            self.battles = StaticBattles(self.env, self.current)
            self._graphed = GraphedFunction(self._decide, self.env.device, "collecting")

    def _decide(self) -> None:
        """Compute one decision of all battles and write it to the rollout as step `at`."""
        shown, battles, row = self.battles.leaves, self.battles, self._row
        if self.has_absent:
            present = self.env.sim_model.maps.spawn_hp[self.env.state.map_id] > 0
            self.exists = self.assignment.mech_rows({g: present[:, span] for g, span in self.env.teams.items()})
        with part("act"):
            view = None
            if row is not None:
                view = self.views.written(shown, row)
            elif self.cuda_graph and self.views.can_reduce:
                view = self.views.reduced(shown)
            decision = self.assignment.decided(shown, view)
            enemy = self.views.enemy(shown)
            values = self.views.values(decision.first, enemy)
        # Read the observation before the step, which may overwrite it. Writing to existing buffers also casts it.
        step = self.views.of(decision.first, enemy, casts=self.buffer is None)
        self._lap("act")
        after = battles.step(shown | decision.actions)
        self._lap("env")
        reward_terms, ended = self._reward_terms(after), battles.ended(after)
        self._write(step, shown, decision.first, values, self._reward(reward_terms), after)
        if self.final_views is not None:
            self._keep_final_views(shown | after, decision.first, ended)
        self._count(shown, after, reward_terms, ended)
        if self.on_decision:
            told = battles.tensordict_after(shown)
            for call in self.on_decision:
                call(self.at, self.env.state, told)
        self.at += 1
        battles.restart(after, decision.memories, ended)

    def _lap(self, name: str) -> None:
        """Add the time since the stopwatch's last lap to `name`; do nothing if decisions are captured as a CUDA
        graph.
        """
        if not self.cuda_graph:
            self.watch.lap(name)

    def _keep_final_views(self, shown: Leaves, decided: TensorDictBase, ended: Tensor | None) -> None:
        """Store the views (network inputs) of the final states of truncated battles; `ended` lists all battles that
        ended, if the host knows them.
        """
        assert self.final_views is not None
        truncated = self.assignment.each_team(shown["truncated",])[:, 0]
        if ended is None:
            self.final_views.store(truncated, self.views.pieces(shown, decided))
        elif len(ended) and len(teams := rows_where(truncated)):
            self.final_views.store_rows(teams, self.views.pieces(shown, decided))

    def _reward_terms(self, after: Leaves) -> Tensor:
        """Return the reward terms `[G, A, K]`, multiplied by the scheduled factors.

        The environment already mixes each term with its team mean by `team_mix_alpha`; mixing a second time multiplies
        the two fractions.
        """
        terms = self.assignment.mech_rows({group: after[group, "reward_terms"] for group in GROUPS}) * self.scale
        return torch.lerp(team_mean(terms, self.exists).expand_as(terms), terms, self.mix)

    def _reward(self, reward_terms: Tensor) -> Tensor:
        """Add up the reward terms `[G, A, K]`; return `[G, A]`."""
        builtin, extra = split_terms(reward_terms, len(self.env.extra_rewards))
        return builtin.sum(-1) + extra.sum(-1)

    def _write(
        self, step: Leaves, shown: Leaves, decided: TensorDictBase, values: Leaves, reward: Tensor, after: Leaves
    ) -> None:
        """Add all other entries of a decision to `step`, which holds the network inputs, and write `step` to the
        rollout.
        """
        step |= {(name,): decided.get(name) for name in DECIDED}
        step |= values | {("next", name): self.assignment.each_team(after[name,]) for name in FLAGS}
        step["is_init",] = self.assignment.each_team(shown["is_init",])
        step["next", "reward"] = reward[..., None]
        if self.exists is not None:
            step[EXISTS,] = self.exists
        if self._row is not None:
            for key, leaf in step.items():
                place = self._row[key]
                if leaf.data_ptr() != place.data_ptr():
                    place.copy_(leaf)
            return
        step["next", "state_value"] = torch.zeros_like(values["state_value",])
        if self.buffer is None:
            self._allocate(step, decided)
        assert self.buffer is not None
        self._write_step(self.at, list(step.values()), [self.buffer.get(key) for key in step])

    def _bootstrap_values(self) -> None:
        """Write `next.state_value`, which is the value of the following decision, or of the stored final view of a
        truncated battle.
        """
        assert self.buffer is not None
        following, value = self.buffer.get(("next", "state_value")), self.buffer.get("state_value")
        following[:-1] = value[1:]
        views, shown = self.views, self.battles.leaves
        last = views.of(self.assignment.view(shown, LEARNER), views.enemy(shown))
        last |= {("memory", *key): leaf for key, leaf in self.assignment.memory_rows(shown).items()}
        following[-1] = views.value_of(self._nested(last))
        if self.final_views is None:
            return
        truncated = self.buffer.get(("next", "truncated"))
        index = truncated.cumsum(0) - 1
        for slot, stored in enumerate(self.final_views.views.unbind(0)):
            is_stored = truncated & (index == slot)
            following.copy_(torch.where(is_stored[..., None], self.views.value_of(stored), following))

    def _count(self, shown: Leaves, after: Leaves, reward_terms: Tensor, ended: Tensor | None) -> None:
        """Add the battles that ended to the sums; do nothing if the host knows that no battle ended."""
        by_origin = split_terms(reward_terms, len(self.env.extra_rewards))
        self.earned += torch.cat([team_mean(terms, self.exists)[:, 0] for terms in by_origin], -1)
        if ended is not None and not len(ended):
            return
        done = self.assignment.each_team(after["done",])
        self.ended.count(shown, after, torch.where(done, self.earned, 0.0))
        self.earned.copy_(torch.where(done, 0.0, self.earned))

    def _nested(self, leaves: Leaves) -> TensorDict:
        """Return a TensorDict of `leaves [G, ...]`."""
        return nested(leaves, torch.Size([len(next(iter(leaves.values())))]), self.env.device)

    def _allocate(self, step: Leaves, decided: TensorDictBase) -> None:
        """Allocate buffers shaped like the first step. The buffers must not be inference tensors, which cannot enter
        autograd.
        """
        with torch.inference_mode(False):

            def empty(times: int, like: TensorDictBase) -> TensorDict:
                def make(leaf: Tensor) -> Tensor:
                    return torch.zeros((times, *leaf.shape), dtype=leaf.dtype, device=leaf.device)

                return like.apply(make, batch_size=[times, *like.batch_size])

            self.buffer = empty(self.decisions, self._nested(step))
            memory: Leaves = {(name,): decided.get(("memory", name)) for name in self.policy.keys.memory}
            made = nested(memory, torch.Size([len(step[TELEMETRY,])]), self.env.device)
            self._memory_buffer = empty(self.decisions // self.chunk, made)
            self.memory = self._memory_buffer.transpose(0, 1)
            if self.last_views > 0:
                view = {key: leaf for key, leaf in step.items() if key[0] in ("observation", TELEMETRY, "enemy")}
                view |= {("memory", *key): leaf for key, leaf in memory.items()}
                self.final_views = FinalViews(empty(self.last_views, self._nested(view)))
            if self.env.device.type == "cpu" and not self.cuda_graph:
                places = {key: leaf.unbind(0) for key, leaf in leaves_from(self.buffer).items()}
                self._rows = [{key: leaf[t] for key, leaf in places.items()} for t in range(self.decisions)]


def write_step(at: Tensor, leaves: Sequence[Tensor], buffers: Sequence[Tensor]) -> None:
    """Write `leaves [G, ...]` in place as step `at [1]` int64 of `buffers [T, G, ...]`, cast to their dtypes."""
    for leaf, buffer in zip(leaves, buffers, strict=True):
        buffer.index_copy_(0, at, leaf.to(buffer.dtype)[None])


def stagger_episode_starts(env: EchelonEnv) -> None:
    """Start the first battles part-way, so that they do not all end together.

    Synchronous battles would show the learner one phase of the game at a time, and the critic would forget the other
    phases. The clock and both scores of each battle advance by the same random fraction of their limits. The first
    observation still shows the clock and the scores as zero.
    """
    rules, state = env.config.rules, env.state
    share = noise.uniform(state.seed, 0, Stream.STAGGER, 1)[:, 0]
    decisions = (share * (env.sim_model.maps.last_tick[state.map_id] / rules.decision_repeat)).long()
    env.state = state.replace(
        tick=decisions * rules.decision_repeat,
        score=(share * rules.zone_score_to_win_s)[:, None].expand_as(state.score).clone(),
    )
