"""Spawns: on free ground, apart, in opposite corners, facing the zone."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from first_catalog import MATERIALS

from echelon.rules.catalog import Material
from echelon.rules.config import PACK, EnvConfig, WorldConfig
from echelon.rules.roster import Roster, build_roster
from echelon.runtime.errors import ConfigError
from echelon.runtime.geometry import wrap_angle
from echelon.state import Maps
from echelon.world.layout import arrange_spawns, check_room
from echelon.world.pool import make_maps

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")
SOLID_KINDS = [int(kind) for kind in Material if MATERIALS[kind].solid]
CONFIGS = {
    "small": EnvConfig.small(),
    "standard": EnvConfig.standard(),
    "uneven": dataclasses.replace(EnvConfig.standard(), blue=PACK[:3], red=("heavy",) * 20),
    "oblong": dataclasses.replace(EnvConfig.small(), world=WorldConfig(32, 44, 6)),
}


def built(name: str, count: int = 12) -> tuple[EnvConfig, Roster, Maps]:
    config = CONFIGS[name]
    roster = build_roster(config, CPU)
    return config, roster, make_maps(config, roster, torch.arange(count))


@pytest.mark.parametrize("name", CONFIGS)
def test_spawns_do_not_overlap_terrain_or_each_other(name: str):
    config, roster, maps = built(name)
    size = np.array([config.world.size_x, config.world.size_y, config.world.size_z])
    half = roster.half_size.double().numpy()
    for material, pos in zip(maps.material.numpy(), maps.spawn_pos.double().numpy(), strict=True):
        low, high = pos - half, pos + half
        assert np.allclose(low[:, 2], 0, atol=1e-6)
        assert (low[:, :2] >= 0).all() and (high <= size).all()
        for (x0, y0, _), (x1, y1, z1) in zip(np.floor(low).astype(int), np.ceil(high).astype(int), strict=True):
            inside = material[:z1, y0:y1, x0:x1]
            assert not np.isin(inside, [*SOLID_KINDS, int(Material.LAVA)]).any()
        gap = np.abs(pos[:, None, :2] - pos[None, :, :2]) - half[:, None, :2] - half[None, :, :2]
        apart = gap.max(-1)
        np.fill_diagonal(apart, 1)
        assert (apart > 0).all()


@pytest.mark.usual
def test_spawns_are_point_symmetric_in_opposite_corners():
    config, _, maps = built("standard", 32)
    size = torch.tensor([config.world.size_x, config.world.size_y])
    blue, red = maps.spawn_pos[:, :10, :2], maps.spawn_pos[:, 10:, :2]
    assert (blue + red - size).abs().max() <= 0.5  # two jitters of at most a quarter each
    corner = blue.mean(1) > size / 2
    assert {tuple(row) for row in corner.tolist()} == {(a, b) for a in (False, True) for b in (False, True)}


def test_mechs_face_the_zone():
    _, _, maps = built("standard")
    ahead = maps.zone_center[:, None] - maps.spawn_pos[..., :2]
    stray = wrap_angle(maps.spawn_yaw - torch.atan2(ahead[..., 1], ahead[..., 0])).abs()
    assert stray.max() <= 0.15 + 1e-5
    assert stray.max() > 0.1


def test_spawn_jitter_is_at_most_a_quarter_voxel():
    _, roster, maps = built("small", 16)
    team = maps.spawn_pos[:, : roster.num_blue, :2]
    along = (team[:, 1:] - team[:, :-1]).abs().amax(-1)
    assert (along >= 4.25 - 0.5).all() and (along <= 4.25 + 0.5).all()


def test_map_too_small_is_rejected_with_field_limit_and_value():
    config = EnvConfig(world=WorldConfig(40, 36, 16), blue=PACK * 4, red=PACK)
    with pytest.raises(ConfigError, match=r"WorldConfig\.size_x.*must be >= 46 vox.*20 blue.*got 40"):
        make_maps(config, build_roster(config, CPU), torch.arange(1))
    check_room(dataclasses.replace(config, world=WorldConfig(46, 36, 16)))


def test_rows_use_the_side_with_room():
    config = EnvConfig(world=WorldConfig(60, 36, 16), blue=PACK * 4, red=PACK * 4)
    spawns = arrange_spawns(torch.arange(8), config)
    assert spawns.is_turned.all()
    blue_end, red_start = spawns.high.amin(1)[:, 0], spawns.low.amax(1)[:, 0]
    assert (blue_end <= red_start).all()
    assert math.prod(spawns.low.shape) == 8 * 2 * 2
