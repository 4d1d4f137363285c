"""The OpenEnv server with the package's own client, and a policy gradient over prompt styles."""

import dataclasses
import functools
import random
import runpy
import threading
import time

import pytest

pytest.importorskip("openenv.core")

import torch
import uvicorn
from openenv.core.generic_client import GenericEnvClient
from programs import ROOT

from echelon import CommandConfig, EnvConfig
from echelon.command.report import WINNERS
from echelon.integrations.openenv import CommandAction, CommandEnvironment, server_app
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.integrations
RULES = dataclasses.replace(EnvConfig.small().rules, max_episode_s=12.0)
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=2, rules=RULES, command=CommandConfig(period=16))
HOLD = '{"orders": [{"pack": 0, "kind": "hold"}]}'


@pytest.fixture(scope="module")
def address():
    server = uvicorn.Server(
        uvicorn.Config(server_app(CONFIG), "127.0.0.1", 0, log_level="error", ws="websockets-sansio")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@pytest.mark.filterwarnings("ignore")  # of uvicorn and websockets
def test_client_keeps_its_battle_between_calls(address):
    with GenericEnvClient(address).sync() as one, GenericEnvClient(address).sync() as other:
        begun = one.reset(seed=5)
        assert "You command blue" in begun.observation["report"]
        assert "screen: stand in front" in begun.observation["instructions"]
        first = one.step({"text": HOLD})
        assert "told to hold 4 s ago" in first.observation["report"] and not first.done and first.reward == 0
        elsewhere = other.reset(seed=6)
        assert "0 s have passed" in elsewhere.observation["report"]
        second = one.step({"text": '{"orders": [{"kind": "charge"}]}'})
        assert "told to hold 8 s ago" in second.observation["report"]
        assert second.observation["refused"][0].startswith("order 0: order.kind must be one of free")
        assert one.state()["seed"] == 5 and one.state()["step_count"] == 2 and one.state()["won_by"] is None
        last = one.step({"text": "no JSON"})
        assert last.done and last.observation["report"] == "" and last.reward in (0.0, 0.5, 1.0)
        assert one.state()["won_by"] in WINNERS


def test_reply_reward_is_win_rate_change():
    """With common random numbers, no orders give an advantage of 0."""
    env = CommandEnvironment(CONFIG, branches=4)
    env.reset(seed=2)
    assert env.step(CommandAction(text='{"orders": []}')).reward == 0.0
    assert -1 <= env.step(CommandAction(text=HOLD)).reward <= 1


def test_only_shipped_commanders_are_accepted():
    with pytest.raises(ConfigError, match="mechs must be heuristic:TIER"):
        CommandEnvironment(CONFIG, opponent="os:system").reset()


def test_battle_of_the_grpo_example_is_played():
    """TRL calls `reset` and the tool, and reads the rewards."""
    example = runpy.run_path(str(ROOT / "tests" / "examples" / "grpo.py"))
    battle = example["Battle"]()
    assert "You command blue" in battle.reset(seed=5)
    assert "told to hold" in battle.order(HOLD)
    assert example["reward"]([battle, battle]) == [battle.reward] * 2


STYLES = {
    "fight": '{"orders": []}',
    "wait": '{"orders": [{"pack": 0, "kind": "hold", "fire": "hold"}]}',
    "flee": '{"orders": [{"pack": 0, "kind": "move", "place": [1, 1], "fire": "hold"}]}',
}
"""Replies of the stand-in model, keyed by prompt style."""


@pytest.mark.long
def test_policy_gradient_finds_best_prompt_style():
    """REINFORCE over three styles with the group mean as baseline; a style that holds fire does not win."""
    rules = dataclasses.replace(RULES, max_episode_s=24.0)
    teams = {"blue": ("medium", "light"), "red": ("medium", "light")}
    config = dataclasses.replace(CONFIG, rules=rules, **teams, command=CommandConfig(period=32))
    env = CommandEnvironment(config, opponent="heuristic:trivial")
    names, chance = list(STYLES), random.Random(0)
    logits = torch.zeros(len(STYLES), requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.4)

    @functools.cache
    def battle(style: str, seed: int) -> float:
        """Return the reward, cached because it depends only on style and seed."""
        env.reset(seed=seed)
        while True:
            stepped = env.step(CommandAction(text=STYLES[style]))
            if stepped.done:
                return float(stepped.reward)

    torch.manual_seed(0)
    for _ in range(8):
        policy = torch.distributions.Categorical(logits=logits)
        chosen = policy.sample((6,))
        rewards = torch.tensor([battle(names[index], chance.randrange(2)) for index in chosen.tolist()])
        loss = -((rewards - rewards.mean()) * policy.log_prob(chosen)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    shares = logits.softmax(0).tolist()
    assert names[shares.index(max(shares))] == "fight" and max(shares) > 0.5
