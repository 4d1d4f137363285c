"""Each biome alone shows the materials it is known by."""

import dataclasses

import pytest
import torch

from echelon.catalog import Material
from echelon.config import BIOME_NAMES, EnvConfig, WorldConfig
from echelon.roster import build_roster
from echelon.world.biomes import BIOMES
from echelon.world.draws import STAMPS_A_BIOME
from echelon.world.layout import quadrants
from echelon.world.pool import make_maps

KNOWN_BY = {
    "urban_residential": {Material.SOLID, Material.GLASS},
    "industrial_refinery": {Material.SOLID, Material.REINFORCED},
    "forest_park": {Material.SOLID, Material.FOLIAGE},
    "sunken_canal": {Material.SOLID, Material.WATER},
    "volcanic_ridge": {Material.SOLID, Material.LAVA},
    "barrens": {Material.SOLID},
}


@pytest.mark.parametrize("name", BIOME_NAMES)
def test_a_biome_shows_its_materials(name: str):
    config = dataclasses.replace(EnvConfig.standard(), world=WorldConfig(biomes=(name,)))
    material = make_maps(config, build_roster(config, torch.device("cpu")), torch.arange(4)).material
    for one_map in material:
        assert set(one_map.unique().tolist()) == {Material.AIR, Material.DIRT} | KNOWN_BY[name]
    for liquid in (Material.LAVA, Material.WATER, Material.DIRT):
        assert not (material[:, 1:] == liquid).any(), "liquids and ground lie in the floor cells"
    assert not (material[:, 0] == Material.AIR).any(), "the floor has no holes"


def test_canopies_stand_above_trunks():
    config = dataclasses.replace(EnvConfig.standard(), world=WorldConfig(biomes=("forest_park",)))
    material = make_maps(config, build_roster(config, torch.device("cpu")), torch.arange(2)).material
    foliage = (material == Material.FOLIAGE).sum((0, 2, 3))
    assert foliage[4] > 0 and foliage[5] > 0, "canopies"
    assert foliage[0] > 0 and foliage[2] == 0 and foliage[3] == 0, "hedges two high, then free trunks"


def test_a_quadrant_has_one_biome_of_the_choice():
    world = WorldConfig(biomes=("barrens", "sunken_canal"))
    chosen = {BIOME_NAMES.index(name) for name in world.biomes}
    biome = quadrants(torch.arange(32), world)
    assert set(biome.unique().tolist()) == chosen
    for low_x, high_x in ((0, 24), (40, 64)):  # the splits stray at most 8 from 32
        for low_y, high_y in ((0, 24), (40, 64)):
            quadrant = biome[:, low_y:high_y, low_x:high_x].flatten(1)
            assert (quadrant == quadrant[:, :1]).all()


def test_every_stamp_fits_its_plot():
    assert set(BIOMES) == set(BIOME_NAMES)
    for stamps in BIOMES.values():
        assert len(stamps) <= STAMPS_A_BIOME
        for stamp in stamps:
            assert stamp.length[1] + 2 * stamp.margin <= stamp.plot[0]
            assert stamp.width[1] + 2 * stamp.margin <= stamp.plot[1]
