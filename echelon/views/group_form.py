"""The form of each group's observations, actions and memory in a view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import torch
from torch import Tensor
from torchrl.data import Categorical, Composite

from echelon.env.discrete import ACTIONS, factors_of
from echelon.env.env import EchelonEnv
from echelon.env.factor_spec import FactorSpec
from echelon.env.observation.layout import EGO, bounds
from echelon.env.specs import Specs
from echelon.runtime.errors import require
from echelon.views.transforms import flat_spec

T = TypeVar("T")
PerGroup: TypeAlias = T | Mapping[str, T]
"""One value for all groups, or a mapping from group name to value."""
ObservationForm = Literal["flat", "structured"]
ActionForm = Literal["continuous", "discrete", "multi_discrete"]
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""Dtypes of flat observations and of the global state."""


@dataclass(frozen=True)
class GroupForm:
    """The form of observations, actions and memory of one group of k mechs."""

    rows: tuple[int, ...]
    """Indices of its mechs among all commanded mechs, `[k]`."""
    is_flat: bool
    """True if an observation is one vector per mech, False for streams by name."""
    action: ActionForm
    """Form of its actions."""
    memory: Composite
    """Spec of one mech's policy memory, with float leaves; empty for none."""

    def index(self, device: torch.device) -> slice | Tensor:
        """Return `rows` as a slice if they are consecutive, else as an index tensor `[k]` int64."""
        first, last = self.rows[0], self.rows[-1]
        is_run = self.rows == tuple(range(first, last + 1))
        return slice(first, last + 1) if is_run else torch.tensor(self.rows, device=device)

    @property
    def is_discrete(self) -> bool:
        """True if actions are indices with a mask, False for vectors."""
        return self.action != "continuous"

    @property
    def has_memory(self) -> bool:
        return len(self.memory.keys()) > 0


def group_forms(
    groups: Mapping[str, Sequence[str]],
    names: Sequence[str],
    observation: PerGroup[ObservationForm],
    action: PerGroup[ActionForm],
    memory: PerGroup[Composite] | None,
) -> dict[str, GroupForm]:
    """Build the form of each group from the user's arguments.

    Args:
        observation, action, memory: as in `View`.
    """
    no_memory = Composite()

    def is_memory(value: object) -> bool:
        return value is None or isinstance(value, Composite)

    observations = by_group("observation", observation, groups, one_of("flat", "structured"), "flat or structured")
    known = get_args(ActionForm)
    actions = by_group("action", action, groups, one_of(*known), f"{', '.join(known[:-1])} or {known[-1]}")
    memories = by_group("memory", memory, groups, is_memory, "a Composite of float leaves")
    return {
        group: GroupForm(
            rows=tuple(names.index(name) for name in mechs),
            is_flat=observations[group] == "flat",
            action=actions[group],
            memory=memories[group] or no_memory,
        )
        for group, mechs in groups.items()
    }


def one_of(*values: str) -> Callable[[object], bool]:
    """Return a check that a value is one of these strings."""
    return lambda value: isinstance(value, str) and value in values


def by_group(
    argument: str, value: Any, groups: Mapping[str, Any], is_valid: Callable[[object], bool], limit: str
) -> dict[str, Any]:
    """Return the checked value of each group, keyed by group name."""
    if not isinstance(value, Mapping):
        require(is_valid(value), argument, limit, value)
        return dict.fromkeys(groups, value)
    is_complete = set(value) == set(groups)
    require(is_complete, argument, f"one value, or one for each of {', '.join(groups)}", list(value))
    for group in groups:
        require(is_valid(value[group]), f"{argument}[{group!r}]", limit, value[group])
    return {group: value[group] for group in groups}


def common_form(forms: Mapping[str, GroupForm], name: str, argument: str) -> Any:
    """Return the field `name` of the groups' forms, which must be equal for all groups."""
    first, *others = (getattr(form, name) for form in forms.values())
    is_one = all(other == first for other in others)
    require(is_one, argument, "the same for all groups here", {group: getattr(f, name) for group, f in forms.items()})
    return first


@dataclass(frozen=True)
class ViewSpecs:
    """Specs of a view's groups.

    Args:
        has_state: whether the view has a global state.
        has_opponent: whether the view has an opponent, in which case the outcome contains `won`.
    """

    env: EchelonEnv
    forms: Mapping[str, GroupForm]
    dtype: torch.dtype
    has_state: bool
    has_opponent: bool

    @property
    def specs(self) -> Specs:
        """Specs of the groups as an `EchelonEnv` would create them, without memory."""
        env = self.env
        sizes = {group: len(form.rows) for group, form in self.forms.items()}
        return Specs(env.config, sizes, Composite(), env.num_envs, env.device, env.info, len(env.reward_terms))

    def observation(self) -> Composite:
        """Return the spec of each group's observations, masks, memories and reward terms, and of the entries per
        battle."""
        specs, env = self.specs, self.env
        observation = specs.observation()
        for group, form in self.forms.items():
            if form.is_flat:
                observation[group, "observation"] = flat_spec(observation[group, "observation"], self.dtype)
            if form.action != "continuous":
                options = sum(len(factor.options) for factor in factors_of(form.action, env.config.comm_dim))
                observation[group, "action_mask"] = specs.flags(len(form.rows), options)
            if form.has_memory:
                shape = (env.num_envs, len(form.rows))
                observation[group, "memory"] = form.memory.expand(shape).to(env.device)
        if self.has_state:
            low, high = (limit.repeat(env.config.num_mechs) for limit in bounds(EGO))
            observation["state"] = specs.bounded(low, high, len(low), dtype=self.dtype)
        if env.info and self.has_opponent:
            observation["outcome", "won"] = specs.flags(1)
        return observation

    def action(self) -> Composite:
        """Return the spec of `(group, "action")`, which is `[B, k, D]` in [-1, 1], `[B, k]` int64 or `[B, k, F]`
        int64."""
        action, env = self.specs.action(), self.env
        for group, form in self.forms.items():
            shape = (env.num_envs, len(form.rows))
            if form.action == "discrete":
                action[group, "action"] = Categorical(len(ACTIONS), shape, env.device, torch.int64)
            elif form.action == "multi_discrete":
                sizes = [len(factor.options) for factor in factors_of(form.action, env.config.comm_dim)]
                action[group, "action"] = FactorSpec(sizes, torch.Size((*shape, len(sizes))), env.device)
        return action
