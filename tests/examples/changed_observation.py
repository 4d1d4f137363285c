"""Act on a changed copy of the observation: what does `trained:quick` do differently if no mech seems hot?"""

import torch
from tensordict import TensorDict
from torchrl.envs import ExplorationType, set_exploration_type

import echelon
from echelon import EnvConfig


def main(config: EnvConfig | None = None, num_envs: int = 2, decisions: int = 40) -> tuple[float, float]:
    """Return the highest heat after some decisions, and the largest change of an action."""
    policy = echelon.load_policy("trained:quick", "cpu")
    env = echelon.versus(
        config or EnvConfig.small(), "heuristic:easy", num_envs, "cpu",
        seed=0, observation="structured", memory=policy.memory_spec(),
    )  # fmt: skip
    act = policy.get_policy_operator("agents")
    ego = ("agents", "observation", "ego")
    heat = [column.name for column in env.describe()[ego].columns].index("heat")

    def act_as_if_cold(td: TensorDict) -> TensorDict:
        """Return `td` with the entries that the policy writes when no mech is hot."""
        seen = td.clone()
        seen[ego][..., heat] = 0.0
        return td.update(act(seen).select(*act.out_keys))

    # Without noise the changed column is the only difference.
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        td = env.rollout(decisions, act_as_if_cold, break_when_any_done=False)[:, -1]
        change = act_as_if_cold(td.clone())["agents", "action"] - act(td.clone())["agents", "action"]
    return td[ego][..., heat].max().item(), change.abs().max().item()


if __name__ == "__main__":
    print(main())
