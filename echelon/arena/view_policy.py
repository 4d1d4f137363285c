"""Adapts a policy made for a view (`echelon.versus` or `echelon.mechs`) to the team policy that matches require."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase, TransformedEnv
from torchrl.envs.transforms import TensorDictPrimer

from echelon.agents.team_policy import TeamPolicy, is_policy, memory_spec_of
from echelon.env.discrete import FactorTable, action_table
from echelon.env.observation.layout import STREAMS
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError, require
from echelon.views.build import MechView
from echelon.views.group_form import ActionForm, GroupForm
from echelon.views.transforms import FlatObservation
from echelon.views.view import View

Key = tuple[str, ...]
VIEW, CARRIED, BEGUN = "view", "carried", "begun"
"""Parts of the memory: the view's `memory`, the recurrent states of TorchRL modules, and whether the battle started."""
MASK, FACTOR_MASK = "action_mask", "factor_mask"
MECHS = "mechs"
"""Name of the group if a policy's keys contain none."""


@dataclass(frozen=True)
class ViewForm:
    """The keys that a policy reads and writes.

    Args:
        groups: form of each group of mechs, keyed by name; `rows` are the indices of its mechs in the team. A single
            group is the whole team.
        is_grouped: whether keys begin with the group's name, as in `versus`; in `mechs` they do not.
    """

    groups: Mapping[str, GroupForm]
    is_grouped: bool = True
    dtype: torch.dtype = torch.float32

    @property
    def has_mask(self) -> bool:
        return any(form.is_discrete for form in self.groups.values())

    def key(self, group: str, name: str) -> Key:
        """Return the key of a group's entry."""
        return (group, name) if self.is_grouped else (name,)

    def rows(self, group: str) -> slice | list[int]:
        """Return the indices of a group's mechs in the team."""
        return slice(None) if len(self.groups) == 1 else list(self.groups[group].rows)


def form_of_view(env: EnvBase) -> ViewForm:
    while isinstance(env, TransformedEnv):
        env = env.base_env
    limit = "a view of one team (echelon.versus or echelon.mechs), or a transformed one"
    if not isinstance(env, View):
        raise ConfigError(f"env must be {limit}, got {type(env).__name__}")
    is_grouped = not isinstance(env, MechView)
    require(env.opponent is not None or not is_grouped, "env", limit, env)
    expected = "a view of a whole team if its mechs form several groups"
    require(env.partner is None or len(env.forms) == 1, "env", expected, env)
    return ViewForm(env.forms, is_grouped, env.observation_dtype)


def form_of_keys(policy: object) -> ViewForm | None:
    """Derive the form from the keys of a TensorDict module; None for a team policy or a policy without keys."""
    reads, writes = (keys_of(policy, name) for name in ("in_keys", "out_keys"))
    action_keys = [key for key in writes if key[-1] == "action"]
    if not reads or not action_keys:
        return None
    names = [key[0] for key in action_keys if len(key) == 2]
    if len(names) > 1:
        groups = ", ".join(names)
        hint = "pass env=, a view of one team with these groups, or a policy of one group"
        raise ConfigError(f"the policy acts for the groups {groups}: {hint}")
    prefix = tuple(names)
    observed = [key[len(prefix) :] for key in reads if key[: len(prefix)] == prefix]
    streams = any(key[0] == "observation" and len(key) > 1 for key in observed)
    if streams and not prefix:
        return None
    memory = memory_spec_of(policy)  # type: ignore[arg-type]
    (group,) = prefix or (MECHS,)
    action: ActionForm = "discrete" if (MASK,) in observed else "continuous"
    return ViewForm({group: GroupForm((), not streams, action, memory)}, is_grouped=bool(prefix))


def keys_of(policy: object, name: str) -> list[Key]:
    """Return `in_keys` or `out_keys` of a module, each as a tuple; empty if it has no such list."""
    keys = getattr(policy, name, None)
    if not isinstance(keys, list | tuple):
        return []
    return [(key,) if isinstance(key, str) else tuple(key) for key in keys]


def carried_spec(policy: object) -> dict[Key, Any]:
    """Return the specs of one mech's recurrent states in TorchRL modules (`make_tensordict_primer`), by key."""
    if not isinstance(policy, nn.Module):
        return {}
    specs: dict[Key, Any] = {}
    for module in policy.modules():
        prime = getattr(module, "make_tensordict_primer", None)
        if prime is None:
            continue
        primer: TensorDictPrimer = prime()
        for key in primer.primers.keys(include_nested=True, leaves_only=True):
            specs[(key,) if isinstance(key, str) else tuple(key)] = primer.primers[key]
    return specs


class ViewPolicy:
    """A team policy that wraps a policy with the keys of a view.

    Index actions are recognised by their dtype: int64 `[B, k]` are rows of `echelon.env.discrete.ACTIONS`, and `[B, k,
    F]` are options of `echelon.env.discrete.factors`. A policy receives the mask of these options only if its view is
    known, because keys alone do not show that it reads the mask.

    Args:
        policy: any callable on the view's TensorDicts, such as a TorchRL module.
    """

    def __init__(
        self, policy: Callable[[TensorDictBase], Any], form: ViewForm, config: EnvConfig, device: torch.device
    ) -> None:
        self.policy, self.form = policy, form
        actions = {group.action for group in form.groups.values()}
        self.reads_action_mask, self.reads_factor_mask = "discrete" in actions, "multi_discrete" in actions
        self.carried = carried_spec(policy)
        self.table, self.factors = action_table(config.comm_dim, device), FactorTable(config.comm_dim, device)

    def memory_spec(self) -> Composite:
        """Return the spec of one mech's memory: the policy's recurrent state, and whether the battle has started."""
        spec = Composite({BEGUN: Unbounded((1,), device="cpu", dtype=torch.float32)})
        remembered = {group: form.memory.clone() for group, form in self.form.groups.items() if form.has_memory}
        if remembered:
            spec[VIEW] = Composite(remembered)
        if self.carried:
            spec[CARRIED] = Composite({"/".join(key): Unbounded(leaf.shape) for key, leaf in self.carried.items()})
        return spec

    def __call__(self, team: TensorDictBase) -> TensorDictBase:
        memory = team.get("memory")
        decided = self.policy(self._shown(team, memory))
        require(isinstance(decided, TensorDictBase), "what the policy returned", "a TensorDict", type(decided).__name__)
        action = torch.zeros((*team.batch_size, self.table.shape[1]), dtype=torch.float32, device=team.device)
        for group in self.form.groups:
            action[:, self.form.rows(group)] = self._real(decided, self.form.key(group, "action"))
        team.set("action", action)
        team.set(("next", "memory"), self._remembered(memory, decided))
        return team

    def _real(self, decided: TensorDictBase, key: Key) -> Tensor:
        """Return the action under `key` as a continuous action, `[B, k, D]`, clamped to [-1, 1]."""
        action = decided.get(key, None)
        require(action is not None, "what the policy wrote", f"the entry {key}", list(decided.keys()))
        if not action.is_floating_point():
            return self.table[action] if action.dim() == 2 else self.factors[action]
        return action.to(torch.float32).clamp(-1, 1)

    def _own(self, group: str, team: TensorDictBase, memory: TensorDictBase) -> TensorDict:
        """Return the observation of a group's mechs, batch `[B, k]`."""
        form = self.form.groups[group]
        streams = team.get("observation").select(*STREAMS)
        td = {"observation": FlatObservation.of(streams, self.form.dtype) if form.is_flat else streams}
        td["mask"] = team.get("mask")
        if form.is_discrete:
            td[MASK] = team.get(MASK if form.action == "discrete" else FACTOR_MASK)
        if form.has_memory:
            td["memory"] = memory.get((VIEW, group))
        return TensorDict(td, team.batch_size, device=team.device)[:, self.form.rows(group)]

    def _shown(self, team: TensorDictBase, memory: TensorDictBase) -> TensorDict:
        """Return the observation as in `echelon.versus`, batch `[B]`, or `echelon.mechs`, batch `[B, A]`."""
        by_group = {group: self._own(group, team, memory) for group in self.form.groups}
        mech: int | slice = 0 if self.form.is_grouped else slice(None)
        if self.form.is_grouped:
            td = TensorDict(by_group, team.batch_size[:1], device=team.device)
        else:
            (td,) = by_group.values()
        td.set("telemetry", team.get("telemetry")[:, mech])
        td.set("is_init", memory.get(BEGUN)[:, mech] == 0)
        for key in self.carried:
            td.set(key, memory.get((CARRIED, "/".join(key))))
        return td

    def _remembered(self, memory: TensorDictBase, decided: TensorDictBase) -> TensorDictBase:
        """Return the memory for the next decision; entries that the policy did not write stay unchanged."""
        new = memory.clone()
        new.set(BEGUN, torch.ones_like(memory.get(BEGUN)))
        for key in self.carried:
            name = (CARRIED, "/".join(key))
            new.set(name, decided.get(("next", *key), memory.get(name)))
        for group, form in self.form.groups.items():
            new_memory = decided.get(("next", *self.form.key(group, "memory")), None) if form.has_memory else None
            if new_memory is not None:
                memory_of_group = new.get((VIEW, group))
                memory_of_group[:, self.form.rows(group)] = new_memory.select(*memory_of_group.keys())
        return new


def check_policy(policy: Any) -> None:
    """Raise `ConfigError` for objects that are neither a team policy nor a policy for a view."""
    if not is_policy(policy):
        description = f"the class {policy.__name__}" if isinstance(policy, type) else type(policy).__name__
        raise ConfigError(f"policy must be a name, a path, a module or a callable on TensorDicts, got {description}")


def team_policy_of(policy: Any, env: EnvBase | None, config: EnvConfig, device: torch.device) -> TeamPolicy:
    """Convert a policy to a team policy.

    Args:
        policy: a TensorDict module or any callable. With `env`, or with the keys of a view, the policy is treated as
            one for that view, else as a team policy (`echelon.views.group_policy.TeamPolicy`).
        env: the view that the policy was trained in, possibly transformed; None if the policy's keys suffice.
    """
    check_policy(policy)
    form = form_of_keys(policy) if env is None else form_of_view(env)
    team: TeamPolicy = policy if form is None else ViewPolicy(policy, form, config, device)
    return team
