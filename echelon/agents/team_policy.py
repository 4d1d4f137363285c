"""The protocol of a team policy, and its optional attributes.

A team policy reads and writes the TensorDict of one team. The policy reads `("observation", stream) [B, A, ...]`,
`telemetry [B, A, 16, 16]` (equal for all mechs of a battle) and its recurrent state `("memory", name) [B, A, ...]`. The
policy writes `action [B, A, D]` and `("next", "memory", name)`. The policy's method `memory_spec()` returns the spec of
one mech's recurrent state; a policy without state needs no such method.

A policy may have a method `graph_key()`. The graph key is a hashable value of all settings that decisions depend on,
without tensors that are modified in place. While the graph key stays equal, decisions are replayed as a CUDA graph. If
`graph_key` is missing or returns None, no CUDA graph is used.

A policy with a true attribute `draws_actions` samples its actions with `noise [B, A, D]`, if present: standard normal
numbers derived from the battle's seed, so a seed determines the battle. A policy with a true attribute
`reads_action_mask` receives `action_mask [B, A, 64]` (`echelon.env.discrete`) in matches and evaluations. A policy with
a true attribute `reads_factor_mask` receives `factor_mask [B, A, S]`, which marks the available options of a
multi-discrete action.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor, nn
from torchrl.data import Composite

from echelon.env.discrete import ACTIONS
from echelon.runtime.errors import ConfigError, require


class TeamPolicy(Protocol):
    """A policy that commands one team: any function or module with this signature.

    A policy with recurrent state also has a method `memory_spec() -> Composite`, which describes the float state of one
    mech. The state is zero at the start of a battle.
    """

    def __call__(self, team: TensorDictBase, /) -> TensorDictBase:
        """Decide for every mech of a team, batch `[B, A]`."""


def is_policy(policy: object) -> bool:
    """Return whether an object can be a team policy: it is callable and not a class."""
    return callable(policy) and not isinstance(policy, type)


def check_evaluation_mode(name: str, policy: object) -> None:
    """Reject a network in training mode, which would play with dropout and exploration noise.

    A module without parameters, such as a scripted commander, has no such mode.
    """
    if not isinstance(policy, nn.Module) or next(policy.parameters(), None) is None:
        return
    if any(module.training for module in policy.modules()):
        raise ConfigError(f"{name}: must be in evaluation mode for a match, got training mode: call policy.eval()")


def check_comm_dim(name: str, policy: object, comm_dim: int) -> None:
    """Reject a policy whose message width differs from that of the battles."""
    own = getattr(policy, "comm_dim", comm_dim)
    require(own == comm_dim, f"{name}: comm_dim", f"{comm_dim} for this battle", own)


def memory_spec_of(policy: TeamPolicy) -> Composite:
    """Return the memory spec of one mech; empty for a policy without `memory_spec`."""
    declared = getattr(policy, "memory_spec", None)
    return Composite() if declared is None else declared()


def memory_spec(**policies: TeamPolicy) -> Composite:
    """Return the spec of the environment's memory, with an entry for each policy that has recurrent state."""
    specs = {name: memory_spec_of(policy) for name, policy in policies.items()}
    return Composite(**{name: spec for name, spec in specs.items() if len(spec.keys()) > 0})


def graph_key_of(policy: TeamPolicy) -> Hashable | None:
    """Return the policy's graph key; None if a CUDA graph cannot repeat its decisions."""
    key: Callable[[], Hashable | None] = getattr(policy, "graph_key", lambda: None)
    return key()


def draws_actions(policy: TeamPolicy) -> bool:
    """Return whether a policy samples its actions with `noise`."""
    return bool(getattr(policy, "draws_actions", False))


def reads_action_mask(policy: TeamPolicy) -> bool:
    """Return whether a policy reads the mask of discrete actions."""
    return bool(getattr(policy, "reads_action_mask", False))


def reads_factor_mask(policy: TeamPolicy) -> bool:
    """Return whether a policy reads the mask of multi-discrete actions."""
    return bool(getattr(policy, "reads_factor_mask", False))


def add_masks(team: TensorDictBase, policy: TeamPolicy, masks: Tensor) -> None:
    """Add the masks that a policy reads to its input.

    Args:
        masks: which actions are available, `[B, A, 64 + S]` bool: the 64 composite actions, then the S options of all
            factors of a multi-discrete action.
    """
    if reads_action_mask(policy):
        team.set("action_mask", masks[..., : len(ACTIONS)])
    if reads_factor_mask(policy):
        team.set("factor_mask", masks[..., len(ACTIONS) :])


def is_pure(policy: TeamPolicy) -> bool:
    """Return whether a policy has no random numbers and no state between decisions, so that threads can share it."""
    return bool(getattr(policy, "is_pure", False))


def entry(data: TensorDictBase, key: NestedKey, hint: str) -> Tensor:
    """Return the entry `key` of a policy's input.

    Raises:
        ConfigError: if the entry is missing. The message is one line with the key, the existing entries and `hint`.
    """
    path = key if isinstance(key, tuple) else (key,)
    value: Any = data
    for depth, name in enumerate(path):
        there, value = value, value.get(name, None) if isinstance(value, TensorDictBase) else None
        if value is None:
            got = ", ".join(map(str, there.keys())) if isinstance(there, TensorDictBase) else "a tensor"
            where = f" under {path[:depth]!r}" if depth else ""
            raise ConfigError(f"{key!r}: expected in the input of the policy, got {got}{where}. {hint}")
    return value  # type: ignore[no-any-return]
