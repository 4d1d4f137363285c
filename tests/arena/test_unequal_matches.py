"""Six light mechs against three heavies: both commanders play both sides, and padding has no effect."""

import dataclasses

import pytest
import torch
from builders import CPU
from leagues import TINY, policy_of

from echelon.agents.env_teams import pad_mechs
from echelon.agents.heuristic import Heuristic
from echelon.agents.user_policy import check_decision
from echelon.arena import batch_arena
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.evaluator import Evaluator
from echelon.arena.match import Match
from echelon.learn.config import EvalConfig, TrainConfig
from echelon.learn.metrics import read_table
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError

UNEQUAL = dataclasses.replace(
    EnvConfig.small(), rules=RulesConfig(max_episode_s=1.5), map_pool=1, blue=("light",) * 6, red=("heavy",) * 3
)
POLICIES = {"one": policy_of(1), "two": policy_of(2), "script": Heuristic(UNEQUAL, "easy")}
BATTLES = [Battle(x, y, 5) for x in POLICIES for y in POLICIES if x != y]


class Watcher(Heuristic):
    """Stores the number of mechs in its input."""

    seen: set[int]

    def forward(self, team):
        self.seen = {*getattr(self, "seen", set()), team.shape[1]}
        return super().forward(team)


def poisoned(leaf: torch.Tensor, mechs: int) -> torch.Tensor:
    """Replace zeros by NaN in `pad_mechs`."""
    padded = pad_mechs(leaf, mechs)
    if padded is not leaf and leaf.is_floating_point():
        padded[:, leaf.shape[1] :] = torch.nan
    return padded


def test_padding_does_not_affect_a_battle(monkeypatch):
    arena = BatchArena(UNEQUAL, POLICIES.__getitem__, ArenaConfig(CPU))
    together = arena.play(BATTLES).results
    assert len({result.state_hash for result in together}) == len(BATTLES)
    assert arena.play([BATTLES[3]]).results == [together[3]]
    monkeypatch.setattr(batch_arena, "pad_mechs", poisoned)
    assert arena.play(BATTLES).results == together


def test_custom_commander_receives_no_padding():
    watcher = Watcher(UNEQUAL, "easy")
    policies = {**POLICIES, "watcher": watcher}
    BatchArena(UNEQUAL, policies.__getitem__, ArenaConfig(CPU)).play(
        [Battle("watcher", "one", 5), Battle("one", "watcher", 5)]
    )
    assert watcher.seen == {3, 6}


def test_match_reports_both_sides(tmp_path):
    result = Match(("one", POLICIES["one"]), {"script": POLICIES["script"]}, UNEQUAL, 4, ArenaConfig(CPU)).play(3)[
        "script"
    ]
    x, y = result.win_rates_by_side(x=True), result.win_rates_by_side(x=False)
    assert x.keys() == y.keys() == {"blue", "red"}
    assert sum(x.values()) == result.x_wins / 2 and sum(y.values()) == result.y_wins / 2


def test_an_evaluation_has_a_column_for_either_role(tmp_path):
    panel = EvalConfig(battles=2, final_battles=2, tiers=("easy",))
    same = dataclasses.replace(UNEQUAL, red=UNEQUAL.blue)
    for env, columns in ((UNEQUAL, {"win_rate_blue", "win_rate_red"}), (same, set())):
        folder = tmp_path / env.title
        folder.mkdir()
        evaluator = Evaluator(policy_of(0), TrainConfig(env=env, num_envs=4, evaluation=panel, device="cpu"), folder)
        scores = evaluator.evaluate()
        evaluator.record(scores, 1, 1, 1.0)
        row = read_table(folder / "evaluations.csv")[0]
        assert {name for name in row if name.startswith("win_rate_")} == columns
        assert ("as blue" in str(scores[0])) == bool(columns)


def test_commander_of_one_team_size_is_rejected_before_any_battle():
    class OneSize(Heuristic):
        def forward(self, team):
            assert team.shape[1] == 6, "six mechs, please"
            return super().forward(team)

    with pytest.raises(ConfigError, match="expected a decision for a team of 3 mechs, got AssertionError: six mechs"):
        check_decision("mine:OneSize", OneSize(UNEQUAL), UNEQUAL, CPU)


def test_padding_does_not_change_a_networks_decisions():
    """A subclass is not stacked, so it receives its own team without padding."""

    class Plain(type(POLICIES["one"])):
        pass

    plain = TINY.build(POLICIES["one"].specs).eval()
    plain.load_state_dict(POLICIES["one"].state_dict())
    plain.__class__ = Plain
    battles = [Battle("one", "script", 5), Battle("script", "one", 5)]
    env = dataclasses.replace(UNEQUAL, rules=RulesConfig(max_episode_s=0.5))
    results = [
        BatchArena(env, {**POLICIES, "one": policy}.__getitem__, ArenaConfig(CPU)).play(battles).results
        for policy in (POLICIES["one"], plain)
    ]
    for padded, whole in zip(*results, strict=True):
        torch.testing.assert_close(torch.tensor(padded.stats), torch.tensor(whole.stats), atol=1e-3, rtol=1e-4)
