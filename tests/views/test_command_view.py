"""The commanders' view: a step equals the decisions of the environment."""

import dataclasses

import pytest
import torch
from torchrl.envs.utils import check_env_specs

import echelon
from echelon import CommandConfig, EchelonEnv, EnvConfig
from echelon.agents.heuristic import Heuristic
from echelon.env.observation.layout import COMMAND
from echelon.rules.orders import OrderKind
from echelon.runtime.errors import ConfigError

RULES = dataclasses.replace(EnvConfig.small().rules, max_episode_s=6.0)
CONFIG = dataclasses.replace(
    EnvConfig.small(), map_pool=2, rules=RULES, command=CommandConfig(enabled=True, period=4, delay_s=0.5)
)
UNEQUAL = dataclasses.replace(CONFIG, blue=(*CONFIG.blue, "light", "light"), red=("heavy", "scout"))


@pytest.mark.parametrize(("config", "side"), [(CONFIG, "both"), (UNEQUAL, "blue"), (UNEQUAL, "red")])
@pytest.mark.parametrize("observation", ["flat", "structured"])
def test_specs_are_valid(config, side, observation):
    check_env_specs(echelon.commanders(config, num_envs=2, seed=1, side=side, observation=observation))


def played_by_hand(orders: torch.Tensor, steps: int, seed: int = 5):
    """Return blue's commanders' observations and rewards at the end of each step, computed with `EchelonEnv`."""
    policy = Heuristic(CONFIG, "hard")
    env = EchelonEnv(CONFIG, 2, "cpu", seed, memory=policy.memory_spec())
    td, told = env.reset(), []
    for step in range(steps):
        reward, over = 0.0, torch.zeros(2, 1, dtype=torch.bool)
        for decision in range(CONFIG.command.period):
            for group in ("blue", "red"):
                team = policy(td[group].copy())
                td[group, "action"] = team["action"]
                td["next", group, "memory"] = team["next", "memory"]
            if decision == 0:
                td["blue_command", "action"] = orders[step]
            after = env.step(td)["next"]
            paid = CONFIG.reward.gamma**decision * after["blue_command", "reward"]
            reward = reward + torch.where(over[..., None], 0.0, paid)
            over = over | after["done"]
            td = after.clone()
        told.append((reward, over, env.state.mechs.pos.clone()))
        if over.any():
            break
    return told


def test_step_equals_the_decisions_of_one_period():
    generator = torch.Generator().manual_seed(3)
    orders = torch.rand(6, 2, 1, 18, generator=generator) * 2 - 1
    expected = played_by_hand(orders, 6)
    view = echelon.commanders(CONFIG, "heuristic:hard", "heuristic:hard", 2, "cpu", 5, side="blue")
    td = view.reset()
    for step, (reward, over, pos) in enumerate(expected):
        td["commanders", "action"] = orders[step]
        after, td = view.step_and_maybe_reset(td)
        torch.testing.assert_close(after["next", "commanders", "reward"], reward, atol=1e-6, rtol=0)
        assert torch.equal(after["next", "done"], over)
        if not over.any():
            assert torch.equal(view.env.state.mechs.pos, pos)
    assert step >= 3


def test_battles_restart_after_a_step_and_receive_orders_at_once():
    view = echelon.commanders(CONFIG, num_envs=3, seed=2)
    td, restarts = view.reset(), 0
    for _ in range(14):
        assert view.env.last_observation()[COMMAND["blue"], "observation", "situation"][..., -1].all()
        after, td = view.step_and_maybe_reset(view.rand_action(td))
        restarts += int(after["next", "done"].sum())
        assert torch.equal(td["is_init"], after["next", "done"])
        assert torch.equal(after["next", "done"], after["next", "outcome", "winner"] >= 0)
    assert restarts >= 3


def test_side_both_alternates_teams():
    view = echelon.commanders(CONFIG, num_envs=2, seed=2, side="both")
    td = view.reset()
    td["commanders", "action"] = torch.zeros(2, 1, 18)
    td["commanders", "action"][..., OrderKind.MOVE] = 1.0
    view.step(td)
    assert view.env.state.orders_sent[:, 0, :, 0].tolist() == [[2.0, 0.0], [0.0, 2.0]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: echelon.commanders(EnvConfig.small()), "config.command.enabled must be True for commanders"),
        (lambda: echelon.commanders(CONFIG, observation="round"), "observation must be flat or structured"),
        (lambda: echelon.commanders(UNEQUAL), "side must be blue or red for teams of 7 and 2"),
        (lambda: echelon.commanders(CONFIG, info=False), "info must be True for commanders"),
    ],
)
def test_invalid_arguments_are_rejected(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_orders_of_another_shape_are_rejected():
    view = echelon.commanders(CONFIG, num_envs=2, seed=1)
    td = view.reset()
    td["commanders", "action"] = torch.zeros(2, 1, 7)
    with pytest.raises(ConfigError, match=r"\('commanders', 'action'\) must have shape \(2, 1, 18\), got \(2, 1, 7\)"):
        view.step(td)


def test_decision_runs_each_operation_on_one_thread():
    view = echelon.commanders(CONFIG, num_envs=2, device="cpu", seed=1)
    view.reset()
    threads = []

    def counted(action):
        threads.append(torch.get_num_threads())
        return action

    view.override_actions = counted
    torch.set_num_threads(2)
    view.decide(None)
    assert threads == [1] and torch.get_num_threads() == 2
