"""Battles that a collector steps: by calls, or in tensors that stay where they are, for a CUDA graph of a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.env.areas import has_areas
from echelon.env.blocks import no_grad_outside_inference_mode
from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import STREAMS
from echelon.env.restart import NextMemory, StaticBuffers, replace_rows, restore_ground
from echelon.env.specs import DONE_KEYS
from echelon.runtime.cuda_graphs import is_same
from echelon.state import State, leaves_of, with_leaves


class CalledBattles:
    """Battles whose tensors are new after each decision.

    Args:
        current: what the next decision is made from, as `step_and_maybe_reset` returns it.
    """

    are_in_place = False

    def __init__(self, env: EchelonEnv, current: TensorDictBase) -> None:
        self.env, self.current = env, current

    def step(self, decided: TensorDictBase) -> TensorDictBase:
        """`env.step_and_maybe_reset`, whose second result is shown after `restart`; returns what is under `next`."""
        result, self._following = self.env.step_and_maybe_reset(decided)
        return result.get("next")

    def restart(self, after: TensorDictBase, remembered: Sequence[NextMemory] | None = None) -> None:
        """Show what the next decision is made from; arguments as of `StaticBattles`."""
        self.current = self._following


class StaticBattles:
    """State, next seeds and last observation of an environment, in tensors of their own that are written in place.

    `EchelonEnv.step` returns tensors that nobody overwrites, and a restart others. Here observations are written once,
    to where the next decision reads them; those of battles that begin anew are replaced there. The terrain, which a
    step changes in place, stays where it is.

    Args:
        env: the environment, which from now on refers to these tensors.
        current: what the next decision is made from, as `step_and_maybe_reset` returns it.
    """

    def __init__(self, env: EchelonEnv, current: TensorDictBase) -> None:
        self.env, self.groups = env, list(env.teams)
        with no_grad_outside_inference_mode():
            leaves = {name: leaf.clone() for name, leaf in leaves_of(env.state).items()}
            self.state = with_leaves(env.state, leaves)
            self.next_seed = env.next_seed.clone()
            self.current = current.clone()
            self.streams = {name: self._joined(name) for name in STREAMS}
        """Streams of all mechs, `[B, N, ...]` each, of which those of the groups are parts."""
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

    def _joined(self, name: str) -> Tensor:
        """`[B, N, ...]` a stream of all mechs; what is shown to the groups become parts of it."""
        keys = [(group, "observation", name) for group in self.groups]
        stream = torch.cat([self.current.get(key) for key in keys], 1)
        for key, span in zip(keys, self.env.teams.values(), strict=True):
            self.current.set(key, stream[:, span])
        return stream

    def _return(self) -> None:
        """Let the environment refer to the tensors again."""
        self.env.state, self.env.next_seed = self.state, self.next_seed
        self.env.show(self.current)

    @property
    def are_in_place(self) -> bool:
        """Whether the environment still refers to these tensors: who restored or reset battles put others there."""
        return self.env.state is self.state and self.env.next_seed is self.next_seed

    def step(self, decided: TensorDictBase) -> TensorDictBase:
        """`env.step`, whose observations overwrite those that are shown; returns what is under `next`.

        Until `restart` nothing else that is shown has changed.
        """
        self.env.stream_buffers = self.streams
        try:
            return self.env.step(decided).get("next")
        finally:
            self.env.stream_buffers = None

    def restart(self, after: TensorDictBase, remembered: Sequence[NextMemory] | None = None) -> None:
        """Let battles begin anew where they ended, and all others go on from what `step` returned.

        Args:
            after: what `step` returned.
            remembered: what policies remember next, by default what `after` has; battles that begin forget it.
        """
        env, mask = self.env, after.get("done")[:, 0]
        if remembered is None:
            remembered = [NextMemory(key, 0, after.get(key)) for key in self.buffers.memories]
        following = {key: after.get(key) for key in self.buffers.leaves}
        with no_grad_outside_inference_mode():
            env.engine.begin_into_buffers(mask, self._played(), following, remembered, self.buffers, *env._map_source)
            restore_ground(self.state.terrain, mask, self.state.map_id, env.game.maps)
            self._show_openings(mask, env.map_pool.initial_observations)
        self._return()

    def _played(self) -> State:
        """The state that the step left behind; where that has not changed, the same tensors."""
        old, state = leaves_of(self.state), self.env.state
        leaves = {name: old[name] if is_same(old[name], new) else new for name, new in leaves_of(state).items()}
        return with_leaves(state, leaves)

    def _show_openings(self, which: Tensor, initial_observations: Mapping[str, Tensor]) -> None:
        """Show the first observations of battles that began."""
        rows: Tensor | None = self.state.map_id
        if has_areas(self.env.game.maps):
            opened, initial_observations = self.env.engine.initial_observation(self.state)
            replace_rows(which, None, [self.state.focus_slots], [opened.focus_slots])
            rows = None
        replace_rows(which, rows, list(self.streams.values()), [initial_observations[name] for name in STREAMS])
