"""A battle commanded step by step: forks continue with the same bits, `whatif` costs only its branches."""

import dataclasses

import pytest
import torch

import echelon
from echelon import CommandConfig, CommandPort, EnvConfig
from echelon.agents.names import resolve
from echelon.arena.ordered_battle import WON, OrderedBattle
from echelon.replay.file import read
from echelon.runtime import noise
from echelon.runtime.errors import ConfigError

RULES = dataclasses.replace(EnvConfig.small().rules, max_episode_s=8.0)
CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=2, rules=RULES, command=CommandConfig(enabled=True, period=4))
HOLD, GO = {"pack": 0, "kind": "hold"}, {"pack": 0, "kind": "move", "place": [20, 20]}
GIVEN = ([HOLD], [], [GO])
"""Orders of the first steps."""


def played(mechs="heuristic:hard", **how):
    battle = OrderedBattle(CONFIG, "blue", mechs, "heuristic:hard", 5, **how)
    for orders in GIVEN:
        assert battle.order(orders) == []
        battle.step()
    return battle


def bits(port):
    """Return all values of a port's first battle, as bytes."""
    state = port.view.env.get_state([0]).exclude("next_seed")
    memory = port.view.inside.memory[:1]
    return [value.numpy().tobytes() for saved in (state, memory) for value in saved.values(True, True)]


def replayed_value(orders, branches, seed):
    """Return the estimate of `whatif` after `GIVEN`, from copies that play the battle from its start."""
    policies = [resolve("heuristic:hard").policy(CONFIG, torch.device("cpu")) for _ in range(2)]
    seeds = noise.battle_seeds(5, 1, torch.device("cpu")).expand(branches).clone()
    port = CommandPort(echelon.commanders(CONFIG, *policies, branches, "cpu", seeds, side="blue"))

    def to_all(given):
        assert port.order([{**order, "battle": battle} for battle in range(branches) for order in given]) == []

    for given in GIVEN:
        to_all(given)
        port.step()
    to_all(orders)
    env = port.view.env
    env.state = env.state.replace(seed=noise.battle_seeds(seed, branches, env.device))
    while not all(port.ended):
        port.step()
    return sum(WON[str(winner)] for winner in port.winners) / branches, env.state.seed.tolist()


@pytest.mark.parametrize("orders", [[], [HOLD]])
def test_whatif_equals_copies_that_play_from_the_start(orders):
    battle = played()
    for seed in range(3):
        assert battle.whatif(orders, 6, seed)["value"] == replayed_value(orders, 6, seed)[0]


def test_whatif_plays_only_its_branches_and_changes_nothing(monkeypatch):
    battle = played()
    before, steps, step = bits(battle.port), [], CommandPort.step
    monkeypatch.setattr(CommandPort, "step", lambda port: steps.append(port.view.num_envs) or step(port))
    battle.whatif([HOLD], 3)
    # 8 s are eight steps; three are played.
    assert steps == [3] * len(steps) and 1 <= len(steps) <= 5
    assert bits(battle.port) == before and not battle.port.action.any()


def test_whatif_includes_queued_orders_and_names_refused_ones():
    battle = played()
    battle.order([HOLD])
    assert battle.whatif([], 6, 1)["value"] == replayed_value([HOLD], 6, 1)[0]
    refused = battle.whatif([HOLD, {"kind": "charge"}, {"kind": "hold", "battle": 1}], 2)["refused"]
    assert [line.partition(":")[0] for line in refused] == ["order 1", "order 2"]
    with pytest.raises(ConfigError, match="branches must be"):
        battle.whatif([], 0)


@pytest.mark.parametrize("mechs", ["heuristic:expert", "trained:quick"])
def test_fork_continues_with_the_same_bits(mechs, tmp_path):
    """`trained:quick` has memory, which its copy keeps."""
    battle = played(mechs, records=True)
    battle.order([HOLD])
    copied = battle.fork()
    assert bits(copied.port) == bits(battle.port)
    for one in (battle, copied):
        one.step(100)
    assert battle.winner == copied.winner is not None
    for name, one in {"first": battle, "copy": copied}.items():
        one.save_replay(tmp_path / name)
    first, copy = (read(tmp_path / name).battles[0] for name in ("first", "copy"))
    assert first.about == copy.about and (tmp_path / "first").read_bytes() == (tmp_path / "copy").read_bytes()


def test_fork_and_battle_are_independent():
    battle = played()
    copied = battle.fork()
    before = bits(battle.port)
    copied.order([GO])
    copied.step(2)
    assert bits(battle.port) == before and copied.winner is None
    with pytest.raises(ConfigError, match="records must be True for a replay"):
        copied.save_replay("never")
    battle.step(100)
    with pytest.raises(ConfigError, match="the battle must be in progress"):
        battle.fork()


def test_view_of_both_sides_forks_a_battle_of_red():
    view = echelon.commanders(CONFIG, num_envs=3, device="cpu", seed=4)
    port = CommandPort(view)
    port.order([{**HOLD, "battle": 1}])
    port.step()
    copies = port.fork(1, 2)
    assert port.is_red == [False, True, False] and copies.is_red == [True, True]
    reports = [{**report, "battle": 1} for report in copies.reports()]
    assert reports == [port.reports()[1]] * 2 and reports[0]["team"] == "red"
    for one in (port, copies):
        one.step()
    assert {**copies.reports()[0], "battle": 1} == port.reports()[1]
    with pytest.raises(ConfigError, match="battle must be"):
        port.fork(3, 1)
    port.ended[1], port.winners[1] = True, "own"
    with pytest.raises(ConfigError, match="battle must be in progress, got 'battle 1, won by own'"):
        port.fork(1, 1)
