"""Builds a user's own policy and checks one decision, so that mistakes are reported before a battle starts."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import Composite

from echelon.agents.runner import check_decided, first_memory, team_input
from echelon.agents.team_policy import TeamPolicy, add_masks, draws_actions
from echelon.env.discrete import ACTIONS, FactorTable
from echelon.env.observation.layout import action_width
from echelon.env.specs import Specs
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.imports import in_one_line
from echelon.runtime.shared_modes import kept_generators

Factory = Callable[[EnvConfig], TeamPolicy]
"""Builds a policy for the battles of a config; a class such as `echelon.agents.heuristic.Heuristic` is one."""
BATTLES = 2
"""Battles in the checked decision."""
BUILD_SEED = 0
"""Seed of torch's generator while a policy is built, so that a name always has the same initial weights."""


def build_policy(name: str, factory: Factory, env: EnvConfig, device: torch.device) -> TeamPolicy:
    """Build a policy, after checking one decision of a separate instance. The returned policy has not run yet.

    Args:
        factory: called with `env`.
        device: device of the simulation; an `nn.Module` is moved there and set to evaluation mode.
    """
    with kept_generators(device):
        check_decision(name, build(name, factory, env, device), env, device)
        return build(name, factory, env, device)


def build(name: str, factory: Factory, env: EnvConfig, device: torch.device) -> TeamPolicy:
    torch.manual_seed(BUILD_SEED)
    with in_one_line(f"{name}: expected a class or function that builds a policy from the battle's EnvConfig"):
        policy = factory(env)
    if not callable(policy):
        raise ConfigError(f"{name} must build a policy, a function of one team, got {policy!r:.80}")
    return policy.to(device).eval() if isinstance(policy, nn.Module) else policy


@torch.no_grad()
def check_decision(name: str, policy: TeamPolicy, env: EnvConfig, device: torch.device) -> None:
    """Check one decision of a policy for each team size, on an observation without contacts."""
    for mechs in dict.fromkeys((len(env.blue), len(env.red))):
        with in_one_line(f"{name}: expected memory_spec() to be a Composite spec"):
            memory = first_memory(policy, BATTLES, mechs, device)
        team = blank_team(policy, memory, mechs, env, device)
        with in_one_line(f"{name}: expected a decision for a team of {mechs} mechs"):
            decided = policy(team)
        check_decided(name, decided)
        width = action_width(env.comm_dim)
        action = f"{name}: the action of {BATTLES} battles, {mechs} mechs, {width} columns (python -m echelon describe)"
        require_leaf(action, decided.get("action", None), torch.float32, torch.Size((BATTLES, mechs, width)))
        for key in memory.keys(include_nested=True, leaves_only=True):
            path = ("next", "memory", *((key,) if isinstance(key, str) else key))
            declared = memory.get(key)
            description = f"{name}: {path}, which memory_spec() declares,"
            require_leaf(description, decided.get(path, None), declared.dtype, declared.shape)


def blank_team(
    policy: TeamPolicy, memory: TensorDictBase, mechs: int, env: EnvConfig, device: torch.device
) -> TensorDictBase:
    """Return a policy's input for `BATTLES` battles in which all mechs are alive and see nothing,
    `[BATTLES, mechs]`."""
    observation = Specs(env, {"blue": mechs}, Composite(), BATTLES, device, info=False).observation().zero()
    mask = torch.ones_like(observation["blue", "mask"])
    normals = torch.zeros((*mask.shape, action_width(env.comm_dim)), dtype=torch.float32, device=device)
    streams = dict(observation["blue", "observation"].items())
    team = team_input(streams, mask, observation["telemetry"], memory, normals if draws_actions(policy) else None)
    options = len(ACTIONS) + FactorTable(env.comm_dim, device).count
    add_masks(team, policy, mask[..., None].expand(*mask.shape, options))
    return team


def require_leaf(what: str, leaf: Tensor | None, dtype: torch.dtype, shape: torch.Size) -> None:
    """Raise `ConfigError` unless the tensor has this dtype and shape."""
    actual = "none" if leaf is None else f"{leaf.dtype} of shape {tuple(leaf.shape)}"
    expected = f"{dtype} of shape {tuple(shape)}"
    if actual != expected:
        raise ConfigError(f"{what} must be {expected}, got {actual}")
