"""`render_mode="human"`: a window, or one warning line without a display."""

import pytest

pytest.importorskip("gymnasium")

import gymnasium
import matplotlib
import numpy as np
from battles import EASY, SHORT

from echelon.runtime import fallback

pytestmark = pytest.mark.integrations
matplotlib.use("Agg")


def environments():
    pettingzoo = pytest.importorskip("echelon.integrations.pettingzoo")
    team = gymnasium.make("echelon.integrations.gymnasium:Echelon-v0", config=SHORT, opponent=EASY, render_mode="human")
    return [pettingzoo.parallel_env(SHORT, opponent=EASY, render_mode="human"), team.unwrapped]


def play(env, monkeypatch):
    """Play two decisions; return the number of drawn pictures."""
    pictures, render = [], env.view.render
    monkeypatch.setattr(env.view, "render", lambda: pictures.append(1) or render())
    env.reset(seed=0)
    for _ in range(2):
        still = (
            env.action_space.sample()
            if isinstance(env, gymnasium.Env)
            else {agent: np.zeros(env.action_space(agent).shape, np.float32) for agent in env.agents}
        )
        env.step(still)
    env.close()
    return len(pictures)


def test_human_mode_without_a_display_draws_nothing_and_warns_once(monkeypatch, caplog):
    monkeypatch.setattr(fallback, "REASONS", [])
    assert [play(env, monkeypatch) for env in environments()] == [0, 0]
    lines = [record.getMessage() for record in caplog.records if "render_mode" in record.getMessage()]
    assert len(lines) == 1 and "render_mode='human' draws nothing" in lines[0] and "agg" in lines[0]


def test_human_mode_with_a_window_draws_every_decision(monkeypatch, caplog):
    """Replaces a backend with windows; its pictures are discarded."""
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "QtAgg")
    assert [play(env, monkeypatch) for env in environments()] == [3, 3]
    assert not [record for record in caplog.records if "render_mode" in record.getMessage()]
