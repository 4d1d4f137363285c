"""Maps of the positions that battles begin in: ground, zone and mechs as somebody has written them down."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from echelon.rules.catalog import Catalog, Material
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.position import ON_GROUND, Position
from echelon.rules.roster import Roster, build_roster
from echelon.runtime.errors import require
from echelon.state import Maps
from echelon.world.objectives import set_objective, zone_of
from echelon.world.pool import assemble_maps, bare_ground, bit_columns, column_heights, make_pool


def maps_of(config: EnvConfig, device: torch.device) -> Maps:
    """The maps that battles of a config are drawn from: one for each of its positions, or else those of its seed."""
    if config.positions:
        return write_maps(config).to(device)
    return make_pool(config, build_roster(config, device), device)


def write_maps(config: EnvConfig) -> Maps:
    """One map for each position of a config, on the CPU.

    Raises:
        ConfigError: naming a mech whose hull is not above the map.
    """
    roster, positions, world = build_roster(config, torch.device("cpu")), config.positions, config.world
    for position in positions:
        check_within(position, roster, world)
    material = torch.cat([ground_of(position, world) for position in positions])
    zone = zone_of([position.circle(world.size) for position in positions])
    units = [[unit for _, unit in position.named] for position in positions]
    yaw = on_cpu([[math.radians((unit.facing_deg + 180) % 360 - 180) for unit in row] for row in units])
    places = zip(positions, material.split(1), strict=True)
    pos = torch.stack([standing(position, roster, ground, config.catalog) for position, ground in places])
    maps, _ = assemble_maps(on_cpu(range(len(positions))), material, zone, pos, yaw, config, roster)
    for name, most in (("hp", roster.hp), ("leg_hp", roster.leg_hp), ("heat", roster.heat_cap)):
        shares = on_cpu([[getattr(unit, name) for unit in row] for row in units])
        maps.get(f"spawn_{name}").copy_(shares * most)
    for number, position in enumerate(positions):
        set_objective(maps[number : number + 1], position, config)
    return maps


def on_cpu(values: Any) -> Tensor:
    """Numbers as a tensor on the CPU, whatever torch's default device is."""
    return torch.tensor(values, device="cpu")


def ground_of(position: Position, world: WorldConfig) -> Tensor:
    """`[1, Z, Y, X]` uint8: open ground with the boxes of a position."""
    material = bare_ground(torch.zeros(1, dtype=torch.int64, device="cpu"), world)
    for box in position.boxes:
        (x0, y0, z0), (x1, y1, z1) = box.low, box.high
        material[:, z0:z1, y0:y1, x0:x1] = int(Material[box.material.upper()])
    return material


def standing(position: Position, roster: Roster, material: Tensor, catalog: Catalog) -> Tensor:
    """`[N, 3]` vox the hull centres of a position's mechs on its ground `[1, Z, Y, X]`."""
    solid = bit_columns(material, [catalog.material(kind).solid for kind in Material])
    (tops,) = column_heights(solid, material.shape[1])  # [Y, X]
    centres = []
    for (_, unit), half in zip(position.named, roster.half_size.tolist(), strict=True):
        low, high = ([math.floor(unit.x + way * half[0]), math.floor(unit.y + way * half[1])] for way in (-1, 1))
        ground = float(tops[low[1] : high[1] + 1, low[0] : high[0] + 1].max())
        centres.append([unit.x, unit.y, (ground if unit.bottom == ON_GROUND else unit.bottom) + half[2]])
    return on_cpu(centres)


def check_within(position: Position, roster: Roster, world: WorldConfig) -> None:
    """Raise `ConfigError` for a mech whose hull is not above the map."""
    for (name, unit), half in zip(position.named, roster.half_size.tolist(), strict=True):
        for axis, at, size, reach in (("x", unit.x, world.size_x, half[0]), ("y", unit.y, world.size_y, half[1])):
            limit = f"{reach:g}..{size - reach:g} vox: its hull within the map"
            require(reach <= at <= size - reach, f"scenario: {axis} of {name} ({unit.hull})", limit, at)
