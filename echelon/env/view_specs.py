"""The specs of a view: what each of its groups exchanges, with shapes, bounds and dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torchrl.data import Categorical, Composite

from echelon.env.discrete import ACTIONS
from echelon.env.env import EchelonEnv
from echelon.env.group_form import GroupForm
from echelon.env.observation.layout import EGO, bounds
from echelon.env.specs import Specs
from echelon.env.transforms import flat_spec


@dataclass(frozen=True)
class ViewSpecs:
    """Specs of groups of the mechs of `env`.

    Args:
        has_state: whether there is a global state.
        has_opponent: whether the outcome tells who won.
    """

    env: EchelonEnv
    forms: Mapping[str, GroupForm]
    dtype: torch.dtype
    has_state: bool
    has_opponent: bool

    @property
    def specs(self) -> Specs:
        """Those of the groups as an environment has them, without memory."""
        env = self.env
        sizes = {group: len(form.rows) for group, form in self.forms.items()}
        return Specs(env.config, sizes, Composite(), env.num_envs, env.device, env.info, len(env.reward_terms))

    def observation(self) -> Composite:
        """Observations, masks, memories and reward terms by group; what belongs to a battle."""
        specs, env = self.specs, self.env
        observation = specs.observation()
        for group, form in self.forms.items():
            if form.is_flat:
                observation[group, "observation"] = flat_spec(observation[group, "observation"], self.dtype)
            if form.is_discrete:
                observation[group, "action_mask"] = self._flags(len(form.rows), len(ACTIONS))
            if form.has_memory:
                shape = (env.num_envs, len(form.rows))
                observation[group, "memory"] = form.memory.expand(shape).to(env.device)
        if self.has_state:
            low, high = (limit.repeat(env.config.num_mechs) for limit in bounds(EGO))
            observation["state"] = specs.bounded(low, high, len(low), dtype=self.dtype)
        if env.info and self.has_opponent:
            observation["outcome", "won"] = self._flags(1)
        return observation

    def action(self) -> Composite:
        """`(group, "action")`: `[B, k, D]` in [-1, 1], or `[B, k]` int64."""
        action, env = self.specs.action(), self.env
        for group, form in self.forms.items():
            if form.is_discrete:
                shape = (env.num_envs, len(form.rows))
                action[group, "action"] = Categorical(len(ACTIONS), shape, env.device, torch.int64)
        return action

    def reward(self) -> Composite:
        """`(group, "reward") [B, k, 1]`."""
        return self.specs.reward()

    def done(self) -> Composite:
        """`done`, `terminated` and `truncated`, `[B, 1]` each."""
        return self.specs.done()

    def _flags(self, *shape: int) -> Categorical:
        return Categorical(2, shape=(self.env.num_envs, *shape), dtype=torch.bool, device=self.env.device)
