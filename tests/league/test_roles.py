"""Main agent and exploiters: mixtures, snapshots and resets by AlphaStar's rules (R27)."""

import random

import pytest

from echelon.league.config import LeagueConfig
from echelon.league.evolution import Role, judge, league_exploiter_shares, main_exploiter_shares, main_shares
from echelon.league.matchmaking import Opponent

CONFIG = LeagueConfig()
CHANCE = random.Random(0)


def known(name: str, rate: float) -> Opponent:
    """Return an opponent with about this win rate of the learner."""
    return Opponent(name, 1500.0, 9999, rate * 10_000 - 0.5)


def test_main_agent_plays_itself_the_league_and_forgotten_rivals():
    pool = [known("a", 0.5), known("b", 0.9), known("c", 0.2)]
    shares = main_shares(pool, [pool[1], pool[2]], CONFIG)
    assert sum(shares.values()) == pytest.approx(0.65), "the rest is against itself"
    weights = {"a": 0.25, "b": 0.01, "c": 0.64}
    for name, weight in weights.items():
        expected = 0.5 * weight / sum(weights.values()) + (0.15 if name == "c" else 0.0)
        assert shares[name] == pytest.approx(expected)
    assert sum(main_shares(pool, [pool[1]], CONFIG).values()) == pytest.approx(0.5), "nothing forgotten: more of itself"
    assert main_shares([], [], CONFIG) == {}


def test_main_exploiter_plays_past_mains_if_the_main_is_too_strong():
    earlier = [known("old", 0.5), known("older", 0.9)]
    assert main_exploiter_shares(known("main", 0.11), earlier, CONFIG) == {"main": 1.0}
    shares = main_exploiter_shares(known("main", 0.05), earlier, CONFIG)
    assert shares == {"old": pytest.approx(0.25 / 0.34), "older": pytest.approx(0.09 / 0.34)}
    assert main_exploiter_shares(known("main", 0.05), [], CONFIG) == {"main": 1.0}
    assert "old" in main_exploiter_shares(Opponent("main", 1500.0, 4, 0.0), earlier, CONFIG), "four battles lost"
    assert main_exploiter_shares(Opponent("main", 1500.0, 4, 0.5), earlier, CONFIG) == {"main": 1.0}
    assert main_exploiter_shares(None, [], CONFIG) == {}


def test_league_exploiter_plays_all_entries():
    shares = league_exploiter_shares([known("a", 0.5), known("b", 0.75)], CONFIG)
    assert shares == {"a": pytest.approx(0.8), "b": pytest.approx(0.2)}
    assert league_exploiter_shares([], CONFIG) == {}


def test_main_agent_joins_and_continues():
    verdict = judge(Role.MAIN, {}, 1, CONFIG, CHANCE)
    assert verdict.joins and not verdict.resets


@pytest.mark.requirement("R27")
def test_winning_exploiter_joins_and_resets():
    verdict = judge(Role.MAIN_EXPLOITER, {"main": 0.7}, 1, CONFIG, CHANCE)
    assert verdict.joins and verdict.resets and verdict.reason.startswith("won: 70% of the points against main")
    waits = judge(Role.MAIN_EXPLOITER, {"main": 0.69}, 3, CONFIG, CHANCE)
    assert not waits.joins and not waits.resets and "continues: 69%" in waits.reason
    late = judge(Role.MAIN_EXPLOITER, {"main": 0.1}, 4, CONFIG, CHANCE)
    assert not late.joins and late.resets and late.reason.startswith("out of turns: 10%")


@pytest.mark.parametrize("role", [Role.MAIN_EXPLOITER, Role.LEAGUE_EXPLOITER])
def test_exploiter_without_an_opponent_has_not_won(role):
    free = LeagueConfig(exploiter_wins=0.0)
    verdict, late = (judge(role, {}, turns, free, CHANCE) for turns in (1, free.exploiter_turns))
    assert (verdict.joins, verdict.resets, late.joins) == (False, False, False)
    assert verdict.reason == "continues: no opponent for an evaluation, turn 1 of 4"


@pytest.mark.requirement("R27")
def test_league_exploiter_must_beat_all_and_resets_randomly():
    waits = judge(Role.LEAGUE_EXPLOITER, {"a": 0.9, "b": 0.4}, 1, CONFIG, CHANCE)
    assert not waits.joins and "against b" in waits.reason
    verdicts = [judge(Role.LEAGUE_EXPLOITER, {"a": 0.8, "b": 0.75}, 1, CONFIG, CHANCE) for _ in range(2000)]
    assert all(verdict.joins for verdict in verdicts)
    assert 400 < sum(verdict.resets for verdict in verdicts) < 600
    late = [judge(Role.LEAGUE_EXPLOITER, {"a": 0.8, "b": 0.6}, 4, CONFIG, CHANCE) for _ in range(2000)]
    assert not any(verdict.joins for verdict in late), "none joins without a win"
    assert 400 < sum(verdict.resets for verdict in late) < 600
