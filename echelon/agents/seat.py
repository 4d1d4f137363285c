"""How a policy takes a team's seat in the environment.

A team policy is a TensorDict module over one team: it reads `("observation", stream) [B, A, ...]` and what it
remembers under `("memory", name)`, and writes `action [B, A, D]` and `("next", "memory", name)`. Its `memory_spec()`
names what it remembers of one mech. Several policies share an environment, so each has a drawer of its own in the
environment's memory.
"""

from __future__ import annotations

from typing import Protocol

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.data import Composite


class TeamPolicy(Protocol):
    """Whoever commands a team."""

    def __call__(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for every mech of a team, batch `[B, A]`."""
        ...

    def memory_spec(self) -> Composite:
        """Float leaves that one mech remembers between decisions; zero when a battle begins."""
        ...


def drawers(**policies: TeamPolicy) -> Composite:
    """The memory an environment must carry, a drawer for each named policy."""
    return Composite(**{name: policy.memory_spec() for name, policy in policies.items()})


def team_view(tensordict: TensorDictBase, group: str, drawer: str) -> TensorDictBase:
    """What a policy may read of its team: the observation, the mask, and its own drawer as `memory`."""
    team = tensordict.get(group).select("observation", "mask").copy()
    return team.set("memory", tensordict.get((group, "memory", drawer)).copy())


class Seat(TensorDictModuleBase):
    """A team policy as a policy of the whole environment, commanding one group of it."""

    def __init__(self, policy: TeamPolicy, group: str, drawer: str) -> None:
        super().__init__()
        self.policy = policy
        self.group = group
        self.drawer = drawer
        self.in_keys = [(group, "observation"), (group, "memory", drawer)]
        self.out_keys = [(group, "action"), ("next", group, "memory", drawer)]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the group's action, and what the policy wants to remember."""
        decided = self.policy(team_view(tensordict, self.group, self.drawer))
        tensordict.set((self.group, "action"), decided.get("action"))
        return tensordict.set(("next", self.group, "memory", self.drawer), decided.get(("next", "memory")))
