"""Maps of a single biome have its materials, density and height."""

import dataclasses

import pytest
import torch

from echelon.rules.catalog import Material
from echelon.rules.config import BIOME_NAMES, EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.world.biomes import BIOMES, quadrants
from echelon.world.draws import STAMPS_A_BIOME
from echelon.world.pool import make_maps

M = Material
BIOME = {
    #                      materials besides air and dirt              share of columns built on  highest voxel
    "urban_residential": ({M.SOLID, M.GLASS}, (0.10, 0.30), (9, 10)),
    "industrial_refinery": ({M.SOLID, M.REINFORCED}, (0.10, 0.32), (8, 9)),
    "civic_government": ({M.SOLID, M.GLASS, M.REINFORCED}, (0.22, 0.50), (10, 13)),
    "forest_park": ({M.SOLID, M.FOLIAGE}, (0.20, 0.60), (8, 9)),
    "barrens": ({M.SOLID}, (0.12, 0.38), (2, 4)),
    "arcology_spire": ({M.SOLID, M.GLASS, M.REINFORCED}, (0.16, 0.45), (16, 19)),
    "sunken_canal": ({M.SOLID, M.WATER}, (0.07, 0.28), (4, 6)),
    "geo_front": ({M.SOLID, M.GLASS, M.REINFORCED}, (0.30, 0.62), (10, 10)),
    "glass_desert": ({M.SOLID, M.GLASS}, (0.10, 0.35), (5, 8)),
    "command_outpost": ({M.SOLID, M.REINFORCED}, (0.08, 0.30), (6, 6)),
    "dense_jungle": ({M.SOLID, M.FOLIAGE, M.WATER}, (0.38, 0.75), (11, 12)),
    "mining_pit": ({M.SOLID}, (0.08, 0.32), (7, 7)),
    "volcanic_ridge": ({M.SOLID, M.LAVA}, (0.14, 0.40), (7, 9)),
    "hydroponic_lab": ({M.SOLID, M.GLASS, M.FOLIAGE, M.WATER}, (0.10, 0.35), (4, 4)),
    "server_farm": ({M.SOLID, M.GLASS, M.REINFORCED}, (0.20, 0.50), (5, 7)),
    "orbital_relay": ({M.SOLID, M.GLASS, M.REINFORCED}, (0.14, 0.36), (15, 18)),
}


def alone(name: str, maps: int) -> torch.Tensor:
    """Return maps of one biome, `[M, Z, Y, X]`."""
    config = dataclasses.replace(EnvConfig.standard(), world=WorldConfig(biomes=(name,)))
    return make_maps(config, build_roster(config, torch.device("cpu")), torch.arange(maps)).material


@pytest.mark.parametrize("name", BIOME_NAMES)
def test_biome_has_its_materials_density_and_height(name: str):
    known_by, (least, most), (low, high) = BIOME[name]
    material = alone(name, 16)
    assert set(material.unique().tolist()) == {M.AIR, M.DIRT} | known_by
    built = sum((material == kind) for kind in known_by - {M.WATER, M.LAVA}).bool()
    share = built.any(1).float().mean((1, 2))
    assert least <= share.min() and share.max() <= most
    levels = built.any(3).any(2)  # [M, Z]
    highest = (levels * torch.arange(1, levels.shape[1] + 1)).amax(1)
    assert low <= highest.amax() <= high
    for liquid in (M.LAVA, M.WATER, M.DIRT):
        assert not (material[:, 1:] == liquid).any(), "liquids and ground lie in the floor cells"
    assert not (material[:, 0] == M.AIR).any(), "the floor has no holes"


def test_biomes_differ_in_telemetry():
    """Any two biomes differ in the shares of topmost materials, or in the mean heights of columns."""
    marks = []
    for name in BIOME_NAMES:
        material = alone(name, 8).long()
        depth = torch.arange(material.shape[1])[:, None, None]
        top = torch.where(material != M.AIR, depth, 0).amax(1)
        seen = material.gather(1, top[:, None]).flatten()
        shares = torch.bincount(seen, minlength=len(M)) / len(seen)
        marks.append(torch.cat((shares, top.float().mean()[None] / 10, top.float().std()[None] / 10)))
    table = torch.stack(marks)
    apart = torch.cdist(table, table) + torch.eye(len(BIOME_NAMES))
    assert apart.min() > 0.03


def test_vaults_can_be_walked_through():
    """Passages below the roof of a vault are high and wide enough for every hull."""
    material = alone("geo_front", 4)
    solid = (material == M.SOLID) | (material == M.REINFORCED) | (material == M.GLASS)
    roofed = solid[:, 8].bool() & ~solid[:, 1:7].any(1)
    wide = torch.nn.functional.max_pool2d(-roofed.float(), 5, 1, 2) == -1  # 5x5 such columns around
    assert (wide.flatten(1).sum(1) > 20).all()


def test_ramps_rise_one_voxel_per_two_columns():
    material = alone("mining_pit", 32)
    solid = material == M.SOLID
    height = solid.int().cumprod(1).sum(1)
    rises = [(height[:, :, 4:] - height[:, :, :-4]) == 2, (height[:, 4:] - height[:, :-4]) == 2]
    assert all(rise.any() for rise in rises)


def test_canopies_stand_above_trunks():
    material = alone("forest_park", 2)
    foliage = (material == Material.FOLIAGE).sum((0, 2, 3))
    assert foliage[4] > 0 and foliage[5] > 0, "canopies"
    assert foliage[0] > 0 and foliage[2] == 0 and foliage[3] == 0, "hedges two high, then free trunks"


def test_a_quadrant_has_one_biome_of_the_choice():
    world = WorldConfig(biomes=("barrens", "sunken_canal"))
    biome = quadrants(torch.arange(32), world)
    assert set(biome.unique().tolist()) == {0, 1}
    for low_x, high_x in ((0, 24), (40, 64)):  # split lines are at most 8 away from 32
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
