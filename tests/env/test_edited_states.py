"""Edited states are observed as given, or rejected with the field's name."""

import dataclasses

import pytest
import torch
from builders import brawl
from test_battle_states import fought, restarts, two  # noqa: F401

from echelon.env.edited_states import check_edited, observe_edited
from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError

EGO = ("blue", "observation", "ego")
LOOK_EVERY = 6
"""Number of decisions between two checks of a long battle's state."""


def edit(saved, leaf, place, value):
    """Return the same saved battles with another value in one leaf of their state."""
    saved = saved.clone()
    saved[("state", *leaf.split("."))][place] = value
    return saved


def test_every_reached_state_is_valid_and_observed_equally():
    """Until both battles end, every state that the rules reach is accepted. Focus targets are excluded, because a state
    does not contain orders."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=2)
    env, generator = EchelonEnv(config, 2, "cpu", 1), torch.Generator().manual_seed(1)
    td, ended, decision = env.reset(), torch.zeros(2, 1, dtype=torch.bool), 0
    engaged = layout.columns(layout.SQUAD, "target_rel_pos")
    while not ended.all():
        td, decision = env.step(brawl(td, generator))["next"], decision + 1
        ended = ended | td["done"]
        if decision % LOOK_EVERY and not td["done"].any():
            td = env.maybe_reset(td)
            continue
        check_edited(env.state, [0, 1], env.agent_names, env.sim_model)
        state, seen = observe_edited(env.state, td.select(*env.last_observation().keys(True, True)), env.sim_model)
        for key, value in seen.items(True, True):
            if "reward_terms" not in key:
                was = td[key].clone()
                if "squad" in key:
                    value[..., engaged] = was[..., engaged] = 0
                assert torch.equal(value, was), key
        assert torch.equal(state.focus_slots, env.state.focus_slots)
        td = env.maybe_reset(td)


@pytest.mark.usefixtures("restarts")
def test_edited_state_is_observed_and_used_by_the_next_decision():
    env, now = fought(3, 7)
    saved = env.get_state()
    hurt = env.sim_model.roster.hp[0] / 2
    shown = env.set_state(edit(saved, "mechs.hp", (1, 0), hurt))
    assert shown[EGO][1, 0, layout.columns(layout.EGO, "hp")].item() == 0.5
    assert (env.last_observation() == shown).all() and torch.equal(
        shown["blue", "memory", "h"], now["blue", "memory", "h"]
    )
    for untouched in (0, 2):
        assert (shown[untouched] == now[untouched].select(*shown.keys(True, True))).all()
    assert env.state.mechs.hp[1, 0] == hurt

    shown = env.set_state(edit(saved, "mechs.hp", (1, slice(5, 10)), 0.0))
    assert shown["done"].flatten().tolist() == [False, True, False] and shown["outcome", "winner"][1] == 1
    assert not shown["red", "mask"][1].any() and not shown["red", "observation", "contacts"][1].any()
    assert (env.state.focus_slots[1] == -1).all(), "no target is left"


def test_observation_cannot_be_edited_but_memory_can():
    env, now = fought(2, 4)
    saved = env.get_state()
    saved["shown", "blue", "observation", "contacts"][:] = 0.25
    saved["shown", "blue", "memory", "h"][:] = 3
    shown = env.set_state(saved)
    key = ("blue", "observation", "contacts")
    assert torch.equal(shown[key], now[key]) and (shown["blue", "memory", "h"] == 3).all()


STATES = {
    "shots.ttl": ((1, 0), -1, r"shots.ttl \[0\] in battle 1 must be 0\.\.\d+, got -1"),
    "mechs.cooldown": ((0, 1), -2, r"mechs.cooldown of blue_1 in battle 0 must be 0\.\.\d+, got -2"),
    "mechs.hp": ((1, 6), 1e6, r"mechs.hp of red_1 in battle 1 must be 0\.\.\d+, got 1000000"),
    "mechs.heat": ((0, 2), -1.0, r"mechs.heat of blue_2 in battle 0 must be 0\.\.\d+, got -1"),
    "mechs.pos": ((0, 0, 0), -5.0, r"mechs.pos of blue_0 in battle 0 must be [\d.]+\.\.[\d.]+, got -5"),
    "mechs.yaw": ((0, 0), 9.0, r"mechs.yaw of blue_0 in battle 0 must be -3.14\S*\.\.3.14\S*, got 9"),
    "mechs.wrecked": ((1, 3), True, r"mechs.wrecked of blue_3 in battle 1 must be False for a mech with hp, got True"),
    "tick": ((1,), 7, r"tick in battle 1 must be a multiple of 2, got 7"),
    "last_event": ((0,), 20, r"last_event in battle 0 must be no later than tick, got 20"),
    "score": ((0, 1), -1.0, r"score \[1\] in battle 0 must be 0\.\.inf, got -1"),
    "terrain.damage": ((0, 30, 1, 1), 3, r"terrain.damage .* in battle 0 must be 0 outside solid terrain"),
    "terrain.solid": ((0, 1, 1), 1 << 30, r"terrain.solid .* in battle 0 must be set only where the map or rubble"),
    "focus_slots": ((0, 0, 0), 99, r"state.focus_slots must be -1..9, got '-?\d..99'"),
    "mechs.vel": ((0, 0, 0), float("inf"), "NaN or infinity in mechs.vel"),
}


@pytest.mark.parametrize("leaf", STATES)
def test_invalid_edited_state_raises_and_changes_nothing(two, leaf):  # noqa: F811
    place, value, says = STATES[leaf]
    saved = two.get_state()
    if leaf == "terrain.damage":
        place = (0, saved["state", "terrain", "damage"].shape[1] - 1, 1, 1)
    with pytest.raises(ConfigError, match=says):
        two.set_state(edit(saved, leaf, place, value))
    assert (two.get_state() == saved).all()


def test_overlapping_hulls_and_terrain_raise(two):  # noqa: F811
    env = two
    saved = env.get_state()
    other = saved["state", "mechs", "pos"][1, 0] + torch.tensor([0.5, 0.5, 0.0])
    with pytest.raises(
        ConfigError, match=r"mechs.pos of blue_0 in battle 1 must be clear of the hull of blue_1, got \["
    ):
        env.set_state(edit(saved, "mechs.pos", (1, 1), other))
    solid, low = env.sim_model.maps.solid[env.state.map_id[0]] >> 2 & 1, env.sim_model.roster.half_size[0]
    y, x = (solid[5:-5, 5:-5].nonzero()[0] + 5).tolist()
    inside = torch.tensor([x + 0.5, y + 0.5, float(low[2])])
    with pytest.raises(ConfigError, match=r"mechs.pos of blue_0 in battle 0 must be clear of solid terrain, got \["):
        env.set_state(edit(saved, "mechs.pos", (0, 0), inside))
