"""Who commands whom."""

import dataclasses

import torch
from builders import flat_maps
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.data import Composite, Unbounded

from echelon.config import EnvConfig
from echelon.env.env import EchelonEnv
from echelon.env.outcome import Winner
from echelon.learn.seats import Seats


class Marker(TensorDictModuleBase):
    """Orders one constant action and counts the decisions of every mech it commands."""

    def __init__(self, mark: float) -> None:
        super().__init__()
        self.mark = mark
        self.in_keys, self.out_keys = [("memory", "count")], ["action"]

    def memory_spec(self) -> Composite:
        return Composite(count=Unbounded((1,)))

    def forward(self, team: TensorDict) -> TensorDict:
        count = team.get(("memory", "count"))
        team.set("action", torch.full((*count.shape[:2], 26), self.mark))
        return team.set(("next", "memory", "count"), count + 1)


def env_for(seats: Seats, num_envs: int) -> EchelonEnv:
    config = dataclasses.replace(EnvConfig.small(), map_pool=1)
    return EchelonEnv(config, num_envs, device="cpu", seed=0, memory=seats.memory, maps=flat_maps(config))


def test_learner_is_blue_in_the_first_half_and_red_in_the_rest():
    seats = Seats(Marker(0.5), Marker(-0.5), 4)
    td = env_for(seats, 4).reset()
    seats.decide(td)
    assert td["blue", "action"][:, 0, 0].tolist() == [0.5, 0.5, -0.5, -0.5]
    assert td["red", "action"][:, 0, 0].tolist() == [-0.5, -0.5, 0.5, 0.5]


def test_each_policy_keeps_its_own_memory_where_it_commands():
    seats = Seats(Marker(0.5), Marker(-0.5), 4)
    env = env_for(seats, 4)
    td = env.reset()
    for _ in range(3):
        seats.decide(td)
        _, td = env.step_and_maybe_reset(td)
    assert td["blue", "memory", "learner", "count"][:, 0, 0].tolist() == [3, 3, 0, 0]
    assert td["red", "memory", "learner", "count"][:, 0, 0].tolist() == [0, 0, 3, 3]
    assert td["blue", "memory", "opponent", "count"][:, 0, 0].tolist() == [0, 0, 3, 3]


def test_against_itself_the_learner_commands_both_teams():
    seats = Seats(Marker(0.5), None, 4)
    env = env_for(seats, 4)
    td = env.reset()
    decided = seats.decide(td)
    assert decided.shape == (8, 5)
    assert (td["red", "action"] == 0.5).all() and (td["blue", "action"] == 0.5).all()
    _, td = env.step_and_maybe_reset(td)
    assert (td["red", "memory", "learner", "count"] == 1).all()


def test_wins_are_counted_from_the_learners_side():
    seats = Seats(Marker(0.5), Marker(-0.5), 4)
    blue, red, draw = int(Winner.BLUE), int(Winner.RED), int(Winner.DRAW)
    won, lost = seats.won_and_lost(torch.tensor([blue, red, red, draw]))
    assert won.tolist() == [True, False, True, False]
    assert lost.tolist() == [False, True, False, False]
