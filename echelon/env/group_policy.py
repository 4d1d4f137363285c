"""A policy of one team as a policy of the whole environment.

A team policy is a TensorDict module over one team: it reads `("observation", stream) [B, A, ...]`, `telemetry [B, A,
16, 16]` (the same for every mech of a battle) and what it remembers under `("memory", name)`, and writes `action [B, A,
D]` and `("next", "memory", name)`. Its `memory_spec()` names what it remembers of one mech. Several policies share an
environment, so each has an entry of its own in the environment's memory.
"""

from __future__ import annotations

from typing import Protocol

from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.data import Composite


class TeamPolicy(Protocol):
    """Whoever commands a team."""

    def __call__(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for every mech of a team, batch `[B, A]`."""
        ...

    def memory_spec(self) -> Composite:
        """Float leaves that one mech remembers between decisions; zero when a battle begins."""
        ...


def memory_spec(**policies: TeamPolicy) -> Composite:
    """The memory an environment must carry: an entry for each named policy that remembers anything."""
    specs = {name: policy.memory_spec() for name, policy in policies.items()}
    return Composite(**{name: spec for name, spec in specs.items() if len(spec.keys()) > 0})


def memory_of(tensordict: TensorDictBase, group: str, name: str) -> TensorDictBase:
    """`[B, A]` what the policy of this name remembers; empty where it remembers nothing."""
    memory = tensordict.get((group, "memory", name), None)
    if memory is None:
        team = tensordict.get(group)
        return TensorDict({}, team.batch_size, device=team.device)
    return memory.copy()


def team_view(tensordict: TensorDictBase, group: str, name: str) -> TensorDictBase:
    """What a policy may read of its team: the observation, the mask, the map, and its own `memory`."""
    team = tensordict.get(group).select("observation", "mask").copy()
    team.set("telemetry", for_each_mech(tensordict, team.shape[1]))
    return team.set("memory", memory_of(tensordict, group, name))


def for_each_mech(tensordict: TensorDictBase, mechs: int) -> Tensor:
    """`[B, A, 16, 16]` the map from above, without copying it for each of a team's mechs."""
    telemetry = tensordict.get("telemetry")
    return telemetry[:, None].expand(-1, mechs, -1, -1)


class GroupPolicy(TensorDictModuleBase):
    """A team policy as a policy of the whole environment, commanding one group of it.

    Args:
        policy: decides for one team.
        group: `blue` or `red`.
        name: of its entry in the environment's memory, see `memory_spec`.
    """

    def __init__(self, policy: TeamPolicy, group: str, name: str) -> None:
        super().__init__()
        self.policy = policy
        self.group = group
        self.name = name
        self.in_keys: list[NestedKey] = [(group, "observation"), "telemetry"]
        self.out_keys: list[NestedKey] = [(group, "action")]
        if len(policy.memory_spec().keys()) > 0:
            self.in_keys += [(group, "memory", name)]
            self.out_keys += [("next", group, "memory", name)]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the group's action, and what the policy wants to remember."""
        decided = self.policy(team_view(tensordict, self.group, self.name))
        tensordict.set((self.group, "action"), decided.get("action"))
        new = decided.get(("next", "memory"), None)
        if new is not None:
            tensordict.set(("next", self.group, "memory", self.name), new)
        return tensordict
