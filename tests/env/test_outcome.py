"""How a battle ends."""

import dataclasses

import pytest
import torch
from builders import scene

from echelon.config import EnvConfig, RulesConfig
from echelon.env import outcome
from echelon.env.outcome import STATS, Reason, Winner

LAST = 240 * 5
"""Ticks of a full battle."""


def field(**rules):
    config = dataclasses.replace(EnvConfig.small(), blue=("medium",) * 2, red=("medium",) * 2)
    return scene(dataclasses.replace(config, rules=RulesConfig(**rules)))


def verdict(s, blue=0.0, red=0.0, tick=0):
    """Winner, reason, terminated, truncated."""
    state = s.state.replace(score=torch.tensor([[blue, red]]), tick=torch.tensor([tick]))
    e = outcome.judge(state, s.game)
    assert e.winner.dtype == e.reason.dtype == torch.int8
    assert torch.equal(e.done, e.terminated | e.truncated)
    return Winner(e.winner.item()), Reason(e.reason.item()), e.terminated.item(), e.truncated.item()


def test_a_battle_goes_on():
    assert verdict(field(), 29.99, 29.99, LAST - 5) == (Winner.RUNNING, Reason.RUNNING, False, False)


@pytest.mark.parametrize(("dead", "winner"), [((0, 1), Winner.RED), ((2, 3), Winner.BLUE), ((0, 1, 2, 3), Winner.DRAW)])
def test_elimination(dead, winner):
    s = field()
    for n in dead:
        s.set(n, hp=0)
    assert verdict(s) == (winner, Reason.ELIMINATION, True, False)


def test_one_mech_left_is_no_elimination():
    assert verdict(field().set(0, hp=0).set(2, hp=0))[1] == Reason.RUNNING


@pytest.mark.parametrize(
    ("blue", "red", "winner"),
    [(30.0, 29.9, Winner.BLUE), (3.0, 30.0, Winner.RED), (30.1, 30.0, Winner.BLUE), (30.0, 30.0, Winner.DRAW)],
)
def test_thirty_seconds_of_zone_win(blue, red, winner):
    assert verdict(field(), blue, red) == (winner, Reason.ZONE, True, False)


@pytest.mark.parametrize(
    ("blue", "red", "winner"),
    [(5.0, 4.0, Winner.BLUE), (4.0, 4.002, Winner.RED), (4.0005, 4.0, Winner.DRAW)],
)
def test_time_up_goes_by_score(blue, red, winner):
    assert verdict(field(), blue, red, LAST) == (winner, Reason.TIME_UP, False, True)


def test_time_up_at_equal_scores_goes_by_hp():
    assert verdict(field().set(3, hp=149), 4.0005, 4.0, LAST)[0] == Winner.BLUE
    assert verdict(field().set(1, hp=0).set(3, hp=149), tick=LAST)[0] == Winner.RED


def test_elimination_comes_before_the_zone_and_the_zone_before_the_clock():
    s = field().set(0, hp=0).set(1, hp=0)
    assert verdict(s, 30.0, 0.0, LAST) == (Winner.RED, Reason.ELIMINATION, True, False)
    assert verdict(field(), 30.0, 0.0, LAST) == (Winner.BLUE, Reason.ZONE, True, False)


def test_the_clock_may_be_part_of_the_game():
    s = field(time_up_terminates=True)
    assert verdict(s, 5.0, 4.0, LAST) == (Winner.BLUE, Reason.TIME_UP, True, False)


def test_statistics_are_summed_over_each_team():
    s = field().set(3, hp=0)
    s.state.tally.damage[0] = torch.tensor([1.0, 2, 4, 8])
    stats = outcome.statistics(s.state, s.game)
    assert stats.shape == (1, 2, len(STATS))
    assert stats[0, :, STATS.index("damage")].tolist() == [3, 12]
    assert stats[0, :, STATS.index("deaths")].tolist() == [0, 1]
