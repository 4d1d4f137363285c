"""A fully typed program: a custom opponent, reward and policy pass `mypy --strict`."""

import torch
from tensordict import TensorDictBase

import echelon
from echelon.env.outcome import Ending
from echelon.rules.actions import Act
from echelon.sim.model import SimModel
from echelon.state import State
from echelon.views.view import View

CONFIG: echelon.EnvConfig = echelon.EnvConfig.small()


class StandAndShoot:
    """A policy whose mechs stand still and fire their primary weapon."""

    def __call__(self, team: TensorDictBase) -> TensorDictBase:
        action = torch.zeros(*team.shape, 18 + CONFIG.comm_dim, device=team.device)
        action[..., Act.PRIMARY] = 1.0
        return team.set("action", action)


def cool(before: State, after: State, ending: Ending, sim_model: SimModel) -> torch.Tensor:
    """Return `[B, N]`: the free fraction of the heat capacity."""
    left: torch.Tensor = 1 - after.mechs.heat / sim_model.roster.heat_cap
    return left.clamp(0, 1)


def main(num_envs: int = 4, decisions: int = 8) -> dict[str, float]:
    """Return the mean of each reward term by name, and the number of battles that `versus` played."""
    term = echelon.RewardTerm(cool, weight=0.1)
    env = echelon.EchelonEnv(CONFIG, num_envs, device="cpu", seed=0, extra_rewards={"cool": term})
    paid = env.rollout(decisions)["next", "blue", "reward_terms"].mean((0, 1, 2))
    view: View = echelon.versus(CONFIG, StandAndShoot(), num_envs=num_envs, device="cpu", seed=0)
    battles: int = view.rollout(decisions).shape[0]
    return {**dict(zip(env.reward_terms, paid.tolist(), strict=True)), "battles": float(battles)}


if __name__ == "__main__":
    print(main())
