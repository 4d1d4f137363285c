"""The kernels of a CPU answer as the closed forms of a GPU do."""

import dataclasses
import math
from types import SimpleNamespace

import pytest
import torch
from builders import battle, brawl

from echelon.env.env import EchelonEnv
from echelon.env.observation.contacts import in_order
from echelon.rules.catalog import CLOUD_VOX, CLOUDS, Weapon
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.runtime.geometry import unit
from echelon.sim import loops, movement, rubble, terrain
from echelon.sim.lines import veil
from echelon.sim.sight import smoke_in_closed_form
from echelon.sim.targeting import designate, designate_in_closed_form, take_aim
from echelon.sim.terrain import closed_form, first_hit, is_blocked
from echelon.world.pool import make_maps

BATTLES, RAYS = 24, 512


@pytest.fixture(scope="module")
def maps():
    config = EnvConfig.standard()
    return make_maps(config, build_roster(config, torch.device("cpu")), torch.arange(BATTLES))


def segments(spread: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Segments about the map, some of them over its border, some along an axis, some on the faces of voxels."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.tensor([64.0, 64.0, 20.0])
    start = torch.rand(BATTLES, RAYS, 3, generator=generator) * size
    end = start + (torch.rand(BATTLES, RAYS, 3, generator=generator) - 0.5) * 2 * spread * size
    end[:, ::5, 2] = start[:, ::5, 2]
    end[:, ::7, 0] = start[:, ::7, 0]
    start[:, ::11] = start[:, ::11].round()
    return start, end


@pytest.mark.parametrize("spread", [1.0, 0.2, 0.03])
@pytest.mark.parametrize("past_end", [False, True])
def test_first_hits_are_equal_bit_for_bit(maps, spread, past_end):
    for number, columns in enumerate((maps.solid, maps.opaque)):
        start, end = segments(spread, number)
        found = first_hit(columns, start, end, 100.0, past_end)
        assert torch.equal(found, closed_form(columns, start, end, [63, 63, 30], past_end))
        assert 0.01 < found.isfinite().float().mean() < 0.6


@pytest.mark.parametrize("reach", [1.25, 3.0, 12.0])
def test_segments_longer_than_the_reach_are_looked_along_as_far(maps, reach):
    start, end = segments(0.3, 5)
    most = [min(int(reach) + 1, cells) for cells in (63, 63, 30)]
    found = first_hit(maps.solid, start, end, reach, past_end=False)
    assert torch.equal(found, closed_form(maps.solid, start, end, most, past_end=False))


def test_whether_and_where_agree_and_nobody_else_is_answered(maps):
    start, end = segments(0.5, 9)
    asked = torch.rand(BATTLES, RAYS, generator=torch.Generator().manual_seed(1)) < 0.5
    everywhere = first_hit(maps.opaque, start, end, 100.0, past_end=False)
    assert torch.equal(is_blocked(maps.opaque, start, end, 100.0, asked), everywhere.isfinite() & asked)
    some = first_hit(maps.opaque, start, end, 100.0, past_end=False, asked=asked)
    assert torch.equal(some, torch.where(asked, everywhere, torch.inf))


def test_segments_that_broadcast(maps):
    start, end = segments(0.2, 3)
    fan = is_blocked(
        maps.solid, start[:, :6, None], end[:, None, :8], 100.0, torch.ones(BATTLES, 6, 8, dtype=torch.bool)
    )
    for i in range(6):
        one = first_hit(maps.solid, start[:, i, None].expand(-1, 8, -1), end[:, :8], 100.0, past_end=False)
        assert torch.equal(fan[:, i], one.isfinite())


def test_smoke_veils_as_its_closed_form_says():
    s = battle(("scout",) * 4, ("light",) * 4)
    pairs, generator = s.game.roster.everyone, torch.Generator().manual_seed(2)
    asked = torch.ones(1, len(pairs.first), dtype=torch.bool)
    seen = []
    for _ in range(300):
        s.state.mechs.pos.copy_(torch.rand(1, 8, 3, generator=generator) * torch.tensor([40.0, 40.0, 4.0]))
        s.state.clouds.pos.copy_(torch.rand(1, 8 * CLOUDS, 3, generator=generator) * torch.tensor([40.0, 40.0, 6.0]))
        s.state.clouds.ttl.copy_(torch.randint(-20, 3, (1, 8 * CLOUDS), generator=generator).clamp_min(0))
        both = torch.stack((pairs.first, pairs.second))
        clouds = s.state.clouds
        found = veil(s.state.mechs.pos, clouds.pos, clouds.ttl > 0, both, CLOUD_VOX, asked)
        assert torch.equal(found, smoke_in_closed_form(s.state, pairs))
        assert not veil(s.state.mechs.pos, clouds.pos, clouds.ttl > 0, both, CLOUD_VOX, ~asked).any()
        seen.append(found.float().mean())
    assert 0.05 < torch.stack(seen).mean() < 0.6


def test_hulls_collide_and_give_way_as_the_closed_forms_say(maps):
    """Some over the border, some on the faces of voxels, some of equal priority, some dead."""
    generator = torch.Generator().manual_seed(3)
    half_size = torch.tensor([[0.6, 0.6, 0.9], [0.75, 0.75, 1.0], [1.25, 1.25, 1.5], [1.75, 1.75, 2.0]]).repeat(5, 1)
    old = torch.rand(BATTLES, 20, 3, generator=generator) * torch.tensor([68.0, 68.0, 10.0]) - 2
    old[:, ::3] = old[:, ::3].round()
    asked = torch.rand(BATTLES, 20, generator=generator) < 0.8
    found = loops.collide(maps.solid, old, half_size, asked)
    assert torch.equal(found, asked & movement.collides_in_closed_form(maps.solid, old, half_size))
    assert 0.05 < found.float().mean() < 0.9

    near = old * torch.tensor([0.3, 0.3, 0.2])
    chosen = near + torch.randn(BATTLES, 20, 3, generator=generator) * 0.3
    priority = (torch.rand(BATTLES, 20, generator=generator) * 8).floor()
    stays = loops.bump(near, chosen, priority, asked, half_size)
    assert torch.equal(stays, movement.gives_way_in_closed_form(near, chosen, priority, asked, half_size))
    assert 0.05 < stays.float().mean() < 0.95


def test_leaves_are_torn_as_crossing_after_crossing_tears_them():
    """Shots through a jungle, some standing still, some up to its border, some along an axis."""
    config = dataclasses.replace(EnvConfig.standard(), map_pool=2, world=WorldConfig(biomes=("dense_jungle",)))
    env, generator = EchelonEnv(config, 4, "cpu", seed=2), torch.Generator().manual_seed(6)
    shape = (4, env.game.roster.shots.count, 3)
    start = torch.rand(shape, generator=generator) * torch.tensor([63.9, 63.9, 8.0])
    point = start + (torch.rand(shape, generator=generator) - 0.5) * 2.5
    point = point.clamp_min(0.0).minimum(env.game.size)
    point[:, ::5], point[:, 1::5, 2] = start[:, ::5], start[:, 1::5, 2]
    flew = torch.rand(shape[:2], generator=generator) < 0.8
    impacts = SimpleNamespace(start=start, point=point, direction=unit(point - start), flew=flew)

    grown = env.state.terrain.opaque.clone()
    rubble.tear(env.state, impacts, env.game)
    torn = env.state.terrain.opaque.clone()
    env.state.terrain.opaque.copy_(grown)
    muzzle = rubble.bitten_voxel(start, impacts.direction, env.game)
    rubble.tear_in_closed_form(env.state.terrain, muzzle, impacts, env.game)
    assert torch.equal(torn, env.state.terrain.opaque)
    assert (torn != grown).sum() > 20


def test_guns_are_pointed_as_the_closed_form_says():
    s = battle(("heavy", "medium", "light", "scout", "light"), ("heavy", "medium", "light", "scout", "heavy"))
    guns, generator = s.game.roster.guns, torch.Generator().manual_seed(7)
    by_weapon = torch.zeros(len(Weapon))
    for _ in range(200):
        s.state.mechs.pos.copy_(torch.rand(1, 10, 3, generator=generator) * torch.tensor([20.0, 20.0, 4.0]))
        s.state.mechs.yaw.copy_(torch.rand(1, 10, generator=generator) * 2 * math.pi)
        line, lock = torch.rand(2, 1, 10, 10, generator=generator) < 0.7
        alive = torch.rand(1, 10, generator=generator) < 0.8
        focus = torch.randint(-1, 10, (1, 10), generator=generator)
        facts = take_aim(s.state, s.game), line, lock, focus, alive, guns
        aimed, target = designate(*facts)
        dense_aimed, dense_target = designate_in_closed_form(*facts)
        assert torch.equal(aimed, dense_aimed) and torch.equal(target, dense_target)
        by_weapon += aimed.sum((0, 2))
    assert (by_weapon > 20).all()


def test_impacts_in_one_voxel_are_told_as_if_each_were_held_against_each():
    generator = torch.Generator().manual_seed(4)
    voxel = torch.randint(0, 12, (BATTLES, 56), generator=generator, dtype=torch.int32)
    weight = torch.randint(1, 50, (56,), generator=generator).float()
    for share in (0.0, 0.1, 0.7):
        counts = torch.rand(BATTLES, 56, generator=generator) < share
        total, first = loops.pile(voxel, counts, weight)
        dense_total, dense_first = rubble.held_together(voxel, counts, weight)
        assert torch.equal(total, dense_total) and torch.equal(first, dense_first)
        assert first.any() == (share > 0)


def test_rows_are_put_in_order_as_holding_each_against_each_tells():
    generator = torch.Generator().manual_seed(5)
    key = torch.randint(0, 4, (3, 7, 20), generator=generator).float()
    key[key == 3] = torch.inf
    then = torch.randint(0, 5, (3, 7, 20), generator=generator).float()
    found = loops.order(key, then)
    assert torch.equal(found, in_order(key, then))
    one, other = key[1, 2].tolist(), then[1, 2].tolist()
    assert found[1, 2].tolist() == sorted(range(20), key=lambda item: (one[item], other[item], item))


def test_a_battle_without_loops_is_the_same_battle(monkeypatch):
    """Where numba is missing, and on a GPU, all crossings are looked up at once: bit for bit the same play."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=2)
    states = []
    for has_loops in (True, False):
        monkeypatch.setattr(terrain, "HAS_LOOPS", has_loops)
        env, generator = EchelonEnv(config, 3, "cpu", seed=4), torch.Generator().manual_seed(1)
        td = env.reset()
        for _ in range(24):
            _, td = env.step_and_maybe_reset(brawl(td, generator))
        states.append(env.state.to_tensordict())
    assert (states[0]["tally", "hits"] > 0).any()
    same = states[0].apply(lambda one, other: (one == other).all(), states[1], batch_size=[])
    assert all(bool(value) for value in same.values(include_nested=True, leaves_only=True))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_kernels_keep_torchs_contract(maps):
    """Shapes and types without data are those with data, nothing is written to: what compiling relies on."""
    start, end = segments(0.2, 6)
    asked = torch.ones(BATTLES, RAYS, dtype=torch.bool)
    arguments = (maps.solid, start, end, asked, [63, 63, 30], False, True)
    torch.library.opcheck(torch.ops.echelon.trace, arguments, test_utils=("test_schema", "test_faketensor"))
    pos, clouds = torch.rand(2, 4, 3), torch.rand(2, 6, 3)
    pairs = torch.tensor([[0, 1], [2, 3]])
    arguments = (pos, clouds, torch.ones(2, 6, dtype=torch.bool), pairs, 4.0, torch.ones(2, 2, dtype=torch.bool))
    torch.library.opcheck(torch.ops.echelon.veil, arguments, test_utils=("test_schema", "test_faketensor"))
    hulls, half_size, alive = torch.rand(2, 4, 3), torch.ones(4, 3), torch.ones(2, 4, dtype=torch.bool)
    arguments = (hulls, hulls + 0.1, torch.rand(2, 4), alive, half_size)
    torch.library.opcheck(torch.ops.echelon.bump, arguments, test_utils=("test_schema", "test_faketensor"))
    arguments = (maps.solid[:2], hulls, half_size, alive)
    torch.library.opcheck(torch.ops.echelon.collide, arguments, test_utils=("test_schema", "test_faketensor"))
    arguments = (torch.zeros(2, 4, dtype=torch.int32), alive, torch.ones(4))
    torch.library.opcheck(torch.ops.echelon.pile, arguments, test_utils=("test_schema", "test_faketensor"))
    arguments = (torch.rand(2, 3, 4), torch.rand(2, 3, 4))
    torch.library.opcheck(torch.ops.echelon.order, arguments, test_utils=("test_schema", "test_faketensor"))
