"""What is told of a run that does not learn, from rows made by hand."""

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
    """A first row, and twenty later ones."""
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
        ("first stage", {"stage": 1.0, "stage_win_rate": 0.43}, "43% of its battles won, 50% asked"),
    ],
)
def test_a_sign_is_told_with_its_figures_and_nothing_else_is(name, changes, words):
    signs = warning_signs(rows_with(**changes), QUICK, progress=0.8)
    assert list(signs) == [name] and words in signs[name] and "try " in signs[name]


def test_one_kind_of_action_may_stay_random_while_the_others_become_certain():
    """README's first command fires with 0.99 of its first entropy at 25 % of the run, and wins in the end."""
    assert warning_signs(rows_with(entropy_fire=0.899), QUICK, progress=0.5) == {}


def test_no_run_of_the_sweep_that_won_would_have_been_warned_of_its_first_stage():
    rows = [json.loads(line) for line in SWEEP.read_text().splitlines()]
    wins = {row["opponents"]["heuristic:easy"]["win_rate"] for row in rows}
    assert len(rows) == 68 and min(wins) > 0.75, "every run won"
    staged = [row for row in rows if row["row"] != "hard alone"]
    for row in staged:
        passed = next(point["agent_steps"] for point in row["curve"] if point["won"] >= 0.5)
        assert passed < LATE * row["agent_steps"], row["row"]


def test_steps_that_were_skipped_lately_are_told():
    rows = rows_with()
    rows[-1] = {**rows[-1], "skipped": 3.0}
    assert "3 steps were skipped" in warning_signs(rows, QUICK, progress=0.1)["not finite"]
    assert warning_signs(rows_with(first={"skipped": 3.0}, skipped=3.0), QUICK, progress=0.1) == {}


def test_a_run_that_learns_is_told_nothing():
    assert warning_signs(rows_with(), QUICK, progress=0.9) == {}


def test_what_is_usual_at_the_beginning_is_no_sign():
    poor = rows_with(entropy_fire=0.6, explained_variance=0.0, stage=1.0, stage_win_rate=0.0)
    assert warning_signs(poor, QUICK, progress=0.2) == {}
    assert warning_signs(poor[: RECENT - 1], QUICK, progress=0.9) == {}


def test_the_only_stage_need_not_be_left_nor_a_limit_be_kept_that_is_off():
    one = replace(QUICK, opponent="heuristic:hard", ppo=replace(QUICK.ppo, target_kl=0.0))
    assert warning_signs(rows_with(stage=1.0, stage_win_rate=0.0, epochs=1.0), one, progress=0.9) == {}


def test_numbers_that_were_not_measured_count_nowhere():
    rows = rows_with(explained_variance=math.nan, entropy_move=None)
    rows[-1] = {**rows[-1], "explained_variance": 0.01}
    assert list(warning_signs(rows, QUICK, progress=0.5)) == ["poor values"]


class Run:
    """As much of a trainer as the callback asks for."""

    def __init__(self):
        self.config, self.progress, self.lines = QUICK, 0.5, []

    def log(self, line):
        self.lines.append(line)


def test_the_callback_logs_a_sign_once():
    run, callback = Run(), WarningSigns()
    for row in rows_with(explained_variance=0.0) * 2:
        callback.on_iteration_end(run, row)
    assert len(run.lines) == 1 and run.lines[0].startswith("warning: the critic predicts nothing")
