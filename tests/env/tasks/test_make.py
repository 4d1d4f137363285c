"""`make`: environments of a task, in any view."""

import sys
import types

import pytest
import torch
from brief_tasks import make_tasks_brief
from torchrl.envs import check_env_specs

import echelon
from echelon.runtime.errors import ConfigError
from echelon.views import make as make_room
from echelon.views.build import MechView
from echelon.views.view import View

SMALL = echelon.latest("small-5v5")


@pytest.fixture
def views(monkeypatch):
    monkeypatch.setattr(make_room, "_VIEWS", dict(make_room._VIEWS))
    monkeypatch.setattr(make_room, "_COUNTED_AS", dict(make_room._COUNTED_AS))


def test_make_returns_the_task_battles_in_any_view(monkeypatch):
    make_tasks_brief(monkeypatch)
    task = echelon.tasks()[SMALL]
    for view, kind in (("versus", View), ("teams", View), ("mechs", MechView)):
        env = echelon.make(task.name, view, num_envs=2, seed=3, device="cpu")
        assert type(env) is kind and env.config == task.config and env.num_envs == 2
        check_env_specs(env)
    judged = echelon.make(task, "mechs", device="cpu", split="evaluation", action="discrete")
    assert judged.config == task.evaluation_config and judged.is_discrete
    twice = [echelon.make(task, seed=5, device="cpu").reset()["agents", "observation"] for _ in range(2)]
    assert torch.equal(*twice)


def test_user_can_register_a_view(views):
    echelon.register_view("halves", lambda config, **settings: (config, settings), num_envs="battles")
    config, settings = echelon.make(SMALL, "halves", 3, 1, "cpu", colour="red")
    assert config == echelon.tasks()[SMALL].config
    assert settings == {"battles": 3, "seed": 1, "device": "cpu", "colour": "red"}


def test_views_of_other_libraries_are_imported_lazily(views, monkeypatch):
    module = types.ModuleType("foreign_view")
    module.build = lambda config, seed: (config, seed)
    monkeypatch.setitem(sys.modules, "foreign_view", module)
    echelon.register_view("foreign", "foreign_view:build", num_envs=None)
    assert echelon.make(SMALL, "foreign", seed=1) == (echelon.tasks()[SMALL].config, 1)
    with pytest.raises(ConfigError, match="num_envs must be 1 for view foreign, got 2"):
        echelon.make(SMALL, "foreign", num_envs=2)
    echelon.register_view("absent", "no_such_package.views:build")
    with pytest.raises(ConfigError, match=r"view absent needs no_such_package.views and what it imports"):
        echelon.make(SMALL, "absent")
    for name, maker in (("pettingzoo", "parallel_env"), ("gymnasium", "make_vec")):
        assert make_room._VIEWS[name] == f"echelon.integrations.{name}:{maker}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"view": "isometric"},
            "view must be one of versus, partners, teams, mechs, pettingzoo, gymnasium, got 'isometric'",
        ),
        ({"split": "test"}, "split must be train or evaluation, got 'test'"),
        ({"maps": None}, "maps must be absent: task small-5v5-v\\d+ fixes the battles"),
    ],
)
def test_settings_fixed_by_a_task_raise(settings, message):
    with pytest.raises(ConfigError, match=message):
        echelon.make(SMALL, **settings)
