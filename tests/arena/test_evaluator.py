"""The panel: the same battles against the same commanders during a run."""

import dataclasses
import json

import pytest
import torch

from echelon.agents.heuristic import scripted
from echelon.arena.config import ArenaConfig
from echelon.arena.evaluator import BEST, COLUMNS, RIVAL, Evaluator, panel_task
from echelon.arena.exploit import MAP_SEED, judged_env
from echelon.arena.match import play
from echelon.env.tasks.task import RUN_SEED, TABLE, find_task
from echelon.learn.config import EvalConfig, TrainConfig
from echelon.learn.metrics import read_table
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.opponents.assignment import LEARNER
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError

CPU = torch.device("cpu")
BRIEF = dataclasses.replace(EnvConfig.small(), rules=RulesConfig(max_episode_s=1.0), map_pool=2)


def panel_of(policy: ActorCritic, folder) -> Evaluator:
    config = TrainConfig(
        env=BRIEF, num_envs=4, evaluation=EvalConfig(battles=4, tiers=("trivial", "easy")), device="cpu"
    )
    return Evaluator(policy, config, folder)


def judge(panel, iteration=0):
    """Evaluate as a run does."""
    scores = panel.evaluate()
    panel.update_best(scores, iteration)
    return scores


def test_the_panel_is_the_tiers_and_the_best_on_held_out_maps(tmp_path):
    torch.manual_seed(0)
    policy = LSTMConfig(hidden=16).build(PolicySpecs(BRIEF.comm_dim))
    panel = panel_of(policy, tmp_path)
    assert panel.env.map_seed == RUN_SEED != BRIEF.map_seed
    first, second = judge(panel), judge(panel)
    assert [score.rival for score in first] == ["heuristic:trivial", "heuristic:easy"], "no best policy yet"
    assert [score.rival for score in second] == ["heuristic:trivial", "heuristic:easy", BEST]
    assert policy.training, "it goes on learning"
    for a, b in zip(first, second[:-1], strict=True):
        assert dataclasses.replace(a.result, seconds=0) == dataclasses.replace(b.result, seconds=0)
    panel.record(second, 3, 300, 1.0)
    rows = read_table(tmp_path / "evaluations.csv")
    assert [row["rival"] for row in rows] == [score.rival for score in second] and set(rows[0]) == set(COLUMNS)
    for row in rows:
        assert float(row["low"]) <= float(row["win_rate"]) <= float(row["high"])


def test_selection_battles_are_in_no_task_and_no_certificate():
    """Runs of all shipped tasks are compared with all protocols and with a certificate of their battles."""
    tasks = [find_task(json.loads(line)["name"]) for line in TABLE.read_text().splitlines()]
    judging = {(task.evaluation_config.map_seed, task.protocol.seed) for task in tasks}
    for task in tasks:
        own = panel_task(TrainConfig(env=task.config), ("heuristic:hard",))
        chosen = own.evaluation_config.map_seed, own.protocol.seed
        assert chosen not in judging and chosen[1] not in {seed for _, seed in judging}, task.name
        assert chosen[0] not in {maps for maps, _ in judging} | {judged_env(task.config).map_seed, MAP_SEED}
        assert chosen[0] not in {task.config.map_seed for task in tasks}


def test_panel_accepts_any_commander_name(tmp_path):
    def opponent_of(name, env, device):
        return scripted("heuristic:trivial" if name == "mine:Commander" else name, env, device)

    torch.manual_seed(0)
    policy = LSTMConfig(hidden=16).build(PolicySpecs(BRIEF.comm_dim))
    panel = EvalConfig(battles=2, final_battles=2, tiers=("easy", "mine:Commander"))
    config = TrainConfig(env=BRIEF, num_envs=4, evaluation=panel, device="cpu")
    callback = Evaluator(policy, config, tmp_path, opponent_of=opponent_of)
    judge(callback)
    scores, replay = callback.evaluate_final(), callback.record_battles(1)
    callback.record(scores, 1, 1, 1.0)
    rivals = ["heuristic:easy", "mine:Commander", BEST]
    assert [row["rival"] for row in read_table(tmp_path / "evaluations.csv")] == rivals
    assert replay.battles[0].about["red"] == "mine:Commander"
    for names, message in ((("missing",), "a scripted commander must be .*, got 'missing'"), ((BEST,), "got 'best'")):
        config = dataclasses.replace(config, evaluation=EvalConfig(tiers=names))
        with pytest.raises(ConfigError, match=message):
            Evaluator(policy, config, tmp_path)


def test_statistics_of_both_teams_are_written(tmp_path):
    torch.manual_seed(0)
    panel = panel_of(LSTMConfig(hidden=16).build(PolicySpecs(BRIEF.comm_dim)), tmp_path)
    scores = judge(panel)
    panel.record(scores, 3, 300, 1.0)
    rows = read_table(tmp_path / "behaviour.csv")
    assert [(row["rival"], row["team"]) for row in rows] == [(s.rival, who) for s in scores for who in (LEARNER, RIVAL)]
    for score, row in zip(scores, rows[::2], strict=True):
        for name, mean in score.result.mean_stats(x=True).items():
            assert float(row[name]) == pytest.approx(mean, abs=1e-4)
    panel.open_table(2)
    assert read_table(tmp_path / "behaviour.csv") == [], "rows of after a checkpoint go when a run resumes there"


def test_recorded_battles_are_those_of_the_evaluation(tmp_path):
    torch.manual_seed(0)
    panel = panel_of(LSTMConfig(hidden=16).build(PolicySpecs(BRIEF.comm_dim)), tmp_path)
    played = panel.evaluate()[1].result
    replay = panel.record_battles(3, "mine")
    assert [battle.about["blue"] for battle in replay.battles] == ["mine", "heuristic:easy", "mine"]
    for battle, outcome in zip(replay.battles, played.outcomes, strict=False):
        assert battle.decisions == outcome.decisions
        assert battle.about["outcome"]["score"] == pytest.approx(outcome.score, abs=1e-5)


def test_panel_opponents_share_seeds(tmp_path):
    torch.manual_seed(0)
    policy = LSTMConfig(hidden=16).build(PolicySpecs(BRIEF.comm_dim))
    panel = panel_of(policy, tmp_path)
    judge(panel)
    panel.evaluate()
    seeds = panel.arena._env.state.seed.view(2, 3, 2)
    assert all(len(set(own.flatten().tolist())) == 1 for own in seeds) and seeds.unique().numel() == 2


def test_the_best_is_replaced_by_a_better_one_only(tmp_path):
    torch.manual_seed(0)
    policy = LSTMConfig(hidden=16).build(PolicySpecs(BRIEF.comm_dim))
    panel = panel_of(policy, tmp_path)
    judge(panel)
    panel.best_rate = 2.0
    with torch.no_grad():
        policy.network.head.loc.bias.add_(1.0)
    judge(panel)
    assert not torch.equal(panel.best.network.head.loc.bias, policy.network.head.loc.bias)
    panel.best_rate = -1.0
    judge(panel)
    assert torch.equal(panel.best.network.head.loc.bias, policy.network.head.loc.bias)


@dataclasses.dataclass
class WinRate:
    """The part of a score that `update_best` reads."""

    win_rate: float
    rival: str = "heuristic:easy"


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_later_of_equal_policies_is_the_best(tmp_path, rate):
    policy = LSTMConfig(hidden=16).build(PolicySpecs(BRIEF.comm_dim))
    panel = panel_of(policy, tmp_path)
    scores = [WinRate(rate), WinRate(rate), WinRate(0.75, BEST)]
    assert panel.update_best(scores, 0)
    with torch.no_grad():
        policy.network.head.loc.bias.add_(1.0)
    assert panel.update_best(scores, 100) and panel.best_iteration == 100
    assert torch.equal(panel.best.network.head.loc.bias, policy.network.head.loc.bias)
    assert not panel.update_best([WinRate(rate), WinRate(rate - 0.25), WinRate(1.0, BEST)], 200)
    assert panel.best_iteration == 100


def test_evaluator_arena_equals_a_match():
    torch.manual_seed(0)
    policy = LSTMConfig(hidden=16).build(PolicySpecs(BRIEF.comm_dim)).eval()
    first, second = (play(policy, policy, BRIEF, 4, 3, ArenaConfig(CPU)) for _ in range(2))
    assert dataclasses.replace(first, seconds=0) == dataclasses.replace(second, seconds=0)


@pytest.mark.requirement("R7")
def test_resumed_evaluator_keeps_the_best_and_drops_later_rows(tmp_path):
    torch.manual_seed(0)
    policy = LSTMConfig(hidden=16).build(PolicySpecs(BRIEF.comm_dim))
    first = panel_of(policy, tmp_path)
    first.record(judge(first, 2), 2, 200, 1.0)
    kept = first.state_dict()
    kept = dataclasses.replace(kept, tensors={name: value.clone() for name, value in kept.tensors.items()})
    first.record(judge(first, 4), 4, 400, 1.0)
    with torch.no_grad():
        policy.network.head.loc.bias.add_(1.0)
    second = Evaluator(policy, first.config, tmp_path)
    second.load_state_dict(kept)
    second.open_table(second.last_iteration)
    assert (second.last_iteration, second.best_iteration, second.best_rate) == (2, 2, first.best_rate)
    assert {row["iteration"] for row in read_table(tmp_path / "evaluations.csv")} == {"2"}
    for name, value in second.best.state_dict().items():
        assert torch.equal(value, kept.tensors[name]), name
    assert second.best.state_dict()["network.head.loc.bias"].abs().max() < 0.5
