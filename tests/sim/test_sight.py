"""Clear lines between mechs."""

import dataclasses

import pytest
import torch
from builders import duel, scene

from echelon.catalog import Material, build_roster
from echelon.config import EnvConfig
from echelon.sim.game import build_game
from echelon.sim.sight import all_lines, clear_line, enemy_lines
from echelon.state import open_battle
from echelon.world.pool import make_maps

WALL = (14, 15, 20, 21)


def line(range_vox, *boxes, reach=60.0):
    s = duel(range_vox, "medium", "medium", *boxes)
    return enemy_lines(s.state, s.game, reach)[0, 0, 1].item()


@pytest.mark.parametrize(
    ("material", "clear"),
    [
        (Material.AIR, True),
        (Material.GLASS, True),
        (Material.LAVA, True),
        (Material.DEBRIS_FIELD, True),
        (Material.FOLIAGE, False),
        (Material.SOLID, False),
        (Material.SOLID_DEBRIS, False),
        (Material.REINFORCED, False),
    ],
)
def test_what_blocks_sight(material, clear):
    assert line(8, (*WALL, 1, 3, material)) == clear


def test_a_low_wall_is_looked_over():
    assert line(8, (*WALL, 0, 1, Material.SOLID))  # centres are at z = 1.5


def test_the_cells_of_both_ends_are_not_tested():
    assert line(8, (10, 11, 20, 21, 1, 3, Material.SOLID), (18, 19, 20, 21, 1, 3, Material.SOLID))
    assert not line(8, (11, 12, 20, 21, 1, 3, Material.SOLID))
    assert not line(8, (17, 18, 20, 21, 1, 3, Material.SOLID))


@pytest.mark.parametrize(("range_vox", "clear"), [(8.0, True), (8.01, False)])
def test_a_line_is_no_longer_than_its_range(range_vox, clear):
    assert line(range_vox, reach=8.0) == clear


def test_lines_are_symmetric_and_agree_on_generated_maps():
    config = dataclasses.replace(EnvConfig.small(), blue=("heavy", "medium", "scout"), red=("light", "medium"))
    roster = build_roster(config, torch.device("cpu"))
    maps = make_maps(config, roster, torch.arange(8))
    game = build_game(config, roster, maps)
    state = open_battle(torch.arange(64), torch.arange(64) % 8, maps, roster, config)
    generator = torch.Generator().manual_seed(0)
    state.mechs.pos[:] = torch.rand(64, 5, 3, generator=generator) * torch.tensor([40.0, 40.0, 5.0])
    for reach in (8.0, 60.0):
        every, enemies = all_lines(state, game, reach), enemy_lines(state, game, reach)
        assert torch.equal(every, every.transpose(1, 2)) and torch.equal(enemies, enemies.transpose(1, 2))
        assert torch.equal(enemies, every & roster.hostile)
        assert not every.diagonal(dim1=1, dim2=2).any()
        assert 0 < every.float().mean() < 1


def test_teams_of_different_sizes():
    s = scene(dataclasses.replace(EnvConfig.small(), blue=("medium",) * 3, red=("scout",)))
    lines = enemy_lines(s.state, s.game, 60.0)[0]
    assert lines.tolist() == s.game.roster.hostile.tolist()  # open ground


def test_clear_line_takes_any_segments():
    s = duel(8, "medium", "medium", (*WALL, 1, 3, Material.SOLID))
    start = torch.tensor([[[10.5, 20.5, 1.5], [10.5, 20.5, 4.5], [10.5, 20.5, 1.5]]])
    end = torch.tensor([[[18.5, 20.5, 1.5], [18.5, 20.5, 4.5], [10.5, 28.5, 1.5]]])
    assert clear_line(s.state, s.game, start, end, 9.0)[0].tolist() == [False, True, True]
