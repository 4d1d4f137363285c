"""Matches: both sides of each seed, with reproducible results."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch
from leagues import TINY, checkpoint_of, policy_of

from echelon.agents.heuristic import Heuristic
from echelon.arena.batch_arena import BattleResult
from echelon.arena.config import ArenaConfig
from echelon.arena.match import Match, Result, named_match, play, replay_of
from echelon.arena.resolve import resolve
from echelon.env.outcome import STATS, Reason, Winner
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import Counters
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError

CPU = torch.device("cpu")
BRIEF = dataclasses.replace(EnvConfig.small(), rules=RulesConfig(max_episode_s=15.0), map_pool=4)


def result(winners: list[Winner]) -> Result:
    empty = [0.0] * (len(STATS) - 2)
    stats = [[[float(b), 0.0, *empty], [0.0, float(b), *empty]] for b in range(len(winners))]
    outcomes = [
        BattleResult(winner, Reason.ZONE, [0.0, 0.0], 10, 0.0, own, "0" * 16)
        for winner, own in zip(winners, stats, strict=True)
    ]
    return Result(outcomes, 2.0)


def test_wins_follow_the_commander_across_sides():
    r = result([Winner.BLUE, Winner.RED, Winner.RED, Winner.DRAW])
    assert (r.x_wins, r.y_wins) == (2, 1) and r.x_points == 2 + r.count(Winner.DRAW) / 2
    said = r.as_json()
    assert (said["blue_wins"], said["red_wins"], said["draws"], said["battles"]) == (1, 2, 1, 4)
    assert said["x_win_rate"] == 0.5 and said["battles_per_s"] == 2.0
    assert said["x_win_rate_by_side"] == {"blue": 0.5, "red": 0.5}
    assert said["y_win_rate_by_side"] == {"blue": 0.0, "red": 0.5}
    assert [o["x_side"] for o in said["outcomes"]] == ["blue", "red", "blue", "red"]
    # X is blue in battles 0 and 2, red in 1 and 3; damage is the first entry of a side's statistics.
    assert r.mean_stats(x=True)[STATS[0]] == (0 + 0 + 2 + 0) / 4
    assert r.mean_stats(x=False)[STATS[0]] == (0 + 1 + 0 + 3) / 4
    json.dumps(said)


@pytest.mark.requirement("R30")
def test_interval_is_over_seeds():
    """A commander plays itself and blue always wins, so that each seed has one win and one loss."""
    mirror = result([Winner.BLUE] * 64)
    low, high = mirror.x_win_rate_95
    assert mirror.x_wins == 32 and 0.45 < low < 0.5 < high < 0.55
    alike = result([Winner.BLUE, Winner.RED] * 16 + [Winner.RED, Winner.BLUE] * 16)
    low, high = alike.x_win_rate_95
    assert alike.x_wins == 32 and low < 0.34 and high > 0.66
    assert alike.as_json()["x_win_rate_95"] == [low, high]


@pytest.mark.requirement("R16", "R30")
def test_the_same_seed_gives_the_same_match_and_both_sides_share_seeds():
    brief = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=1.0))
    commander = Heuristic(brief)
    first, second = (play(commander, commander, brief, 8, 3, ArenaConfig(CPU)) for _ in range(2))
    assert dataclasses.replace(first, seconds=0.0) == dataclasses.replace(second, seconds=0.0)
    # One commander on both sides: battles 2i and 2i + 1 are the same battle.
    assert first.outcomes[::2] == first.outcomes[1::2] and len({o.state_hash for o in first.outcomes}) == 4
    assert all(outcome.winner != Winner.RUNNING for outcome in first.outcomes)
    other = play(commander, commander, brief, 8, 4, ArenaConfig(CPU))
    assert {o.state_hash for o in other.outcomes}.isdisjoint(o.state_hash for o in first.outcomes)


@pytest.mark.requirement("R16")
def test_policy_samples_actions_from_the_seed():
    short = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=3.0))
    torch.manual_seed(0)
    policy, rival = LSTMConfig(hidden=16).build(PolicySpecs(short.comm_dim)).eval(), Heuristic(short)
    before = torch.get_rng_state()
    first = play(policy, rival, short, 2, 3, ArenaConfig(CPU))
    assert torch.equal(torch.get_rng_state(), before)  # the caller's generator is unchanged
    torch.rand(5)
    assert play(policy, rival, short, 2, 3, ArenaConfig(CPU)).outcomes == first.outcomes
    # Untrained, its mean action pulls no trigger or all of them; sampled actions fire each weapon sometimes.
    shots = [
        first.outcomes[0].stats[0][i] for i, name in enumerate(STATS) if name in ("shots_autocannon", "shots_smoke")
    ]
    assert all(count > 0 for count in shots)


@pytest.mark.requirement("R16")
def test_longer_match_starts_with_the_shorter_one():
    """The result does not depend on other opponents or the number of battles."""
    short = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=1.0))
    x, y = policy_of(1), policy_of(2)
    two = play(x, y, short, 2, 3, ArenaConfig(CPU)).outcomes
    assert play(x, y, short, 4, 3, ArenaConfig(CPU)).outcomes[:2] == two
    others = {"script": Heuristic(short), "y": y}
    match = Match(("x", x), others, short, 6, ArenaConfig(CPU, batch=5))
    assert match.play(3)["y"].outcomes[:2] == two
    assert match.places("y", range(4)) == [2, 3, 6, 7]


def test_a_replay_names_the_sides_of_a_match():
    recorder = SimpleNamespace(battles=[2, 3], finish=lambda blue, red: list(zip(blue, red, strict=True)))
    assert replay_of(recorder, "x", "y") == [("x", "y"), ("y", "x")]


@pytest.mark.requirement("R12")
def test_match_rejects_invalid_arguments():
    commander = Heuristic(BRIEF)
    with pytest.raises(ConfigError, match="battles must be even and >= 2"):
        play(commander, commander, BRIEF, 3, 0, ArenaConfig(CPU))
    learning = LSTMConfig(hidden=8, contact_width=4, body_width=8).build(PolicySpecs(8)).train()
    with pytest.raises(ConfigError, match="evaluation mode"):
        play(learning, commander, BRIEF, 2, 0, ArenaConfig(CPU))


def test_commanders_come_from_names(tmp_path):
    assert isinstance(resolve("heuristic").policy(BRIEF, CPU), Heuristic)
    with pytest.raises(ConfigError, match="a scripted commander must be heuristic:trivial"):
        resolve("heuristic:godlike").policy(BRIEF, CPU)
    with pytest.raises(FileError, match="expected a tier, heuristic"):
        resolve(str(tmp_path / "missing"))
    policies = []
    for width in (8, 12):
        policy = LSTMConfig(hidden=width, contact_width=4, body_width=8).build(PolicySpecs(8))
        save_checkpoint(tmp_path / str(width), policy, ValueNorm(), BRIEF, Counters(1, 1, 1.0), {})
        policies.append(resolve(str(tmp_path / str(width))).policy(BRIEF, CPU))
    # Networks of different sizes decide apart.
    short = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=1.0))
    assert play(*policies, short, 2, 0, ArenaConfig(CPU)).battles == 2


def test_match_of_names_equals_match_of_policies(tmp_path):
    """The battle is the trained commander's, unless another config is given."""
    short = dataclasses.replace(BRIEF, rules=RulesConfig(max_episode_s=1.0))
    policy = str(checkpoint_of(tmp_path, 1, env=short))
    match = named_match(policy, "heuristic:easy", None, 2, ArenaConfig(CPU))
    assert match.x == resolve(policy).id and match.others == ("heuristic:easy",)
    assert match.arena.config.signature() == short.signature()
    x, y = (resolve(name).policy(short, CPU) for name in (policy, "heuristic:easy"))
    by_hand = Match((match.x, x), {"heuristic:easy": y}, short, 2, ArenaConfig(CPU))
    assert match.play(3)["heuristic:easy"].outcomes == by_hand.play(3)["heuristic:easy"].outcomes
    given = dataclasses.replace(short, map_pool=1)
    assert named_match(policy, policy, given, 2, ArenaConfig(CPU)).arena.config == given


def test_equal_weights_with_other_settings_use_their_names(tmp_path):
    """A setting that changes no weight does not change the policy's file, and so its id."""
    blind = dataclasses.replace(TINY, path_observed=False)
    x, y = (str(checkpoint_of(tmp_path / kind, 1, model)) for kind, model in (("sees", TINY), ("blind", blind)))
    assert resolve(x).id == resolve(y).id
    match = named_match(x, y, None, 2, ArenaConfig(CPU))
    assert (match.x, match.others) == (x, (y,))
    assert named_match(x, x, None, 2, ArenaConfig(CPU)).x == resolve(x).id


def test_a_battle_is_rebuilt_from_its_signature():
    there_and_back = env_from_json(json.loads(json.dumps(BRIEF.signature())))
    assert there_and_back == dataclasses.replace(BRIEF, map_seed=0)
    broken = {**BRIEF.signature(), "comm_dim": "eight"}
    with pytest.raises(ConfigError, match=r"env.comm_dim must be a int, got 'eight'"):
        env_from_json(broken)
    with pytest.raises(ConfigError, match=r"env.rules.gravity must be absent: .*, got 3"):
        env_from_json({**BRIEF.signature(), "rules": {**BRIEF.signature()["rules"], "gravity": 3}})
