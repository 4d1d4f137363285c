"""Wraps a policy of one team (`echelon.agents.team_policy`) as a policy of the whole environment.

Several policies may share an environment, so each has its own entry in the environment's memory.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import NestedKey

from echelon.agents.env_teams import team_view
from echelon.agents.runner import action_noise, team_input
from echelon.agents.team_policy import TeamPolicy, entry, memory_spec, memory_spec_of

__all__ = [
    "GroupPolicy",
    "TeamPolicy",
    "action_noise",
    "memory_spec",
    "memory_spec_of",
    "team_input",
    "team_view",
]


class GroupPolicy(TensorDictModuleBase):
    """Wraps a team policy as a policy of the whole environment, which commands one group.

    Args:
        policy: the team policy.
        group: the group that the policy commands, `blue` or `red`.
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
        """Write the policy's outputs, such as action and log-probability, into its group.

        The next recurrent state is written to `("next", group, "memory", name)`.
        """
        usage = f"EchelonEnv(..., memory=memory_spec({self.name}=policy)); docs/POLICIES.md"
        for key in self.in_keys:
            entry(tensordict, key, f"A group policy of {self.group} requires {usage}")
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
