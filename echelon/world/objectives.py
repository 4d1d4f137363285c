"""Objectives of scenarios as fields of a map: whatever decides, it is growth of the two scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig
from echelon.rules.objective import Objective, whole_columns
from echelon.rules.physics import RulesConfig
from echelon.rules.position import TEAMS, Position
from echelon.state import Maps
from echelon.world.paths import walk_to
from echelon.world.zones import GRAIN, Zone

BY_CLOCK, BY_DEED, BY_CONTROL = 1 + 1e-6, 1 + 2e-6, 1 + 1e-5
"""Factors on parts of the score that wins: float32 sums and products of them reach it all the same. Who arrives when
time is up has more than the clock gives the other team."""


def zone_of(circles: Sequence[tuple[float, ...]]) -> Zone:
    """The zones of some maps, in whole numbers."""
    rounded = [whole_columns(circle) for circle in circles]
    radius = torch.tensor([round(radius * GRAIN) for _, _, radius in rounded], device="cpu")
    return Zone(torch.tensor([[x, y] for x, y, _ in rounded], device="cpu"), radius)


def set_objective(maps: Maps, position: Position, config: EnvConfig) -> None:
    """Write the objective of a position into its one map, and the way to the nearer of two zones."""
    objective, rules = position.objective, config.rules
    win = rules.zone_score_to_win_s
    attackers = TEAMS.index(objective.attacking)
    defenders = 1 - attackers
    if objective.kind == "elimination":
        maps.control_rate.zero_()
    elif objective.control_s > 0:
        maps.control_rate.fill_(win / objective.control_s * BY_CONTROL)
    if objective.kind == "king_of_two":
        add_zone(maps, position, config)
    if objective.kind in ("hold", "escort", "breakthrough"):
        maps.clock_rate[:, defenders] = win / substeps_of(objective, rules) * BY_CLOCK
        maps.control_rate[:, defenders] = 0.0
    if objective.kind in ("escort", "breakthrough"):
        runners = [is_runner(name, objective) and unit.hp > 0 for name, unit in position.named]
        maps.control_rate.zero_()
        maps.runner.copy_(torch.tensor(runners, device="cpu"))
        maps.arrival_score[:, attackers] = win / objective.mechs * BY_DEED
        maps.loss_score[:, defenders] = win / (sum(runners) - objective.mechs + 1) * BY_DEED


def is_runner(name: str, objective: Objective) -> bool:
    """Whether it counts when this mech reaches the zone."""
    return name == objective.mech if objective.kind == "escort" else name.startswith(objective.attackers)


def substeps_of(objective: Objective, rules: RulesConfig) -> int:
    """When the defenders win."""
    longest = rules.max_decisions * rules.decision_repeat
    return min(max(rules.substeps(objective.seconds), 1), longest) if objective.seconds > 0 else longest


def add_zone(maps: Maps, position: Position, config: EnvConfig) -> None:
    """The second zone of a position."""
    world = config.world
    first, second = (zone_of([circle]) for circle in (position.circle(world.size), position.objective.second_zone))
    goal, lava = first.disc(world) | second.disc(world), (maps.material == int(Material.LAVA)).any(1)
    field = walk_to(goal, maps.solid, lava, world.size_z)
    maps.second_center.copy_(second.center_vox)
    maps.second_radius.copy_(second.radius_vox)
    maps.path_length.copy_(field.length_vox)
    maps.path_direction.copy_(field.direction)
