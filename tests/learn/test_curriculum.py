"""Curriculum stages, and when the next one starts."""

import dataclasses
import json

import pytest
from tiny_runs import short_battles

from echelon.env.reward import TERMS
from echelon.learn.config import CurriculumConfig, EvalConfig, TrainConfig
from echelon.learn.curriculum import SCHEDULES, Curriculum, CurriculumState, opponents_named, stages_of
from echelon.learn.schedules import Schedule
from echelon.rules.config_json import as_json, from_json
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.quick


def run(opponent: str = "curriculum", side: str = "both", **changes: object) -> TrainConfig:
    return TrainConfig(
        env=short_battles(), num_envs=4, opponent=opponent, side=side, curriculum=CurriculumConfig(**changes)
    )


@pytest.mark.requirement("R54")
def test_last_entry_of_a_setting_holds_for_later_stages():
    config = run(
        opponents=("trivial", "easy"), weapon_use=(0.2, 0.6, 1.0), difficulty=(0.0, 0.5, 0.5, 1.0), team_size=(2, 5)
    )
    stages = stages_of(config)
    assert [s.opponent for s in stages] == ["heuristic:trivial", *["heuristic:easy"] * 3]
    assert [s.weapon_use for s in stages] == [0.2, 0.6, 1.0, 1.0]
    assert [s.env(config.env, "both").world.difficulty for s in stages] == [0.0, 0.5, 0.5, 1.0]
    sizes = [(len(e.blue), len(e.red)) for e in (s.env(config.env, "both") for s in stages)]
    assert sizes == [(2, 2), (5, 5), (5, 5), (5, 5)]
    assert "heuristic:easy, weapon use 60%, difficulty 0.5, 5 a team" in str(stages[1])


@pytest.mark.requirement("R54")
def test_enemies_require_a_learner_on_one_side():
    config = run(side="red", opponents=("easy",), enemies=(1, 3))
    battles = [s.env(config.env, "red") for s in stages_of(config)]
    assert [(len(b.blue), len(b.red)) for b in battles] == [(1, 5), (3, 5)]
    with pytest.raises(ConfigError, match=r"enemies must be empty if the learner plays both sides, got \(1, 3\)"):
        run(enemies=(1, 3))


@pytest.mark.requirement("R54")
def test_next_stage_starts_at_the_required_win_rate():
    curriculum = Curriculum(run(opponents=("trivial", "easy"), advance_at_win_rate=0.7, window=100))
    assert curriculum.win_rate is None
    assert not curriculum.record(60, 60), "too few battles"
    assert not curriculum.record(60, 0)
    assert curriculum.win_rate == 0.5 and curriculum.state.battles == 60, "older battles are discounted"
    assert not curriculum.record(30, 30)
    assert curriculum.record(60, 60) and curriculum.stage.opponent == "heuristic:easy"
    assert curriculum.win_rate is None
    assert not curriculum.record(500, 500), "there is no stage after the last"
    assert curriculum.stage.number == 1


@pytest.mark.parametrize(
    ("named", "opponent"),
    [
        ("heuristic:hard", "heuristic:hard"),
        ("heuristic", "heuristic:normal"),
        ("hard", "heuristic:hard"),
        ("charger:Charger", "charger:Charger"),
        ("runs/mine/checkpoints/iteration_000100", "runs/mine/checkpoints/iteration_000100"),
    ],
)
def test_a_fixed_opponent_is_the_only_one(named, opponent):
    assert [s.opponent for s in stages_of(run(named))] == [opponent]


def test_stages_name_tiers_or_any_other_commander():
    config = run(opponents=("trivial", "charger:Charger", "heuristic:hard"), weapon_use=(0.5, 1.0))
    assert [s.opponent for s in stages_of(config)] == ["heuristic:trivial", "charger:Charger", "heuristic:hard"]
    assert str(stages_of(config)[1]) == "stage 2, charger:Charger"
    panel = dataclasses.replace(config, evaluation=EvalConfig(tiers=("easy", "trivial", "guard:Guard")))
    expected = ["heuristic:trivial", "charger:Charger", "heuristic:hard", "heuristic:easy", "guard:Guard"]
    assert opponents_named(panel) == expected


def test_weapon_use_is_for_scripted_commanders():
    with pytest.raises(ConfigError, match=r"weapon_use must be 1 in a stage against charger:Charger, .*, got 0.5"):
        stages_of(run(opponents=("trivial", "charger:Charger"), weapon_use=(0.5,)))


def test_curriculum_state_is_restored():
    config = run(opponents=("trivial", "easy"), window=10)
    first = Curriculum(config)
    first.record(10, 10)
    first.record(4, 1)
    kept = from_json(CurriculumState, json.loads(json.dumps(as_json(first.state))), "curriculum")
    second = Curriculum(config, kept)
    assert second.stage == first.stage and second.win_rate == first.win_rate
    with pytest.raises(ConfigError, match=r"curriculum.stage must be 0..1"):
        Curriculum(config, dataclasses.replace(kept, stage=7))


def test_reward_weights_follow_schedules_over_the_run():
    curriculum = Curriculum(run(approach=Schedule(1.0, 0.0), fight=Schedule(0.5, 1.0)))
    first, middle = (dict(zip(TERMS, curriculum.reward_scale(p, TERMS), strict=True)) for p in (0.0, 0.5))
    assert first == {"approach": 1, "zone": 1, "damage": 0.5, "kill": 0.5, "assist": 0.5, "death": 0.5, "terminal": 1}
    assert middle["approach"] == 0.5 and middle["kill"] == 0.75


def test_each_built_in_term_follows_a_schedule_of_the_curriculum_by_name():
    assert set(SCHEDULES) == set(TERMS)
    assert all(isinstance(getattr(CurriculumConfig(), name), Schedule) for name in SCHEDULES.values())


def test_custom_terms_ignore_curriculum_schedules():
    """Their weight is constant, or follows the command line; terms named only by a program are constant."""
    config = dataclasses.replace(
        run(fight=Schedule(0.5, 0.0), zone=Schedule(0.2, 0.0)), extra_rewards=("mine:up=0.1..0.4", "mine:flat=-3")
    )
    curriculum = Curriculum(config)
    for progress, up, fight in ((0.0, 0.25, 0.5), (0.5, 0.625, 0.25), (1.0, 1.0, 0.0)):
        scale = curriculum.reward_scale(progress, ("kill", "up", "flat", "of_a_program"))
        assert scale == pytest.approx([fight, up, 1.0, 1.0])
