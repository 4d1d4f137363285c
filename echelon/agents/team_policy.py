"""The policy of a team: the protocol, and what may be asked of a policy beside its decisions.

A team policy maps a TensorDict of one team. It reads `("observation", stream) [B, A, ...]`, `telemetry [B, A, 16, 16]`
(the same for every mech of a battle) and its recurrent state `("memory", name) [B, A, ...]`, and writes `action [B, A,
D]` and `("next", "memory", name)`. `memory_spec()` is the spec of that state for one mech; a function without state
needs none.

A policy may have a method `graph_key()`: a hashable value for whatever its decisions depend on beside tensors, which it
changes in place, or None. Where it returns one, a CUDA graph may repeat its decisions; where there is none, none does.

A policy with a true attribute `draws_actions` draws its actions with `noise [B, A, D]` where it is given that: standard
normal numbers that follow from the seed of the battle, so that one seed is one battle. One with a true attribute
`reads_action_mask` is given `action_mask [B, A, 64]` (`echelon.env.discrete`) in matches and evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor, nn
from torchrl.data import Composite

from echelon.runtime.errors import ConfigError, require


class TeamPolicy(Protocol):
    """A policy that commands one team: any function or module of this form.

    One with a recurrent state has beside it a method `memory_spec() -> Composite`, the float leaves of the state of one
    mech; they are zero at the start of a battle.
    """

    def __call__(self, team: TensorDictBase, /) -> TensorDictBase:
        """Decide for every mech of a team, batch `[B, A]`."""


def is_policy(policy: object) -> bool:
    """Whether it may be the policy of a team: something to call, but no class, which is a policy once it is called."""
    return callable(policy) and not isinstance(policy, type)


def check_evaluation_mode(name: str, policy: object) -> None:
    """Refuse a network in training mode, which would play with dropout and the noise it learns with. A module without
    parameters, such as a scripted commander, has no such mode."""
    if not isinstance(policy, nn.Module) or next(policy.parameters(), None) is None:
        return
    if any(module.training for module in policy.modules()):
        raise ConfigError(f"{name}: must be in evaluation mode for a match, got training mode: call policy.eval()")


def check_comm_dim(name: str, policy: object, comm_dim: int) -> None:
    """Refuse a policy that was made for messages of another width than those of the battles."""
    own = getattr(policy, "comm_dim", comm_dim)
    require(own == comm_dim, f"{name}: comm_dim", f"{comm_dim} for this battle", own)


def memory_spec_of(policy: TeamPolicy) -> Composite:
    """Spec of what one mech of a policy remembers; empty for a function without `memory_spec`."""
    declared = getattr(policy, "memory_spec", None)
    return Composite() if declared is None else declared()


def memory_spec(**policies: TeamPolicy) -> Composite:
    """Spec of the environment's memory: an entry for each named policy with recurrent state."""
    specs = {name: memory_spec_of(policy) for name, policy in policies.items()}
    return Composite(**{name: spec for name, spec in specs.items() if len(spec.keys()) > 0})


def graph_key_of(policy: TeamPolicy) -> Hashable | None:
    """What a policy's decisions depend on beside tensors; None where a CUDA graph cannot repeat them."""
    key: Callable[[], Hashable | None] = getattr(policy, "graph_key", lambda: None)
    return key()


def draws_actions(policy: TeamPolicy) -> bool:
    """Whether a policy draws its actions with `noise`."""
    return bool(getattr(policy, "draws_actions", False))


def reads_action_mask(policy: TeamPolicy) -> bool:
    """Whether a policy is to be told which discrete actions each mech can carry out."""
    return bool(getattr(policy, "reads_action_mask", False))


def is_pure(policy: TeamPolicy) -> bool:
    """Whether a policy draws no random numbers and keeps nothing between decisions, so that threads may share them."""
    return bool(getattr(policy, "is_pure", False))


def entry(data: TensorDictBase, key: NestedKey, hint: str) -> Tensor:
    """An entry of the input of a policy.

    Raises:
        ConfigError: it is missing; one line that names the key, what is there and `hint`.
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
