"""Build maps from authored positions: terrain, zone, spawns and the objective.

Every objective is expressed as rates at which the two team scores grow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from echelon.rules.catalog import Catalog, Material
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.physics import RulesConfig
from echelon.rules.position import MOST_PLACES, ON_GROUND, TEAMS, Objective, Position, Unit, timers_of, whole_columns
from echelon.rules.roster import Roster, build_roster
from echelon.runtime.errors import require
from echelon.state import Maps
from echelon.world.layout import GRAIN, Zone
from echelon.world.paths import walk_to
from echelon.world.pool import assemble_maps, bare_ground, bit_columns, column_heights, make_maps, make_pool, pool_seeds

BY_CLOCK, BY_DEED, BY_CONTROL = 1 + 1e-6, 1 + 2e-6, 1 + 1e-5
"""Factors on parts of the winning score, so that float32 sums reach it despite rounding. An arrival at the time limit
scores more than the clock gives the other team."""


def zone_of(circles: Sequence[tuple[float, ...]]) -> Zone:
    """Return the zones of M maps, given x, y and radius of each."""
    rounded = [whole_columns(circle) for circle in circles]
    radius = torch.tensor([round(radius * GRAIN) for _, _, radius in rounded], device="cpu")
    return Zone(torch.tensor([[x, y] for x, y, _ in rounded], device="cpu"), radius)


def set_objective(maps: Maps, position: Position, config: EnvConfig) -> None:
    """Write the objective of a position into its map. If there are two zones, also write the paths to the nearer
    zone."""
    objective, rules = position.objective, config.rules
    win, last_tick = rules.zone_score_to_win_s, rules.decisions(position.limit_s(rules)) * rules.decision_repeat
    maps.last_tick.fill_(last_tick)
    attackers = TEAMS.index(objective.attacking)
    defenders = 1 - attackers
    if objective.kind == "elimination":
        maps.control_rate.zero_()
    elif objective.control_s > 0:
        maps.control_rate.fill_(win / objective.control_s * BY_CONTROL)
    if objective.kind == "king_of_two":
        add_zone(maps, position, config)
    if objective.kind in ("hold", "escort", "breakthrough"):
        maps.clock_rate[:, defenders] = win / substeps_of(objective, rules, last_tick) * BY_CLOCK
        maps.control_rate[:, defenders] = 0.0
    if objective.kind in ("escort", "breakthrough"):
        runners = [is_runner(name, objective) and unit.hp > 0 for name, unit in position.named]
        maps.control_rate.zero_()
        maps.runner.copy_(torch.tensor(runners, device="cpu"))
        maps.arrival_score[:, attackers] = win / objective.mechs * BY_DEED
        maps.loss_score[:, defenders] = win / (sum(runners) - objective.mechs + 1) * BY_DEED


def is_runner(name: str, objective: Objective) -> bool:
    """Return True if the objective requires this mech to reach the zone."""
    return name == objective.mech if objective.kind == "escort" else name.startswith(objective.attackers)


def substeps_of(objective: Objective, rules: RulesConfig, last_tick: int) -> int:
    """Return the substep at which the defenders win."""
    return min(max(rules.substeps(objective.seconds), 1), last_tick) if objective.seconds > 0 else last_tick


def add_zone(maps: Maps, position: Position, config: EnvConfig) -> None:
    """Write the second zone of a position, and the paths to the nearer zone, into its map."""
    world = config.world
    first, second = (zone_of([circle]) for circle in (position.circle(world.size), position.objective.second_zone))
    goal, lava = first.disc(world) | second.disc(world), (maps.material == int(Material.LAVA)).any(1)
    field = walk_to(goal, maps.solid, lava, world.size_z)
    maps.second_center.copy_(second.center_vox)
    maps.second_radius.copy_(second.radius_vox)
    maps.path_length.copy_(field.length_vox)
    maps.path_direction.copy_(field.direction)


def maps_of(config: EnvConfig, device: torch.device) -> Maps:
    """Return the maps of a config: one for each of its positions, or else generated ones."""
    if config.positions:
        return write_maps(config).to(device)
    return make_pool(config, build_roster(config, device), device)


def write_maps(config: EnvConfig) -> Maps:
    """Build one map for each position of a config, on the CPU.

    Raises:
        ConfigError: if a mech's hull is not inside the map, or its area has no room for it.
    """
    roster, positions, world = build_roster(config, torch.device("cpu")), config.positions, config.world
    for position in positions:
        check_within(position, roster, world)
    material = torch.cat([ground_of(position, world) for position in positions])
    zone = zone_of([position.circle(world.size) for position in positions])
    units = [[unit for _, unit in position.named] for position in positions]
    yaw = on_cpu([[math.radians((unit.facing_deg + 180) % 360 - 180) for unit in row] for row in units])
    places = zip(positions, material.split(1), strict=True)
    spots = [spots_of(position, roster, ground, config.catalog) for position, ground in places]
    pos = torch.stack([torch.stack([entry[0] for entry in row]) for row in spots])
    maps, _ = assemble_maps(on_cpu(range(len(positions))), material, zone, pos, yaw, config, roster)
    for name, full in (("hp", roster.hp), ("leg_hp", roster.leg_hp), ("heat", roster.heat_cap)):
        shares = on_cpu([[getattr(unit, name) for unit in row] for row in units])
        maps.get(f"spawn_{name}").copy_(shares * full)
    maps.spawn_places = padded(spots)
    maps.spawn_cooldown.copy_(on_cpu([[cooldowns_of(unit, config) for unit in row] for row in units]))
    for i, position in enumerate(positions):
        set_objective(maps[i : i + 1], position, config)
    generated = [i for i, position in enumerate(positions) if position.map_index >= 0]
    for placed in dict.fromkeys(positions[i].units for i in generated):
        generate(maps, [i for i in generated if positions[i].units == placed], config)
    return maps


GROUND = (
    *("seed", "material", "solid", "opaque", "hazard", "telemetry"),
    *("zone_center", "zone_radius", "path_length", "path_direction", "ways"),
)
"""Fields of maps that do not depend on the mechs."""


def generate(maps: Maps, rows: list[int], config: EnvConfig) -> None:
    """Overwrite terrain, zone and spawns of some maps by those of the generated maps that their positions name.

    Args:
        maps: one map for each position of `config`.
        rows: indices of positions with equal units.
        config: the config.
    """
    units = [unit for _, unit in config.positions[rows[0]].named]
    present = [n for n, unit in enumerate(units) if unit.hp > 0]
    blue, red = (tuple(units[n].hull for n in present if units[n].team == team) for team in TEAMS)
    indices = [config.positions[i].map_index for i in rows]
    own = replace(config, blue=blue, red=red, positions=(), map_pool=max(indices) + 1)
    made = make_maps(own, build_roster(own, torch.device("cpu")), pool_seeds(own, torch.device("cpu"))[indices])
    for name in GROUND:
        maps.get(name)[rows] = made.get(name)
    for name in ("spawn_pos", "spawn_yaw"):
        maps.get(name)[on_cpu(rows)[:, None], on_cpu(present)] = made.get(name)
    for n, places in zip(present, made.spawn_places.unbind(1), strict=True):
        maps.spawn_places[rows, n] = padding(places, maps.spawn_places.shape[2])


def on_cpu(values: Any) -> Tensor:
    """Return values as a CPU tensor, regardless of torch's default device."""
    return torch.tensor(values, device="cpu")


def ground_of(position: Position, world: WorldConfig) -> Tensor:
    """Return open ground with the boxes of a position, `[1, Z, Y, X]` uint8."""
    material = bare_ground(torch.zeros(1, dtype=torch.int64, device="cpu"), world)
    for box in position.boxes:
        (x0, y0, z0), (x1, y1, z1) = box.low, box.high
        material[:, z0:z1, y0:y1, x0:x1] = int(Material[box.material.upper()])
    return material


def cooldowns_of(unit: Unit, config: EnvConfig) -> list[int]:
    """Return the remaining substeps of each timer of a unit."""
    timers, remaining = timers_of(unit.hull, config.catalog), [0] * (len(config.catalog.timer_names) + 1)
    for name, seconds in unit.cooldown_s.items():
        timer, _ = timers[name]
        remaining[timer] = max(remaining[timer], config.rules.substeps(seconds))
    return remaining


def spots_of(position: Position, roster: Roster, material: Tensor, catalog: Catalog) -> list[Tensor]:
    """Return for each mech of a position the possible positions of its hull's centre, `[K, 3]` vox. Each battle draws
    one.

    Args:
        position: the position.
        roster: mechs of the battle.
        material: materials of the voxels, `[1, Z, Y, X]` uint8.
        catalog: catalog of the battle.

    Raises:
        ConfigError: if an area has no room for its mech.
    """
    solid = bit_columns(material, [catalog.material(kind).solid for kind in Material])
    size_z, spots = material.shape[1], []
    tops = column_heights(solid, size_z)[0]  # [Y, X]
    for (name, unit), half in zip(position.named, roster.half_size.tolist(), strict=True):
        if unit.area:
            spots.append(spots_in(unit, half, solid, size_z))
            limit = f"an area with room for a {unit.hull} on level ground"
            require(len(spots[-1]) > 0, f"scenario: area of {name}", limit, unit.area)
            continue
        low, high = ([math.floor(unit.x + sign * half[0]), math.floor(unit.y + sign * half[1])] for sign in (-1, 1))
        ground = float(tops[low[1] : high[1] + 1, low[0] : high[0] + 1].max())
        bottom = on_cpu(ground if unit.bottom == ON_GROUND else unit.bottom)
        spots.append(torch.stack((on_cpu(unit.x), on_cpu(unit.y), center_above(bottom, half[2])))[None])
    return spots


def center_above(bottom: Tensor, half: float) -> Tensor:
    """Return the height of the centre of a hull that stands on `bottom`, vox. The height is rounded up, because
    otherwise a scout on ground of 8 vox would stand inside the ground."""
    center = bottom + half
    return torch.where(center - half < bottom, torch.nextafter(center, center + 1), center)


def spots_in(unit: Unit, half: list[float], solid: Tensor, size_z: int) -> Tensor:
    """Return the possible hull centres in a unit's area, `[K, 3]` vox, each in the middle of a column.

    The hull must stand on level ground there, or fit above `unit.bottom`.

    Args:
        unit: a unit with an area.
        half: half of the size of its hull, vox.
        solid: bit columns of the solid voxels, `[1, Y, X]` int32.
        size_z: height of the map, vox.
    """
    radius = [math.floor(side + 0.5) for side in half[:2]]
    window = (2 * radius[1] + 1, 2 * radius[0] + 1)

    def highest(values: Tensor) -> Tensor:
        return F.max_pool2d(values.float(), window, 1)[0]  # only hulls inside the map

    tops = column_heights(solid, size_z)
    bottom = highest(tops)
    is_free = bottom == -highest(-tops)
    if unit.bottom != ON_GROUND:
        bits = range(math.floor(unit.bottom), min(math.ceil(unit.bottom + 2 * half[2]), size_z))
        bottom = torch.full_like(bottom, unit.bottom)
        is_free = highest((solid & sum(1 << z for z in bits)) != 0) == 0
    is_free = is_free & (bottom + 2 * half[2] <= size_z)
    row, column = is_free.nonzero().unbind(1)
    center = center_above(bottom[row, column], half[2])
    spots = torch.stack((column + radius[0] + 0.5, row + radius[1] + 0.5, center), 1)
    low, high = on_cpu(unit.area).float().view(2, 2)
    spots = spots[((spots[:, :2] >= low) & (spots[:, :2] <= high)).all(1)]
    count = min(len(spots), MOST_PLACES)
    return spots[torch.arange(count, device="cpu") * len(spots) // max(count, 1)]


def padded(spots: list[list[Tensor]]) -> Tensor:
    """Stack the possible hull centres of all mechs to `[M, N, K, 3]`, padded with infinity."""
    longest = max(len(entry) for row in spots for entry in row)
    return torch.stack([torch.stack([padding(entry, longest) for entry in row]) for row in spots])


def padding(places: Tensor, count: int) -> Tensor:
    """Pad `places [..., K, 3]` with infinity to `count` places."""
    return F.pad(places, (0, 0, 0, count - places.shape[-2]), value=math.inf)


def check_within(position: Position, roster: Roster, world: WorldConfig) -> None:
    """Raise `ConfigError` if a mech's hull is not inside the map."""
    for (name, unit), half in zip(position.named, roster.half_size.tolist(), strict=True):
        if unit.area:
            continue
        for axis, at, size, reach in (("x", unit.x, world.size_x, half[0]), ("y", unit.y, world.size_y, half[1])):
            limit = f"{reach:g}..{size - reach:g} vox, with the hull inside the map"
            require(reach <= at <= size - reach, f"scenario: {axis} of {name} ({unit.hull})", limit, at)
