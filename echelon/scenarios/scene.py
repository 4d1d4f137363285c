"""Environments that start from a scenario, the scenarios of the package, and a builder of scenarios in Python."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from echelon.env.arguments import FURTHER, check_further
from echelon.env.edited_states import check_initial_positions
from echelon.env.env import EchelonEnv
from echelon.rules.config import EnvConfig
from echelon.rules.position import Box, Objective, Unit
from echelon.rules.roster import build_roster
from echelon.rules.scenario import Scenario, boxes_from_json, join, read_scenario
from echelon.runtime.errors import require
from echelon.runtime.limits import check_text
from echelon.scenarios.piece import find_piece, pieces
from echelon.sim.model import build_model
from echelon.world.authored_maps import write_maps

FOLDER = Path(__file__).with_name("files")
SUFFIX = ".json"
PLAIN = "plain"
"""The battle of a preset, among scenarios."""


def scenario_names() -> tuple[str, ...]:
    """Return the names of the package's scenarios. Each is accepted in place of a scenario file."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}")))


def find_scenario(name: str | os.PathLike[str]) -> Scenario:
    """Return the scenario with this name, or in this file.

    Args:
        name: one of `scenario_names`, or a path as in `read_scenario`.

    Raises:
        FileError: there is no such name or file, or the file cannot be read.
        ConfigError: as in `read_scenario`.
    """
    require(isinstance(name, str | os.PathLike), "a scenario", "a name, a file or a Scenario", name)
    text = os.fspath(name)
    check_text("a scenario", text)
    if isinstance(name, str) and name in scenario_names():
        return read_scenario(FOLDER / f"{name}{SUFFIX}")
    if isinstance(name, str) and name in pieces():
        piece = find_piece(name)
        return replace(piece.scenario, opponent=piece.opponent)
    is_name = os.sep not in text and not text.endswith(SUFFIX) and not Path(text).exists()
    expected = f"one of {', '.join((*scenario_names(), *pieces()))}, {PLAIN}, or the path of a JSON file"
    require(not is_name, "a scenario", expected, text)
    return read_scenario(text)


def check_playable(scenario: Scenario) -> None:
    """Refuse a scenario in which no battle can begin.

    Raises:
        ConfigError: naming a mech that cannot stand where it is put.
    """
    config = scenario.config
    check_initial_positions(build_model(config, build_roster(config, torch.device("cpu")), write_maps(config)))


FACTS = ("bottom", "hp", "leg_hp", "heat", "area", "cooldown_s")
"""Keyword arguments of `Scene.place` besides position and heading."""

FURTHER_OF_SCENES = ("seed", "memory", *(name for name in FURTHER if name != "maps"))
"""Arguments of `EchelonEnv` that `scene` passes on."""


class Scene:
    """A scenario under construction. Its methods add to it and return it.

        scene = echelon.Scene().wall((19, 10), (21, 30), height=4)
        scene.place("blue", "medium", at=(12, 20)).place("red", "heavy", at=(30, 20), facing_deg=180, heat=0.5)
        env = scene.env(num_envs=64, seed=0)

    Args:
        settings: world, rules, rewards and other settings; the placed mechs replace its rosters.
        zone: x, y of the zone's centre and its radius, vox; by default radius 7.5 in the middle of the map.
        objective: condition that decides the battle; by default zone control.
    """

    def __init__(
        self, settings: EnvConfig | None = None, zone: tuple[float, ...] = (), objective: Objective | None = None
    ) -> None:
        self.settings, self.zone = EnvConfig.small() if settings is None else settings, zone
        self.objective = Objective() if objective is None else objective
        self.units: list[Unit] = []
        self.boxes: list[Box] = []

    def place(
        self,
        team: Literal["blue", "red"],
        hull: str,
        at: tuple[float, float] | tuple[()] = (),
        facing_deg: float = 0.0,
        **facts: Any,
    ) -> Scene:
        """Add a mech.

        Args:
            team: `blue` or `red`.
            hull: hull name.
            at: x, y of its centre, vox.
            facing_deg: heading in degrees: 0 is +x, 90 is +y.
            facts: `bottom` (vox, by default on the ground), `hp`, `leg_hp`, `heat` (fractions of the hull's),
                `cooldown_s`, or `area` instead of `at`, as in `Unit`.

        Returns:
            This scene.

        Raises:
            ConfigError: a value is unknown or out of range.
        """
        for name in facts:
            require(name in FACTS, "Scene.place", f"given {', '.join(FACTS)}", name)
        require(len(at) in (0, 2), "Scene.place", "given x, y as at", at)
        facts |= zip("xy", at, strict=False)
        self.units.append(Unit(team, hull, facing_deg=facing_deg, **facts))
        return self

    def wall(
        self, low: tuple[int, int], high: tuple[int, int], height: int, material: str = "solid", bottom: int = 0
    ) -> Scene:
        """Add a box of voxels.

        Args:
            low, high: x, y of its first column, and of the column after its last one.
            height: height of its top above the floor, vox.
            material: as in `Box`.
            bottom: height of its underside, vox.

        Returns:
            This scene.
        """
        self.boxes.append(Box((*low, bottom), (*high, height), material))
        return self

    def draw(
        self,
        rows: Sequence[str],
        legend: Mapping[str, Mapping[str, str | int]] | None = None,
        low: tuple[int, int] = (0, 0),
        bottom: int = 0,
    ) -> Scene:
        """Add boxes from a drawing of the map from above.

        Args:
            rows: lines of equal length, top first: `#` is a wall, `=` a reinforced wall, `*` foliage, `~` water.
            legend: material and height by character, such as `{"x": {"material": "glass", "height": 3}}`.
            low: x, y of the lower left character's column.
            bottom: height of the underside of all boxes, vox.

        Returns:
            This scene.

        Raises:
            ConfigError: a row or the legend is invalid.
        """
        layer = {"rows": list(rows), "low": list(low), "bottom": bottom}
        self.boxes += boxes_from_json([layer], legend or {}, "Scene.draw")
        return self

    @property
    def scenario(self) -> Scenario:
        """The scenario so far.

        Raises:
            ConfigError: as in `Scenario`.
        """
        return Scenario(tuple(self.units), tuple(self.boxes), tuple(self.zone), self.settings, self.objective)

    def env(self, num_envs: int = 1, device: torch.device | str | None = None, **settings: Any) -> EchelonEnv:
        """Return an environment that starts from this scenario; arguments as in `echelon.scene`."""
        check_further(scene, settings, (*FURTHER_OF_SCENES, "maps"), "Scene.env")  # `scene` rejects maps with a reason
        return scene(self.scenario, num_envs, device, **settings)


def scene(
    scenario: Scenario | str | os.PathLike[str] | Sequence[Scenario | str | os.PathLike[str]],
    num_envs: int = 1,
    device: torch.device | str | None = None,
    weights: Sequence[int] | None = None,
    **settings: Any,
) -> EchelonEnv:
    """Return an environment whose battles start from a scenario. Each battle has random numbers of its own seed.

    For views, use `echelon.versus(echelon.scene_config(scenario), ...)`.

    Args:
        scenario: a scenario, its name or its file; from a list, each battle draws a scenario by its seed.
        num_envs, device: as in `EchelonEnv`.
        weights: as in `scene_config`.
        settings: further arguments of `EchelonEnv`: `seed`, `memory`, `backend`, `observer`, `info`, `extra_rewards`.

    Returns:
        The environment.

    Raises:
        ConfigError: as in `scene_config`; or a mech is outside the map, in solid terrain or in another mech.
        FileError: the file cannot be read.
    """
    require("maps" not in settings, "maps", "absent: the scenario makes them", settings.get("maps"))
    check_further(scene, settings, FURTHER_OF_SCENES)
    return EchelonEnv(scene_config(scenario, weights), num_envs, device, **settings)


def scene_config(
    scenario: Scenario | str | os.PathLike[str] | Sequence[Scenario | str | os.PathLike[str]],
    weights: Sequence[int] | None = None,
) -> EnvConfig:
    """Return the config of battles that start from a scenario, or from one of several, drawn by the battle's seed.

    Args:
        scenario: a scenario, its name or its file (see `find_scenario`), or a list. The scenarios of a list must have
            equal rosters and settings; terrain, zone and initial mechs may differ.
        weights: relative frequency of each scenario, integers in 1..100; by default equal.

    Returns:
        The config.

    Raises:
        ConfigError: two scenarios differ in a setting; the message names the first one.
        FileError: a file cannot be read.
    """
    scenarios = scenario if isinstance(scenario, Sequence) and not isinstance(scenario, str) else [scenario]
    return join([item if isinstance(item, Scenario) else find_scenario(item) for item in scenarios], weights)


def config_of_words(words: Sequence[str], preset: EnvConfig = EnvConfig.small()) -> EnvConfig:
    """Return `scene_config` of command-line words: names or files, each optionally followed by `:WEIGHT`; `plain` is
    the battle of `preset`."""
    matches = [re.fullmatch(r"(.*?)(?::(\d{1,9}))?", text, re.DOTALL) for text in words]
    names, weights = zip(*(match.groups() for match in matches if match), strict=True)
    scenarios = [plain(preset) if name == PLAIN else name for name in names]
    return scene_config(scenarios, [int(weight or 1) for weight in weights])


def plain(config: EnvConfig) -> Scenario:
    """Return the battles of a config as a scenario, which can be mixed with others."""
    place = {"x": config.world.size_x / 2, "y": config.world.size_y / 2}
    teams = {"blue": config.blue, "red": config.red}
    units = [Unit(team, hull, **place) for team, hulls in teams.items() for hull in hulls]  # type: ignore[arg-type]
    return Scenario(tuple(units), settings=config, maps=config.map_pool)
