"""Wraps a policy of one team as a policy of the whole environment.

A team policy maps a TensorDict of one team. It reads `("observation", stream) [B, A, ...]`, `telemetry [B, A, 16, 16]`
(the same for every mech of a battle) and its recurrent state `("memory", name) [B, A, ...]`, and writes `action [B, A,
D]` and `("next", "memory", name)`. `memory_spec()` is the spec of that state for one mech; a function without state
needs none. Several policies may share an environment, so each has its own entry in the environment's memory.

A policy may have a method `graph_key()`: a hashable value for whatever its decisions depend on beside tensors, which it
changes in place, or None. Where it returns one, a CUDA graph may repeat its decisions; where there is none, none does.

A policy with a true attribute `draws_actions` draws its actions with `noise [B, A, D]` where it is given that: standard
normal numbers that follow from the seed of the battle, so that one seed is one battle. One with a true attribute
`reads_action_mask` is given `action_mask [B, A, 64]` (`echelon.env.discrete`) in matches and evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import NestedKey
from torch import Tensor, nn
from torchrl.data import Composite

from echelon.runtime import noise
from echelon.runtime.errors import ConfigError


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
    is_network = isinstance(policy, nn.Module) and next(policy.parameters(), None) is not None
    if is_network and any(module.training for module in policy.modules()):
        raise ConfigError(f"{name}: must be in evaluation mode for a match, got training mode: call .eval()")


def memory_spec_of(policy: TeamPolicy) -> Composite:
    """Spec of what one mech of a policy remembers; empty for a function without `memory_spec`."""
    declared = getattr(policy, "memory_spec", None)
    return Composite() if declared is None else declared()


def memory_spec(**policies: TeamPolicy) -> Composite:
    """Spec of the environment's memory: an entry for each named policy with recurrent state."""
    specs = {name: memory_spec_of(policy) for name, policy in policies.items()}
    return Composite(**{name: spec for name, spec in specs.items() if len(spec.keys()) > 0})


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


def memory_of(tensordict: TensorDictBase, group: str, name: str) -> TensorDictBase:
    """Recurrent state of the policy called `name`, batch `[B, A]`; empty for a policy without state."""
    memory = tensordict.get((group, "memory", name), None)
    if memory is None:
        team = tensordict.get(group)
        return TensorDict({}, team.batch_size, device=team.device)
    return memory.copy()


def team_view(tensordict: TensorDictBase, group: str, name: str) -> TensorDictBase:
    """Input of a team policy, batch `[B, A]`: `observation`, `mask`, `telemetry` and its own `memory`."""
    team = tensordict.get(group).select("observation", "mask").copy()
    team.set("telemetry", for_each_mech(tensordict, team.shape[1]))
    return team.set("memory", memory_of(tensordict, group, name))


def for_each_mech(tensordict: TensorDictBase, mechs: int) -> Tensor:
    """`[B, A, 16, 16]` telemetry map, expanded to the mechs of a team without a copy."""
    telemetry = tensordict.get("telemetry")
    return telemetry[:, None].expand(-1, mechs, -1, -1)


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


def check_decided(name: str, decided: object) -> None:
    """Raise `ConfigError` unless a policy returned a TensorDict."""
    if not isinstance(decided, TensorDictBase):
        raise ConfigError(
            f'{name} must return the team it was given: return team.set("action", action), got {decided!r:.80}'
        )


def action_noise(seed: Tensor, decision: Tensor | int, mechs: int, width: int) -> Tensor:
    """`[B, N, D]` standard normal numbers for the actions of all N mechs in one decision.

    Args:
        seed: `[B]` int64, of the battles.
        decision: `[B]` or a number, which decision of the battle it is.
    """
    return noise.normal(seed, decision, noise.Stream.ACTION, mechs * width).view(-1, mechs, width)


def team_input(
    streams: Mapping[str, Tensor], mask: Tensor, telemetry: Tensor, memory: TensorDictBase, normals: Tensor | None
) -> TensorDict:
    """Input of a team policy, batch `[B, A]`.

    Args:
        streams: `[B, A, ...]` each.
        mask: `[B, A]` bool.
        telemetry: `[B, 16, 16]`.
        memory: batch `[B, A]`.
        normals: `[B, A, D]` noise, or None for a policy that draws no actions.
    """
    batch, device = mask.shape, mask.device
    values = {
        "observation": TensorDict(dict(streams), batch, device=device),
        "mask": mask,
        "telemetry": telemetry[:, None].expand(*batch, -1, -1),
        "memory": memory,
    }
    return TensorDict(values if normals is None else {**values, "noise": normals}, batch, device=device)


class GroupPolicy(TensorDictModuleBase):
    """A team policy as a policy of the whole environment that commands one group.

    Args:
        policy: the team policy.
        group: `blue` or `red`.
        name: name of its entry in the environment's memory, see `memory_spec`.
    """

    def __init__(self, policy: TeamPolicy, group: str, name: str) -> None:
        super().__init__()
        self.policy = policy
        self.group = group
        self.name = name
        self.in_keys: list[NestedKey] = [(group, "observation"), "telemetry"]
        self.out_keys: list[NestedKey] = [(group, "action")]
        if len(memory_spec_of(policy).keys()) > 0:
            self.in_keys += [(group, "memory", name)]
            self.out_keys += [("next", group, "memory", name)]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write all that the policy wrote, such as its log-probability, beside the action of the group.

        Its next recurrent state goes to `("next", group, "memory", name)`.
        """
        way = f"EchelonEnv(..., memory=memory_spec({self.name}=policy)); docs/POLICIES.md"
        for key in self.in_keys:
            entry(tensordict, key, f"A group policy of {self.group} plays in {way}")
        view = team_view(tensordict, self.group, self.name)
        input_keys = set(view.keys())
        output = self.policy(view)
        for name in output.keys():
            if name not in input_keys and name != "next":
                tensordict.set((self.group, name), output.get(name))
        next_memory = output.get(("next", "memory"), None)
        if next_memory is not None:
            tensordict.set(("next", self.group, "memory", self.name), next_memory)
        return tensordict
