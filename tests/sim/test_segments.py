"""The first blocking voxel of a segment, compared with an independent voxel march, and loop against dense form."""

import math

import numpy as np
import pytest
import torch
from builders import duel
from first_catalog import MATERIALS, SMALL
from ground_cases import BATTLES, shots_through_a_jungle, standard_maps

from echelon.rules.catalog import Material
from echelon.rules.roster import build_roster
from echelon.runtime import jit
from echelon.sim.loops.segments import clear_on_segment, first_on_segment
from echelon.sim.rubble import clear_leaves
from echelon.sim.segments import first_hit, is_blocked
from echelon.world.pool import make_maps

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")
MAPS, RAYS = 16, 640  # 10,240 rays
REACH = 60.0
SEGMENTS = 512


def march(blocks, start, end, past_end):
    """Return the fraction at which a segment enters its first blocking voxel, infinity for none.

    A sequential grid march (Amanatides & Woo 1987) in plain Python, cell by cell; blocks is [Z, Y, X] bool.
    """
    size = blocks.shape[::-1]
    cell = [math.floor(v) for v in start]
    last = [math.floor(v) for v in end]
    delta = [e - s for s, e in zip(start, end, strict=True)]
    step, following, pause = [], [], []
    for s, c, d in zip(start, cell, delta, strict=True):
        step.append(1 if d > 0 else -1)
        following.append(((c + 1 if d > 0 else c) - s) / d if d else math.inf)
        pause.append(abs(1 / d) if d else math.inf)
    while True:
        axis = following.index(min(following))
        t = following[axis]
        if t >= 1:
            return math.inf
        cell[axis] += step[axis]
        following[axis] += pause[axis]
        if not past_end and cell == last:
            return math.inf
        if all(0 <= c < n for c, n in zip(cell, size, strict=True)) and blocks[cell[2], cell[1], cell[0]]:
            return t


@pytest.fixture(scope="module")
def rays():
    """Return generated maps, and segments between random points of each, most of them at hull height."""
    config = SMALL
    maps = make_maps(config, build_roster(config, CPU), torch.arange(MAPS) + 500)
    generator = torch.Generator().manual_seed(1)
    ends = torch.rand(2, MAPS, RAYS, 3, generator=generator) * torch.tensor([40.0, 40.0, 6.0])
    return maps, ends[0], ends[1]


@pytest.mark.usual
@pytest.mark.parametrize(("fact", "past_end"), [("opaque", False), ("solid", True)])
def test_first_hits_equal_those_of_a_voxel_march(rays, fact, past_end):
    maps, start, end = rays
    table = np.array([getattr(MATERIALS[m], fact) for m in Material])
    blocks = table[maps.material.numpy()]
    wanted = [
        march(blocks[m], s, e, past_end)
        for m in range(MAPS)
        for s, e in zip(start[m].tolist(), end[m].tolist(), strict=True)
    ]
    wanted = torch.tensor(wanted).view(MAPS, RAYS)
    found = first_hit(getattr(maps, fact), start, end, REACH, past_end)
    assert 0.2 < wanted.isfinite().float().mean() < 0.95  # both results are common
    assert (found.isinf() != wanted.isinf()).sum() == 0
    hit = wanted.isfinite()
    assert (found[hit] - wanted[hit]).abs().max() < 1e-5


def test_a_line_is_the_same_in_both_directions(rays):
    maps, start, end = rays
    there = first_hit(maps.opaque, start, end, REACH, past_end=False)
    back = first_hit(maps.opaque, end, start, REACH, past_end=False)
    assert torch.equal(there.isinf(), back.isinf())


@pytest.mark.parametrize("reach", [1.25, 3.0, 12.0])
def test_larger_reach_does_not_change_the_result(rays, reach):
    maps, start, end = rays
    short = start + (end - start) * (reach / (end - start).norm(dim=-1, keepdim=True)) * 0.999
    short[:, ::2] = short[:, ::2].floor() + 0.5  # and some ends in the middle of a cell
    near = (short - start).abs().amax(-1) <= reach
    arguments = (maps.solid, start, short)
    bounded, full = first_hit(*arguments, reach, True), first_hit(*arguments, REACH, True)
    assert near.float().mean() > 0.8
    assert torch.equal(bounded[near], full[near])


def along_x(x0, x1, wall, past_end=False, reach=20.0):
    """Return the first hit of a horizontal segment on open ground with one SOLID column at cell x = `wall`."""
    s = duel(20, "medium", "scout", (wall, wall + 1, 5, 6, 0, 4, Material.SOLID))
    start, end = torch.tensor([[[x0, 5.5, 1.5]]]), torch.tensor([[[x1, 5.5, 1.5]]])
    return first_hit(s.state.terrain.solid, start, end, reach, past_end).item()


def test_where_a_segment_enters_a_wall():
    assert along_x(2.5, 12.5, 10) == pytest.approx(0.75)
    assert along_x(12.5, 2.5, 10) == pytest.approx(0.15)  # the far face, x = 11


def test_the_end_cells_are_not_tested():
    assert along_x(2.5, 10.5, 10) == math.inf
    assert along_x(10.5, 2.5, 10) == math.inf
    assert along_x(2.5, 10.5, 10, past_end=True) == pytest.approx(7.5 / 8)


def test_segment_within_one_cell_hits_nothing():
    assert along_x(10.2, 10.8, 10, past_end=True) == math.inf


def test_integer_coordinates_give_the_same_result_in_both_directions():
    assert along_x(8.0, 13.0, 10) == pytest.approx(0.4)
    assert along_x(13.0, 8.0, 12) == 0  # it starts in cell 13 and enters 12 immediately
    assert along_x(13.0, 8.0, 13) == math.inf
    assert along_x(8.0, 13.0, 13) == along_x(13.0, 8.0, 8) == math.inf


def test_beyond_the_map_nothing_blocks():
    s = duel(20, "medium", "scout", (39, 40, 0, 40, 0, 4, Material.SOLID))
    start, end = torch.tensor([[[39.5, 5.5, 1.5]]]), torch.tensor([[[44.5, 5.5, 1.5]]])
    assert first_hit(s.state.terrain.solid, start, end, 20.0, True).isinf().all()


@pytest.mark.parametrize(
    "direction",
    [
        (1, 1),
        (-1, -1),
        (1, -1),
        (-1, 1),
    ],
)
def test_exact_diagonal_enters_the_crossed_cells(direction):
    s = duel(20, "medium", "scout", (12, 13, 12, 13, 0, 4, Material.SOLID))
    way = 4.0 * torch.tensor([*direction, 0.0])
    middle = torch.tensor([12.5, 12.5, 1.5])
    hit = first_hit(s.state.terrain.solid, (middle - way)[None, None], (middle + way)[None, None], 9.0, False)
    assert hit.item() == pytest.approx(3.5 / 8)


@pytest.mark.parametrize(("first", "second", "third"), [(2.75, 4.0, 5.25), (6.25, 5.0, 3.75)])
def test_flight_with_steps_that_end_on_a_plane_hits_a_thin_wall(first, second, third):
    """Two steps of 1.25 vox, which meet on the face of a wall one voxel thick at x = 4, hit it from both sides."""
    s = duel(20, "heavy", "heavy", (4, 5, 0, 40, 0, 5, Material.SOLID))
    hits = []
    for start, end in ((first, second), (second, third)):
        a, b = (torch.tensor([[[x, 20.5, 1.5]]]) for x in (start, end))
        hits.append(first_hit(s.state.terrain.solid, a, b, 1.25, past_end=True).isfinite().item())
    assert any(hits)


@pytest.fixture(scope="module")
def maps():
    return standard_maps()


def segments(spread: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return segments on the map, some across its border, some along an axis, some on the faces of voxels."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.tensor([64.0, 64.0, 20.0])
    start = torch.rand(BATTLES, SEGMENTS, 3, generator=generator) * size
    end = start + (torch.rand(BATTLES, SEGMENTS, 3, generator=generator) - 0.5) * 2 * spread * size
    end[:, ::5, 2] = start[:, ::5, 2]
    end[:, ::7, 0] = start[:, ::7, 0]
    start[:, ::11] = start[:, ::11].round()
    return start, end


@jit.kernel
def each_first_hit(columns, start, end, planes, past_end, hit):
    for battle in range(start.shape[0]):
        for row in range(start.shape[1]):
            a, b = start[battle, row], end[battle, row]
            hit[battle, row] = first_on_segment(
                columns[battle], a[0], a[1], a[2], b[0], b[1], b[2], planes, past_end, False
            )


def first_hit_in_loops(columns, start, end, reach, past_end):
    hit = torch.empty(start.shape[:2])
    each_first_hit(*(jit.array(values) for values in (columns, start, end)), int(reach) + 1, past_end, hit.numpy())
    return hit


@pytest.mark.usual
@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
@pytest.mark.parametrize("spread", [1.0, 0.2, 0.03])
@pytest.mark.parametrize("past_end", [False, True])
def test_the_loop_returns_the_bits_of_the_dense_form(maps, spread, past_end):
    for number, columns in enumerate((maps.solid, maps.opaque)):
        start, end = segments(spread, number)
        found = first_hit(columns, start, end, 100.0, past_end)
        assert torch.equal(found, first_hit_in_loops(columns, start, end, 100.0, past_end))
        assert 0.01 < found.isfinite().float().mean() < 0.6


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
@pytest.mark.parametrize("reach", [1.25, 3.0, 12.0])
def test_segments_longer_than_the_reach_are_cut_off(maps, reach):
    start, end = segments(0.3, 5)
    found = first_hit(maps.solid, start, end, reach, past_end=False)
    assert torch.equal(found, first_hit_in_loops(maps.solid, start, end, reach, past_end=False))


@pytest.mark.usual
def test_is_blocked_agrees_with_first_hit_and_honours_the_mask(maps):
    start, end = segments(0.5, 9)
    asked = torch.rand(BATTLES, SEGMENTS, generator=torch.Generator().manual_seed(1)) < 0.5
    everywhere = first_hit(maps.opaque, start, end, 100.0, past_end=False)
    assert torch.equal(is_blocked(maps.opaque, start, end, 100.0, asked), everywhere.isfinite() & asked)
    some = first_hit(maps.opaque, start, end, 100.0, past_end=False, mask=asked)
    assert torch.equal(some, torch.where(asked, everywhere, torch.inf))


def test_segments_that_broadcast(maps):
    start, end = segments(0.2, 3)
    fan = is_blocked(
        maps.solid, start[:, :6, None], end[:, None, :8], 100.0, torch.ones(BATTLES, 6, 8, dtype=torch.bool)
    )
    for i in range(6):
        one = first_hit(maps.solid, start[:, i, None].expand(-1, 8, -1), end[:, :8], 100.0, past_end=False)
        assert torch.equal(fan[:, i], one.isfinite())


@jit.kernel
def each_cleared(opaque, solid, x, y, z, start, end, flew, planes):
    for battle in range(start.shape[0]):
        for row in range(start.shape[1]):
            if flew[battle, row]:
                muzzle, ends = (x[battle, row], y[battle, row], z[battle, row]), (start[battle, row], end[battle, row])
                clear_on_segment(opaque[battle], solid[battle], *muzzle, *ends, planes[row])


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
def test_loop_clears_the_same_foliage_as_the_dense_form():
    env, (muzzle, *ways) = shots_through_a_jungle()
    solid, grown = env.state.terrain.solid, env.state.terrain.opaque
    by_loop, dense = grown.clone(), grown.clone()
    arrays = (jit.array(values) for values in (solid, *muzzle, *ways, env.sim_model.leaf_reach))
    each_cleared(by_loop.numpy(), *arrays)
    clear_leaves(dense, solid, muzzle, *ways, env.sim_model.leaf_rounds)
    assert torch.equal(by_loop, dense)
    assert (by_loop != grown).sum() > 20
