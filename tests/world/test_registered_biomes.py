"""Biomes registered by the user: generation, paths and battles on their maps, and errors."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path

import pytest
import torch
from leagues import checkpoint_of
from test_recipe import CONFIGS, RECORD, SEEDS, hashes

import echelon
from echelon.env.env import EchelonEnv
from echelon.league.store import Store
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.replay.ground import rebuild
from echelon.replay.recorder import Recorder
from echelon.rules import config as rules_config
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig, WorldConfig, env_from_json
from echelon.rules.physics import RulesConfig
from echelon.rules.roster import build_roster
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.runtime.imports import is_redefined
from echelon.state import Maps
from echelon.world import biomes
from echelon.world.pool import fingerprints, make_maps, write_recipes

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    """Restore the registered biomes after each test."""
    monkeypatch.setattr(biomes, "PAINTERS", {})
    monkeypatch.setattr(rules_config, "REGISTERED_BIOMES", names := [])
    monkeypatch.setattr(biomes, "REGISTERED_BIOMES", names)


@pytest.fixture
def craters(nothing_registered, monkeypatch):
    """Register the biome of the example, as its script does."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    monkeypatch.delitem(sys.modules, "crater_biome", raising=False)
    return importlib.import_module("crater_biome")


def battle_in(*names: str, size: tuple[int, int, int] = (40, 40, 16)) -> EnvConfig:
    world = WorldConfig(*size, biomes=names)
    return dataclasses.replace(EnvConfig.small(), map_pool=4, world=world)


def maps_of(config: EnvConfig, seeds: torch.Tensor) -> Maps:
    return make_maps(config, build_roster(config, CPU), seeds)


def pillars(material, where, seeds, world):
    """Paint single columns at the same places on every map, also outside the columns of the biome."""
    material[:, :5, ::6, ::6] = int(Material.REINFORCED)


@pytest.mark.parametrize("size", [(40, 40, 16), (64, 64, 20)], ids=str)
def test_maps_of_a_registered_biome_are_connected(craters, size):
    """`make_maps` raises if a spawn cannot reach the zone."""
    maps = maps_of(battle_in("craters", size=size), torch.arange(24))
    assert set(maps.material.unique().tolist()) <= {0, *(Material.DIRT, Material.SOLID, Material.LAVA, Material.GLASS)}
    assert ((maps.material == Material.LAVA).flatten(1).any(1)).all(), "craters on every map"
    x, y, _ = maps.spawn_pos.floor().long().unbind(-1)
    way = maps.path_length[torch.arange(24)[:, None], y, x]
    assert way.isfinite().all() and (way > 0).all()


def test_a_map_depends_on_its_own_seed_alone(craters):
    config = battle_in("craters", "barrens")
    together = fingerprints(maps_of(config, torch.tensor(SEEDS)))
    alone = [fingerprints(maps_of(config, torch.tensor([seed])))[0] for seed in SEEDS]
    assert together == alone and len(set(alone)) == len(SEEDS)
    (found,) = write_recipes(maps_of(config, torch.tensor(SEEDS[:1])))
    assert fingerprints(found.make(config)) == together[:1], "a recipe makes it again"


def test_other_registered_biomes_do_not_change_maps(craters):
    config = battle_in("craters", "barrens")
    before = fingerprints(maps_of(config, torch.tensor(SEEDS)))
    echelon.register_biome("pillars", pillars)
    assert fingerprints(maps_of(config, torch.tensor(SEEDS))) == before
    recorded = json.loads(RECORD.read_text())["maps"]
    for name in ("small", "standard", "barrens"):
        assert hashes(name) == recorded[name], f"the maps of {name}, which names no biome of one's own"
    assert CONFIGS["small"].world.biomes == rules_config.BIOME_NAMES


def test_a_biome_paints_its_own_columns_only():
    echelon.register_biome("pillars", pillars)
    mixed = maps_of(battle_in("pillars", "barrens"), torch.arange(16)).material
    plain = maps_of(battle_in("barrens"), torch.arange(16)).material
    painted = (mixed == Material.REINFORCED).any(1)
    shares = painted.float().mean((1, 2))
    assert (shares > 0).any() and (shares < 1 / 36).any()
    assert not (plain == Material.REINFORCED).any()


def test_battle_runs_in_a_registered_biome(craters):
    env = EchelonEnv(battle_in("craters"), 4, "cpu", seed=0)
    before = env.reset()["blue", "observation", "ego"].clone()
    after = env.rollout(8, break_when_any_done=False)
    assert not torch.equal(after["next", "blue", "observation", "ego"][:, -1], before)
    assert torch.isfinite(after["next", "blue", "reward"]).all()


@pytest.mark.parametrize(
    ("name", "paint", "message"),
    [
        ("barrens", pillars, "the name of a biome must be an identifier that no other biome has, got 'barrens'"),
        ("my biome", pillars, "the name of a biome must be an identifier that no other biome has, got 'my biome'"),
        ("pillars", 7, "the paint of biome 'pillars' must be a function of .*, got 7"),
    ],
)
def test_invalid_biome_is_rejected(name, paint, message):
    with pytest.raises(ConfigError, match=message):
        echelon.register_biome(name, paint)
    assert biomes.PAINTERS == {} and rules_config.REGISTERED_BIOMES == []


def test_a_name_is_registered_once():
    for _ in range(2):  # a module may be run twice
        echelon.register_biome("pillars", pillars)
    assert rules_config.REGISTERED_BIOMES == ["pillars"]
    with pytest.raises(ConfigError, match="must be an identifier that no other biome has, got 'pillars'"):
        echelon.register_biome("pillars", lambda *_: None)


def test_same_definition_may_be_registered_again():
    """A redefined function of the same name replaces the old one, even with a different body."""
    for body in ("pass", "material[:, 1] = 3"):
        cell = {"__name__": "__main__"}
        exec(f"def crater(material, where, seeds, world):\n    {body}", cell)
        echelon.register_biome("crater", cell["crater"])
    assert rules_config.REGISTERED_BIOMES == ["crater"] and biomes.PAINTERS["crater"] is cell["crater"]
    one, other = (eval("lambda *_: None") for _ in range(2))
    assert is_redefined(one, other) and not is_redefined(one, eval("lambda *_: 1"))


def test_voxels_that_are_no_material_are_rejected():
    echelon.register_biome("strange", lambda material, *_: material.fill_(200))
    with pytest.raises(ConfigError, match=r"voxels of biome 'strange' must be values of Material, 0\.\.9, got 200"):
        maps_of(battle_in("strange"), torch.arange(2))


UNKNOWN = (
    r"WorldConfig.biomes must be chosen from \('urban_residential', .*\); register your own biome first, "
    r"by echelon.register_biome\(name, paint\) in a module of --allow-module "
    r"or at the top of your script's module, so that every process that plays on its maps registers it, got 'craters'"
)


def unregister() -> None:
    """Remove the registered biome, as in another process."""
    biomes.PAINTERS.clear()
    rules_config.REGISTERED_BIOMES.clear()
    sys.modules.pop("crater_biome")


def test_unknown_biome_in_a_file_is_one_line_and_imports_nothing(craters, tmp_path):
    """Cases: a signature, a checkpoint, a replay, a league, and a config from another process."""
    config = dataclasses.replace(battle_in("craters"), rules=RulesConfig(max_episode_s=2.0))
    signature = json.loads(json.dumps(config.signature()))
    checkpoint = checkpoint_of(tmp_path, 1, env=config)
    recorder = Recorder([0])
    EchelonEnv(config, 1, "cpu", seed=0, observer=recorder).rollout(2)
    replay = recorder.finish(["x"], ["y"])
    league = Store.create(tmp_path / "league", config)
    assert rebuild(replay, replay.battles[0]).shape == (16, 40, 40)

    biomes.PAINTERS.clear()
    rules_config.REGISTERED_BIOMES.clear()
    sys.modules.pop("crater_biome")
    for read, error in (
        (lambda: env_from_json(signature), ConfigError),
        (lambda: open_checkpoint(checkpoint).env, FileError),
        (lambda: rebuild(replay, replay.battles[0]), FileError),
        (lambda: league.env, FileError),
        (lambda: maps_of(config, torch.tensor([3])), ConfigError),
    ):
        with pytest.raises(error, match=UNKNOWN) as caught:
            read()
        assert "\n" not in str(caught.value)
    assert "crater_biome" not in sys.modules
