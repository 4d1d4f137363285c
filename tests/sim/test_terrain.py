"""Reading the maps."""

import torch
from builders import duel

from echelon.rules.catalog import Material
from echelon.sim.terrain import at_cells, standing_on


def test_fields_read_by_map_and_cell():
    field = torch.arange(2 * 3 * 4).view(2, 3, 4)
    x, y = torch.tensor([[0, 3], [9, -5]]), torch.tensor([[0, 2], [9, 1]])
    assert at_cells(field, torch.tensor([0, 1]), x, y).tolist() == [[0, 11], [23, 16]]


def test_a_mech_stands_on_the_voxel_under_its_middle():
    boxes = ((10, 11, 20, 21, 0, 1, Material.WATER), (10, 11, 20, 21, 3, 4, Material.LAVA))
    s = duel(20, "medium", "scout", *boxes)

    def ground():
        return standing_on(s.state, s.game)[0, 0].item()

    assert ground() == Material.WATER
    s.place(0, 10.9, 20.1)
    assert ground() == Material.WATER
    s.place(0, 11.1, 20.5)
    assert ground() == Material.DIRT
    s.place(0, 10.5, 20.5, bottom=3.2)
    assert ground() == Material.LAVA
    s.place(0, 10.5, 20.5, bottom=1.2)
    assert ground() == Material.AIR
