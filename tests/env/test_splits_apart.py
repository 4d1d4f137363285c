"""An environment of one split never uses a map or a battle of another split, for any input."""

import dataclasses
import json

import pytest
import torch
from builders import brawl, short_battles
from tiers import marked_long

import echelon
from echelon.agents.heuristic import scripted
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.env.env import EchelonEnv
from echelon.env.tasks.task import held_out
from echelon.rules.config import EnvConfig, env_from_json
from echelon.rules.config_json import as_json
from echelon.runtime.errors import ConfigError
from echelon.world.pool import make_maps
from echelon.world.splits import seed_range

PLAIN = dataclasses.replace(short_battles(4), map_spares=1)
TRAIN, TEST = (dataclasses.replace(PLAIN, split=split) for split in ("train", "test"))
BATTLES = 4


def env_of(config, **settings):
    return EchelonEnv(config, BATTLES, "cpu", **{"seed": 3, **settings})


def is_within(env, split, maps=True):
    """Return whether all battles, and the maps of the pool, belong to a split."""
    low, high = seed_range(split)
    seeds = torch.cat([env.state.seed, env.sim_model.maps.seed if maps else env.state.seed])
    return bool(((seeds >= low) & (seeds <= high)).all())


def played(env, decisions=5, maps=True):
    """Return whether battles belong to split train during several decisions."""
    td, generator, held = env.reset(), torch.Generator().manual_seed(0), []
    for _ in range(decisions):
        held.append(is_within(env, "train", maps))
        _, td = env.step_and_maybe_reset(brawl(td, generator))
    return all(held)


@pytest.fixture(scope="module")
def of_test():
    env = env_of(TEST)
    env.reset()
    assert is_within(env, "test")
    return env


@pytest.mark.parametrize(
    ("backend", "count"), [("auto", 6), ("eager", 2), marked_long(("eager", 6))], ids=["auto", "eager", "eager-all"]
)
def test_seeds_stay_in_the_split(of_test, backend, count):
    """One seed, test seeds for each battle, large and negative seeds, later seeds, and following battles."""
    theirs = of_test.state.seed.clone()
    for seed in (theirs, 2**63 - 1, 0, theirs + 2**32, -theirs, torch.arange(BATTLES))[:count]:
        env = env_of(TRAIN, seed=seed, backend=backend)
        assert played(env)
        env.set_seed(seed)
        assert played(env)
    env.open_battles(theirs)
    assert played(env)
    env.next_seed = theirs.clone()
    assert played(env)


def test_partial_restarts_stay_in_the_split(of_test):
    for by_row in (True, False):
        env = env_of(TRAIN)
        env.restarts_by_row = by_row
        td = env.reset()
        env.next_seed = of_test.state.seed.clone()
        td.set("_reset", torch.tensor([[True], [False], [True], [False]]))
        env.reset(td)
        assert is_within(env, "train")


def test_maps_stay_in_the_split(of_test):
    for map_seed in (0, TEST.map_seed, *of_test.sim_model.maps.seed.tolist()):
        env = env_of(dataclasses.replace(TRAIN, map_seed=map_seed))
        for _ in range(3):
            assert env.renew_maps() == 1 and played(env)
    with pytest.raises(ConfigError, match=r"maps must be of split train, got 'maps of the seeds"):
        env_of(TRAIN, maps=of_test.sim_model.maps)
    made = make_maps(TRAIN, env.sim_model.roster, of_test.sim_model.maps.seed)
    assert is_within(env_of(TRAIN, maps=made), "train")
    pool = env.map_pool
    pool.restore(of_test.sim_model.maps.seed, pool.active.tolist(), pool.spares, 0, 0)
    assert is_within(env, "train")


def test_saved_states_stay_in_the_split(of_test):
    env = env_of(TRAIN)
    env.reset()
    saved = of_test.get_state()
    for change in ({}, {"map_seed": env.sim_model.maps.seed[:1].expand(BATTLES).clone()}):
        with pytest.raises(ConfigError, match=r"saved: state.seed must be 1073741824..2147483647, got '3\d+..4\d+'"):
            env.set_state(saved.clone().update(change))
    mixed = saved.clone()
    mixed["state", "seed"] = env.state.seed.clone()
    with pytest.raises(ConfigError, match="saved must be battles on maps of this environment"):
        env.set_state(mixed)
    own = env.get_state()
    own["next_seed"] = of_test.state.seed.clone()
    env.set_state(own)
    assert is_within(env, "train") and played(env)
    assert is_within(env.fork(0, 3), "train") and is_within(env.to("cpu"), "train")


def test_scenes_and_views_stay_in_the_split(of_test):
    scene = echelon.Scene(dataclasses.replace(EnvConfig.small(), split="train", rules=PLAIN.rules))
    scene.place("blue", "medium", at=(12, 20)).place("red", "medium", at=(28, 20))
    env = scene.env(BATTLES, "cpu", seed=of_test.state.seed)
    assert played(env, maps=False) and env.sim_model.maps.seed.tolist() == [0]
    with pytest.raises(ConfigError, match="maps must be absent: the scenario makes them"):
        scene.env(BATTLES, "cpu", maps=of_test.sim_model.maps)
    view = echelon.versus(TRAIN, "heuristic:easy", num_envs=BATTLES, device="cpu", seed=of_test.state.seed)
    view.rollout(5, break_when_any_done=False)
    assert is_within(view.env, "train")


def test_matches_stay_in_the_split(of_test):
    seed = int(of_test.state.seed[0])
    arena = BatchArena(
        TRAIN, lambda name: scripted(name, TRAIN, torch.device("cpu")), ArenaConfig(torch.device("cpu"), 4)
    )
    kept = []

    class Sink:
        def begin(self, battles):
            kept.extend(battles)

        def step(self, stepped, running):
            kept.append(is_within(arena._env, "train"))

        def end(self, outcome):
            pass

    arena.play([Battle("heuristic:easy", "heuristic:easy", seed)], sink=Sink())
    assert kept[0].seed == seed - 2 * 2**30 and all(kept[1:])


def test_split_is_in_the_config_but_not_in_the_signature():
    assert "split" not in as_json(PLAIN) and as_json(TRAIN)["split"] == "train"
    assert TRAIN.signature() == PLAIN.signature()
    there_and_back = env_from_json(json.loads(json.dumps({**TRAIN.signature(), "split": "test"})))
    assert there_and_back == dataclasses.replace(TEST, map_seed=0)
    assert [held_out(config).split for config in (PLAIN, TRAIN, TEST)] == [None, "validation", "test"]


def test_split_changes_seeds_only():
    """The split selects seeds and changes nothing else of a battle."""
    ours = env_of(TRAIN)
    theirs = env_of(PLAIN, seed=ours.state.seed.clone(), maps=ours.sim_model.maps)
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    shown = []
    for env, generator in zip((ours, theirs), generators, strict=True):
        td = env.reset()
        for _ in range(3):
            td = env.step(brawl(td, generator))["next"]
        shown.append(td)
    for key in shown[0].keys(True, True):
        assert torch.equal(shown[0][key], shown[1][key]), key
