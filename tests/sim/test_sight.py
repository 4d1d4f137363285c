"""Clear lines between mechs."""

import dataclasses

import pytest
import torch
from builders import battle, duel, scene

from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig
from echelon.rules.roster import build_roster
from echelon.sim.model import build_model
from echelon.sim.sight import enemy_lines, open_ground, smoke_between
from echelon.state import initial_state
from echelon.world.pool import make_maps

pytestmark = pytest.mark.quick

WALL = (14, 15, 20, 21)


def line(range_vox, *boxes, reach=60.0):
    s = duel(range_vox, "medium", "medium", *boxes)
    return enemy_lines(s.state, s.sim_model, reach)[0, 0, 1].item()


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
def test_opaque_materials_block_sight(material, clear):
    assert line(8, (*WALL, 1, 3, material)) == clear


def test_line_passes_above_a_low_wall():
    assert line(8, (*WALL, 0, 1, Material.SOLID))  # centres are at z = 1.5


def test_the_cells_of_both_ends_are_not_tested():
    assert line(8, (10, 11, 20, 21, 1, 3, Material.SOLID), (18, 19, 20, 21, 1, 3, Material.SOLID))
    assert not line(8, (11, 12, 20, 21, 1, 3, Material.SOLID))
    assert not line(8, (17, 18, 20, 21, 1, 3, Material.SOLID))


@pytest.mark.parametrize(("range_vox", "clear"), [(8.0, True), (8.01, False)])
def test_line_is_limited_to_its_range(range_vox, clear):
    assert line(range_vox, reach=8.0) == clear


def test_lines_are_symmetric_and_agree_on_generated_maps():
    config = dataclasses.replace(EnvConfig.small(), blue=("heavy", "medium", "scout"), red=("light", "medium"))
    roster = build_roster(config, torch.device("cpu"))
    maps = make_maps(config, roster, torch.arange(8))
    sim_model = build_model(config, roster, maps)
    state = initial_state(torch.arange(64), torch.arange(64) % 8, maps, roster, config)
    generator = torch.Generator().manual_seed(0)
    state.mechs.pos[:] = torch.rand(64, 5, 3, generator=generator) * torch.tensor([40.0, 40.0, 5.0])
    for reach in (8.0, 60.0):
        every = roster.everyone.matrix(open_ground(state, roster.everyone, reach))
        enemies = enemy_lines(state, sim_model, reach)
        assert torch.equal(every, every.transpose(1, 2)) and torch.equal(enemies, enemies.transpose(1, 2))
        assert torch.equal(enemies, every & roster.hostile)
        assert not every.diagonal(dim1=1, dim2=2).any()
        assert 0 < every.float().mean() < 1


def test_teams_of_different_sizes():
    s = scene(dataclasses.replace(EnvConfig.small(), blue=("medium",) * 3, red=("scout",)))
    lines = enemy_lines(s.state, s.sim_model, 60.0)[0]
    assert lines.tolist() == s.sim_model.roster.hostile.tolist()  # open ground


def smoky(*clouds, x=18.5, bottom=0.0):
    """Return True if smoke blocks the line between mediums at (10.5, 20.5) and (x, 20.5), with centres at z = 1.5."""
    s = duel(8, "medium", "medium").place(1, x, 20.5, bottom=bottom)
    for which, (cloud, ttl) in enumerate(clouds):
        s.smoke(which % 2, *cloud, ttl=ttl, which=which // 2)
    pairs = s.sim_model.roster.enemies
    hidden = smoke_between(s.state, pairs, pairs.both(s.state.mechs.alive), s.sim_model)[0, 0].item()
    assert enemy_lines(s.state, s.sim_model, 60.0)[0, 0, 1].item() == (not hidden)
    return hidden


@pytest.mark.parametrize(
    ("cloud", "hidden"),
    [
        ((14.5, 20.5, 1.5), True),
        ((14.5, 24.4, 1.5), True),  # 3.9 off the line
        ((14.5, 24.6, 1.5), False),
        ((14.5, 20.5, 5.4), True),  # above the line
        ((14.5, 20.5, 5.6), False),
        ((14.5, 23.5, 4.5), False),  # 3 aside and 3 above: 4.24 off
        ((6.6, 20.5, 1.5), True),  # behind the viewer, 3.9 from it
        ((6.4, 20.5, 1.5), False),
        ((22.4, 20.5, 1.5), True),  # beyond the target, 3.9 from it
        ((22.6, 20.5, 1.5), False),
    ],
)
def test_cloud_within_its_radius_of_the_line_blocks(cloud, hidden):
    assert smoky((cloud, 100)) == hidden


def test_expired_cloud_does_not_block():
    assert smoky(((14.5, 20.5, 1.5), 1))
    assert not smoky(((14.5, 20.5, 1.5), 0))


def test_clouds_of_both_teams_block():
    far = ((30.0, 35.0, 1.5), 100)
    assert not smoky(far, far, far)
    assert smoky(far, far, far, ((14.5, 20.5, 1.5), 100))


def test_cloud_blocks_a_sloped_line():
    # The line from (10.5, 1.5) to (18.5, 9.5) has its middle at (14.5, 5.5); (14.5, 0) is 5.5 / sqrt 2 = 3.9 from it.
    assert smoky(((14.5, 20.5, 0.0), 100), bottom=8.0)
    assert not smoky(((14.5, 20.5, -0.3), 100), bottom=8.0)  # 4.1 off


def test_disabled_smoke_does_not_block():
    s = battle(("medium",), ("medium",), smoke=False).place(0, 10.5, 20.5).place(1, 18.5, 20.5)
    s.smoke(0, 14.5, 20.5, 1.5)
    assert enemy_lines(s.state, s.sim_model, 60.0)[0, 0, 1]
