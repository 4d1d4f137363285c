"""TorchRL's `LSTMModule` on the groups of a view, whose batch is `[battles, mechs]`. The view carries the memory."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase
from torchrl.modules import LSTMModule

import echelon
from echelon import EnvConfig


class OnGroup(TensorDictModuleBase):
    """A recurrent policy of one mech on the mechs of a group."""

    def __init__(self, policy: TensorDictModuleBase, group: str = "agents") -> None:
        super().__init__()
        self.policy, self.group = policy, group
        self.in_keys = ["is_init", (group, "observation"), (group, "memory")]
        self.out_keys = [(group, "action"), ("next", group, "memory")]

    def forward(self, td: TensorDict) -> TensorDict:
        team = td[self.group].copy()
        team["is_init"] = td["is_init"].unsqueeze(-2).expand(*team.batch_size, 1)
        decided = self.policy(team)
        td[self.group, "action"] = decided["action"]
        td["next", self.group, "memory"] = decided["next", "memory"]
        return td


def make(config: EnvConfig, num_envs: int, hidden: int = 16) -> tuple[EnvBase, OnGroup]:
    """Return a view with memory, and an untrained policy for it."""
    state = Unbounded((1, hidden))  # layers, hidden size
    memory = Composite(h=state, c=state.clone())
    env = echelon.versus(config, "heuristic:easy", num_envs=num_envs, memory=memory, seed=0)
    width = env.observation_spec["agents", "observation"].shape[-1]
    keys = [("memory", "h"), ("memory", "c")]
    written = ["embedding", *(("next", *key) for key in keys)]
    lstm = LSTMModule(width, hidden, in_keys=["observation", *keys], out_keys=written)
    head = torch.nn.Linear(hidden, env.action_spec["agents", "action"].shape[-1])
    return env, OnGroup(TensorDictSequential(lstm, TensorDictModule(head, ["embedding"], ["action"])))


if __name__ == "__main__":
    env, policy = make(EnvConfig.small(), num_envs=2)
    print(env.rollout(3, policy)["agents", "memory", "h"].shape)
