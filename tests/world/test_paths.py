"""The path field equals a plain Dijkstra, and its steps are walkable."""

import dataclasses
import heapq

import numpy as np
import pytest
import torch
from first_catalog import MATERIALS

from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.roster import build_roster
from echelon.state import Maps
from echelon.world.paths import STEPS, octile_cost, standing_level, step_cost, walk_to
from echelon.world.pool import make_maps

pytestmark = pytest.mark.quick

SOLID_KINDS = [int(kind) for kind in Material if MATERIALS[kind].solid]
OFFSETS = [(0, -1), (-1, 0), (1, 0), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1)]


def crowded_map(seed: int, biomes: tuple[str, ...], size: tuple[int, int, int] = (40, 36, 9)) -> tuple[EnvConfig, Maps]:
    config = dataclasses.replace(EnvConfig.small(), world=WorldConfig(*size, biomes=biomes))
    roster = build_roster(config, torch.device("cpu"))
    return config, make_maps(config, roster, torch.tensor([seed]))


def level_of(material: np.ndarray, x: int, y: int, reach: int) -> int | None:
    """Return the lowest level with five free voxels where a hull of this reach fits, else None."""
    size_z, size_y, size_x = material.shape
    if not (reach <= x < size_x - reach and reach <= y < size_y - reach):
        return None
    hot = min(reach, 1)
    if (material[:, y - hot : y + hot + 1, x - hot : x + hot + 1] == Material.LAVA).any():
        return None
    square = np.isin(material[:, y - reach : y + reach + 1, x - reach : x + reach + 1], SOLID_KINDS)
    filled = square.any((1, 2))
    for z in range(size_z - 4):
        if not filled[z : z + 5].any():
            return z
    return None


def dijkstra(cost: dict, levels: dict | None, shape: tuple[int, int]) -> dict:
    """Extend `cost` to columns without a cost: with levels by walkable steps, else through everything."""
    cost, fixed = dict(cost), set(cost)
    queue = [(value, cell) for cell, value in cost.items()]
    heapq.heapify(queue)
    while queue:
        value, (x, y) = heapq.heappop(queue)
        if value > cost[x, y]:
            continue
        for dx, dy in OFFSETS:
            came = (x + dx, y + dy)
            if came in fixed or not (0 <= came[0] < shape[1] and 0 <= came[1] < shape[0]):
                continue
            if levels is not None:
                here, there = levels[x, y], levels[came]
                if here is None or there is None or here - there > 1:
                    continue
            through = value + (14 if dx and dy else 10)
            if through < cost.get(came, 1 << 30):
                cost[came] = through
                heapq.heappush(queue, (through, came))
    return cost


@pytest.mark.usual
@pytest.mark.parametrize(
    ("seed", "biomes"),
    [
        (3, ("volcanic_ridge", "barrens")),
        (5, ("urban_residential", "sunken_canal")),
        (8, ("industrial_refinery",)),
    ],
)
def test_path_field_equals_dijkstra(seed: int, biomes: tuple[str, ...]):
    config, maps = crowded_map(seed, biomes)
    material = maps.material[0].numpy()
    shape = material.shape[1:]
    center, radius = maps.zone_center[0].tolist(), maps.zone_radius[0].item()
    columns = [(x, y) for y in range(shape[0]) for x in range(shape[1])]
    zone = {(x, y) for x, y in columns if (x + 0.5 - center[0]) ** 2 + (y + 0.5 - center[1]) ** 2 < radius**2}

    cost: dict = {}
    for reach in (2, 1, 0):
        levels = {(x, y): level_of(material, x, y, reach) for x, y in columns}
        if reach == 2:
            cost = dijkstra({cell: 0 for cell in zone if levels[cell] is not None}, levels, shape)
            strict = set(cost)
            cost |= dict.fromkeys(zone, 0)
        else:
            cost = dijkstra(cost, levels, shape)
    cost = dijkstra(cost, None, shape)

    expected = np.array([[cost[x, y] for x in range(shape[1])] for y in range(shape[0])])
    assert (expected > 0).any()
    assert np.array_equal((maps.path_length[0] * 10).round().int().numpy(), expected)

    goal = torch.tensor([[(x, y) in zone for x in range(shape[1])] for y in range(shape[0])])[None]
    lava = (maps.material == Material.LAVA).any(1)
    field = walk_to(goal, maps.solid, lava, config.world.size_z)
    assert np.array_equal(field.cost[0].numpy(), expected)
    assert {(x, y) for x, y in columns if field.reached[0, y, x]} == strict


def test_costs_fall_by_the_step_cost_and_are_zero_in_the_zone():
    _, maps = crowded_map(2, ("barrens", "urban_residential"))
    length, direction = maps.path_length[0], maps.path_direction[0]
    y, x = torch.meshgrid(torch.arange(36), torch.arange(40), indexing="ij")
    step = direction.round().long()
    inside = length == 0
    assert (direction[inside] == 0).all()
    assert torch.allclose(direction[~inside].norm(dim=-1), torch.ones(()))
    saved = length - length[y + step[..., 1], x + step[..., 0]]
    paid = torch.where(step.abs().sum(-1) == 2, 1.4, 1.0)
    assert torch.allclose(saved[~inside], paid[~inside], atol=1e-4)


@pytest.mark.usual
def test_paths_avoid_lava():
    for seed in range(6):
        config, maps = crowded_map(seed, ("volcanic_ridge",), (48, 48, 10))
        lava = (maps.material == Material.LAVA).any(1)
        assert lava.any()
        near = torch.nn.functional.max_pool2d(lava.float(), 3, 1, 1)[0] > 0
        goal = maps.path_length == 0
        reached = walk_to(goal, maps.solid, lava, config.world.size_z).reached[0]
        y, x = torch.nonzero(reached & ~goal[0], as_tuple=True)
        for _ in range(400):
            assert not near[y, x].any()
            step = maps.path_direction[0, y, x].round().long()
            x, y = x + step[:, 0], y + step[:, 1]
        assert goal[0, y, x].all()


def test_a_standing_level_needs_room_for_the_tallest_hull():
    solid = torch.zeros(1, 9, 9, dtype=torch.int32)
    solid[0, 4, 4] = 0b00000001
    assert standing_level(solid, 10, 2)[0, 4, 2] == 1, "on a step"
    assert standing_level(solid, 10, 2)[0, 4, 1] == 0
    solid[0, 4, 4] = 0b00010000
    assert standing_level(solid, 10, 2)[0, 4, 4] == 5, "a beam too low to pass under"
    solid[0, 4, 4] = 0b00100000
    assert standing_level(solid, 10, 2)[0, 4, 4] == 0, "a beam high enough"
    solid[0, 4, 4] = 0b0111111
    assert standing_level(solid, 10, 2)[0, 4, 4] == 10, "no room under the sky"


def test_a_step_of_one_is_climbed_and_one_of_two_walked_around():
    goal = torch.zeros(1, 16, 32, dtype=torch.bool)
    goal[0, 8, 3] = True
    lava = torch.zeros_like(goal)

    def cost_behind_a_wall(height: int) -> int:
        solid = torch.zeros(1, 16, 32, dtype=torch.int32)
        solid[0, 5:, 15] = (1 << height) - 1
        return int(walk_to(goal, solid, lava, 12).cost[0, 8, 28])

    assert cost_behind_a_wall(0) == cost_behind_a_wall(1) == 250
    around = cost_behind_a_wall(2)
    assert around == int(octile_cost(torch.tensor([28 - 17, 8 - 2])) + 40 + octile_cost(torch.tensor([13 - 3, 6])))


def test_walls_without_a_gap_leave_columns_unreached_but_finite():
    goal = torch.zeros(1, 16, 32, dtype=torch.bool)
    goal[0, 8, 3] = True
    solid = torch.zeros(1, 16, 32, dtype=torch.int32)
    solid[0, :, 15] = 0xFF
    field = walk_to(goal, solid, torch.zeros_like(goal), 12)
    assert not field.reached[0, 8, 28]
    assert field.cost[0, 8, 28] == 250
    assert field.direction[0, 8, 28].tolist() == [-1, 0]


def test_steps_cost_ten_and_fourteen():
    assert [step_cost(*step) for step in STEPS] == [10] * 4 + [14] * 4
    assert octile_cost(torch.tensor([[3, -5], [0, 0]])).tolist() == [20 + 42, 0]
