"""Import paths of earlier releases."""

import importlib
import sys

import pytest

import echelon.env


def test_old_path_of_views_imports_the_same_modules_with_one_warning(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("echelon.env.views")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(echelon.env, "views", raising=False)
    with pytest.warns(FutureWarning, match=r"echelon\.env\.views is echelon\.views now") as told:
        old = importlib.import_module("echelon.env.views.group_policy")
    importlib.import_module("echelon.env.views.view")
    assert len(told) == 1
    assert old is importlib.import_module("echelon.views.group_policy")
    moved = importlib.import_module("echelon.env.views").MOVED
    assert {"build", "view", "commanders", "discrete"} <= moved.keys()
    assert all(importlib.import_module(f"echelon.env.views.{name}") is sys.modules[new] for name, new in moved.items())


def test_old_name_game_of_the_environment_is_sim_model_with_a_warning():
    env = echelon.EchelonEnv(echelon.EnvConfig.small(), num_envs=1)
    with pytest.warns(
        FutureWarning, match=r"EchelonEnv\.game is EchelonEnv\.sim_model now; the old name works until 2\.0"
    ):
        assert env.game is env.sim_model


@pytest.mark.parametrize("view", [False, True])
def test_old_name_observed_is_last_observation_with_a_warning(view):
    env = echelon.versus(echelon.EnvConfig.small()) if view else echelon.EchelonEnv(echelon.EnvConfig.small())
    env.reset()
    name = type(env).__name__
    with pytest.warns(FutureWarning, match=rf"{name}\.observed is {name}\.last_observation now; .* until 2\.0"):
        assert (env.observed() == env.last_observation()).all()


def test_old_name_stick_is_joystick_with_a_warning():
    joystick = importlib.import_module("echelon.command.joystick")
    with pytest.warns(FutureWarning, match=r"joystick\.Stick is Joystick now; the old name works until 2\.0"):
        assert joystick.Stick is joystick.Joystick
    with pytest.raises(AttributeError, match="has no attribute 'Stock'"):
        _ = joystick.Stock
