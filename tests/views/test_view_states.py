"""Saved, restored and forked battles of a view, with all policies' memory."""

import dataclasses

import pytest
import torch
from torchrl.data import Composite, Unbounded

import echelon
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError

CONFIG = dataclasses.replace(
    EnvConfig.small(),
    map_pool=3,
    blue=("medium", "light"),
    red=("medium", "scout"),
    rules=RulesConfig(max_episode_s=2.0),
)
MEMORY = Composite(h=Unbounded(3))
TRAINED = "trained:quick"
"""An opponent that remembers, and draws its actions."""
MAKERS = {
    "versus": lambda **how: echelon.versus(CONFIG, TRAINED, memory=MEMORY, device="cpu", **how),
    "mechs": lambda **how: echelon.mechs(CONFIG, "heuristic:hard", memory=MEMORY, device="cpu", **how),
    "teams": lambda **how: echelon.teams(CONFIG, action="discrete", device="cpu", **how),
    "partners": lambda **how: echelon.partners(CONFIG, TRAINED, 1, "heuristic:hard", device="cpu", **how),
    "groups": lambda **how: echelon.versus(
        CONFIG, TRAINED, groups="mech", observation="structured", device="cpu", **how
    ),
}
KINDS = pytest.mark.parametrize("kind", MAKERS)


def fought(kind, count=3, decisions=3, **how):
    """Return a view after some decisions, whose policies wrote 5 into the memory of battle 1."""
    view = MAKERS[kind](num_envs=count, seed=4, **how)
    td = view.reset()
    for decision in range(decisions):
        td = with_actions(view, td, decision)
        for key in [key for key in td.keys(True, True) if key[-1] == "h"]:
            td[key][1] = 5.0
        _, td = view.step_and_maybe_reset(td)
    return view, td


def with_actions(view, td, decision, source=None):
    """Set the actions of a decision; with `source`, every battle has the actions of that place."""
    generator = torch.Generator().manual_seed(decision)
    for key in view.action_keys:
        spec = view.full_action_spec[key]
        count = spec.shape if source is None else (3, *spec.shape[1:])
        if spec.dtype == torch.int64:
            action = torch.randint(0, 64, count, generator=generator)
        else:
            action = torch.rand(count, generator=generator) * 2 - 1
        td[key] = action if source is None else action[source : source + 1].expand(spec.shape).clone()
    return td


def course(view, td, decisions, source=None):
    """Return the results of some decisions, including the next battles: each battle lasts eight decisions."""
    steps = []
    for decision in decisions:
        step, td = view.step_and_maybe_reset(with_actions(view, td, decision, source))
        steps.append(step.clone())
    return steps


def assert_equal(one, other, difference=0.0):
    keys = set(one.keys(True, True))
    assert keys == set(other.keys(True, True))
    for key in keys:
        torch.testing.assert_close(one[key], other[key].expand_as(one[key]), rtol=0, atol=difference, msg=str(key))


def rounding(kind):
    """Return the allowed difference between batches of different sizes: a matrix product of a network may round
    differently."""
    return 0.0 if kind in ("mechs", "teams") else 1e-5


@KINDS
def test_restored_view_plays_the_same_battles(kind):
    view, td = fought(kind)
    saved = view.get_state()
    first = course(view, td.clone(), range(10, 20))
    again = course(view, view.set_state(saved), range(10, 20))
    assert any(step["next", "done"].any() for step in first)
    for one, same in zip(first, again, strict=True):
        assert_equal(one["next"], same["next"])


@KINDS
def test_battle_continues_in_another_place_of_another_view(kind):
    side = {} if kind == "teams" else {"side": "red"}
    view, td = fought(kind, **side)
    other = MAKERS[kind](num_envs=2, seed=9, maps=view.env.sim_model.maps, **side)
    other.reset()
    seen = other.set_state(view.get_state([1]), [0])
    first, second = course(view, td.clone(), range(10, 20), 1), course(other, seen, range(10, 20), 1)
    for one, same in zip(first, second, strict=True):
        assert_equal(same["next"][:1], one["next"][1:2], rounding(kind))


@KINDS
def test_forks_continue_the_battle(kind):
    """The forked battle is battle 1, in which the user of `versus` commands red and has memory."""
    view, td = fought(kind)
    forked = view.fork(1, 4)
    assert type(forked) is type(view) and forked.num_envs == 4
    branches = course(forked, forked.last_observation(), range(10, 20), 1)
    for one, branch in zip(course(view, td.clone(), range(10, 20), 1), branches, strict=True):
        assert_equal(branch["next"], one["next"][1:2], rounding(kind))
    if kind == "versus":
        assert (forked.fork(0, 2).last_observation()["agents", "memory", "h"].shape) == (2, 2, 3)


def test_views_of_tasks_have_states():
    env = echelon.make(echelon.latest("small-5v5"), num_envs=2, device="cpu", seed=0)
    env.rollout(2)
    assert env.set_state(env.get_state()).shape == (2,) and env.fork(0, 3).num_envs == 3


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (lambda view: view.get_state([1]), r"saved: is_red must be \[False\].*got \[True\]"),
        (
            lambda view: view.env.get_state([0]),
            "saved must be the result of a view's get_state",
        ),
        (lambda view: view.get_state([0, 2]), "saved must be 1 battles, one per row"),
        (lambda view: None, "saved must be a TensorDict of get_state"),
        (lambda view: fought("mechs")[0].get_state([0]), "saved: .* must be .* per battle"),
    ],
)
def test_state_of_another_view_is_rejected_without_changes(saved, message):
    view, _ = fought("versus")
    spoilt, before = saved(view), view.get_state()
    with pytest.raises(ConfigError, match=message):
        view.set_state(spoilt, [0])
    assert (view.get_state() == before).all()
