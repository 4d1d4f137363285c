"""Lookups in maps and terrain."""

import pytest
import torch
from builders import duel

from echelon.rules.catalog import Material
from echelon.sim.terrain import at_cells, present_materials, standing_on

pytestmark = pytest.mark.quick


def test_at_cells_gathers_by_map_and_cell():
    field = torch.arange(2 * 3 * 4).view(2, 3, 4)
    x, y = torch.tensor([[0, 3], [9, -5]]), torch.tensor([[0, 2], [9, 1]])
    assert at_cells(field, torch.tensor([0, 1]), x, y).tolist() == [[0, 11], [23, 16]]


def test_standing_on_reads_the_voxel_under_the_hull_centre():
    boxes = ((10, 11, 20, 21, 0, 1, Material.WATER), (10, 11, 20, 21, 3, 4, Material.LAVA))
    s = duel(20, "medium", "scout", *boxes)

    def ground():
        return standing_on(s.state, s.sim_model)[0, 0].item()

    assert ground() == Material.WATER
    s.place(0, 10.9, 20.1)
    assert ground() == Material.WATER
    s.place(0, 11.1, 20.5)
    assert ground() == Material.DIRT
    s.place(0, 10.5, 20.5, bottom=3.2)
    assert ground() == Material.LAVA
    s.place(0, 10.5, 20.5, bottom=1.2)
    assert ground() == Material.AIR


def test_present_materials_equal_material_at_each_voxel():
    s = duel(20, "medium", "scout", (10, 13, 20, 22, 0, 4, Material.GLASS), (20, 22, 20, 22, 1, 3, Material.SOLID))
    terrain = s.state.terrain
    terrain.solid[0, 21, 11] &= 0b1
    terrain.rubble[0, 5, 5:7] |= 0b110
    terrain.solid[0, 5, 5] |= 0b110
    terrain.opaque[0, 5, 5] |= 0b110
    found = present_materials(s.sim_model.maps[0], terrain[0])
    assert found.dtype == torch.uint8 and (found == s.materials()).all()
    assert found[1, 5, 5:7].tolist() == [Material.SOLID_DEBRIS, Material.DEBRIS_FIELD]
    assert found[:4, 21, 11].tolist() == [Material.GLASS, *[Material.AIR] * 3]
