"""Warnings about runs that do not learn, from constructed rows."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from echelon.learn.callbacks.warning_signs import LATE, RECENT, WarningSigns, warning_signs
from echelon.learn.config import TrainConfig

QUICK = TrainConfig.quick()
SWEEP = Path(__file__).parents[2] / "benchmarks" / "results" / "sweep.jsonl"
HEALTHY = {
    **{"entropy_move": 0.4, "entropy_turn": 0.4, "entropy_fire": 0.4, "explained_variance": 0.8, "epochs": 4.0},
    **{"kl": 0.01, "skipped": 0.0, "stage": 2.0, "stage_win_rate": 0.5},
}


def rows_with(first=None, **changes):
    """Return a first row and twenty later ones."""
    begin = {**HEALTHY, "entropy_move": 0.6, "entropy_turn": 0.6, "entropy_fire": 0.6, **(first or {})}
    return [begin, *({**HEALTHY, **changes} for _ in range(RECENT))]


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        (
            "random actions",
            {"entropy_move": 0.61, "entropy_turn": 0.6, "entropy_fire": 0.592},
            "move 0.61, initially 0.60; turn 0.60, initially 0.60; fire 0.59, initially 0.60",
        ),
        ("poor values", {"explained_variance": 0.05}, "explained variance 0.05"),
        ("KL at its limit", {"epochs": 1.5, "kl": 0.031}, "1.5 of 4 epochs, KL 0.031, limit 0.03"),
        ("first stage", {"stage": 1.0, "stage_win_rate": 0.43}, "43% of its battles won, 50% required"),
    ],
)
def test_warning_contains_its_figures_and_no_other_appears(name, changes, words):
    signs = warning_signs(rows_with(**changes), QUICK, progress=0.8)
    assert list(signs) == [name] and words in signs[name] and "try " in signs[name]


def test_no_warning_if_only_one_action_kind_stays_random():
    """README's first command fires with 0.99 of its initial entropy at 25 % of the run, and wins in the end."""
    assert warning_signs(rows_with(entropy_fire=0.899), QUICK, progress=0.5) == {}


def test_no_successful_sweep_run_triggers_first_stage_warning():
    rows = [json.loads(line) for line in SWEEP.read_text().splitlines()]
    wins = {row["opponents"]["heuristic:easy"]["win_rate"] for row in rows}
    assert len(rows) == 71 and min(wins) > 0.75, "every run won"
    staged = [row for row in rows if row["row"] != "only hard"]
    for row in staged:
        passed = next(point["agent_steps"] for point in row["curve"] if point["won"] >= 0.5)
        assert passed < LATE * row["agent_steps"], row["row"]


def test_recently_skipped_steps_trigger_warning():
    rows = rows_with()
    rows[-1] = {**rows[-1], "skipped": 3.0}
    assert "3 steps were skipped" in warning_signs(rows, QUICK, progress=0.1)["not finite"]
    assert warning_signs(rows_with(first={"skipped": 3.0}, skipped=3.0), QUICK, progress=0.1) == {}


def test_learning_run_triggers_no_warning():
    assert warning_signs(rows_with(), QUICK, progress=0.9) == {}


def test_early_randomness_triggers_no_warning():
    poor = rows_with(entropy_fire=0.6, explained_variance=0.0, stage=1.0, stage_win_rate=0.0)
    assert warning_signs(poor, QUICK, progress=0.2) == {}
    assert warning_signs(poor[: RECENT - 1], QUICK, progress=0.9) == {}


def test_single_stage_and_disabled_kl_limit_trigger_no_warning():
    one = replace(QUICK, opponent="heuristic:hard", ppo=replace(QUICK.ppo, target_kl=0.0))
    assert warning_signs(rows_with(stage=1.0, stage_win_rate=0.0, epochs=1.0), one, progress=0.9) == {}


def test_missing_values_are_ignored_in_means():
    rows = rows_with(explained_variance=math.nan, entropy_move=None)
    rows[-1] = {**rows[-1], "explained_variance": 0.01}
    assert list(warning_signs(rows, QUICK, progress=0.5)) == ["poor values"]


class Run:
    """The part of a trainer that the callback uses."""

    def __init__(self):
        self.config, self.progress, self.lines = QUICK, 0.5, []

    def log(self, line):
        self.lines.append(line)


def test_callback_logs_each_warning_once():
    run, callback = Run(), WarningSigns()
    for row in rows_with(explained_variance=0.0) * 2:
        callback.on_iteration_end(run, row)
    assert len(run.lines) == 1 and run.lines[0].startswith("warning: the critic predicts nothing")
