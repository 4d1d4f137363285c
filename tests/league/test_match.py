"""Matches: both sides of each seed, the same every time."""

import dataclasses
import json

import pytest
import torch

from echelon.agents.heuristic import Heuristic
from echelon.config import ConfigError, EnvConfig, RulesConfig, env_from_json
from echelon.env.outcome import STATS, Reason, Winner
from echelon.files import FileError
from echelon.league.match import Result, load_commander, play, wilson_interval
from echelon.learn import checkpoint
from echelon.learn.advantage import ValueNorm
from echelon.learn.checkpoint import Counters
from echelon.learn.config import ModelConfig
from echelon.learn.policy import MechPolicy

CPU = torch.device("cpu")
BRIEF = dataclasses.replace(EnvConfig.small(), rules=RulesConfig(max_episode_s=15.0), map_pool=4)


def result(winners: list[Winner]) -> Result:
    half = len(winners) // 2
    n = len(winners)
    stats = [[[float(b), 0.0], [0.0, float(b)]] for b in range(n)]
    stats = [[side + [0.0] * (len(STATS) - 2) for side in battle] for battle in stats]
    return Result([b < half for b in range(n)], winners, [Reason.ZONE] * n, [[0.0, 0.0]] * n, [10] * n, stats, 2.0)


def test_wins_follow_the_commander_across_sides():
    r = result([Winner.BLUE, Winner.RED, Winner.RED, Winner.DRAW])
    assert (r.x_wins, r.y_wins) == (2, 1)
    said = r.as_json()
    assert (said["blue_wins"], said["red_wins"], said["draws"], said["battles"]) == (1, 2, 1, 4)
    assert said["x_win_rate"] == 0.5 and said["battles_per_s"] == 2.0
    assert [o["x_side"] for o in said["outcomes"]] == ["blue", "blue", "red", "red"]
    # X is blue in battles 0 and 1, red in 2 and 3; damage is the first entry of a side's statistics.
    assert r.mean_stats(x=True)[STATS[0]] == (0 + 1 + 0 + 0) / 4
    assert r.mean_stats(x=False)[STATS[0]] == (0 + 0 + 2 + 3) / 4
    json.dumps(said)


def test_wilson_interval_of_the_textbook():
    low, high = wilson_interval(8, 10)
    assert abs(low - 0.4902) < 1e-4 and abs(high - 0.9433) < 1e-4
    assert wilson_interval(0, 20)[0] == 0.0 and wilson_interval(20, 20)[1] == 1.0


def test_the_same_seed_gives_the_same_match_and_both_sides_share_seeds():
    commander = Heuristic(BRIEF)
    first, second = (play(commander, commander, BRIEF, 8, 3, CPU) for _ in range(2))
    assert dataclasses.replace(first, seconds=0.0) == dataclasses.replace(second, seconds=0.0)
    # One commander on both sides: battle b and b + 4 are the same battle.
    assert first.winner[:4] == first.winner[4:] and first.stats[:4] == first.stats[4:]
    assert all(w != Winner.RUNNING for w in first.winner)
    other = play(commander, commander, BRIEF, 8, 4, CPU)
    assert other.stats != first.stats


def test_a_policy_acts_by_chance_and_the_seed_decides_which():
    short = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=3.0))
    torch.manual_seed(0)
    policy, rival = MechPolicy(ModelConfig(hidden=16), short.comm_dim).eval(), Heuristic(short)
    before = torch.get_rng_state()
    first = play(policy, rival, short, 2, 3, CPU)
    assert torch.equal(torch.get_rng_state(), before)  # the caller's own chance is left alone
    torch.rand(5)
    assert play(policy, rival, short, 2, 3, CPU).stats == first.stats
    # Untrained, its mean action pulls no trigger or all of them; by chance it fires each weapon now and then.
    shots = [first.stats[0][0][i] for i, name in enumerate(STATS) if name in ("shots_autocannon", "shots_smoke")]
    assert all(count > 0 for count in shots)


def test_a_match_refuses_what_it_cannot_judge():
    commander = Heuristic(BRIEF)
    with pytest.raises(ConfigError, match="battles must be even and >= 2"):
        play(commander, commander, BRIEF, 3, 0, CPU)
    uneven = dataclasses.replace(BRIEF, red=("heavy",))
    with pytest.raises(ConfigError, match="env must be of equal team sizes"):
        play(commander, commander, uneven, 2, 0, CPU)
    learning = MechPolicy(ModelConfig(hidden=8, contact_width=4, body_width=8), 8).train()
    with pytest.raises(ConfigError, match="evaluation mode"):
        play(learning, commander, BRIEF, 2, 0, CPU)
    with pytest.raises(ConfigError, match="a policy's device must be cpu, as of its battles, got 'meta'"):
        play(learning.eval().to("meta"), commander, BRIEF, 2, 0, CPU)


def test_commanders_come_from_names(tmp_path):
    assert isinstance(load_commander("heuristic", BRIEF, CPU), Heuristic)
    with pytest.raises(ConfigError, match="a scripted commander must be heuristic:trivial"):
        load_commander("heuristic:godlike", BRIEF, CPU)
    with pytest.raises(FileError, match="expected heuristic"):
        load_commander(str(tmp_path / "nobody"), BRIEF, CPU)
    policies = []
    for width in (8, 12):
        policy = MechPolicy(ModelConfig(hidden=width, contact_width=4, body_width=8), 8)
        checkpoint.save(tmp_path / str(width), policy, ValueNorm(), BRIEF, Counters(1, 1, 1.0), {})
        policies.append(load_commander(str(tmp_path / str(width)), BRIEF, CPU))
    # Networks of different sizes remember in drawers of their own.
    assert play(*policies, BRIEF, 2, 0, CPU).battles == 2


def test_a_battle_is_rebuilt_from_its_signature():
    there_and_back = env_from_json(json.loads(json.dumps(BRIEF.signature())))
    assert there_and_back == dataclasses.replace(BRIEF, map_seed=0)
    broken = {**BRIEF.signature(), "comm_dim": "eight"}
    with pytest.raises(ConfigError, match=r"env.comm_dim must be a int, got 'eight'"):
        env_from_json(broken)
    with pytest.raises(ConfigError, match=r"env.rules.gravity must be absent: .*, got 3"):
        env_from_json({**BRIEF.signature(), "rules": {**BRIEF.signature()["rules"], "gravity": 3}})
