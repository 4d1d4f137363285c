"""Step the battles of a collector or a match: with normal calls, or in fixed buffers for a CUDA graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.areas import has_areas
from echelon.env.blocks import no_grad_outside_inference_mode
from echelon.env.decision import DecisionResult
from echelon.env.env import EchelonEnv
from echelon.env.leaves import Leaves, Shown, leaves_from, nested
from echelon.env.loops.rows import rows_where
from echelon.env.observation.layout import STREAMS
from echelon.env.outcome import Winner
from echelon.env.restart import (
    NextMemory,
    Selection,
    StaticBuffers,
    cleared,
    replace_rows,
    reset_rows,
    restore_ground,
)
from echelon.env.specs import DONE_KEYS
from echelon.runtime.cuda_graphs import is_same
from echelon.runtime.profiling import part
from echelon.state import State, leaves_of, with_leaves

TELEMETRY, IS_INIT = "telemetry", "is_init"


def is_memory(key: tuple[str, ...]) -> bool:
    """Return whether a key is a policy's memory."""
    return key[1:2] == ("memory",)


class CalledBattles:
    """Battles stepped with normal calls, which return new tensors as `EchelonEnv.step` and `maybe_reset` do, but in a
    flat dict.

    After a decision in numba loops on a CPU, a restart writes new battles into their rows of the decision's output.

    Args:
        env: the environment. The environment's last observation is computed from this object.
        current: input of the next decision, as `step_and_maybe_reset` returns it.
    """

    are_in_place = False

    def __init__(self, env: EchelonEnv, current: TensorDictBase) -> None:
        self.env = env
        kept = (TELEMETRY, IS_INIT)
        self.leaves: Leaves = {
            key: leaf
            for key, leaf in leaves_from(current).items()
            if (key[0] in env.teams and key[1] in ("observation", "mask", "memory")) or key[0] in kept
        }
        """Input of the next decision: streams, masks and memories of both groups, `telemetry`, `is_init`."""
        with no_grad_outside_inference_mode():
            # Clone these entries, because every decision overwrites them in place.
            self.telemetry = self.leaves[TELEMETRY,].clone()
            self.memories = {key: leaf.clone() for key, leaf in self.leaves.items() if is_memory(key)}
        self.leaves |= self.memories | {(TELEMETRY,): self.telemetry}
        self._shown: TensorDictBase | None = current
        self._last: DecisionResult | None = None

    @property
    def current(self) -> TensorDictBase:
        """The entries in `leaves` as a TensorDict, in the form that `step_and_maybe_reset` returns."""
        if self._shown is None:
            self._shown = self._as_tensordict()
        return self._shown

    def step(self, decided: Shown) -> Leaves:
        """Play a decision. Return the changed entries of `next`, valid until `restart`.

        Args:
            decided: contains the actions of both groups.
        """
        self._last = self.env.play(decided)
        return self.env.shown_after(self._last)

    def tensordict_after(self, decided: Shown) -> TensorDictBase:
        """Return the `next` entry that `EchelonEnv.step` would return for the last `step`, with the memories in
        `decided`."""
        assert self._last is not None
        return self.env.tensordict_after(self._last, decided)

    def ended(self, after: Leaves) -> Tensor | None:
        """Return the rows of the battles that ended, `[R]` int64; None if the host may not read them."""
        return rows_where(after["done",][:, 0]) if self.env.may_read_host else None

    def restart(self, after: Leaves, remembered: Sequence[NextMemory], ended: Tensor | None = None) -> None:
        """Restart ended battles; all others continue.

        Args:
            after: result of `step`.
            remembered: next memories of policies; restarted battles get zeros.
            ended: result of `ended`.
        """
        assert self._last is not None
        env, result, done = self.env, self._last, after["done",]
        streams = dict(result.streams)
        with part("restart"), no_grad_outside_inference_mode():
            for key, start, value in remembered:
                self.leaves[key][start : start + len(value)] = value
            if ended is None:
                self._restart_selected(Selection(done[:, 0]), streams)
            elif len(ended) and env.engine.last_ran_loops and not has_areas(env.sim_model.maps):
                shown = {name: streams[name] for name in env.stream_names} | {TELEMETRY: self.telemetry}
                env.next_seed, env.state = reset_rows(ended, env.next_seed, env.state, shown, *env._map_source)
            elif len(ended):
                self._restart_selected(Selection(rows=ended), streams)
            for memory in self.memories.values():
                if ended is None:
                    memory.copy_(cleared(memory, done[:, 0]))
                elif len(ended):
                    memory.index_fill_(0, ended, 0)
        self.leaves = self._observed(streams) | {(TELEMETRY,): self.telemetry, (IS_INIT,): done} | self.memories
        self._shown = None
        env.cache_observation_lazily(self._as_tensordict)

    def _restart_selected(self, selection: Selection, streams: dict[str, Tensor]) -> None:
        """Restart the selected battles; replace `streams` and `telemetry`."""
        env = self.env
        leaves = self._observed(streams) | {(TELEMETRY,): self.telemetry}
        restarted = env.engine.restart(selection, env.next_seed, env.state, leaves, *env._map_source)
        env.next_seed, env.state = restarted.next_seed, restarted.state
        for name in env.stream_names:
            streams[name] = torch.cat([restarted.leaves[group, "observation", name] for group in env.teams], 1)
        self.telemetry = restarted.leaves[TELEMETRY,]

    def _observed(self, streams: Mapping[str, Tensor]) -> Leaves:
        """Return streams and masks of both groups."""
        env, alive = self.env, self.env.state.mechs.alive
        observed: Leaves = {}
        for group, span in env.teams.items():
            for name in env.stream_names:
                observed[group, "observation", name] = streams[name][:, span]
            observed[group, "mask"] = alive[:, span]
        return observed

    def _as_tensordict(self) -> TensorDict:
        """Return `leaves` as a tensordict, with rewards, done flags and commanders' observations after a restart."""
        assert self._last is not None
        env, done = self.env, self.leaves[IS_INIT,]
        leaves = dict(self.leaves)
        if env.info:
            for group, span in env.teams.items():
                leaves[group, "reward_terms"] = cleared(self._last.reward_terms[:, span], done[:, 0])
            blank = {name: cleared(value, done[:, 0]) for name, value in self._last.outcome.items()}
            blank["winner"] = torch.where(done, int(Winner.RUNNING), self._last.outcome["winner"])
            leaves |= {("outcome", name): value for name, value in blank.items()}
        leaves |= {(name,): torch.zeros_like(done) for name in DONE_KEYS}
        if env.command_map:
            leaves |= env.engine.command_view(env.state, env.sim_model)
        return nested(leaves, env.batch_size, env.device, env.group_sizes)


class StaticBattles:
    """State, next seeds and last observation of an environment, in fixed buffers that are written in place.

    `EchelonEnv.step` and a restart return new tensors. Here, a decision writes observations directly into the buffers
    that the next decision reads, and a restart overwrites the observations of new battles in these buffers. Terrain,
    which a step changes in place, keeps its buffers.

    Args:
        env: the environment, which refers to these buffers from now on.
        current: input of the next decision, as `step_and_maybe_reset` returns it.
    """

    def __init__(self, env: EchelonEnv, current: TensorDictBase) -> None:
        self.env, self.groups = env, list(env.teams)
        self._last: DecisionResult | None = None
        with no_grad_outside_inference_mode():
            leaves = {name: leaf.clone() for name, leaf in leaves_of(env.state).items()}
            self.state = with_leaves(env.state, leaves)
            self.next_seed = env.next_seed.clone()
            self.current = current.clone()
            self.streams = {name: self._join_groups(name) for name in STREAMS}
        """Streams of all mechs, `[B, N, ...]` each; the groups' observations are views of them."""
        keys = [key if isinstance(key, tuple) else (key,) for key in self.current.keys(True, True)]
        rest = [key for key in keys if "observation" not in key and key[0] not in (*DONE_KEYS, "is_init")]
        self.buffers = StaticBuffers(
            next_seed=self.next_seed,
            state=self.state,
            leaves={key: self.current.get(key) for key in rest if "memory" not in key},
            is_init=self.current.get("is_init"),
            memories={key: self.current.get(key) for key in rest if "memory" in key},
        )
        self._return()

    def _join_groups(self, name: str) -> Tensor:
        """Concatenate the groups' observations to `[B, N, ...]`, and make each group's observation a view of it."""
        keys = [(group, "observation", name) for group in self.groups]
        stream = torch.cat([self.current.get(key) for key in keys], 1)
        for key, span in zip(keys, self.env.teams.values(), strict=True):
            self.current.set(key, stream[:, span])
        return stream

    def _return(self) -> None:
        """Make the environment refer to these buffers again."""
        self.env.state, self.env.next_seed = self.state, self.next_seed
        self.env.cache_observation(self.current)

    @property
    def are_in_place(self) -> bool:
        """Whether the environment still refers to these buffers; a restored state or a full reset would have
        replaced the buffers."""
        return self.env.state is self.state and self.env.next_seed is self.next_seed

    @property
    def leaves(self) -> Leaves:
        """The entries of `current` as a flat dict by key."""
        return leaves_from(self.current)

    def step(self, decided: Shown) -> Leaves:
        """Play a decision, as in `CalledBattles`. Observations are overwritten in place.

        All other entries of `current` change only in `restart`.
        """
        self.env.stream_buffers = self.streams
        try:
            self._last = self.env.play(decided)
        finally:
            self.env.stream_buffers = None
        return self.env.shown_after(self._last)

    def tensordict_after(self, decided: Shown) -> TensorDictBase:
        """Return the `next` entry, as `CalledBattles.tensordict_after` does."""
        assert self._last is not None
        return self.env.tensordict_after(self._last, decided)

    def ended(self, after: Leaves) -> None:
        """Return None, because a captured decision is not read on the host."""

    def restart(
        self, after: Leaves, remembered: Sequence[NextMemory] | None = None, ended: Tensor | None = None
    ) -> None:
        """Restart ended battles; all others continue from the result of `step`.

        Args:
            after, ended: as in `CalledBattles`.
            remembered: next memories of policies, by default the current memories; restarted battles get zeros.
        """
        env, mask = self.env, after["done",][:, 0]
        if remembered is None:
            remembered = [NextMemory(key, 0, memory) for key, memory in self.buffers.memories.items()]
        changed = after | (env.engine.command_view(env.state, env.sim_model) if env.command_map else {})
        following = {key: changed.get(key, buffer) for key, buffer in self.buffers.leaves.items()}
        with no_grad_outside_inference_mode():
            env.engine.reset_into_buffers(mask, self._played(), following, remembered, self.buffers, *env._map_source)
            restore_ground(self.state.terrain, mask, self.state.map_id, env.sim_model.maps)
            self._write_initial_observations(mask, env.map_pool.initial_observations)
        # Keep no reference to the decision's tensors, because a CUDA graph reuses their memory.
        self._last = None
        self._return()

    def _played(self) -> State:
        """Return the state after the step; leaves that the step did not change are the buffers themselves."""
        old, state = leaves_of(self.state), self.env.state
        leaves = {name: old[name] if is_same(old[name], new) else new for name, new in leaves_of(state).items()}
        return with_leaves(state, leaves)

    def _write_initial_observations(self, which: Tensor, initial_observations: Mapping[str, Tensor]) -> None:
        """Write the initial observations of restarted battles."""
        rows: Tensor | None = self.state.map_id
        if has_areas(self.env.sim_model.maps):
            opened, initial_observations = self.env.engine.initial_observation(self.state)
            replace_rows(which, None, [self.state.focus_slots], [opened.focus_slots])
            rows = None
        replace_rows(which, rows, list(self.streams.values()), [initial_observations[name] for name in STREAMS])
