"""Battles whose tensors stay where they are, for a CUDA graph that repeats a decision."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from echelon.env.blocks import ordinary_tensors
from echelon.env.env import EchelonEnv
from echelon.runtime.cuda_graphs import copy_in_place
from echelon.state import leaves_of, with_leaves


class StaticBattles:
    """State, next seeds and last observation of an environment, in tensors of their own that are written in place.

    `EchelonEnv.step` returns tensors that nobody overwrites. Here they are copied, once a decision, to where the
    next decision reads them; the terrain, which a step changes in place, stays where it is.

    Args:
        env: the environment, which from now on refers to these tensors.
        shown: what the next decision is made from, as `step_and_maybe_reset` returns it.
    """

    def __init__(self, env: EchelonEnv, shown: TensorDictBase) -> None:
        self.env = env
        with ordinary_tensors():
            leaves = {name: leaf.clone() for name, leaf in leaves_of(env.state).items()}
            self.state = with_leaves(env.state, leaves)
            self.next_seed = env.next_seed.clone()
            self.shown = shown.clone()
        self.keys = list(self.shown.keys(include_nested=True, leaves_only=True))
        """Entries of what is shown."""
        self.kept = [*leaves.values(), self.next_seed, *(self.shown.get(key) for key in self.keys)]
        self._return()

    def _return(self) -> None:
        """Let the environment refer to the tensors again."""
        self.env.state, self.env.next_seed = self.state, self.next_seed
        self.env.show(self.shown)

    @property
    def are_in_place(self) -> bool:
        """Whether the environment still refers to these tensors: who restored or reset battles put others there."""
        return self.env.state is self.state and self.env.next_seed is self.next_seed

    def take(self, shown: TensorDictBase) -> None:
        """Copy what a decision left behind into the tensors; `shown` is what the next one is made from."""
        found: list[Tensor] = [*leaves_of(self.env.state).values(), self.env.next_seed]
        copy_in_place(self.kept, [*found, *(shown.get(key) for key in self.keys)])
        self._return()
