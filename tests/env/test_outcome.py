"""How battles end, and their statistics."""

import dataclasses
import math

import pytest
import torch
from builders import arena, battle, scene, told
from first_catalog import SMALL, Weapon

from echelon.env import outcome
from echelon.env.outcome import STATS, Reason, Winner
from echelon.rules.actions import Act
from echelon.rules.catalog import Hull
from echelon.rules.physics import RulesConfig

pytestmark = pytest.mark.quick

LAST = 240 * 5
"""Ticks of a full battle."""


def field(**rules):
    config = dataclasses.replace(SMALL, blue=("medium",) * 2, red=("medium",) * 2)
    return scene(dataclasses.replace(config, rules=RulesConfig(**rules)))


def verdict(s, blue=0.0, red=0.0, tick=0):
    """Return winner, reason, terminated, truncated."""
    state = s.state.replace(score=torch.tensor([[blue, red]]), tick=torch.tensor([tick]))
    e = outcome.judge(state, s.sim_model)
    assert e.winner.dtype == e.reason.dtype == torch.int8
    assert torch.equal(e.done, e.terminated | e.truncated)
    return Winner(e.winner.item()), Reason(e.reason.item()), e.terminated.item(), e.truncated.item()


def test_battle_continues_without_a_reason_to_end():
    assert verdict(field(), 19.99, 19.99, LAST - 5) == (Winner.RUNNING, Reason.RUNNING, False, False)


@pytest.mark.parametrize(("dead", "winner"), [((0, 1), Winner.RED), ((2, 3), Winner.BLUE), ((0, 1, 2, 3), Winner.DRAW)])
def test_elimination(dead, winner):
    s = field()
    for n in dead:
        s.set(n, hp=0)
    assert verdict(s) == (winner, Reason.ELIMINATION, True, False)


def test_one_living_mech_prevents_elimination():
    assert verdict(field().set(0, hp=0).set(2, hp=0))[1] == Reason.RUNNING


@pytest.mark.parametrize(
    ("blue", "red", "winner"),
    [(20.0, 19.9, Winner.BLUE), (2.0, 20.0, Winner.RED), (20.1, 20.0, Winner.BLUE), (20.0, 20.0, Winner.DRAW)],
)
def test_score_to_win_ends_the_battle(blue, red, winner):
    assert verdict(field(), blue, red) == (winner, Reason.ZONE, True, False)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("blue", "red", "winner"),
    [(5.0, 4.0, Winner.BLUE), (4.0, 4.002, Winner.RED), (4.0005, 4.0, Winner.DRAW)],
)
def test_time_up_is_decided_by_score(blue, red, winner):
    assert verdict(field(), blue, red, LAST) == (winner, Reason.TIME_UP, False, True)


def test_time_up_with_equal_scores_is_decided_by_hp():
    assert verdict(field().set(3, hp=149), 4.0005, 4.0, LAST)[0] == Winner.BLUE
    assert verdict(field().set(1, hp=0).set(3, hp=149), tick=LAST)[0] == Winner.RED


def test_elimination_precedes_zone_and_zone_precedes_clock():
    s = field().set(0, hp=0).set(1, hp=0)
    assert verdict(s, 20.0, 0.0, LAST) == (Winner.RED, Reason.ELIMINATION, True, False)
    assert verdict(field(), 20.0, 0.0, LAST) == (Winner.BLUE, Reason.ZONE, True, False)


def test_time_up_terminates_if_configured():
    s = field(time_up_terminates=True)
    assert verdict(s, 5.0, 4.0, LAST) == (Winner.BLUE, Reason.TIME_UP, True, False)


def test_statistics_are_summed_over_each_team():
    s = field().set(3, hp=0)
    s.state.tally.damage[0] = torch.tensor([1.0, 2, 4, 8])
    stats = outcome.statistics(s.state, s.sim_model)
    assert stats.shape == (1, 2, len(STATS))
    assert stats[0, :, STATS.index("damage")].tolist() == [3, 12]
    assert stats[0, :, STATS.index("deaths")].tolist() == [0, 1]


def counted(s, name):
    """Return one statistic of blue and red."""
    return outcome.statistics(s.state, s.sim_model)[0, :, STATS.index(name)].tolist()


def test_every_statistic_has_a_name():
    weapons = [weapon.name.lower() for weapon in Weapon]
    assert [name for name in STATS if name.startswith("shots_")] == [f"shots_{w}" for w in weapons]
    assert [name for name in STATS if name.startswith("hits_")] == [f"hits_{w}" for w in weapons]
    assert [name for name in STATS if name.startswith("damage_")][: len(weapons)] == [f"damage_{w}" for w in weapons]
    assert len(set(STATS)) == len(STATS) == 13 + 4 * len(weapons) + 6 * len(Hull)


@pytest.mark.parametrize("name", outcome.OWN)
def test_statistics_of_actions_count_for_the_own_team(name):
    s = field()
    getattr(s.state.tally, name)[0] = torch.tensor([1.0, 2, 4, 8])
    assert counted(s, name) == [3, 12]


@pytest.mark.parametrize("name", outcome.BY_HULL)
def test_statistics_of_actions_count_for_the_class(name):
    s = battle(("scout", "medium", "medium"), ("light", "heavy"))
    getattr(s.state.tally, name)[0] = torch.tensor([1.0, 2, 4, 8, 16])
    for hull, wanted in (("scout", [1, 0]), ("light", [0, 8]), ("medium", [6, 0]), ("heavy", [0, 16])):
        assert counted(s, f"{name}_{hull}") == wanted


@pytest.mark.parametrize(("name", "tally"), [("knockdowns", "falls"), ("leggings", "legs_lost")])
def test_losses_count_for_the_other_team(name, tally):
    s = field()
    getattr(s.state.tally, tally)[0] = torch.tensor([1.0, 2, 4, 8])
    assert counted(s, name) == [12, 3]


@pytest.mark.usual
def test_shots_and_hits_are_counted_per_weapon():
    """Blue's laser hits, its shell misses; its painter, on the same trigger as the shell, and red's scout paint."""
    s = battle(("medium",), ("scout",)).place(0, 10.5, 20.5).place(1, 16.5, 20.5, yaw=math.pi)
    s.run(s.orders((0, Act.PRIMARY, 1.0), (0, Act.TERTIARY, 1.0), (1, Act.PRIMARY, 1.0)))
    s.place(1, 35, 35).wait(15)
    for name, wanted in {
        "shots_laser": [1, 0],
        "hits_laser": [1, 0],
        "shots_autocannon": [1, 0],
        "hits_autocannon": [0, 0],
        "shots_painter": [1, 1],
        "hits_painter": [1, 1],
        "paints": [1, 1],
        "shots_smoke": [0, 0],
    }.items():
        assert counted(s, name) == wanted, name


@pytest.mark.usual
def test_knockdowns_leggings_and_interceptions_are_counted():
    """Blue's gauss slug, 60 * 1.5 in the back, knocks red down; its laser destroys red's legs, its AMS a missile."""
    s = battle(("heavy",), ("heavy",)).place(0, 10.5, 20.5).place(1, 17.5, 20.5).set(1, stability=85, leg_hp=5)
    s.run(s.orders((0, Act.TERTIARY, 1.0))).wait(8)
    assert counted(s, "hits_gauss") == [1, 0] and counted(s, "knockdowns") == [1, 0]
    s.run(s.orders((0, Act.PRIMARY, 1.0)), beam_height=0.0)
    assert counted(s, "leggings") == [1, 0]  # the lowest beam hits at a quarter of the height
    s.throw(Weapon.MISSILE, 1, (13, 20.5, 2), (-12, 0, 0), target=0).wait(1, ams=0.0)
    assert counted(s, "intercepts") == [1, 0]


@pytest.mark.usual
def test_damage_kills_and_deaths_are_counted_per_weapon_and_class():
    """Blue's medium damages red's heavy with its laser, kills it with its autocannon; red's missile hits red."""
    s = battle(("medium",), ("heavy", "scout")).place(0, 10.5, 20.5).place(1, 16.5, 20.5, yaw=math.pi).set(1, hp=20)
    s.run(s.orders((0, Act.PRIMARY, 1.0))).run(s.orders((0, Act.TERTIARY, 1.0))).wait(8)
    s.place(2, 30.5, 30.5).throw(Weapon.MISSILE, 1, (30.5, 32.0, 0.3), (0, 0, -12)).wait(1)
    assert s.value("hp", 2) == 40
    for name, wanted in {
        "damage_laser": [14, 0],
        "damage_autocannon": [6, 0],
        "kills_laser": [0, 0],
        "kills_autocannon": [1, 0],
        "damage_medium": [20, 0],
        "kills_medium": [1, 0],
        "deaths_heavy": [0, 1],
        "deaths_scout": [0, 0],
        "damage_heavy": [0, 0],
        "damage_missile": [0, 0],
    }.items():
        assert counted(s, name) == wanted, name


def test_nonfinite_action_values_are_counted():
    env = arena(dataclasses.replace(SMALL, rules=RulesConfig(max_episode_s=0.25)))
    td = told(env, env.reset(), (1, Act.FORWARD, float("nan")), (1, Act.VENT, float("inf")), (7, 20, float("-inf")))
    stats = env.step(td)["next", "outcome", "stats"]
    assert stats[0, :, STATS.index("bad_actions")].tolist() == [2, 1]
