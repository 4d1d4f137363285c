"""Assignment of policies to teams."""

import dataclasses

import torch
from builders import flat_maps
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torchrl.data import Composite, Unbounded

from echelon.env.env import EchelonEnv
from echelon.env.outcome import Winner
from echelon.learn.opponents.assignment import OpponentGroup, PolicyAssignment
from echelon.rules.config import EnvConfig


class Marker(TensorDictModuleBase):
    """Returns one constant action, and counts the decisions of every mech."""

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


def against(mark: float, battles: int, name: str = "opponent") -> OpponentGroup:
    return OpponentGroup(name, Marker(mark), battles)


def env_for(seats: PolicyAssignment) -> EchelonEnv:
    config = dataclasses.replace(EnvConfig.small(), map_pool=1)
    count = seats.num_envs
    return EchelonEnv(config, count, device="cpu", seed=0, memory=seats.memory, maps=flat_maps(config))


def orders(seats: PolicyAssignment) -> tuple[list[float], list[float]]:
    """Return the action of each team's first mech, battle by battle."""
    td = env_for(seats).reset()
    seats.decide(td)
    return td["blue", "action"][:, 0, 0].tolist(), td["red", "action"][:, 0, 0].tolist()


def test_learner_is_blue_in_first_half_and_red_in_second():
    blue, red = orders(PolicyAssignment(Marker(0.5), [against(-0.5, 4)]))
    assert blue == [0.5, 0.5, -0.5, -0.5] and red == [-0.5, -0.5, 0.5, 0.5]


def test_learner_can_play_one_side_only():
    blue, red = orders(PolicyAssignment(Marker(0.5), [against(-0.5, 3)], "blue"))
    assert blue == [0.5] * 3 and red == [-0.5] * 3
    blue, red = orders(PolicyAssignment(Marker(0.5), [against(-0.5, 3)], "red"))
    assert blue == [-0.5] * 3 and red == [0.5] * 3


def test_opponents_have_contiguous_battles_on_both_sides():
    seats = PolicyAssignment(
        Marker(0.5), [against(-0.25, 2, "a"), OpponentGroup("itself", None, 1), against(-0.75, 4, "b")]
    )
    blue, red = orders(seats)
    assert blue == [0.5, -0.25, 0.5, 0.5, 0.5, -0.75, -0.75]
    assert red == [-0.25, 0.5, 0.5, -0.75, -0.75, 0.5, 0.5]
    assert seats.battles == {"a": slice(0, 2), "itself": slice(2, 3), "b": slice(3, 7)}
    # Rows: a as blue, a as red, both teams of self-play, b as blue twice, b as red twice.
    assert seats.opponent_rows == {"a": slice(0, 2), "itself": slice(2, 4), "b": slice(4, 8)}
    per_group = {"blue": torch.arange(7), "red": torch.arange(7) + 10}
    assert seats.rows(per_group).tolist() == [0, 11, 2, 12, 3, 4, 15, 16]
    of_mechs = {group: value[:, None] for group, value in per_group.items()}
    assert seats.enemy_rows(of_mechs).flatten().tolist() == [10, 1, 12, 2, 13, 14, 5, 6]


def test_each_policy_keeps_memory_of_its_own_teams():
    seats = PolicyAssignment(Marker(0.5), [against(-0.25, 2, "a"), against(-0.75, 2, "b")])
    env = env_for(seats)
    td = env.reset()
    for _ in range(3):
        seats.decide(td)
        _, td = env.step_and_maybe_reset(td)

    def counts(group: str, name: str) -> list[float]:
        return td[group, "memory", name, "count"][:, 0, 0].tolist()

    assert counts("blue", "learner") == [3, 0, 3, 0] and counts("red", "learner") == [0, 3, 0, 3]
    assert counts("blue", "a") == [0, 3, 0, 0] and counts("red", "a") == [3, 0, 0, 0]
    assert counts("blue", "b") == [0, 0, 0, 3] and counts("red", "b") == [0, 0, 3, 0]


def test_learner_commands_both_teams_in_self_play():
    seats = PolicyAssignment(Marker(0.5), [OpponentGroup("itself", None, 4)])
    env = env_for(seats)
    td = env.reset()
    decided = seats.decide(td)
    assert decided.shape == (8, 5)
    assert (td["red", "action"] == 0.5).all() and (td["blue", "action"] == 0.5).all()
    _, td = env.step_and_maybe_reset(td)
    assert (td["red", "memory", "learner", "count"] == 1).all()


def test_wins_are_counted_for_the_learners_team():
    seats = PolicyAssignment(Marker(0.5), [against(-0.5, 4)])
    blue, red, draw = int(Winner.BLUE), int(Winner.RED), int(Winner.DRAW)
    won, lost = seats.won_and_lost(torch.tensor([blue, red, red, draw]))
    assert won.tolist() == [True, False, True, False]
    assert lost.tolist() == [False, True, False, False]


def test_telemetry_map_is_expanded_without_copies():
    seats = PolicyAssignment(Marker(0.5), [against(-0.5, 4)])
    td = env_for(seats).reset()
    shown = seats.view(td, "learner")["telemetry"]
    assert shown.shape == (4, 5, 16, 16) and shown.stride(1) == 0
    assert torch.equal(shown[:, 3], td["telemetry"])
