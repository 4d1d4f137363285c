"""The arithmetic of a certificate, and the config of its run."""

import pytest

from echelon.arena.batch_arena import BattleResult
from echelon.arena.exploit import certificate_line, exploiting, gain
from echelon.arena.match import Result, win_rate_interval
from echelon.arena.resolve import resolve
from echelon.env.outcome import Reason, Winner
from echelon.learn.config import TrainConfig
from echelon.rules.config import EnvConfig

BLUE, RED, DRAW = Winner.BLUE, Winner.RED, Winner.DRAW


def result(*winners: Winner) -> Result:
    """Return a result with these outcomes; X is blue in the first of every two battles."""
    return Result([BattleResult(winner, Reason.ZONE, [0, 0], 1, 0, [[], []], "") for winner in winners], 1.0, ())


def test_bound_is_wins_minus_losses_and_zero_for_equals():
    """X wins both battles of the first seed, one of the second, and half of the points of the third."""
    bound, low, high = gain(result(BLUE, RED, BLUE, BLUE, DRAW, DRAW))
    points = win_rate_interval([1.0, 0.5, 0.5])
    assert bound == pytest.approx(2 * 4 / 6 - 1) and (low, high) == tuple(2 * end - 1 for end in points)
    assert gain(result(BLUE, BLUE))[0] == 0.0 and gain(result(RED, BLUE))[0] == -1.0


def test_certificate_line_has_a_bound_only_if_significant():
    def told(bound: float, low: float, high: float) -> str:
        numbers = {"x_win_rate": 0.63, "x_win_rate_95": [0.57, 0.69], "battles": 256}
        result = {**numbers, "exploitability": [bound, low, high]}
        return certificate_line({"agent_steps": 2_000_000, "opponent": {"name": "hard"}, "result": result})

    share = "a best response trained for 2,000,000 agent-steps beats hard in 63 % (57 to 69 %) of 256 battles: "
    assert told(0.26, 0.14, 0.38) == share + "exploitability at least 0.26 (0.14 to 0.38; 1: loses every battle)"
    assert told(0.05, -0.1, 0.2) == share + "this does not show that it can be exploited"


def test_budgets_are_equal_and_the_panel_is_the_opponent():
    config = exploiting(TrainConfig.quick(), resolve("easy"), EnvConfig.small(), 10 * 20_480, 4)
    assert TrainConfig.quick().steps_an_iteration == 128 * 5 * 32 == 20_480
    assert config.evaluation.every == 3 and config.evaluation.tiers == ("heuristic:easy",)
    assert config.opponent == "heuristic:easy" and config.total_agent_steps == 10 * 20_480
