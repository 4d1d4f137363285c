"""Environments that begin in a scenario, and a builder of scenarios for a few lines of Python."""

from __future__ import annotations

import math
import os
from typing import Any, Literal

import torch
from torch import Tensor

from echelon.env.edited_states import check_edited
from echelon.env.env import EchelonEnv
from echelon.rules.catalog import Material
from echelon.rules.config import EnvConfig
from echelon.rules.objective import Objective
from echelon.rules.roster import Roster, build_roster
from echelon.rules.scenario import ON_GROUND, Box, Scenario, Unit, read_scenario
from echelon.runtime.device import resolve_device
from echelon.runtime.errors import require
from echelon.scenarios.objectives import set_objective, zone_of
from echelon.sim.model import build_model
from echelon.state import Maps, open_battle
from echelon.world.pool import assemble_maps, bare_ground, bit_columns, column_heights

CPU = torch.device("cpu")
FACTS = ("bottom", "hp", "leg_hp", "heat")
"""What `Scene.place` takes beside place and heading."""


class Scene:
    """A scenario under construction: methods add to it and return it.

        scene = echelon.Scene().wall((19, 10), (21, 30), height=4)
        scene.place("blue", "medium", at=(12, 20)).place("red", "heavy", at=(30, 20), facing_deg=180, heat=0.5)
        env = scene.env(num_envs=64, seed=0)

    Args:
        settings: world, rules, rewards and what else a battle has; its rosters give way to the mechs placed.
        zone: column x, y of the zone's centre and its radius, vox; by default 7.5 in the middle of the map.
        objective: what decides the battle; by default the zone.
    """

    def __init__(
        self, settings: EnvConfig | None = None, zone: tuple[float, ...] = (), objective: Objective | None = None
    ) -> None:
        self.settings, self.zone = EnvConfig.small() if settings is None else settings, zone
        self.objective = Objective() if objective is None else objective
        self.units: list[Unit] = []
        self.boxes: list[Box] = []

    def place(
        self, team: Literal["blue", "red"], hull: str, at: tuple[float, float], facing_deg: float = 0.0, **facts: float
    ) -> Scene:
        """Add a mech.

        Args:
            at: x, y of its centre, vox.
            facing_deg: its heading: 0 is +x, 90 is +y.
            facts: `bottom` (vox, by default on the ground), `hp`, `leg_hp`, `heat` (shares of the hull's).

        Raises:
            ConfigError: a value is unknown or outside its limits.
        """
        for name in facts:
            require(name in FACTS, "Scene.place", f"given {', '.join(FACTS)}", name)
        self.units.append(Unit(team, hull, *at, facing_deg=facing_deg, **facts))
        return self

    def wall(
        self, low: tuple[int, int], high: tuple[int, int], height: int, material: str = "solid", bottom: int = 0
    ) -> Scene:
        """Add a box of voxels.

        Args:
            low, high: its first column x, y, and the column behind its last.
            height: of its top above the floor, vox.
            material: as in `Box`.
            bottom: of its underside, vox.
        """
        self.boxes.append(Box((*low, bottom), (*high, height), material))
        return self

    @property
    def scenario(self) -> Scenario:
        """The scenario so far.

        Raises:
            ConfigError: as `Scenario`.
        """
        return Scenario(tuple(self.units), tuple(self.boxes), tuple(self.zone), self.settings, self.objective)

    def env(self, num_envs: int = 1, device: torch.device | str | None = None, **settings: Any) -> EchelonEnv:
        """Battles that begin so, see `echelon.scene`."""
        return scene(self.scenario, num_envs, device, **settings)


def scene(
    scenario: Scenario | str | os.PathLike[str],
    num_envs: int = 1,
    device: torch.device | str | None = None,
    **settings: Any,
) -> EchelonEnv:
    """Battles that begin in a scenario, every time anew, each with chances of its own seed.

    Views play them by `echelon.versus(scenario.config, ..., maps=echelon.scene_maps(scenario))`.

    Args:
        scenario: or the file of one.
        num_envs, device: as in `EchelonEnv`.
        settings: further arguments of `EchelonEnv`: `seed`, `memory`, `backend`, `observer`, `info`, `extra_rewards`.

    Raises:
        ConfigError: as `scene_maps`.
        FileError: the file cannot be read.
    """
    scenario = scenario if isinstance(scenario, Scenario) else read_scenario(os.fspath(scenario))
    require("maps" not in settings, "maps", "absent: the scenario makes them", settings.get("maps"))
    maps = scene_maps(scenario)
    device = resolve_device("auto" if device is None else device)
    return EchelonEnv(scenario.config, num_envs, device, maps=maps.to(device), **settings)


def scene_maps(scenario: Scenario) -> Maps:
    """The one map of a scenario, on the CPU: its ground, its zone and objective, and how its mechs begin.

    Raises:
        ConfigError: naming a mech that cannot stand where it is put: beyond the map, in solid terrain or another mech.
    """
    config = scenario.config
    roster = build_roster(config, CPU)
    material = bare_ground(torch.zeros(1, dtype=torch.int64), config.world)
    for box in scenario.boxes:
        (x0, y0, z0), (x1, y1, z1) = box.low, box.high
        material[:, z0:z1, y0:y1, x0:x1] = int(Material[box.material.upper()])
    units = [unit for _, unit in scenario.named]
    yaw = torch.tensor([[math.radians((unit.facing_deg + 180) % 360 - 180) for unit in units]])
    check_within(scenario, roster)
    pos = standing(scenario, roster, material)[None]
    seed, zone = torch.zeros(1, dtype=torch.int64), zone_of(scenario.circle)
    maps, _ = assemble_maps(seed, material, zone, pos, yaw, config, roster)
    set_objective(maps, scenario)
    for name, most in (("hp", roster.hp), ("leg_hp", roster.leg_hp), ("heat", roster.heat_cap)):
        maps.get(f"spawn_{name}").copy_(torch.tensor([getattr(unit, name) for unit in units]) * most)
    check_stands(scenario, maps, roster)
    return maps


def standing(scenario: Scenario, roster: Roster, material: Tensor) -> Tensor:
    """`[N, 3]` vox the hull centres of a scenario's mechs."""
    catalog = scenario.config.catalog
    solid = bit_columns(material, [catalog.material(kind).solid for kind in Material])
    (tops,) = column_heights(solid, material.shape[1])  # [Y, X]
    centres = []
    for (_, unit), half in zip(scenario.named, roster.half_size.tolist(), strict=True):
        low, high = ([math.floor(unit.x + way * half[0]), math.floor(unit.y + way * half[1])] for way in (-1, 1))
        ground = float(tops[low[1] : high[1] + 1, low[0] : high[0] + 1].max())
        centres.append([unit.x, unit.y, (ground if unit.bottom == ON_GROUND else unit.bottom) + half[2]])
    return torch.tensor(centres)


def check_within(scenario: Scenario, roster: Roster) -> None:
    """Raise `ConfigError` for a mech whose hull is not above the map."""
    world = scenario.config.world
    for (name, unit), half in zip(scenario.named, roster.half_size.tolist(), strict=True):
        for axis, at, size, reach in (("x", unit.x, world.size_x, half[0]), ("y", unit.y, world.size_y, half[1])):
            limit = f"{reach:g}..{size - reach:g} vox: its hull within the map"
            require(reach <= at <= size - reach, f"scenario: {axis} of {name} ({unit.hull})", limit, at)


def check_stands(scenario: Scenario, maps: Maps, roster: Roster) -> None:
    """Raise `ConfigError` for a mech that stands in terrain or in another mech."""
    config, names = scenario.config, [name for name, _ in scenario.named]
    first = torch.zeros(1, dtype=torch.int64)
    state = open_battle(first, first, maps, roster, config)
    check_edited(state, [0], names, build_model(config, roster, maps), "scenario")
