"""Saved, restored and forked battles continue with the same bits."""

import dataclasses

import pytest
import torch
from builders import brawl
from tensordict import TensorDict
from torchrl.collectors import Collector
from torchrl.data import Composite, Unbounded

from echelon.env.env import EchelonEnv
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError

CONFIG = dataclasses.replace(EnvConfig.small(), map_pool=3, rules=RulesConfig(max_episode_s=1.2, decision_repeat=2))
"""Battles of twelve decisions with two substeps each."""


@pytest.fixture(params=[pytest.param(True, id="by row"), pytest.param(False, id="by mask", marks=pytest.mark.long)])
def restarts(request, monkeypatch):
    """Restart battles as on a CPU, and as on a GPU."""
    monkeypatch.setattr(EchelonEnv, "restarts_by_row", request.param)


def fought(battles: int, decisions: int, **settings) -> tuple[EchelonEnv, TensorDict]:
    """Return an environment after some decisions, and its observation."""
    memory = Composite(h=Unbounded((3,)))
    env = EchelonEnv(CONFIG, battles, "cpu", seed=1, memory=memory, backend="eager", **settings)
    now, generator = env.reset(), torch.Generator().manual_seed(1)
    for _ in range(decisions):
        now = brawl(now, generator)
        now["next"] = {group: {"memory": {"h": now[group, "memory", "h"] + 1}} for group in env.group_map}
        now = env.step_and_maybe_reset(now)[1]
    return env, now


@pytest.fixture(scope="module")
def two() -> EchelonEnv:
    """Two battles, for tests that change nothing."""
    return fought(2, 3)[0]


def follow(env: EchelonEnv, now: TensorDict, actions: list[TensorDict], place: list[int]) -> list[TensorDict]:
    """Return the steps after the given actions in some rows of a batch; all other battles get zero actions."""
    seen = []
    for action in actions:
        now = now.update(env.action_spec.zero())
        for group in env.group_map:
            own = now[group, "action"].clone()
            own[place] = action[group, "action"]
            now[group, "action"] = own
        played, now = env.step_and_maybe_reset(now)
        seen.append(TensorDict({"played": played, "now": now, "state": env.state.to_tensordict()}, now.shape)[place])
    return seen


def some_actions(env: EchelonEnv, count: int) -> list[TensorDict]:
    torch.manual_seed(3)
    return [env.action_spec.rand()[:1] for _ in range(count)]


@pytest.mark.usefixtures("restarts")
def test_saved_battle_continues_in_another_row_of_another_batch():
    env, now = fought(3, 5)
    saved = env.get_state([2])
    other = EchelonEnv(CONFIG, 5, "cpu", 9, env.memory, env.sim_model.maps, backend="eager")
    other.reset()
    there = other.set_state(saved, [1])
    assert (there[1] == now[2].select(*there.keys(True, True))).all(), "observation with memories"
    assert (there["blue", "memory", "h"][1] == 5).all()
    actions = some_actions(env, 9)
    ours, theirs = follow(env, now, actions, [2]), follow(other, there, actions, [1])
    assert any(step["played", "next", "done"].any() for step in ours), "includes a restart"
    for one, same in zip(ours, theirs, strict=True):
        assert (one == same).all()


@pytest.mark.usefixtures("restarts")
def test_forks_equal_the_continued_battle():
    env, now = fought(2, 6)
    before = env.state.terrain.clone()
    forked = env.fork(1, 3)
    actions = some_actions(env, 5)
    branches = follow(forked, forked.last_observation(), [action.expand(3) for action in actions], [0, 1, 2])
    assert (env.state.terrain == before).all(), "forks have their own terrain"
    for one, branch in zip(follow(env, now, actions, [1]), branches, strict=True):
        assert (branch == one.expand(3)).all()


def test_battle_can_be_rewound():
    env, now = fought(2, 4)
    saved, actions = env.get_state(), some_actions(env, 4)
    kept = saved.clone()
    first = follow(env, now, actions, [0])
    assert (saved == kept).all(), "a saved state is a copy"
    again = follow(env, env.set_state(saved), actions, [0])
    assert all((one == other).all() for one, other in zip(first, again, strict=True))


def test_set_state_changes_only_the_given_rows():
    env, _ = fought(3, 5)
    before = env.get_state()
    env.set_state(before[[0]], [2])
    after = env.get_state()
    assert (after[:2] == before[:2]).all() and (after[2] == before[0]).all() and not (before[2] == before[0]).all()


def test_state_dict_works_with_torch_and_torchrl(tmp_path):
    env, now = fought(2, 4)
    torch.save(env.state_dict(), tmp_path / "battles.pt")
    other = EchelonEnv(CONFIG, 2, "cpu", 5, env.memory, env.sim_model.maps, backend="eager")
    other.load_state_dict(torch.load(tmp_path / "battles.pt", weights_only=False))
    actions = some_actions(env, 3)
    for one, same in zip(
        follow(env, now, actions, [0]), follow(other, other.last_observation(), actions, [0]), strict=True
    ):
        assert (one == same).all()
    nothing = Collector(other, None, frames_per_batch=2, total_frames=2).state_dict()["env_state_dict"]
    other.load_state_dict(nothing, strict=True)
    assert not nothing, "TorchRL saves nothing of an environment without transforms"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda saved: saved[:1], "saved must be 2 battles"),
        (lambda saved: saved.exclude(("state", "tick")), r"saved: \('state', 'tick'\) must be"),
        (lambda saved: saved.set("more", torch.zeros(2)), r"saved: more must be nothing"),
        (lambda saved: saved.set("next_seed", saved["next_seed"].float()), "saved: next_seed must be .*int64"),
        (lambda saved: saved.set("map_seed", saved["map_seed"] + 1), "saved must be battles on maps of this env"),
        (lambda saved: saved.set(("state", "shots", "target"), saved["state", "shots", "target"] + 99), "target"),
        (
            lambda saved: saved.set(("state", "mechs", "pos"), saved["state", "mechs", "pos"] / 0),
            "NaN .* in mechs.pos",
        ),
        (lambda saved: None, "saved must be a TensorDict of get_state"),
        (lambda saved: saved.to("meta"), "saved must be tensors with values, got .*tensors on the device meta"),
        (lambda saved: saved.to_dict(), "saved must be a TensorDict of get_state"),
    ],
)
def test_invalid_saved_state_raises_and_changes_nothing(two, spoil, says):
    before = two.get_state()
    with pytest.raises(ConfigError, match=says):
        two.set_state(spoil(two.get_state()))
    assert (two.get_state() == before).all()


@pytest.mark.parametrize(
    "rows",
    [
        *([2], [-1], [0, 0], [], [0.5], [None], "01", 0, torch.tensor(0), {0: 1}, torch.zeros(1, device="meta")),
        *(torch.zeros(1, 1, dtype=torch.int64), torch.tensor([True, False]), [10**30]),
    ],
    ids=repr,
)
def test_rows_out_of_range_or_duplicate_raise(two, rows):
    with pytest.raises(ConfigError, match="rows must be"):
        two.get_state(rows)
