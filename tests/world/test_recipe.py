"""Recipes recreate their maps, and maps of a generator version do not change."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest
import torch

from echelon.rules.config import BIOME_NAMES, EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.rules.versions import MAP_MAKER_VERSION
from echelon.runtime.errors import ConfigError
from echelon.world import biomes, pool, stamps
from echelon.world.pool import MAKERS, Recipe, fingerprints, make_maps, recipe_from_json, write_recipes

RECORD = Path(__file__).parents[1] / "golden" / "maps.json"
REMAKE = f"PYTHONPATH=. python tests/world/{Path(__file__).name}"
SEEDS = [3, 1_000_003, 4_294_967_295]
CONFIGS = {
    "small": EnvConfig.small(),
    "standard": EnvConfig.standard(),
    "large": EnvConfig.large(),
    "half as hard": dataclasses.replace(EnvConfig.standard(), world=WorldConfig(difficulty=0.5)),
    **{
        name: dataclasses.replace(EnvConfig.small(), world=WorldConfig(48, 48, 20, biomes=(name,)))
        for name in BIOME_NAMES
    },
}


def maps_of(config, seeds):
    return make_maps(config, build_roster(config, torch.device("cpu")), torch.tensor(seeds))


def hashes(name):
    """Return the first digits of the fingerprint of each map of `SEEDS`."""
    return [found[:16] for found in fingerprints(maps_of(CONFIGS[name], SEEDS))]


@pytest.mark.parametrize("name", CONFIGS)
def test_maps_match_the_recorded_hashes(name):
    """A different map for a seed needs a new `MAP_MAKER_VERSION`, so that recipes of the old version keep working."""
    record = json.loads(RECORD.read_text())
    assert record["version"] == MAP_MAKER_VERSION, f"the map maker has another version: {REMAKE}"
    assert hashes(name) == record["maps"][name], f"if the change is meant, raise MAP_MAKER_VERSION, then {REMAKE}"


@pytest.mark.long
def test_compiled_generator_gives_the_same_maps(monkeypatch):
    """Stamps compiled without a graph break give the same voxels as in eager mode."""
    name = "civic_government"  # boxes, discs, gates and yards
    compiled = torch.compile(stamps.paint, fullgraph=True, dynamic=False)
    monkeypatch.setattr(biomes, "paint", compiled)
    torch._dynamo.reset()
    assert hashes(name) == json.loads(RECORD.read_text())["maps"][name]


def test_a_recipe_makes_its_map_again():
    config = EnvConfig.small()
    maps = maps_of(config, SEEDS)
    for number, found in enumerate(write_recipes(maps)):
        again = recipe_from_json(json.loads(json.dumps(found.as_json()))).make(config)
        assert torch.equal(again.material[0], maps.material[number])
        assert torch.equal(again.path_length[0], maps.path_length[number])


def test_recipe_uses_the_map_generator_of_its_version(monkeypatch):
    """With a new map generator that swaps spawns, recipes still use the generator of their version."""
    config = EnvConfig.small()
    (old,) = write_recipes(maps_of(config, [5]))

    def next_maker(*args):
        maps = make_maps(*args)
        return maps.replace(spawn_pos=maps.spawn_pos.flip(1))

    monkeypatch.setitem(MAKERS, MAP_MAKER_VERSION + 1, next_maker)
    monkeypatch.setattr(pool, "MAP_MAKER_VERSION", MAP_MAKER_VERSION + 1)
    (new,) = write_recipes(next_maker(config, build_roster(config, torch.device("cpu")), torch.tensor([5])))
    assert (old.version, new.version) == (MAP_MAKER_VERSION, MAP_MAKER_VERSION + 1) and old.sha256 != new.sha256
    assert fingerprints(old.make(config)) == [old.sha256] and fingerprints(new.make(config)) == [new.sha256]


def test_the_newest_map_maker_makes_the_maps():
    assert max(MAKERS) == MAP_MAKER_VERSION and MAKERS[MAP_MAKER_VERSION] is make_maps


def test_fingerprint_depends_on_voxels_zone_and_spawns():
    maps = maps_of(EnvConfig.small(), [1])
    (before,) = fingerprints(maps)
    for name in ("material", "zone_center", "zone_radius", "spawn_pos"):
        changed = maps.clone()
        getattr(changed, name).view(-1)[-1] += 1
        assert fingerprints(changed) != [before], name


def test_invalid_recipe_is_rejected():
    config = EnvConfig.small()
    (good,) = write_recipes(maps_of(config, [5]))
    with pytest.raises(
        ConfigError, match=rf"map.version must be a map generator version of .*, 2, got {MAP_MAKER_VERSION + 1}"
    ):
        dataclasses.replace(good, version=MAP_MAKER_VERSION + 1).make(config)
    with pytest.raises(ConfigError, match=r"the sha256 of map 6 must be .*which belongs to other settings"):
        dataclasses.replace(good, seed=6).make(config)
    with pytest.raises(ConfigError, match="the sha256 of map 5 must be"):
        good.make(EnvConfig.standard())
    for values, message in (
        (None, "map must be a recipe"),
        ({"version": 2, "seed": "5", "sha256": "x"}, "map.seed must be a int, got '5'"),
        ({"version": 2, "seed": -1, "sha256": "x"}, r"map.seed must be 0\.\.4294967295, got -1"),
        ({"seed": 5}, "map.version must be a int, got None"),
    ):
        with pytest.raises(ConfigError, match=message):
            recipe_from_json(values)
    assert recipe_from_json(good.as_json()) == Recipe(MAP_MAKER_VERSION, 5, good.sha256)


if __name__ == "__main__":
    found = {"version": MAP_MAKER_VERSION, "maps": {name: hashes(name) for name in CONFIGS}}
    RECORD.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(f"wrote {RECORD}\n")
